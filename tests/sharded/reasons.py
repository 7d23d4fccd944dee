"""Compare each collective's reason with JAX: ``python -m tests.sharded.reasons [--mode MODE] [-k WORDS] [--json]``.

The programs are those of ``matrix_programs``, in every mode, and those of ``programs``. They and their gradients are
compiled for a mesh of 4 times 2 devices. JAX names each instruction after the operation that it comes from, for example
``transpose(jvp())/shard_map/reduce_scatter``. Minijax's reason must name the same primitive, and agree on whether the
operation was transposed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

from minijax.tools.xla.collectives import of_lowered
from tests.sharded import matrix

SHAPE = (4, 2)
KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
INSTRUCTION = re.compile(rf'= \(?[a-z]\w*\[.* ({KINDS})(?:-start)?\(.*?op_name="([^"]*)"')
# (kind of collective, its primitives, whether they were transposed) -> count; XLA may merge several collectives.
Found = collections.Counter[tuple[str, frozenset[str], frozenset[bool]]]
# The primitive whose name JAX shows -> primitives that JAX lowers through this one. Minijax shows the latter.
BY_WAY = {"reduce": {"argmax", "argmin"}, "reduce_window_sum": {"cumsum"}, "dynamic_slice": {"scan"}}
KNOWN = {"fft": "minijax uses JAX's transpose rule, and does not know that the rule's lines are a transpose"}


def same(ours: Found, theirs: Found) -> bool:
    """Whether both are equal, except where JAX names the primitive through which it lowers another one."""
    left = ours - theirs
    for kind, names, flags in (theirs - ours).elements():
        ways = set().union(*(BY_WAY.get(name, ()) for name in names))
        found = next((each for each in left.elements() if each[::2] == (kind, flags) and each[1] <= ways), None)
        if found is None:
            return False
        left[found] -= 1
    return not left.total()


def theirs(text: str) -> Found:
    """The collectives in the text of JAX's compiled program."""
    found: Found = collections.Counter()
    for kind, name in INSTRUCTION.findall(text):  # ``jit(f)/psum``; if merged, ``(jit(f)/psum:...)``
        each = name.split(":")
        primitives = frozenset(re.findall(r"[\w-]+", part)[-1] for part in each)
        found[kind, primitives, frozenset("transpose(" in part for part in each)] += 1
    return found


def ours(lowered: Any) -> tuple[Found, list[str]]:
    """(the collectives of minijax's program, their reasons as text)."""
    listed, found = of_lowered(lowered), collections.Counter()
    for each in listed:
        primitives = frozenset(equation.primitive for equation in each.equations)
        found[each.kind, primitives, frozenset("transpose of" in why for why in each.reason.split("; "))] += 1
    return found, [each.reason for each in listed]


def lowered(mode: str, name: str, library: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, function that lowers it) for the program, and for its gradient if it has one."""
    run = matrix.Run(library, (name, mode, SHAPE))
    ns, f, args, wrt = run.ns, run.function, run.arguments(), run.wrt
    loss = lambda *xs: matrix.total(ns, f(*xs))  # noqa: E731
    yield "jit", lambda: ns.jit(f).lower(*args)
    if wrt:
        yield "gradient", lambda: ns.jit(ns.grad(loss, argnums=wrt)).lower(*args)


def compared(mode: str, name: str) -> Iterator[tuple[str, int, str, list[str]]]:
    """For the program and its gradient: (name, number of collectives, difference or '', reasons)."""
    mine, other = (matrix.Run(library, (name, mode, SHAPE)) for library in ("minijax", "jax"))
    with mine.context(), other.context():
        for (way, their), (_, our) in zip(lowered(mode, name, "jax"), lowered(mode, name, "minijax"), strict=True):
            program, refused = matrix.attempt(their)
            if refused is not None:
                continue
            expected = theirs(program.compile().as_text())
            program, error = matrix.attempt(our)
            if error is not None or name in KNOWN:  # the command ``matrix`` reports the error
                continue
            found, reasons = ours(program)
            more, fewer = dict(found - expected), dict(expected - found)
            yield way, found.total(), "" if same(found, expected) else f"{more}, JAX {fewer}", reasons


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sharded.reasons")
    parser.add_argument("--mode", choices=[*matrix.MODES, matrix.MAPPED], action="append")
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")
    options = parser.parse_args(words)
    count, differing = 0, {}
    for mode in options.mode or [*matrix.MODES, matrix.MAPPED]:
        for name in matrix.names(mode):
            if options.word not in name:
                continue
            for way, number, differs, reasons in compared(mode, name):
                count += number
                if differs:
                    differing[f"{name} | {mode} | {way}"] = differs
                if not options.json and (differs or options.word):
                    print(f"{name} | {mode} | {way}: {differs or 'equal'}", *reasons, sep="\n    ", flush=True)
    print(json.dumps({"collectives": count, "differing": differing}) if options.json else f"{count} collectives, "
          f"{len(differing)} programs differ")  # fmt: skip
    return 0 if options.json else bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
