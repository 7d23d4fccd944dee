"""Compare whole programs with JAX's: StableHLO operations, optimised HLO instructions, and flops.

    python -m tests.oracle.beside_jax                     # all programs, compiled: some minutes
    python -m tests.oracle.beside_jax --lowered scan      # not compiled, only programs with "scan" in their names

The programs are every function of ``functions`` and ``control_flow`` under each of its ``transforms``, and every
construct of ``tests.ir.constructs`` except ``LEFT_OUT``. The comparison covers:

* how often each operation occurs in the StableHLO module, with a function's operations once per call. Calls
  (JAX's library jits many of its functions), returns and constants are not counted. JAX writes a constant for each
  use, minijax for each value, and XLA merges them;
* how often each instruction occurs in the optimised HLO, except parameters and constants;
* the flops that XLA estimates for the program.

Modules that differ only in names and repeated expressions (``canonical``) are compiled once: XLA merges these too.
``--each`` compiles every module, and fails if two equal modules become different programs.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jaxlib.mlir.passmanager import PassManager

import minijax
from minijax.lowering import bindings
from minijax.tools.programs import hlo
from tests.ir import constructs

from .control_flow import PROGRAMS
from .functions import CASES
from .subject import x64_mode
from .transforms import build

# this imports the module; ``from minijax import config`` would import an object with this name
settings = importlib.import_module("minijax.config")

# Constructs whose texts contain addresses of Python functions.
LEFT_OUT = ("debug_callback", "pure_callback")

COLUMNS = ("StableHLO", "optimised HLO", "flops")
NOT_COUNTED = {"func.func", "func.call", "func.return", "stablehlo.return", "stablehlo.constant"}
NO_INSTRUCTION = ("parameter", "constant")


@dataclass(frozen=True)
class Program:
    """A program in both libraries: ``ours`` and ``theirs`` are (function, arguments)."""

    name: str
    ours: tuple[Callable[..., Any], tuple[Any, ...]]
    theirs: tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Difference:
    """A difference in one column. ``counts``: minijax's counts minus JAX's, by name of operation."""

    program: str
    column: str
    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{name} {n:+d}" for name, n in sorted(self.counts.items()) if n) or "differs"


def all_programs() -> Iterator[Program]:
    """The programs that the module docstring lists."""
    for table in (CASES, PROGRAMS):
        for case in table.values():
            ours, theirs = build(minijax, case), build(jax, case)
            assert list(ours) == list(theirs)
            for name in ours:
                yield Program(f"{case.name} {name}", ours[name], theirs[name])
    ours, theirs = constructs.programs(minijax), constructs.programs(jax)
    for name in ours:
        if name not in LEFT_OUT:
            yield Program(f"{name} construct", ours[name], theirs[name])


# -------------------------------------------------------------------------------------------------------- counting


def inner_jaxprs(jaxpr: Any, of: Sequence[str] | None = None) -> Iterator[Any]:
    """All inner jaxprs of a jaxpr of either library; with ``of``, only those in equations of these primitives."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        for value in eqn.params.values():
            for each in value if isinstance(value, tuple) else (value,):
                if hasattr(each, "eqns"):
                    if of is None or eqn.primitive.name in of:
                        yield getattr(each, "jaxpr", each)
                    yield from inner_jaxprs(each, of)


def operations(module: Any) -> Counter[str]:
    """How often each operation occurs in a StableHLO module (MLIR bindings). A call counts its callee's operations."""
    functions = {_symbol(each.operation): each for each in module.body.operations if _name(each) == "func.func"}
    known: dict[str, Counter[str]] = {}

    def count(op: Any, into: Counter[str]) -> None:
        name = _name(op)
        if name == "func.call":
            into.update(inside(bindings.ir().FlatSymbolRefAttr(op.operation.attributes["callee"]).value))
        elif name not in NOT_COUNTED:
            into[name] += 1
        for region in op.operation.regions:
            for block in region.blocks:
                for each in block.operations:
                    count(each, into)

    def inside(symbol: str) -> Counter[str]:
        if symbol not in known:
            known[symbol] = Counter()
            count(functions[symbol], known[symbol])
        return known[symbol]

    return inside("main")


def _name(op: Any) -> str:
    return str(op.operation.name)


def _symbol(op: Any) -> str:
    return str(bindings.ir().StringAttr(op.attributes["sym_name"]).value)


def instructions(text: str) -> Counter[str]:
    """How often each instruction occurs in an optimised program, including those in fusions and loops."""
    found = Counter(each.opcode for each in hlo.instructions(text.split("\n")).values())
    for name in NO_INSTRUCTION:
        found.pop(name, None)
    return found


# ---------------------------------------------------------------------------------------------------- comparing


def _less(ours: Counter[str], theirs: Counter[str]) -> Counter[str]:
    counts = Counter(ours)
    counts.subtract(theirs)
    return counts


# Removed by ``canonical``: the module's name and attributes (programs run on one device), JAX's names of results.
_NAMES = re.compile(r'\Amodule @\S+ attributes \{[^}]*\}| \{jax\.result_info = "[^"]*"\}')


def canonical(text: str, context: Any) -> str:
    """The text of a module after CSE, without the names of the module, its functions and its results."""
    with context:
        module = bindings.ir().Module.parse(_NAMES.sub(lambda found: "module" * found[0].startswith("module"), text))
        PassManager.parse("builtin.module(symbol-dce,cse)").run(module.operation)
        merged = str(module.operation.get_asm(enable_debug_info=False))
    functions = set(re.findall(r"func\.func private (@[\w.]+)", merged))
    found = [name for name in re.findall(r"@[\w.]+", merged) if name in functions]
    numbers = {name: f"@{i}" for i, name in enumerate(dict.fromkeys(found))}
    return re.sub(r"@[\w.]+", lambda name: numbers.get(name[0], name[0]), merged)


class Compiler:
    """(Instructions, flops) of a module. Equal modules are compiled once; with ``each``, every module is compiled."""

    def __init__(self, context: Any, each: bool) -> None:
        self.context = context
        self.each = each
        self.known: dict[str, tuple[Counter[str], int]] = {}
        self.asked = self.ran = 0

    def __call__(self, lowered: Any) -> tuple[Counter[str], int]:
        """The optimised instructions and the flops of a lowered program of either library."""
        self.asked += 1
        key = canonical(lowered.as_text(), self.context)
        if self.each or key not in self.known:
            self.ran += 1
            program = lowered.compile()
            text = program.raw_text() if hasattr(program, "raw_text") else program.as_text()
            made = instructions(text), int(program.cost_analysis().get("flops", 0))
            if self.known.setdefault(key, made) != made:
                raise AssertionError("modules that are the same, compiled, differ:\n" + key)
        return self.known[key]


def compare_lowered(program: Program, compiler: Compiler | None) -> Iterator[Difference]:
    """The differences between the lowered programs; with a ``compiler``, also between the optimised programs."""
    (f, a), (g, b) = program.ours, program.theirs
    ours, theirs = minijax.jit(f).lower(*a), jax.jit(g).lower(*b)
    with bindings.make_context() as context:
        written = operations(bindings.ir().Module.parse(ours.as_text(), context))
    expected = operations(theirs.compiler_ir("stablehlo"))
    if written != expected:
        yield Difference(program.name, "StableHLO", _less(written, expected))
    if compiler is None:
        return
    (found, flops), (wanted, wanted_flops) = compiler(ours), compiler(theirs)
    if found != wanted:
        yield Difference(program.name, "optimised HLO", _less(found, wanted))
    if flops != wanted_flops:
        yield Difference(program.name, "flops", Counter(flops=flops - wanted_flops))


def compare(programs: Sequence[Program], compiler: Compiler | None) -> list[Difference]:
    """All differences, program by program, in 32-bit mode; both libraries linearize directly."""
    found: list[Difference] = []
    with x64_mode("32"), settings.use_direct_linearize(True):
        for program in programs:
            found += compare_lowered(program, compiler)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.beside_jax", description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="", help="only the programs with this text in their names")
    parser.add_argument("--lowered", action="store_true", help="do not compile: compare neither HLO nor flops")
    parser.add_argument("--each", action="store_true", help="also compile modules that are equal")
    options = parser.parse_args(argv)
    programs = [program for program in all_programs() if options.name in program.name]
    compiler = None if options.lowered else Compiler(bindings.make_context(), options.each)
    differences = compare(programs, compiler)
    print(f"{len(programs)} programs")
    for column in COLUMNS[:1] if options.lowered else COLUMNS:
        n = len(programs) - sum(each.column == column for each in differences)
        print(f"{column:16} {n:5} equal, {100 * n / max(len(programs), 1):6.2f} %")
    if compiler is not None:
        print(f"{compiler.asked} modules, {len(compiler.known)} different ones, {compiler.ran} compiled")
    for each in differences:
        print(f"{each.program}, {each.column}: {each}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
