"""Rows measured on new processes: imports, first calls, and the start of a front end until its prompt.

The figure is the CPU time of all threads of the process. Each program runs once before it is measured, to compile
bytecode and to load files into memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.measure import Different, Result, Settings, interleaved

ROOT = Path(__file__).resolve().parents[2]
PROMPT = re.compile(rb"in \[\d*", re.IGNORECASE)  # IPython's ``In [1]:``, minijax's ``in [1]:``
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])")
CURSOR_QUERY = b"\x1b[6n"
PROMPT_TIMEOUT = 60.0


def environment(home: str) -> dict[str, str]:
    """The environment of processes that import this tree, keep bytecode, and have empty settings and history."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for name in ("HOME", "IPYTHONDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        env[name] = home
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), env.get("PYTHONPATH"))))
    env["TERM"] = "xterm-256color"
    return env


def cpu_seconds(pid: int) -> tuple[float, int]:
    """Wait for a child; return its CPU seconds and exit status."""
    _, status, usage = os.wait4(pid, 0)
    return usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status)


def run_to_exit(argv: list[str], env: dict[str, str]) -> tuple[float, str]:
    """CPU seconds and output of a program from its start to its exit; RuntimeError if it fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
            (os.POSIX_SPAWN_DUP2, err.fileno(), 2),
        ]
        seconds, code = cpu_seconds(os.posix_spawnp(argv[0], argv, env, file_actions=actions))
        out.seek(0)
        err.seek(0)
        if code:
            last = err.read().decode(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"{' '.join(argv[1:3])}: exit status {code}: {''.join(last)}")
        return seconds, out.read().decode(errors="replace").strip()


def run_to_prompt(argv: list[str], env: dict[str, str]) -> tuple[float, str]:
    """CPU seconds of a terminal program until its first prompt. Then it is killed."""
    terminal, other_end = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # Do not use pty.fork(): this process has threads of the libraries that it measures. In a new session, the first
    # terminal that the process opens becomes its controlling terminal.
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.ttyname(other_end), os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True)
    os.close(other_end)
    seen, deadline, prompted = b"", time.monotonic() + PROMPT_TIMEOUT, False
    try:
        while not prompted and select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError as error:  # Linux raises this error when the program has closed the terminal
                if error.errno != errno.EIO:
                    raise
                break
            if CURSOR_QUERY in seen:  # answer as a terminal does: some programs wait for the answer
                seen = seen.replace(CURSOR_QUERY, b"")
                os.write(terminal, b"\x1b[1;1R")
            prompted = PROMPT.search(ESCAPES.sub(b"", seen)) is not None
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        seconds, _ = cpu_seconds(pid)
    if not prompted:
        last = ESCAPES.sub(b"", seen).decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"{Path(argv[0]).name}: no prompt: {''.join(last)}")
    return seconds, ""


Runner = Callable[[list[str], dict[str, str]], tuple[float, str]]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def program(name: str, *arguments: str) -> list[str]:
    """A console script of this environment, or its module if the package is not installed."""
    modules = {"minijax-repl": "minijax.repl", "ipython": "IPython"}
    script = Path(sys.executable).with_name(name)
    return [*([str(script)] if script.exists() else [sys.executable, "-m", modules[name]]), *arguments]


@dataclass(frozen=True)
class Startup:
    """A row: a program of the subject is compared with the same program of the reference.

    ``command(library)`` gives the argument vector. With ``net``, the time of a bare Python process in the same round is
    subtracted from both. ``reference`` is used in place of the run's reference.
    """

    key: str
    title: str
    budget: float
    command: Callable[[str], list[str]]
    runner: Runner = run_to_exit
    net: bool = False
    reference: str | None = None
    rtol: float = 1e-3

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget, unit="ms")
        reference = self.reference or settings.reference
        commands = {reference: self.command(reference)}
        commands["subject"] = self.command(settings.subject)
        if self.net:
            commands["bare"] = python("pass")
        with ExitStack() as stack:
            homes = {name: stack.enter_context(tempfile.TemporaryDirectory()) for name in commands}
            samples, outputs = self.measure(settings, commands, {n: environment(h) for n, h in homes.items()})
        if outputs["subject"] and outputs[reference]:
            mine, other = float(outputs["subject"]), float(outputs[reference])
            if abs(mine - other) > self.rtol * abs(other):
                raise Different(f"{settings.subject} printed {mine}, {reference} {other}")
        base = samples.pop("bare", [0.0] * len(samples["subject"]))
        net = {name: [t - b for t, b in zip(times, base, strict=True)] for name, times in samples.items()}
        scaled = {name: [t * 1e9 for t in times] for name, times in net.items()}
        result.judge(scaled["subject"], scaled[reference])
        result.note = f"against {reference}" if self.reference else ""
        return result

    def measure(
        self,
        settings: Settings,
        commands: Mapping[str, list[str]],
        environments: Mapping[str, dict[str, str]],
    ) -> tuple[dict[str, list[float]], dict[str, str]]:
        outputs: dict[str, str] = {}

        def sample(name: str) -> float:
            seconds, outputs[name] = self.runner(commands[name], environments[name])
            return seconds

        samplers = {name: partial(sample, name) for name in commands}
        for warm in samplers.values():
            warm()
        return interleaved(settings, samplers), outputs


def first_grad(name: str) -> list[str]:
    return python(f"import {name}, {name}.numpy as np; print({name}.grad(lambda x: np.sin(x) * x)(3.0))")


def first_jit(name: str) -> list[str]:
    return python(f"import {name}, {name}.numpy as np; print({name}.jit(lambda x: np.sin(x) * x)(3.0))")


def repl(*arguments: str) -> Callable[[str], list[str]]:
    """The command line of a front end."""
    return lambda name: program("minijax-repl" if name == "minijax" else name, *arguments)


def import_only(name: str) -> list[str]:
    return python(f"import {name}")


STARTUP_ROWS: list[Startup] = [
    Startup("import", "import", 0.18, import_only, net=True),
    Startup("import.grad", "import and a first grad", 0.14, first_grad, net=True),
    Startup("import.jit", "import and a first jit call", 0.33, first_jit, net=True),
    Startup("repl.exit", "minijax-repl -c pass, start to exit", 0.45, repl("-c", "pass"), reference="ipython"),
    Startup("repl.prompt", "minijax-repl, start to first prompt", 0.80, repl(), run_to_prompt, reference="ipython"),
]
