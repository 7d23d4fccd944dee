"""Arrays over several devices, and programs on them, beside JAX: values, shardings of results, kinds of errors."""

from __future__ import annotations

import functools
from typing import Any

from tests.on_devices import printed


@functools.cache
def found(library: str) -> dict[str, Any]:
    """What each program gives on eight devices, which need a process of their own."""
    programs: dict[str, Any] = printed("-m", "tests.sharded_programs", library, quickly=True)
    return programs


def test_programs_on_sharded_arrays_give_what_jax_gives() -> None:
    theirs, ours = found("jax"), found("minijax")
    raised = {name for name, what in theirs.items() if what[0] == "raised"}
    assert len(theirs) > 60 and len(raised) > 15
    for name, what in theirs.items():
        if name.startswith("text: ") and "GSPMDSharding" in what[2]:
            # of an argument of which only XLA says how it lies JAX shows XLA's description, we that by the mesh
            what[2] = ours[name][2]
    assert ours == theirs
