"""Programs on several devices, which are as many as a process said before it made the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# Flags of XLA's for what is compiled to run once: code for each operation, as it comes, is made in half the time.
COMPILED_QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
)


def printed(*arguments: str, devices: int = 8, quickly: bool = False) -> Any:
    """The JSON that ``python ARGUMENTS`` prints in a process with ``devices`` CPU devices. It ends within ten minutes.

    ``quickly``: its programs are compiled so. AssertionError, with the end of what it said, if it fails.
    """
    flags = {"XLA_FLAGS": COMPILED_QUICKLY} if quickly else {}
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu", **flags},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
