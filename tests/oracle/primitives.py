"""Compare every primitive with JAX's, for random shapes, dtypes and parameters, under every transformation.

    python -m tests.oracle.primitives                         3 calls of each primitive, seed 0
    python -m tests.oracle.primitives --count 100 --seed 7
    python -m tests.oracle.primitives sort scan               only these primitives
        python -m tests.oracle.primitives sort --call 17          only call 17 of sort
        python -m tests.oracle.primitives --staged                compare programs, types and errors; compile nothing

Each call is compared by its value, jvp, vjp, second derivatives (forward over reverse, reverse over reverse, forward
over forward), vmap along every axis of every operand with random output axes, and vmap of jvp and vjp. Each of these
is evaluated, and compiled by ``jit``. The comparison covers values, dtypes, shapes, weak types, the printed program
(see ``normalise``), and the class of JAX's errors. The command prints the differences, and counts the comparisons of
each kind. The exit status is 1 if a difference has no reason (``REASONS``), or no call used a given primitive.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

import jax
import numpy as np

import minijax
from minijax.core.observe import Observer, watching
from minijax.core.trace import stack_depth
from minijax.ir.typecheck import typecheck_jaxpr

from . import primitive_programs  # noqa: F401  (adds rows)
from .meaning import meaning
from .normalise import acts, normalise, show_type
from .primitive_calls import ROWS, Call, Draw, draw_call
from .random_reasons import BREAKS, UNKNOWN
from .subject import as_numpy, assert_same, compiled_quickly, describe, x64_mode

CHECKS = ("value", "jvp", "vjp", "second", "vmap", "vmap of derivatives")

# (pattern of the primitive's name, '' for any; pattern of the difference) -> why the libraries may differ
REASONS: dict[tuple[str, str], str] = {
    ("bitcast_convert_type", "bool or complex values"): "the call has two faults, and JAX reports the other one",
    ("bitcast_convert_type", "JAX alone raises IndexError"): "JAX's batching rule uses an axis that does not exist",
    ("broadcast_in_dim", "JAX alone .*Expected cotangent type"): "JAX's transpose of a permutation has the wrong shape",
    (
        "clamp",
        "JAX alone raises (TypeError: 'select cases|AssertionError)",
    ): "JAX cannot differentiate with respect to scalar limits",
    ("pbroadcast", "JAX alone .*take requires ndarray"): "JAX's batching rule fails",
    ("ppermute", "JAX alone .*Permutation doesn't match"): "JAX's batching rule requires a source for each place",
    ("reduce", "JAX alone raises NotImplementedError"): "JAX lacks some rules for reductions by a user's function",
    (
        "reshape",
        "minijax alone raises TypeError: 'reshape total size",
    ): "JAX stages a wrong size, and cannot compile it",
    ("threefry2x32", "JAX alone .*scan body function carry"): "JAX cannot compile words of different shapes",
    ("random_seed", "minijax alone .*must be an integer"): "JAX stages such a seed, and cannot compile it",
    (
        "new_ref|get|swap|addupdate|freeze|free_ref",
        # the pattern matches if the axes are not all equal
        r"^vmap (?!\D*(\d+)(\D+\1)*\D+ of vjp)\(.*\) of vjp, (evaluated|compiled): Not equal",
    ): "JAX writes a value that is mapped along another axis without moving that axis; JAX's loop gives our values",
    ("eq_to", "minijax alone .*does not accept dtype complex"): "JAX stages complex operands, and cannot compile them",
    ("reduce_(and|or|xor)", "JAX IndexError: 'index"): "JAX looks the axes up in a list before it checks them",
    ("free_ref", "JAX alone .*Batching rule for 'free_ref'"): "JAX has no batching rule for free_ref",
    (
        "",
        "JAX (alone raises )?AttributeError: .*has no attribute '?accum",
    ): "JAX fails to differentiate references twice",
    (
        "",
        "JAX (alone raises )?ValueError: 'Invalid shape for `swap`",
    ): "JAX's vmap finds too late that a reference is mapped",
    ("", "JAX alone .*slice limit_indices must have every"): "JAX fails to lower an empty slice with a stride",
    ("", "JAX alone raises ValueError: 'Invalid type of idxer: TypedInt"): "JAX fails to lower an index that it made",
}


VERDICTS = ("equal", "in another order", "of one meaning", "with a reason", "other")

# (pattern of the primitive's name; pattern of the difference) -> why two programs may differ if their values agree
PROGRAM_REASONS: dict[tuple[str, str], str] = {
    (
        "shard_map|pvary|psum_invariant|all_gather_invariant|preduced|unreduced_.*|.*_cast_p|all_gather_reduced",
        "another program: +first ",
    ): "trailing unsharded dimensions are printed in another way, and residuals are in another order",
    (
        "reshard",
        "another program: +first .*reshard",
    ): "JAX's spec also lists an unsharded batch axis, and the mesh is printed in another way",
    (
        "sharding_constraint",
        "another program: JAX alone has 1 reshape;",
    ): "JAX's types name the mesh of unsharded arrays, and JAX's transposes move cotangents there by a reshape",
    (
        "new_ref|get|swap|addupdate|freeze|free_ref",
        "^(jvp|vjp|vmap)",
    ): "under a transformation minijax reads and writes references at once; JAX keeps some of these operations",
    ("new_ref|get|swap|addupdate|freeze|free_ref", "alone has 1 broadcast_to;"): "the index is a number",
    (
        "sharding_constraint",
        r"another program: +first \S+ = broadcast_in_dim\[.* where JAX has .* sharding=NamedSharding",
    ): "JAX's types name the mesh of unsharded arrays, and so do broadcasts of these arrays",
    ("ppermute", "alone has 1 add, 1 broadcast_in_dim, 1 lt, 1 select_n;"): "JAX's vmap also takes negative places",
    ("select_n", "another program: JAX alone has .*[0-9] eq, [0-9] select_n;"): "one case needs no selection",
    (
        "dynamic_(update_)?slice",
        "another program: minijax alone has [12] lt;",
    ): "JAX compares a NumPy index by NumPy, without an equation",
    ("reduce_(max|min)", "^vmap .* of vjp: another program: JAX alone has 1 transpose;"): "no axis needs to move",
}


class Variation(NamedTuple):
    """One transformation of a call. ``function`` takes a library and returns a function of ``args``."""

    check: str
    label: str
    function: Callable[[Any], Callable[..., Any]]
    args: tuple[Any, ...]


@dataclass
class Report:
    """The results of comparisons. ``others``: programs that differ, each with the difference and its reason or ''."""

    compared: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    refused: int = 0
    programs: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[Call, int, str]] = field(default_factory=list)
    others: list[tuple[Call, int, str, str]] = field(default_factory=list)


def inexact(x: Any) -> bool:
    return bool(jax.numpy.issubdtype(jax.numpy.result_type(x), np.inexact))


def tangent(draw: Draw, x: Any) -> Any:
    """A tangent of the type of the number or array ``x``."""
    if isinstance(x, (float, complex)):
        return 0.75
    return draw.array(x.shape, str(x.dtype), -1.0, 1.0, plain=True)


def batched(draw: Draw, x: np.ndarray, axis: int | None, size: int) -> np.ndarray:
    """``size`` variations of ``x`` along a new axis."""
    if axis is None:
        return x
    flat = x.reshape(-1)
    return np.stack([np.roll(flat, i).reshape(x.shape) for i in range(size)], axis)


def axes_of(draw: Draw, args: Sequence[Any]) -> Iterator[tuple[int | None, ...]]:
    """The ``in_axes`` to try. Taken together, they map each axis of each operand, and leave each operand unmapped."""
    ranks = [np.ndim(x) if isinstance(x, np.ndarray) else None for x in args]
    known = [r for r in ranks if r is not None]
    for turn in range(max(known, default=-1) + 2 if known else 0):
        places = [None if r is None else (turn + i) % (r + 2) for i, r in enumerate(ranks)]
        axes = tuple(None if p is None or r is None or p > r else p for p, r in zip(places, ranks, strict=True))
        if any(a is not None for a in axes):
            yield axes


def variations(call: Call, draw: Draw, outs: Sequence[Any]) -> Iterator[Variation]:
    """All transformations to compare for a call. ``outs``: the types of its results in JAX."""
    args = call.args

    def bare(ns: Any) -> Callable[..., Any]:
        return lambda *xs: call.function(ns, *xs)

    yield Variation("value", "value", bare, args)
    places = [i for i, x in enumerate(args) if inexact(x)] if call.derivative else []
    floats = [i for i, out in enumerate(outs) if jax.numpy.issubdtype(out.dtype, np.inexact)]

    def of_floats(ns: Any, given: Sequence[Any] = args) -> Callable[..., Any]:
        def f(*xs: Any) -> Any:
            whole = list(given)
            for i, x in zip(places, xs, strict=True):
                whole[i] = x
            return call.function(ns, *whole)

        return f

    def pushed(ns: Any) -> Callable[..., Any]:
        return lambda xs, ts: ns.jvp(of_floats(ns), tuple(xs), tuple(ts))

    def pulled(ns: Any) -> Callable[..., Any]:
        def leaves(*xs: Any) -> Any:
            found = ns.tree_util.tree_leaves(of_floats(ns)(*xs))
            return [found[i] for i in floats]

        return lambda xs, cts: ns.vjp(leaves, *xs)[1](list(cts))

    xs = tuple(args[i] for i in places)
    ts = tuple(tangent(draw, x) for x in xs)
    if places:
        yield Variation("jvp", "jvp", pushed, (xs, ts))
    if places and floats:
        cts = tuple(tangent(draw, outs[i]) for i in floats)
        changes = tuple(tangent(draw, ct) for ct in cts)
        yield Variation("vjp", "vjp", pulled, (xs, cts))
        yield Variation(
            "second",
            "jvp of vjp",
            lambda ns: lambda *all_: ns.jvp(pulled(ns), all_[:2], all_[2:]),
            (xs, cts, ts, changes),
        )
        yield Variation(
            "second", "vjp of vjp", lambda ns: lambda xs, cts, ct: ns.vjp(pulled(ns), xs, cts)[1](ct), (xs, cts, ts)
        )
        yield Variation(
            "second", "jvp of jvp", lambda ns: lambda xs, ts: ns.jvp(pushed(ns), (xs, ts), (ts, xs)), (xs, ts)
        )
    if not call.vmap:
        return
    size = draw.one((1, 2, 3), (1, 4, 1))
    least = min((len(out.shape) for out in outs), default=0)
    for axes in axes_of(draw, args):
        mapped = tuple(batched(draw, x, a, size) for x, a in zip(args, axes, strict=True))
        to = draw.int(0, least) if draw.flag() else 0
        yield Variation(
            "vmap", f"vmap {axes} -> {to}", lambda ns, axes=axes, to=to: ns.vmap(bare(ns), axes, to), mapped
        )
    if places and floats and all(isinstance(x, np.ndarray) for x in xs):
        for f, with_, label in ((pushed, ts, "jvp"), (pulled, cts, "vjp")):
            pair = (xs, with_)
            axes = tuple(tuple(draw.int(0, x.ndim) for x in each) for each in pair)
            if draw.flag():
                axes = (axes[0], tuple(None for _ in axes[1])) if draw.flag() else (tuple(None for _ in xs), axes[1])
            both = tuple(
                tuple(batched(draw, x, a, size) for x, a in zip(each, ax, strict=True))
                for each, ax in zip(pair, axes, strict=True)
            )
            yield Variation(
                "vmap of derivatives", f"vmap {axes} of {label}", lambda ns, f=f, axes=axes: ns.vmap(f(ns), axes), both
            )


def attempt(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(), None
        except Exception as error:  # noqa: BLE001  (the caller compares errors)
            return None, error


def refusals(ours: Exception | None, theirs: Exception | None) -> str:
    """The difference between two errors; '' if they agree."""
    if ours is None or theirs is None:
        raised = ours or theirs
        return (
            f"{'minijax' if ours else 'JAX'} alone raises {type(raised).__name__}: {str(raised)[:150]!r}"
            if raised
            else ""
        )
    names = type(ours).__name__, type(theirs).__name__
    if (
        names[1] in [kind.__name__ for kind in type(ours).__mro__]
        or names[1] == "AssertionError"
        or BREAKS.search(str(theirs))
        or all(n in UNKNOWN for n in names)
    ):
        return ""
    return f"minijax raises {names[0]}: {str(ours)[:100]!r}, JAX {names[1]}: {str(theirs)[:100]!r}"


def compare(call: Call, number: int, seed: int, report: Report, values: bool) -> None:
    """Compare one call and add its differences to ``report``."""
    with x64_mode("64" if call.wide else "32"):
        before = stack_depth()
        for diff in differing(call, number, Draw(seed, number, 1), report, values):
            report.differences.append((call, number, diff))
        if stack_depth() != before:
            report.differences.append((call, number, "the interpreter stack is not back at evaluation"))


def differing(call: Call, number: int, draw: Draw, report: Report, values: bool) -> Iterator[str]:
    outs, refused = attempt(lambda: jax.eval_shape(lambda *xs: call.function(jax, *xs), *call.args))
    if refused is None and any(min(out.shape, default=0) < 0 for out in jax.tree_util.tree_leaves(outs)):
        return  # JAX's Hessenberg form of an empty matrix has a negative size
    asked = variations(call, draw, jax.tree_util.tree_leaves(outs))
    staged: list[Variation] = []
    for each in asked if refused is None else [next(asked)]:
        theirs, their_error = attempt(lambda each=each: jax.make_jaxpr(each.function(jax))(*each.args))
        ours, our_error = attempt(lambda each=each: minijax.make_jaxpr(each.function(minijax))(*each.args))
        diff = refusals(our_error, their_error)
        if diff:
            yield f"{each.label}: {diff}"
        if our_error is not None or their_error is not None:
            report.refused += not diff
            continue
        yield from programs(call, number, each, ours, theirs, report)
        staged.append(each)
    if values and staged:
        yield from other_values(staged, report)
    else:
        report.compared.update(each.check for each in staged)


def programs(call: Call, number: int, each: Variation, ours: Any, theirs: Any, report: Report) -> Iterator[str]:
    """The differences between two programs: ours is ill typed, the results have other types, or equations differ."""
    _, bad = attempt(lambda: typecheck_jaxpr(ours))
    if bad is not None:
        yield f"{each.label}: ill typed: {bad}"
    types = [list(map(show_type, closed.out_avals)) for closed in (ours, theirs)]
    if types[0] != types[1]:
        yield f"{each.label}: the results are {types[0]}, JAX's are {types[1]}"
        return
    verdict, diff = how_alike(ours, theirs)
    if verdict == "other":
        why = reason(call, f"{each.label}: {diff}", PROGRAM_REASONS)
        verdict = "with a reason" if why else verdict
        report.others.append((call, number, f"{each.label}: {diff}", why))
        if not why:
            yield f"{each.label}: {diff}"
    report.programs[verdict] += 1


def how_alike(ours: Any, theirs: Any) -> tuple[str, str]:
    """The verdict on two programs, one of ``VERDICTS``, and the text of the difference if the verdict is "other"."""
    if str(ours) == str(theirs):
        return "equal", ""
    x, y = (normalise(program).without_dead_code() for program in (ours, theirs))
    if x.lines == y.lines:
        return "equal", ""
    acting = [[op for op in program.ops if acts(op.head)] for program in (x, y)]
    if not any(acting) and x.graph() == y.graph():
        return "in another order", ""
    if attempt(lambda: meaning(ours) == meaning(theirs))[0]:
        return "of one meaning", ""
    counts = [Counter(op.head.partition("[")[0] for op in program.ops) for program in (x, y)]
    more = [", ".join(f"{n} {name}" for name, n in sorted((a - b).items())) for a, b in (counts, counts[::-1])]
    first = next(pair for pair in itertools.zip_longest(x.lines, y.lines, fillvalue="") if pair[0] != pair[1])
    alone = " ".join(f"{who} alone has {names};" for who, names in zip(("minijax", "JAX"), more, strict=True) if names)
    return "other", f"another program: {alone} first {' where JAX has '.join(line[:150] for line in first)}"


class Seen(Observer):
    """Counts the operations of each primitive in every interpreter."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        self.count[primitive.name] += 1


def other_values(staged: Sequence[Variation], report: Report) -> Iterator[str]:
    """The differences in values. All transformations are compiled as one program; minijax also evaluates each."""
    given = [each.args for each in staged]
    expected = compiled(jax, staged, given)
    together = compiled(minijax, staged, given)
    for each, (theirs, their_error), (ours, our_error) in zip(staged, expected, together, strict=True):
        diff = refusals(our_error, their_error)
        if diff:
            yield f"{each.label}, compiled: {diff}"
        if their_error is not None:
            report.refused += not diff
            continue
        found, error = attempt(lambda each=each: each.function(minijax)(*each.args))
        diff = f"{type(error).__name__}: {error}" if error else unlike(found, theirs, each, weak=False)
        report.compared[each.check] += 1
        if diff:
            yield f"{each.label}, evaluated: {diff}"
        if our_error is None:
            report.compared["jit"] += 1
            diff = unlike(ours, theirs, each, weak=True)
            if diff:
                yield f"{each.label}, compiled: {diff}"


def compiled(ns: Any, staged: Sequence[Variation], given: Any) -> list[tuple[Any, Exception | None]]:
    """(result, error) of each transformation under ``jit``: as one program, or one by one if that one fails."""

    def everything(given: Any) -> Any:
        return [each.function(ns)(*xs) for each, xs in zip(staged, given, strict=True)]

    results, error = attempt(lambda: ns.block_until_ready(ns.jit(everything)(given)))
    if error is None:
        return [(result, None) for result in results]
    one_by_one = [
        attempt(lambda each=each, xs=xs: ns.block_until_ready(ns.jit(each.function(ns))(*xs)))
        for each, xs in zip(staged, given, strict=True)
    ]
    return one_by_one


def unlike(found: Any, wanted: Any, each: Variation, weak: bool) -> str:
    """The difference between minijax's and JAX's results; '' if none. ``weak``: compare weak types, too."""
    mine, expected = minijax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(wanted)
    if len(mine) != len(expected):
        return f"{len(mine)} results instead of {len(expected)}"
    scale = {"value": 3.0, "vmap": 3.0}.get(each.check, 30.0)
    for x, y in zip(mine, expected, strict=True):
        kinds = [describe(z) if weak else describe(z).removesuffix(" weak") for z in (x, y)]
        if kinds[0] != kinds[1]:
            return f"{kinds[0]} instead of {kinds[1]}"
        try:
            assert_same(as_numpy(x), as_numpy(y), scale=scale)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
    return ""


def reason(call: Call, diff: str, reasons: dict[tuple[str, str], str] = REASONS) -> str:
    """The reason for a difference; '' if none is known."""
    for (name, pattern), why in reasons.items():
        if re.fullmatch(name or ".*", call.primitive) and re.search(pattern, diff):
            return why
    return ""


def run(
    names: Sequence[str], numbers: Sequence[int], seed: int, values: bool = True, seconds: float = 1e9
) -> dict[str, Report]:
    """A report for each primitive on its calls with these numbers. Stop after ``seconds``. Print the differences."""
    reports, began = {name: Report() for name in names}, time.time()
    with compiled_quickly():
        for number in numbers:
            for name in names:
                if time.time() - began > seconds:
                    return reports
                report = reports[name]
                known = len(report.differences)
                compare(draw_call(name, seed, number), number, seed, report, values)
                report.calls += 1
                for call, _, diff in report.differences[known:]:
                    if not reason(call, diff):
                        print(f"call {number}: {call}\n    {diff}", flush=True)
    return reports


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.primitives")
    parser.add_argument("names", nargs="*", help="primitives; all if none")
    parser.add_argument("--count", type=int, default=3, help="how many calls of each primitive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="end after so many seconds and print the differences so far"
    )
    parser.add_argument("--call", type=int, help="run only the call with this number")
    parser.add_argument("--staged", action="store_true", help="compile and run nothing")
    parser.add_argument("--programs", action="store_true", help="list calls whose programs are not JAX's")
    asked = parser.parse_args(argv)
    # filtering its traceback takes most of the time that an error costs
    jax.config.update("jax_traceback_filtering", "off")
    began, names, seen = time.time(), asked.names or list(ROWS), Seen()
    numbers = range(asked.count) if asked.call is None else [asked.call]
    with watching(seen):
        reports = run(names, numbers, asked.seed, not asked.staged, asked.seconds)
    if asked.programs:
        for report in reports.values():
            for call, number, diff, why in report.others:
                print(f"{diff}; call {number}: {call}; {why or 'nobody knows why'}")
    found = [reason(call, diff) for report in reports.values() for call, _, diff in report.differences]
    for why, n in Counter(filter(None, found)).most_common():
        print(f"{n} differ: {why}")
    absent = [name for name in names if not seen.count[name]]
    if absent:
        print("never used:", *absent)
    total = sum((report.compared + report.programs for report in reports.values()), Counter[str]())
    counts = ", ".join(f"{total[c]} {c}" for c in (*CHECKS, "jit"))
    print(
        f"{len(names)} primitives, {sum(r.calls for r in reports.values())} calls of seed {asked.seed}: {counts}; "
        f"programs {', '.join(f'{total[verdict]} {verdict}' for verdict in VERDICTS)}; "
        f"{sum(r.refused for r in reports.values())} refused alike; {found.count('')} differ without a reason; "
        f"{time.time() - began:.0f} s"
    )
    return 1 if "" in found or absent else 0


if __name__ == "__main__":
    sys.exit(main())
