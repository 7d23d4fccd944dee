"""Programs on several devices, which are as many as a process said before it made the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def printed(*arguments: str, devices: int = 8) -> Any:
    """The JSON that ``python ARGUMENTS`` prints in a process with ``devices`` CPU devices. It ends within ten minutes.

    AssertionError, with the end of what it said, if it fails.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
