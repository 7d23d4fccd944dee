"""Whole programs beside JAX's: printed jaxpr, StableHLO operations, optimised HLO instructions, flops.

    python -m tests.oracle.beside_jax                     # all programs, compiled: some minutes
    python -m tests.oracle.beside_jax --lowered scan      # without compiling, those with "scan" in their names

The programs are every function of ``functions`` and ``control_flow`` under every transformation of ``transforms`` that
it has, and every construct of ``tests.ir.constructs`` but those whose program cannot be compared (``LEFT_OUT``). Every
difference must be explained by a row of ``EXPLANATIONS``, and every row must explain one: otherwise the exit code is 1.

What is compared:

* the jaxpr as it is printed, to the letter: of all programs, a share of ``LITERAL`` must be equal. Where it differs,
  ``reasons`` finds what has to be taken away until the two are equal: only that is left to be explained;
* the jaxpr by what it means: the same live equations between the same arguments and results (``meaning``);
* how often each operation stands in the StableHLO module, a function's as often as it is called. Not counted are calls
  themselves, since JAX's library is made of functions that it jits, returns, and constants: JAX writes one for each
  use, we write one for each value, and XLA merges them;
* how often each instruction stands in the optimised HLO, parameters and constants apart;
* the flops that XLA estimates for that.

Modules of the same text but for names, equal operations merged (``canonical``), are compiled once: XLA merges them too.
``--each`` compiles every one, and fails if two that are the same become different programs.
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
from minijax.ir.pretty import format_jaxpr
from minijax.lowering import bindings
from minijax.tools.programs import hlo
from tests.ir import constructs
from tests.ir.jax_jaxprs import printed_by_jax

from .control_flow import PROGRAMS
from .functions import CASES
from .meaning import meaning
from .normalise import normalise
from .subject import x64_mode
from .transforms import build

# the package's attribute of this name is the object
settings = importlib.import_module("minijax.config")

# Callbacks carry addresses of Python functions.
LEFT_OUT = ("debug_callback", "pure_callback")

PRINTED = "printed jaxpr"
# How many of the printed jaxprs are JAX's to the letter, at least.
LITERAL = 0.9
COLUMNS = (PRINTED, "jaxpr's meaning", "StableHLO", "optimised HLO", "flops")
NOT_COUNTED = {"func.func", "func.call", "func.return", "stablehlo.return", "stablehlo.constant"}
NO_INSTRUCTION = ("parameter", "constant")

# Reasons for which a printed jaxpr differs, besides words in its text and the primitives ``UNDONE``.
DEAD, PASSED = "dead equations", "arguments returned by calls"
RESIDUALS, ORDER, CARRIED = "order of residuals", "order of equations", "order of carries"
WORDS = ("let jaxpr",)
UNDONE = ("jit", "closed_call", "empty2")


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
    """Why programs differ in ``column`` by ``key``, of which ``more`` has more: "JAX", "we", or nobody ("").

    A row explains this one key, and nothing else that differs in the same program.
    """

    column: str
    key: str
    more: str
    why: str

    def concerns(self, difference: Difference) -> bool:
        """Whether this is a reason for ``difference``, alone or with others."""
        n = difference.counts[self.key]
        return difference.column == self.column and n != 0 and self.more in ("", "we" if n > 0 else "JAX")


EXPLANATIONS = (
    Explanation(PRINTED, "jit", "JAX", "JAX hoists the known part of a call out of a scan, be there nothing left"),
    Explanation(
        PRINTED, "closed_call", "JAX", "JAX calls the body of a scan when it evaluates a checkpoint of it partially"
    ),
    Explanation(PRINTED, "let jaxpr", "JAX", "JAX stages a branch given twice once, and prints what is shared ahead"),
    Explanation(
        PRINTED,
        "let jaxpr",
        "we",
        "long jaxprs and shared ones are printed ahead: one is long here that has calls in JAX, or shared that is two",
    ),
    Explanation(PRINTED, CARRIED, "", "the same equations: what a loop carries or stacks comes in another order"),
)


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
    every = [getattr(jaxpr, "jaxpr", jaxpr), *inner_jaxprs(jaxpr)]
    return Counter(eqn.primitive.name for each in every for eqn in each.eqns)


def inner_jaxprs(jaxpr: Any, of: Sequence[str] | None = None) -> Iterator[Any]:
    """The jaxprs in the equations of one of either library, and in theirs; with ``of``, of these primitives only."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        for value in eqn.params.values():
            for each in value if isinstance(value, tuple) else (value,):
                if hasattr(each, "eqns"):
                    if of is None or eqn.primitive.name in of:
                        yield getattr(each, "jaxpr", each)
                    yield from inner_jaxprs(each, of)


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
    printed, expected = format_jaxpr(ours), printed_by_jax(theirs)
    means_the_same = printed == expected or meaning(ours) == meaning(theirs)
    if printed != expected:
        counts = Counter({word: printed.count(word) - expected.count(word) for word in WORDS})
        counts = reasons(ours, theirs, means_the_same, counts)
        yield Difference(program.name, PRINTED, counts)
    if not means_the_same and normalise(ours).graph() != normalise(theirs).graph():
        yield Difference(program.name, "jaxpr's meaning")


def literally_equal(programs: Sequence[Program]) -> list[str]:
    """The names of those whose printed jaxpr is JAX's letter for letter, nothing taken away."""
    with x64_mode("32"), settings.use_direct_linearize(True):
        return [
            each.name
            for each in programs
            if format_jaxpr(minijax.make_jaxpr(each.ours[0])(*each.ours[1]))
            == printed_by_jax(jax.make_jaxpr(each.theirs[0])(*each.theirs[1]))
        ]


def reasons(ours: Any, theirs: Any, means_the_same: bool, words: Counter[str]) -> Counter[str]:
    """What has to be taken away from two jaxprs until they are equal, as counts: ours less JAX's.

    ``words`` are those of the printed text. Empty if nothing helps: then the difference has no explanation.
    """
    x, y = normalise(ours), normalise(theirs)
    every = _less(equations(ours), equations(theirs))
    counts = Counter({**words, **{name: every[name] for name in UNDONE}})
    # of calls that only JAX has, the calls are the reason
    counts[PASSED] = max(0, _passed(ours) - _passed(theirs))
    alive, expected = x.without_dead_code(), y.without_dead_code()
    counts[DEAD] = (len(x.ops) - len(alive.ops)) - (len(y.ops) - len(expected.ops))
    if x.lines == y.lines:
        counts[RESIDUALS] = int(not any(counts.values()))
    elif alive.lines == expected.lines or x.graph() == y.graph():
        counts[ORDER] = int(alive.lines != expected.lines or not counts[DEAD])
    elif means_the_same:
        counts[CARRIED] = 1
    else:
        return Counter()
    return counts


def _passed(jaxpr: Any) -> int:
    """How many results of calls in ``jaxpr`` are arguments of theirs."""
    found = 0
    for inner in inner_jaxprs(jaxpr, ("jit",)):
        found += sum(v in inner.invars for v in inner.outvars if not hasattr(v, "val"))
    return found


# What a module's name and attributes are, and JAX's names of results. All programs here run on one device.
_NAMES = re.compile(r'\Amodule @\S+ attributes \{[^}]*\}| \{jax\.result_info = "[^"]*"\}')


def canonical(text: str, context: Any) -> str:
    """The text of a module without the names of itself, of results and of functions, equal operations merged."""
    with context:
        module = bindings.ir().Module.parse(_NAMES.sub(lambda found: "module" * found[0].startswith("module"), text))
        PassManager.parse("builtin.module(symbol-dce,cse)").run(module.operation)
        merged = str(module.operation.get_asm(enable_debug_info=False))
    functions = set(re.findall(r"func\.func private (@[\w.]+)", merged))
    found = [name for name in re.findall(r"@[\w.]+", merged) if name in functions]
    numbers = {name: f"@{i}" for i, name in enumerate(dict.fromkeys(found))}
    return re.sub(r"@[\w.]+", lambda name: numbers.get(name[0], name[0]), merged)


class Compiler:
    """Instructions and flops of modules, each of which is compiled once, or with ``each`` as often as asked for."""

    def __init__(self, context: Any, each: bool) -> None:
        self.context = context
        self.each = each
        self.known: dict[str, tuple[Counter[str], int]] = {}
        self.asked = self.ran = 0

    def __call__(self, lowered: Any) -> tuple[Counter[str], int]:
        """The optimised instructions of a lowered program of either library, and its flops."""
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
    """The differences between the lowered programs, and with a ``compiler`` between the optimised ones."""
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
            found += compare_jaxprs(program)
            found += compare_lowered(program, compiler)
    return found


def explained(difference: Difference) -> bool:
    """Whether rows of the table account for all that differs."""
    keys = {row.key for row in EXPLANATIONS if row.concerns(difference)}
    return bool(keys) and keys == {name for name, n in difference.counts.items() if n}


def unexplained(differences: Sequence[Difference]) -> list[Difference]:
    """The differences that the table does not account for."""
    return [each for each in differences if not explained(each)]


def idle(differences: Sequence[Difference], lowered: bool = False) -> list[Explanation]:
    """The rows of the table that are a reason for no difference, of the columns that were compared."""
    rows = [row for row in EXPLANATIONS if row.column in (COLUMNS[:3] if lowered else COLUMNS)]
    return [row for row in rows if not any(row.concerns(each) for each in differences)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.beside_jax", description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="", help="only the programs whose name holds this")
    parser.add_argument("--lowered", action="store_true", help="without compiling: no HLO, no flops")
    parser.add_argument("--each", action="store_true", help="compile modules that are the same, too")
    parser.add_argument("--all", action="store_true", help="list all programs that differ, not three of each reason")
    options = parser.parse_args(argv)
    programs = [program for program in all_programs() if options.name in program.name]
    compiler = None if options.lowered else Compiler(bindings.make_context(), options.each)
    differences = compare(programs, compiler)
    print(f"{len(programs)} programs")
    for column in COLUMNS[:3] if options.lowered else COLUMNS:
        n = len(programs) - sum(each.column == column for each in differences)
        print(f"{column:16} {n:5} equal, {100 * n / max(len(programs), 1):6.2f} %")
    if compiler is not None:
        print(f"{compiler.asked} modules, {len(compiler.known)} different ones, {compiler.ran} compiled")
    for row in EXPLANATIONS:
        concerned = [each for each in differences if row.concerns(each)]
        print(f"\n{row.column}, {row.key}{f' ({row.more} more)' if row.more else ''}: {row.why}: {len(concerned)}")
        for each in concerned if options.all else concerned[:3]:
            print(f"  {each.program}: {each}")
        if len(concerned) > 3 and not options.all:
            print(f"  ... and {len(concerned) - 3} more, which --all shows")
    wrong = [f"unexplained: {each.program}, {each.column}: {each}" for each in unexplained(differences)]
    n = len(programs) - sum(each.column == PRINTED for each in differences)
    if not options.name and n < LITERAL * len(programs):
        wrong.append(f"{n} of {len(programs)} printed jaxprs are JAX's to the letter: fewer than {LITERAL:.0%}")
    if not options.name:
        wrong += [f"explains nothing any more: {row.why}" for row in idle(differences, options.lowered)]
    print("\n".join(["", *wrong]) if wrong else "\nevery difference is explained")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
