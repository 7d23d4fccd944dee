"""Whose a collective is: as JAX names it, in programs whose collectives were asked for or transposed."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_collectives_are_ascribed_as_jax_names_them() -> None:
    """Programs that have an underscore in their names: those of collectives. The others: ``-m tests.sharded.reasons``.
    """
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.sharded.reasons", "--json", "--mode", "mapped", "-k", "_"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["collectives"] >= 14 and found["differing"] == {}
