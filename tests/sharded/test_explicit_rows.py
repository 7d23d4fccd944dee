"""Types that say how arrays are divided, under transformations, beside JAX: one process with eight devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_transformations_keep_and_compare_how_types_are_divided() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.sharded.explicit_rows"],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)
    assert {name: ours for name, (ours, _) in rows.items()} == {name: theirs for name, (_, theirs) in rows.items()}
