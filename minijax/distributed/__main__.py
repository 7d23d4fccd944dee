"""``python -m minijax.distributed -n 4 script.py ARGS``: run one program in several processes on one machine.

Each output line starts with its process number. All processes end when one fails or this command is interrupted. Each
process leads a process group. Its children end with it, and it gets Ctrl-C only from this command.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from minijax.backend.distributed import LAUNCHER, NUM_PROCESSES, PROCESS_ID

# When a process fails, this many of its last lines are shown again.
_LAST_LINES = 8


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: give at least 1")
    return number


def arguments() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser(
        prog="python -m minijax.distributed",
        description="Run a Python program in several processes of this computer, joined into one machine.",
        epilog="The program finds the devices of all processes: minijax.distributed.initialize() needs no arguments, "
        "and runs by itself when a device is first needed. If one process dies, the others are ended, and the "
        "exit code is that of the first that died.",
    )
    parser.add_argument("-n", "--processes", type=_count, required=True, metavar="N", help="the number of processes")
    parser.add_argument(
        "--devices-per-process", type=_count, default=1, metavar="N", help="devices of each process (default: 1)"
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="the time that processes have to end before they are killed (default: 5)",
    )
    rest = argparse.REMAINDER
    parser.add_argument("-m", dest="module", nargs=rest, metavar="MODULE ...", help="run this module, as python -m")
    parser.add_argument("-c", dest="code", nargs=rest, metavar="CODE ...", help="run this code, as python -c")
    parser.add_argument("script", nargs=rest, metavar="script.py ...", help="run this file with its arguments")
    return parser


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Member:
    """One process, with threads that print its output and report its end to the queue ``ends``."""

    def __init__(self, number: int, command: Sequence[str], environment: dict[str, str], ends: Any) -> None:
        self.number = number
        self.last: collections.deque[bytes] = collections.deque(maxlen=_LAST_LINES)
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        streams = ((self.process.stdout, sys.stdout.buffer), (self.process.stderr, sys.stderr.buffer))
        self.writers = [threading.Thread(target=self._copy, args=each, daemon=True) for each in streams]
        for each in [*self.writers, threading.Thread(target=self._wait, args=(ends,), daemon=True)]:
            each.start()

    def _copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        for shown in source:
            shown = shown.rstrip(b"\r\n")
            if target is sys.stderr.buffer:
                self.last.append(shown)
            with _writing, contextlib.suppress(BrokenPipeError):
                target.write(b"[%d] %s\n" % (self.number, shown))
                target.flush()

    def _wait(self, ends: Any) -> None:
        self.process.wait()
        ends.put(self)

    def finish(self) -> None:
        """Wait until the process's output is written. If its children still keep the output open, wait only 1 s."""
        for each in self.writers:
            each.join(timeout=1.0)

    def signal(self, number: int) -> None:
        """Send the process and its children a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


_writing = threading.Lock()


def _say(message: str) -> None:
    with _writing, contextlib.suppress(BrokenPipeError):
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _end(members: Sequence[Member], ends: Any, first: int, grace: float) -> None:
    """Send running members the signal ``first``; ``grace`` seconds later kill those that still run."""
    for number in (first, signal.SIGKILL):
        for each in members:
            if each.process.poll() is None:
                each.signal(number)
        until = time.monotonic() + grace
        with contextlib.suppress(queue.Empty):
            for each in members:
                while each.process.poll() is None:
                    ends.get(timeout=max(until - time.monotonic(), 0.0))
    for each in members:
        each.finish()


def _first_to_die(ends: Any, processes: int) -> Member | None:
    """The first process that fails; None if all end without failure."""
    for count in range(1, processes + 1):
        found = ends.get()
        if not found.process.returncode:
            continue
        # XLA aborts a process when another dies, and the abort may be reported first
        with contextlib.suppress(queue.Empty):
            while found.process.returncode == -signal.SIGABRT and count < processes:
                later = ends.get(timeout=0.5)
                count += 1
                found = later if later.process.returncode else found
        return found  # type: ignore[no-any-return]
    return None


def run(command: Sequence[str], processes: int, devices: int, grace: float) -> int:
    """Run ``command`` in ``processes`` processes with ``devices`` devices each, and return an exit code."""
    port = free_port()
    environment = {
        "JAX_PLATFORMS": "cpu",
        **os.environ,
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "PYTHONUNBUFFERED": "1",
        NUM_PROCESSES: str(processes),
        LAUNCHER: str(os.getpid()),
    }
    ends: queue.SimpleQueue[Member] = queue.SimpleQueue()
    members: list[Member] = []
    try:
        for i in range(processes):
            members.append(Member(i, command, {**environment, PROCESS_ID: str(i)}, ends))
        died = _first_to_die(ends, processes)
        code = 0 if died is None else died.process.returncode
        if died is not None:
            died.finish()
            others = [each for each in members if each.process.poll() is None]
            numbers = ", ".join(str(each.number) for each in others)
            _say(f"process {died.number} {_ended(code)}" + (f"; the others ({numbers}) are ended" if others else ""))
            for shown in died.last:
                _say(f"  | {shown.decode(errors='replace')}")
        _end(members, ends, signal.SIGTERM, grace)
        return code if code >= 0 else 128 - code
    except KeyboardInterrupt:
        _say(f"interrupted: stopping the {processes} processes")
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends this wait; ``finally`` kills the processes
            _end(members, ends, signal.SIGINT, grace)
        return 130
    finally:
        for each in members:
            if each.process.poll() is None:
                each.signal(signal.SIGKILL)


def _interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = arguments()
    options = parser.parse_args(argv)
    command = ["-m", *options.module] if options.module else ["-c", *options.code] if options.code else options.script
    if not command:
        parser.error("say what to run: script.py, -m MODULE or -c CODE")
    # handle signals even if this process was started with SIGINT ignored, as a shell starts background processes
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    return run(command, options.processes, options.devices_per_process, options.grace)


if __name__ == "__main__":
    sys.exit(main())
