"""Programs whose types say how arrays are divided, between minijax and JAX: one process with eight devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_programs_of_divided_arrays_are_carried_over_and_read_back() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.sharded.carried"],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found
    for differing in found.values():
        differing.pop("text", None)  # see tests.oracle.texts: here programs need not be written alike, but carried
    assert {name: differing for name, differing in found.items() if differing} == {}
