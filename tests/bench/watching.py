"""Rows about being watched: what a recorder costs, and what the seam costs while there is none.

Here the reference is minijax itself, unwatched. For the rows 'watch.off' the subject is minijax as it is and the
reference a copy of it without the seam: in a process of its own all the engine's tests of hook lists are taken out of
the source while it is imported.
"""

from __future__ import annotations

import ast
import importlib
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from tests.bench.measure import SKIPPED, Prepare, Result, Settings, Thunk, cpu_ns, interleaved, quartiles, verdict

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = 1_000
CELLS = 10


def _chain(ns: Any) -> Callable[[Any], Any]:
    sin = ns.numpy.sin

    def chain(x: Any) -> Any:
        for _ in range(OPERATIONS // 2):
            x = sin(x) * 1.00001
        return x

    return chain


def gradient(ns: Any) -> Thunk:
    function = ns.grad(_chain(ns))
    return lambda: function(0.9)


def staging(ns: Any) -> Thunk:
    function = ns.make_jaxpr(_chain(ns))
    return lambda: function(0.9)


def scans(ns: Any) -> Thunk:
    """Twenty gradients of small scans, each of a new cell."""
    xs = ns.numpy.ones(CELLS)

    def one() -> Any:
        def cell(carry: Any, x: Any) -> Any:
            new = ns.numpy.sin(carry) * x
            return new, new

        return ns.grad(lambda x: ns.lax.scan(cell, x, xs)[0])(0.9)

    return lambda: [one() for _ in range(20)]


WORK: dict[str, tuple[str, Prepare]] = {
    "grad": (f"grad of {OPERATIONS:,} operations", gradient),
    "make_jaxpr": (f"make_jaxpr of {OPERATIONS:,} operations", staging),
    "scan": (f"grad of a new scan of {CELLS} cells, 20 times", scans),
}


@dataclass(frozen=True)
class AgainstItself:
    """A workload of minijax in two ways: ``samplers`` gives what measures each once, and what to say of them."""

    key: str
    title: str
    budget: float

    def samplers(self, settings: Settings, stack: ExitStack) -> tuple[dict[str, Callable[[], float]], str]:
        raise NotImplementedError

    def run(self, settings: Settings) -> Result:
        result = Result(self.key, self.title, self.budget, unit="us")
        if settings.subject != "minijax":
            result.verdict, result.note = SKIPPED, "only minijax can be watched"
            return result
        with ExitStack() as stack:
            samplers, note = self.samplers(settings, stack)
            samples = interleaved(settings, samplers, settings.rounds)
        ratios = [a / b for a, b in zip(samples["subject"], samples["reference"], strict=True)]
        # What disturbs a run only makes it longer: the best of each are the least disturbed.
        result.figure = min(samples["subject"]) / min(samples["reference"])
        result.low, result.high = quartiles(ratios)
        result.rounds = len(ratios)
        result.reference, result.subject = map(statistics.median, (samples["reference"], samples["subject"]))
        result.verdict = verdict(result.figure, result.budget)
        result.note = f"the best of each; against minijax itself{note}"
        return result


@dataclass(frozen=True)
class Watched(AgainstItself):
    """A workload with a recorder of this level watching, against the same unwatched."""

    level: str
    prepare: Prepare

    def samplers(self, settings: Settings, stack: ExitStack) -> tuple[dict[str, Callable[[], float]], str]:
        ns = settings.namespaces[settings.subject]
        recorder = importlib.import_module("minijax.tools.recording.recorder").Recorder

        def unwatched() -> float:
            return cpu_ns(self.prepare(ns))[0]

        def watched() -> float:
            thunk = self.prepare(ns)

            def recorded() -> Any:
                with recorder(self.level):
                    return thunk()

            return cpu_ns(recorded)[0]

        unwatched(), watched()
        return {"reference": unwatched, "subject": watched}, ""


@dataclass(frozen=True)
class Unwatched(AgainstItself):
    """A workload that nobody watches, against an engine without the seam."""

    work: str

    def samplers(self, settings: Settings, stack: ExitStack) -> tuple[dict[str, Callable[[], float]], str]:
        engines = {"subject": Engine("keep"), "reference": Engine("strip")}
        for engine in engines.values():
            stack.callback(engine.stop)
            engine.sample(self.work)
        measures = {name: partial(engine.sample, self.work) for name, engine in engines.items()}
        return measures, f"; {engines['reference'].removed} tests taken out"


# --------------------------------------------------------------------------------------- an engine without the seam


class Engine:
    """A process that runs workloads, with the seam (``keep``) or without (``strip``). ``removed`` counts the tests."""

    def __init__(self, seam: str) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.watching", seam],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            cwd=ROOT,
        )
        self.removed = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process of the workload ended")
        return line

    def sample(self, work: str) -> float:
        """CPU nanoseconds of a workload in that process."""
        assert self.process.stdin is not None
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def is_seam(node: ast.expr) -> bool:
    """Whether an expression is false as long as nobody watches: a hook list, or a conjunction with one."""
    match node:
        case ast.Name(id="bind_watched" | "observers"):
            return True
        case ast.Attribute(value=ast.Name(id="observe"), attr=name):
            return name.startswith("on_") or name in ("observers", "bind_watched")
        case ast.BoolOp(op=ast.And(), values=values):
            return any(map(is_seam, values))
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(map(is_seam, values))
    return False


class Stripper(ast.NodeTransformer):
    """Takes the tests of the seam out of a module; ``removed`` counts them."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_If(self, node: ast.If) -> Any:
        if is_seam(node.test):
            self.removed += 1
            return [self.visit(each) for each in node.orelse] or ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if is_seam(node.test):
            self.removed += 1
            return self.visit(node.orelse)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        kept = [each for each in node.values if not is_seam(each)]
        if isinstance(node.op, ast.Or) and 0 < len(kept) < len(node.values):
            self.removed += len(node.values) - len(kept)
            node.values = kept
            return self.visit(kept[0]) if len(kept) == 1 else self.generic_visit(node)
        return self.generic_visit(node)


class _Loader(SourceFileLoader):
    """Compiles modules without the tests of the seam, keeping no bytecode."""

    removed = 0

    def get_code(self, fullname: str) -> Any:
        stripper = Stripper()
        tree = stripper.visit(ast.parse(self.get_data(self.path)))
        _Loader.removed += stripper.removed
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds minijax's modules for ``_Loader``."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "minijax":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


def serve(seam: str) -> None:
    """Run the workloads that are asked for on standard input; their times go to standard output."""
    if seam == "strip":
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    ns = importlib.import_module("minijax")
    for name in ("numpy", "lax"):
        importlib.import_module(f"minijax.{name}")
    sys.stdout.write(f"{_Loader.removed}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        taken, _ = cpu_ns(WORK[line.strip()][1](ns))
        sys.stdout.write(f"{taken}\n")
        sys.stdout.flush()


# A summary is on whenever a panel is shown; a tree is recorded only for who asks to step through it.
WATCHING_ROWS: list[Any] = [
    *(Unwatched(f"watch.off.{key}", f"unwatched / no seam: {title}", 1.03, key) for key, (title, _) in WORK.items()),
    *(
        Watched(f"watch.{level}.{key}", f"{level} / unwatched: {title}", budget, level, prepare)
        for level, budget in (("summary", 1.6), ("full", 12.0))
        for key, (title, prepare) in WORK.items()
    ),
]

if __name__ == "__main__":
    serve(sys.argv[1])
