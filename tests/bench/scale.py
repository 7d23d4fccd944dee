"""Time and memory at 1,000 … 1,000,000 operations: ``python -m tests.bench.scale [--most N] [--works grad,record]``.

Each figure is one fresh process that does one work once on a chain of N operations (``sin`` and a multiplication in
turn, as in :mod:`tests.bench.workloads`), after a small one that loads what is loaded only once: CPU time of the work,
and by how much the most memory that the process held in it is above what it held before. The exponent is that of a
power law through the last two sizes: 1 is a cost of its own for each operation, and nothing else.

``tests/bench/README.md`` has the table, and what bounds each row.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import minijax
from minijax.tools.documents.document import plain
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.recorder import record
from minijax.tools.recording.records import Recording
from minijax.tools.stepper import panes
from tests.bench.workloads import jnp_chain

ROOT = Path(__file__).resolve().parents[2]
SIZES = (1_000, 10_000, 100_000, 1_000_000)
VECTOR = np.full(8, 0.9, np.float32)
Thunk = Callable[[], Any]


class Work(NamedTuple):
    """What is measured: ``prepare(n)`` gives a thunk, which the clock sees, and how many things it has to do."""

    title: str
    prepare: Callable[[int], Thunk]


def _chain(n: int) -> Callable[[Any], Any]:
    return jnp_chain(minijax, n)


def _on_chain(use: Callable[[Any], Callable[..., Any]], x: Any = 0.9) -> Callable[[int], Thunk]:
    def prepare(n: int) -> Thunk:
        function = use(_chain(n))
        return lambda: function(x)

    return prepare


def _linearized(n: int) -> Thunk:
    chain = _chain(n)
    return lambda: minijax.linearize(chain, 0.9)[1](1.0)


def _pushed_forward(n: int) -> Thunk:
    chain = _chain(n)
    return lambda: minijax.jvp(chain, (0.9,), (1.0,))


def _lowered(n: int) -> Thunk:
    traced = minijax.jit(_chain(n)).trace(0.9)
    return lambda: traced.lower().as_text()


def _recorded(n: int) -> Thunk:
    gradient = minijax.grad(_chain(n))
    return lambda: record(gradient, 0.9)


def _saved(n: int) -> Thunk:
    recording = record(minijax.grad(_chain(n)), 0.9)[1]
    return lambda: storage.save(recording, os.path.join(tempfile.mkdtemp(), "it.rec"))


def _screen(recording: Recording) -> str:
    """The first screen of a stepper."""
    cursor = Cursor(recording)
    shown = [panes.tree_lines(cursor), panes.status(cursor), *[view(cursor) for view in panes.PANES.values()]]
    return "\n".join(plain(each, 80) for each in shown)


def _first_screen(n: int) -> Thunk:
    path = os.path.join(tempfile.mkdtemp(), "it.rec")
    storage.save(record(minijax.grad(_chain(n)), 0.9)[1], path)
    return lambda: _screen(storage.load(path))


WORKS = {
    "eval": Work("eager", _on_chain(lambda f: f)),
    "jvp": Work("jvp", _pushed_forward),
    "linearize": Work("linearize, and apply", _linearized),
    "grad": Work("grad", _on_chain(minijax.grad)),
    "vmap": Work("vmap of [8]", _on_chain(minijax.vmap, VECTOR)),
    "vmap_grad": Work("vmap of grad", _on_chain(lambda f: minijax.vmap(minijax.grad(f)), VECTOR)),
    "make_jaxpr": Work("make_jaxpr", _on_chain(minijax.make_jaxpr)),
    "make_jaxpr_grad": Work("make_jaxpr of grad", _on_chain(lambda f: minijax.make_jaxpr(minijax.grad(f)))),
    "lower": Work("lower a traced program to text", _lowered),
    "record": Work("full recording of grad", _recorded),
    "save": Work("save that recording", _saved),
    "screen": Work("load it: the stepper's first screen", _first_screen),
}


class Figure(NamedTuple):
    """CPU seconds, and bytes of memory at most above those before."""

    seconds: float
    bytes: int


def _status(field: str) -> int:
    """A field of the kernel's account of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def measured_here(work: Work, n: int) -> Figure:
    """Measure in this process, which should do nothing else."""
    work.prepare(100)()
    thunk = work.prepare(n)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, begin = _status("VmRSS"), time.process_time()
    kept = thunk()
    seconds, peak = time.process_time() - begin, _status("VmHWM")
    del kept
    return Figure(seconds, max(peak - before, 0))


def measured(key: str, n: int) -> Figure | str:
    """Measure in a process of its own; what it said last if it failed."""
    argv = [sys.executable, "-m", "tests.bench.scale", "--one", key, str(n)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return Figure(*json.loads(done.stdout.splitlines()[-1]))


def _size(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def exponent(figures: Sequence[Figure], sizes: Sequence[int]) -> float:
    """The growth of time between the last two sizes."""
    return math.log(figures[-1].seconds / figures[-2].seconds) / math.log(sizes[-1] / sizes[-2])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest number of operations")
    parser.add_argument("--works", default=",".join(WORKS), help=f"comma-separated, of {', '.join(WORKS)}")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured_here(WORKS[options.one[0]], int(options.one[1]))))
        return 0
    sizes = [n for n in SIZES if n <= options.most]
    print(f"{'':36}" + "".join(f"{n:>22,}" for n in sizes) + f"{'per operation':>24}{'exponent':>10}")
    failed, known = False, {}
    for key in options.works.split(","):
        work = WORKS[key]
        figures: list[Figure] = []
        print(f"{work.title:36}", end="", flush=True)
        for n in sizes:
            found = measured(key, n)
            if isinstance(found, str):
                failed = True
                print(f"  failed: {found}", end="")
                break
            figures.append(found)
            print(f"{_time(found.seconds):>11}{_size(found.bytes):>11}", end="", flush=True)
        else:
            last = figures[-1]
            each = f"{last.seconds / sizes[-1] * 1e6:.3g} us {last.bytes / sizes[-1]:.0f} B"
            print(f"{each:>24}{exponent(figures, sizes):>10.2f}" if len(sizes) > 1 else f"{each:>24}", end="")
        known[key] = dict(zip(map(str, sizes), figures, strict=False))
        print(flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(known, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
