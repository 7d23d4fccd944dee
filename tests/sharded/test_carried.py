"""Programs whose types say how arrays are sharded, between minijax and JAX: one process with eight devices."""

from __future__ import annotations

from tests.on_devices import printed


def test_programs_of_sharded_arrays_are_carried_over_and_read_back() -> None:
    found = printed("-m", "tests.sharded.carried", quickly=True)
    assert found
    for differing in found.values():
        differing.pop("text", None)  # here programs need not be written alike, but carried
    assert {name: differing for name, differing in found.items() if differing} == {}
