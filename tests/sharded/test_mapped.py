"""``shard_map`` against JAX's on eight devices, which a process of its own has: values, derivatives, errors, jaxprs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.sharded.programs import PROGRAMS


def test_programs_compute_and_print_what_jax_does() -> None:
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.sharded.compare"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.keys() == PROGRAMS.keys()
    assert not {name: differs for name, differs in found.items() if differs}
