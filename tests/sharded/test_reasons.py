"""The primitive of each collective is the one that JAX names, in programs with collectives and their transposes."""

from __future__ import annotations

from tests.on_devices import printed


def test_collectives_are_ascribed_as_jax_names_them() -> None:
    """Programs that have an underscore in their names: those of collectives. The others: ``-m tests.sharded.reasons``.
    """
    found = printed("-m", "tests.sharded.reasons", "--json", "--mode", "mapped", "-k", "_")
    assert found["collectives"] >= 8 and found["differing"] == {}
