"""Arrays over several devices, and programs on them, beside JAX: values, shardings of results, kinds of errors."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any


@functools.cache
def found(library: str) -> dict[str, Any]:
    """What each program gives on eight devices, which need a process of their own."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.sharded_programs", library]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    programs: dict[str, Any] = json.loads(run.stdout)
    return programs


# What is refused.
RAISING = {
    "does not divide",
    "too many dimensions",
    "callback of wrong shape",
    "from wrong parts",
    "from too few parts",
    "x + one device's",
    "x + other devices'",
    "x + the same devices in another order",
}


def test_programs_on_sharded_arrays_give_what_jax_gives() -> None:
    theirs, ours = found("jax"), found("minijax")
    assert len(theirs) > 50
    raised = {name for name, what in theirs.items() if what[0] == "raised"}
    assert raised == RAISING
    assert ours == theirs


