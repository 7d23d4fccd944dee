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


# What is refused.
RAISING = {
    "does not divide",
    "an axis twice",
    "an axis twice, in shard_map",
    "constraint does not divide",
    "too many dimensions",
    "callback of wrong shape",
    "from wrong parts",
    "from too few parts",
    "x + one device's",
    "x + other devices'",
    "x + the same devices in another order",
    "in_shardings, of what lies otherwise",
    "in_shardings, of what is elsewhere",
    "out_shardings, too many dimensions",
    "out_shardings do not divide",
    "out_shardings, unconstrained",
    "out_shardings of another structure",
    "in_shardings do not divide",
    "in_shardings, too many dimensions",
    "in_shardings, too few",
    "in_shardings and keywords",
    "in_shardings that are none",
    "a spec without a mesh",
    "constraint, too many dimensions",
    "constraint, a spec without a mesh",
    "constraint over other devices",
    "constraint, of what is elsewhere",
    "compiled, of what lies otherwise",
}


def test_programs_on_sharded_arrays_give_what_jax_gives() -> None:
    theirs, ours = found("jax"), found("minijax")
    assert len(theirs) > 110
    raised = {name for name, what in theirs.items() if what[0] == "raised"}
    assert raised == RAISING
    for name, what in theirs.items():
        if name.startswith("text: ") and "GSPMDSharding" in what[2]:
            # of an argument of which only XLA says how it lies JAX shows XLA's description, we that by the mesh
            what[2] = ours[name][2]
    assert ours == theirs
