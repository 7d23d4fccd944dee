"""Run programs on several devices in a subprocess, because a process cannot change its number of devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# XLA flags for programs that run once: generating code per operation halves the compile time.
COMPILED_QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
)


def printed(*arguments: str, devices: int = 8, quickly: bool = False) -> Any:
    """The JSON printed by ``python ARGUMENTS`` in a process with ``devices`` CPU devices and a limit of ten minutes.

    ``quickly``: compile with ``COMPILED_QUICKLY``. If the process fails, AssertionError shows the end of its
    errors.
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
