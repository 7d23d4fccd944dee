"""A process that has imported pytest and JAX and runs tests in forks of itself: ``python -m tests.forked``.

In: lines of JSON, ``[seconds, arguments of pytest]``. Out: one exit status per line, or -1 for a run over the time
limit. Invariant: the process never imports minijax or a test, so each fork reads the current files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest


def run(arguments: list[str]) -> int:
    """Run pytest in this process, silently."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silent, stream)
    return int(pytest.main(arguments))


def forked(seconds: float, arguments: list[str]) -> int:
    """The exit status of pytest in a fork. After ``seconds`` the fork and its children are killed; the result is -1."""
    child = os.fork()
    if not child:
        os.setsid()
        status = 70
        try:
            status = run(arguments)
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    found, status = os.waitpid(child, os.WNOHANG)
    while not found and time.monotonic() < end:
        time.sleep(0.01)
        found, status = os.waitpid(child, os.WNOHANG)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if not found:
        os.waitpid(child, 0)
        return -1
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # as in tests/conftest.py, before jax is imported
    for name in ("jax", "jax.experimental.shard_map", "scipy.special", "hypothesis", "IPython", "prompt_toolkit"):
        try:
            __import__(name)
        except ImportError:
            pass
    assert "minijax" not in sys.modules
    for line in sys.stdin:
        seconds, arguments = json.loads(line)
        print(forked(seconds, arguments), flush=True)


if __name__ == "__main__":
    main()
