"""Whole programs beside JAX's: printed jaxpr, StableHLO operations, optimised HLO instructions, flops.

    python -m tests.oracle.beside_jax                     # all programs, compiled: some minutes
    python -m tests.oracle.beside_jax --lowered scan      # without compiling, those with "scan" in their names

The programs are every function of ``functions`` and ``control_flow`` under every transformation of ``transforms`` that
it has, and every construct of ``tests.ir.constructs`` but those whose program cannot be compared (``LEFT_OUT``). Every
difference must be explained by a row of ``EXPLANATIONS``, and every row must explain one: otherwise the exit code is 1.

What is compared:

* the jaxpr as it is printed, JAX's without its sharding parameters: to the letter, and by what it means (the equations
  that ``test_jaxprs`` asks for; where those are not of one order, ``meaning``);
* how often each operation stands in the StableHLO module, a function's as often as it is called. Not counted are calls
  themselves, since JAX's library is made of functions that it jits, returns, and constants: JAX writes one for each
  use, we write one for each value, and XLA merges them;
* how often each instruction stands in the optimised HLO, parameters and constants apart;
* the flops that XLA estimates for that.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

import minijax
from minijax.ir.pretty import format_jaxpr
from minijax.lowering import bindings
from minijax.tools.programs import hlo
from tests.ir import constructs
from tests.ir.jax_jaxprs import without_sharding

from .control_flow import PROGRAMS
from .functions import CASES
from .meaning import meaning
from .normalise import normalise
from .subject import x64_mode
from .transforms import build

# pmap is shard_map in JAX; callbacks carry addresses of Python functions.
LEFT_OUT = ("pmap", "debug_callback", "pure_callback")

COLUMNS = ("printed jaxpr", "jaxpr's meaning", "StableHLO", "optimised HLO", "flops")
NOT_COUNTED = {"func.func", "func.call", "func.return", "stablehlo.return", "stablehlo.constant"}
NO_INSTRUCTION = ("parameter", "constant")


@dataclass(frozen=True)
class Program:
    """A program in both libraries: ``(function, arguments)`` of each."""

    name: str
    ours: tuple[Callable[..., Any], tuple[Any, ...]]
    theirs: tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Difference:
    """What differs in one column: counts (ours less JAX's), or nothing but that it does."""

    program: str
    column: str
    counts: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return ", ".join(f"{name} {n:+d}" for name, n in sorted(self.counts.items()) if n) or "differs"


@dataclass(frozen=True)
class Explanation:
    """Why programs that differ in the count of ``key`` differ in ``column``, in any count or in ``only`` these.

    Without a ``key``: programs of which all counts are equal.
    """

    column: str
    key: str
    why: str
    only: frozenset[str] | None = None

    def concerns(self, difference: Difference) -> bool:
        """Whether this is a reason for ``difference``, alone or with others."""
        counts = difference.counts
        return difference.column == self.column and bool(counts[self.key] if self.key else not any(counts.values()))


EXPLANATIONS = (
    Explanation("printed jaxpr", "jit", "JAX's library is made of functions that it jits: its jaxpr prints the calls"),
    Explanation(
        "printed jaxpr",
        "empty2",
        "JAX makes a placeholder for each residual that a branch has not got, needed or not",
        frozenset({"empty2", "broadcast_in_dim", "memory_space"}),
    ),
    Explanation(
        "printed jaxpr", "np.int64", "JAX's batching leaves NumPy's integers in parameters", frozenset({"np.int64"})
    ),
    Explanation("printed jaxpr", "memory_space", "JAX's placeholder says where it lies", frozenset({"memory_space"})),
    Explanation(
        "printed jaxpr",
        "let jaxpr",
        "JAX stages a branch given twice once, and prints what is shared ahead",
        frozenset({"let jaxpr"}),
    ),
    Explanation(
        "printed jaxpr",
        "closed_call",
        "JAX calls the body of a scan when it evaluates a checkpoint partially, and drops there what is dead in a jit",
    ),
    Explanation(
        "printed jaxpr",
        "reduce_sum",
        "JAX drops what is dead in a jitted function when it linearizes the function, here lowering does",
        frozenset({"reduce_sum", "mul", "add_any"}),
    ),
    Explanation("printed jaxpr", "", "the same equations: residuals of a call or of a loop come in another order"),
)

# What is counted in the text of a printed jaxpr besides equations.
WORDS = ("np.int64", "memory_space", "let jaxpr")


def all_programs() -> Iterator[Program]:
    """The programs, by the rule above."""
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


# ------------------------------------------------------------------------------------------------- what is counted


def equations(jaxpr: Any) -> Counter[str]:
    """How often each primitive is in a jaxpr of either library, those of inner ones included."""
    opened = getattr(jaxpr, "jaxpr", jaxpr)
    found = Counter(eqn.primitive.name for eqn in opened.eqns)
    for eqn in opened.eqns:
        for value in eqn.params.values():
            for each in value if isinstance(value, tuple) else (value,):
                if hasattr(each, "eqns"):
                    found.update(equations(each))
    return found


def operations(module: Any) -> Counter[str]:
    """How often each operation is in a StableHLO module of MLIR's bindings, calls replaced by what they call."""
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
    """How often each instruction is in an optimised program, those of fusions and loops included."""
    found = Counter(each.opcode for each in hlo.instructions(text.split("\n")).values())
    for name in NO_INSTRUCTION:
        found.pop(name, None)
    return found


# ---------------------------------------------------------------------------------------------------- comparing


def _less(ours: Counter[str], theirs: Counter[str]) -> Counter[str]:
    counts = Counter(ours)
    counts.subtract(theirs)
    return counts


def compare_jaxprs(program: Program) -> Iterator[Difference]:
    """The differences between the two jaxprs."""
    (f, a), (g, b) = program.ours, program.theirs
    ours, theirs = minijax.make_jaxpr(f)(*a), jax.make_jaxpr(g)(*b)
    printed, expected = format_jaxpr(ours), without_sharding(theirs).pretty_print(use_color=False)
    if printed != expected:
        counts = _less(equations(ours), equations(theirs))
        counts.update({word: printed.count(word) - expected.count(word) for word in WORDS})
        yield Difference(program.name, "printed jaxpr", counts)
    x, y = normalise(ours), normalise(theirs)
    if x.lines == y.lines or x.graph() == y.graph() or meaning(ours) == meaning(theirs):
        return
    with jax.disable_jit():
        without_calls = jax.make_jaxpr(g)(*b)
    if x.graph() != normalise(without_calls).graph():
        yield Difference(program.name, "jaxpr's meaning")


def compare_compiled(program: Program, compiled: bool, context: Any) -> Iterator[Difference]:
    """The differences between the lowered programs, and with ``compiled`` between the optimised ones."""
    (f, a), (g, b) = program.ours, program.theirs
    ours, theirs = minijax.jit(f).lower(*a), jax.jit(g).lower(*b)
    with context:
        written = operations(bindings.ir().Module.parse(ours.as_text(), context))
    expected = operations(theirs.compiler_ir("stablehlo"))
    if written != expected:
        yield Difference(program.name, "StableHLO", _less(written, expected))
    if not compiled:
        return
    ran, wanted = ours.compile(), theirs.compile()
    found, expected = instructions(ran.raw_text()), instructions(wanted.as_text())
    if found != expected:
        yield Difference(program.name, "optimised HLO", _less(found, expected))
    flops = Counter(flops=int(ran.cost_analysis().get("flops", 0)))
    flops.subtract(flops=int(wanted.cost_analysis().get("flops", 0)))
    if flops["flops"]:
        yield Difference(program.name, "flops", flops)


def compare(programs: Sequence[Program], compiled: bool) -> list[Difference]:
    """All differences, program by program, in 32-bit mode."""
    context = bindings.make_context()
    found: list[Difference] = []
    with x64_mode("32"):
        for program in programs:
            found += compare_jaxprs(program)
            found += compare_compiled(program, compiled, context)
    return found


def explained(difference: Difference) -> bool:
    """Whether rows of the table account for all that differs."""
    rows = [row for row in EXPLANATIONS if row.concerns(difference)]
    names = {name for name, n in difference.counts.items() if n}
    return any(row.only is None for row in rows) or bool(rows) and names <= frozenset().union(*(r.only for r in rows))


def unexplained(differences: Sequence[Difference]) -> list[Difference]:
    """The differences that the table does not account for."""
    return [each for each in differences if not explained(each)]


def idle(differences: Sequence[Difference]) -> list[Explanation]:
    """The rows of the table that are a reason for no difference."""
    return [row for row in EXPLANATIONS if not any(row.concerns(each) for each in differences)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.beside_jax", description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="", help="only the programs whose name holds this")
    parser.add_argument("--lowered", action="store_true", help="without compiling: no HLO, no flops")
    parser.add_argument("--all", action="store_true", help="list all programs that differ, not three of each reason")
    options = parser.parse_args(argv)
    programs = [program for program in all_programs() if options.name in program.name]
    differences = compare(programs, compiled=not options.lowered)
    print(f"{len(programs)} programs")
    for column in COLUMNS[:3] if options.lowered else COLUMNS:
        n = len(programs) - sum(each.column == column for each in differences)
        print(f"{column:16} {n:5} equal, {100 * n / max(len(programs), 1):6.2f} %")
    for row in EXPLANATIONS:
        concerned = [each for each in differences if row.concerns(each)]
        print(f"\n{row.column}: {row.why}: {len(concerned)}")
        for each in concerned if options.all else concerned[:3]:
            print(f"  {each.program}: {each}")
        if len(concerned) > 3 and not options.all:
            print(f"  ... and {len(concerned) - 3} more, which --all shows")
    wrong = [f"unexplained: {each.program}, {each.column}: {each}" for each in unexplained(differences)]
    if not (options.name or options.lowered):
        wrong += [f"explains nothing any more: {row.why}" for row in idle(differences)]
    print("\n".join(["", *wrong]) if wrong else "\nevery difference is explained")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
