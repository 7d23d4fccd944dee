"""Types that say how arrays are divided, under transformations, beside JAX: one process with eight devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("table", ["explicit_rows", "reduced_rows"])
def test_types_that_say_how_arrays_are_divided_are_jaxs(table: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", f"tests.sharded.{table}"],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)
    assert {name: ours for name, (ours, _) in rows.items()} == {name: theirs for name, (_, theirs) in rows.items()}
