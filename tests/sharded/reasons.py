"""The reason of each collective, against JAX: ``python -m tests.sharded.reasons [--mode MODE] [-k WORDS] [--json]``.

Every program of ``matrix_programs`` in every mode and of ``programs``, on 4 times 2 devices, and its gradient.
JAX names each instruction of its compiled program, ``transpose(jvp())/shard_map/reduce_scatter``: the primitive, and
whether it was transposed, must agree with the microscope.
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

from minijax.tools.metal.collectives import of_lowered
from tests.sharded import matrix

SHAPE = (4, 2)
KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
INSTRUCTION = re.compile(rf'= \(?[a-z]\w*\[.* ({KINDS})(?:-start)?\(.*?op_name="([^"]*)"')
# For each kind of collective, its primitives and whether they were transposed; several if XLA merged them.
Found = collections.Counter[tuple[str, frozenset[str], frozenset[bool]]]
# Primitives that JAX lowers through another one, whose name it shows: minijax names the user's.
BY_WAY = {"reduce": {"argmax", "argmin"}, "reduce_window_sum": {"cumsum"}, "dynamic_slice": {"scan"}}
KNOWN = {"fft": "the transposed rule is JAX's own, whose lines are not known to be of the transpose"}


def same(ours: Found, theirs: Found) -> bool:
    """Whether both agree, except for names of primitives that JAX lowers through another primitive."""
    left = ours - theirs
    for kind, names, flags in (theirs - ours).elements():
        ways = set().union(*(BY_WAY.get(name, ()) for name in names))
        found = next((each for each in left.elements() if each[::2] == (kind, flags) and each[1] <= ways), None)
        if found is None:
            return False
        left[found] -= 1
    return not left.total()


def theirs(text: str) -> Found:
    """The collectives of JAX's compiled program."""
    found: Found = collections.Counter()
    for kind, name in INSTRUCTION.findall(text):  # ``jit(f)/psum``; for merged ones ``(jit(f)/psum:...)``
        each = name.split(":")
        primitives = frozenset(re.findall(r"[\w-]+", part)[-1] for part in each)
        found[kind, primitives, frozenset("transpose(" in part for part in each)] += 1
    return found


def ours(lowered: Any) -> tuple[Found, list[str]]:
    """The collectives of minijax's program, and their reasons."""
    listed, found = of_lowered(lowered), collections.Counter()
    for each in listed:
        primitives = frozenset(equation.primitive for equation in each.equations)
        found[each.kind, primitives, frozenset("transpose of" in why for why in each.reason.split("; "))] += 1
    return found, [each.reason for each in listed]


def lowered(mode: str, name: str, library: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Functions that lower a program, and its gradient if it has one."""
    run = matrix.Run(library, (name, mode, SHAPE))
    ns, f, args, wrt = run.ns, run.function, run.arguments(), run.wrt
    loss = lambda *xs: matrix.total(ns, f(*xs))  # noqa: E731
    yield "jit", lambda: ns.jit(f).lower(*args)
    if wrt:
        yield "gradient", lambda: ns.jit(ns.grad(loss, argnums=wrt)).lower(*args)


def compared(mode: str, name: str) -> Iterator[tuple[str, int, str, list[str]]]:
    """For the program and its gradient: the number of collectives, the difference ('' if none), and the reasons."""
    mine, other = (matrix.Run(library, (name, mode, SHAPE)) for library in ("minijax", "jax"))
    with mine.context(), other.context():
        for (way, their), (_, our) in zip(lowered(mode, name, "jax"), lowered(mode, name, "minijax"), strict=True):
            program, refused = matrix.attempt(their)
            if refused is not None:
                continue
            expected = theirs(program.compile().as_text())
            program, error = matrix.attempt(our)
            if error is not None or name in KNOWN:  # ``matrix`` reports the error
                continue
            found, reasons = ours(program)
            more, fewer = dict(found - expected), dict(expected - found)
            yield way, found.total(), "" if same(found, expected) else f"{more}, JAX {fewer}", reasons


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sharded.reasons")
    parser.add_argument("--mode", choices=[*matrix.MODES, matrix.MAPPED], action="append")
    parser.add_argument("-k", dest="word", default="")
    parser.add_argument("--json", action="store_true", help="what differs, as JSON")
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
