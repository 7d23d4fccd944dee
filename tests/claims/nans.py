"""400 programs with and without NaNs: what ``%nan`` prints of each is compared with what happened.

A program is written twice, line by line the same. One text is run by ``%nan``. The other runs on JAX, one operation
at a time, with loops, branches and maps in Python; its lines that can make a NaN report the elements that they made.
Then it runs once more for each such event, with the NaNs of all other events replaced by 1: the NaNs of that result
are those that the event made. ``python -m tests.claims.nans`` runs all programs and prints what is false.
"""

from __future__ import annotations

import linecache
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy
import numpy as np

from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.session.session import Session

COUNT = 400
# Expressions with a NaN where {v} is below (with {t}) or at (with {g}) a value. {t} is between two values of the grid.
MAKERS = (
    "jnp.log({v} - {t})",
    "jnp.sqrt({v} - {t})",
    "({v} - {g}) / ({v} - {g})",
    "jnp.power({v} - {t}, 0.5)",
    "jnp.arcsin({v} - {g} - 2.125)",
    "lax.rsqrt({v} - {t})",
    "jnp.log({v}.astype(jnp.float16) - {t}).astype(jnp.float32)",
    "jnp.cos(1.0 / ({v} - {g}))",
)
CARRIERS = (
    "{v} * 2.0",
    "-{v} + 1.0",
    "jnp.tanh({v})",
    "{v}[::-1]",
    "jnp.roll({v}, 1)",
    "jnp.concatenate([{v}[1:], {v}[:1]])",
    "jnp.exp({v} * 0.1)",
    "jnp.cumsum({v})",
    "{v} - jnp.mean({v})",
    "jnp.stack([{v}, {v}]).sum(0)",
    "{v}[jnp.array([2, 0, 1])]",
    "jnp.pad({v}, (1, 1))[1:-1]",
    "{v}.reshape(3, 1)[:, 0]",
    "jnp.maximum({v}, 0.0)",
    "{v}.astype(jnp.bfloat16).astype(jnp.float32)",
    "jnp.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]]) @ {v}",
    "jnp.where({v} > 9.0, 0.0, {v})",
    "{v}.at[1].set(0.5)",
    "{v}.at[0].add({v}[2])",
    "lax.dynamic_slice(jnp.concatenate([{v}, {v}]), (2,), (3,))",
    "jnp.clip({v}, -2.0, 2.0)",
    "jnp.broadcast_to({v}[:, None], (3, 3)).T[1]",
    "jnp.where({v} > 0.0, {v}, {u})",
    "{v} + {u}",
    "{v} * {u}",
)
MASKS = (
    "jnp.where(jnp.isnan({v}), 0.0, {v})",
    "jnp.nan_to_num({v})",
    "jnp.where({v} == {v}, {v}, 1.0)",
    "jnp.fmax({v}, 0.0)",
    "jnp.where(x > {t}, {v}, 0.0)",
    "jnp.nansum({v}) * x",
    "({v} > 0.0).astype(jnp.float32)",
)


class Line(NamedTuple):
    """``name = expression``; with ``of``, the expression can make a NaN from a finite ``of``."""

    name: str
    expression: str
    of: str = ""

    def written(self, number: int, watched: bool) -> str:
        expression = f"made({number}, {self.of}, {self.expression})" if watched and self.of else self.expression
        return f"{self.name} = {expression}"


class Program(NamedTuple):
    """``before``, the function's lines, ``after``; ``call`` is the expression for ``%nan``."""

    family: str
    before: tuple[str, ...]
    lines: tuple[Line, ...]
    after: tuple[str, ...]
    x: np.ndarray

    def text(self, watched: bool) -> str:
        indent = " " * (len(self.before[-1]) - len(self.before[-1].lstrip()) + 4)
        first = len(self.before) + 1
        inside = [indent + line.written(first + i, watched) for i, line in enumerate(self.lines)]
        return "\n".join([*self.before, *inside, *self.after]) + "\n"


def chain(rng: random.Random, length: int, makers: int, start: str = "a") -> tuple[tuple[Line, ...], str]:
    """Lines that compute in turn from the vector ``start``, and the name of the last."""
    kinds = ["maker"] * makers + [rng.choice(("carrier",) * 4 + ("mask",)) for _ in range(length - makers)]
    rng.shuffle(kinds)
    names, lines = [start], []
    for i, kind in enumerate(kinds):
        v, u = names[-1], rng.choice(names)
        t, g = rng.randrange(-8, 8) / 4 + 0.125, rng.choice((-1.0, -0.5, 0.5, 1.0))
        source = {"maker": MAKERS, "carrier": CARRIERS, "mask": MASKS}[kind]
        if kind == "maker":
            # all makers of a chain look at values of the grid, or at what NaNs before made of them
            v = rng.choice(names)
        names.append(f"b{i}")
        lines.append(Line(names[-1], rng.choice(source).format(v=v, u=u, t=t, g=g), v if kind == "maker" else ""))
    return tuple(lines), names[-1]


# How the lines stand in the program: the lines before them and after them ({r}: the last name).
FRAMES: dict[str, tuple[str, str]] = {
    "straight": ("def f(x):\n    a = x\n    if True:", "    return {r}"),
    "sum": ("def f(x):\n    a = x\n    if True:", "    return {r}.sum()"),
    "jit": ("def f(x):\n    @jit\n    def g(a):", "        return {r}\n    return g(x) * 2.0"),
    "outer jit": ("@jit\ndef f(x):\n    a = x + 0.0\n    if True:", "    return {r}, a"),
    "scan carry": (
        "def f(x):\n    def g(a, e):",
        "        return jnp.tanh({r}) + e, a\n    return lax.scan(g, x, jnp.array([0.5, -1.0, 1.0]))[0]",
    ),
    "scan rows": (
        "def f(x):\n    def g(c, a):",
        "        return c * 0.5, {r} + c\n    return lax.scan(g, x, jnp.stack([x, x - 1.0, -x]))[1]",
    ),
    "reversed scan": (
        "def f(x):\n    def g(c, a):",
        "        return c + a, {r}\n    return jit(lambda x: lax.scan(g, x, jnp.stack([x, -x]), reverse=True))(x)",
    ),
    "fori": ("def f(x):\n    def g(i, a):", "        return jnp.tanh({r}) - i\n    return lax.fori_loop(0, 3, g, x)"),
    "while": (
        "def f(x):\n    def g(c):\n        n, a = c\n        if True:",
        "        return n + 1, jnp.sin({r}) * 2.0\n    return lax.while_loop(lambda c: c[0] < 3, g, (0, x))[1]",
    ),
    "branch": (
        "def f(x):\n    def g(a):",
        "        return {r}\n    return lax.cond(x[0] > 0.0, g, lambda a: jnp.sin(a), x)",
    ),
    "switch": (
        "def f(x):\n    def g(a):",
        "        return {r}\n    return lax.switch(1, [jnp.sin, g, jnp.cos], x)",
    ),
    "vmap": (
        "def f(x):\n    def g(a):\n        x = a\n        if True:",
        "        return {r}\n    return vmap(g)(jnp.stack([x, -x, x + 1.0]))",
    ),
    "vmap of a scan": (
        "def f(x):\n    def g(a, e):",
        "        return {r}, e\n    h = lambda row: lax.scan(g, row, jnp.arange(2.0))[0]\n"
        "    return vmap(h)(jnp.stack([x, -x]))",
    ),
    "checkpoint": ("def f(x):\n    @checkpoint\n    def g(a):", "        return {r}\n    return g(x) + x"),
    "custom_jvp": (
        "def f(x):\n    @custom_jvp\n    def g(a):",
        "        return {r}\n    g.defjvp(lambda p, t: (g(*p), t[0]))\n    return g(x)",
    ),
    "python branch": ("def f(x):\n    a = x\n    if jnp.sum(jnp.abs(x)) >= 0.0:", "    return {r}"),
    "python branch over jit": (
        "def f(x):\n    @jit\n    def g(a):",
        "        return {r}\n    if jnp.sum(jnp.abs(x)) >= 0.0:\n        return g(x)",
    ),
    "dictionary": (
        "def f(x):\n    a = {{'w': x, 'b': x * 0.5}}['w']\n    if True:",
        "    return {{'out': {r}, 'x': x}}",
    ),
    "constant": ("def f(x):\n    a = jnp.array([-1.0, 0.5, 2.0])\n    if True:", "    return {r} + x"),
    "given": ("def f(x):\n    a = x\n    if True:", "    return {r}"),
}

# Programs whose NaN is made in the backward pass: the function's lines, and the line that makes it.
BACKWARD: tuple[tuple[str, int], ...] = (
    ("y = jnp.sqrt(x)\nreturn jnp.where(x > 0.0, y, 0.0).sum()", 2),
    ("y = x * 2.0\nz = jnp.log(y)\nreturn jnp.where(x > 0.0, z, 0.0).sum()", 3),
    ("y = x / x\nreturn jnp.where(x > 0.0, y, 0.0).sum()", 2),
    ("y = jnp.abs(x)\nz = y**0.5\nreturn jnp.where(x > 0.0, z, y).sum()", 3),
    ("y = jnp.where(x > 0.0, x, 1.0)\nz = jnp.sqrt(y)\nreturn jnp.where(x > 0.0, z, 0.0).sum()", 0),
    ("y = jnp.sqrt(x + 3.0)\nreturn (y * x).sum()", 0),
)
AROUND = (
    "grad(f)",
    "jit(grad(f))",
    "lambda x: vmap(grad(lambda s: f(s[None])))(x)",
    "lambda x: value_and_grad(f)(x)[1]",
)


def program(number: int) -> Program:
    rng = random.Random(number)
    family = [*FRAMES][number % len(FRAMES)]
    before, after = FRAMES[family]
    lines, last = chain(rng, rng.randrange(2, 6), rng.choice((0, 1, 2, 2)))
    x = np.array([rng.randrange(-8, 9) / 4 for _ in range(3)], np.float32)
    if family == "given":
        x[rng.randrange(3)] = np.nan
    if family == "branch":
        x[0] = abs(x[0]) + 0.25
    after = after.format(r=last)
    return Program(family, tuple(before.replace("{{", "{").replace("}}", "}").split("\n")), lines, (after,), x)


# --- what happened: JAX, one operation at a time


class Events:
    """The NaNs that lines made: in the first run they are noted, in a later one all but those of ``only`` become 1."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, np.ndarray]] = []
        self.only: int | None = None
        self.turn = 0
        # how many rows a map has: the program runs them together, and this module one after the other
        self.rows = 1

    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def mapped(rows: Any) -> Any:
            self.rows = len(rows)
            return jax.numpy.stack([function(row) for row in rows])

        return mapped

    def made(self, line: int, of: Any, out: Any) -> Any:
        turn, self.turn = self.turn, self.turn + 1
        if self.only is None:
            new = np.isnan(out) & ~np.isnan(of)
            self.noted.append((line, new))
        elif self.only != turn:
            out = jax.numpy.where(jax.numpy.isnan(out) & ~np.isnan(of), 1.0, out)
        else:
            out = jax.numpy.where(jax.numpy.isnan(out) & ~np.isnan(of) & ~self.noted[turn][1], 1.0, out)
        return out


def _scan(body: Callable[..., Any], carry: Any, xs: Any, reverse: bool = False) -> Any:
    rows = {}
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry, rows[i] = body(carry, xs[i])
    return carry, jax.numpy.stack([rows[i] for i in range(len(xs))])


def _loop(goes: Callable[..., Any], body: Callable[..., Any], carry: Any) -> Any:
    while goes(carry):
        carry = body(carry)
    return carry


def _fori(start: int, stop: int, body: Callable[..., Any], carry: Any) -> Any:
    for i in range(start, stop):
        carry = body(i, carry)
    return carry


def _same(function: Any) -> Any:
    return function


def _custom_jvp(function: Any) -> Any:
    function.defjvp = _same
    return function


PLAIN = {
    "jnp": jax.numpy,
    "lax": SimpleNamespace(
        scan=_scan,
        while_loop=_loop,
        fori_loop=_fori,
        cond=lambda test, yes, no, x: yes(x) if test else no(x),
        switch=lambda i, branches, x: branches[i](x),
        rsqrt=jax.lax.rsqrt,
        dynamic_slice=jax.lax.dynamic_slice,
    ),
    "jit": _same,
    "checkpoint": _same,
    "custom_jvp": _custom_jvp,
}


class Truth(NamedTuple):
    """Whether the result has no NaN and no infinity; its NaNs and elements; the first line that made a NaN; line ->
    elements of the result with a NaN of that line; elements with the NaN of the argument.
    """

    finite: bool
    nans: int
    size: int
    first: int
    reaching: dict[int, int]
    given: int


def truth(program: Program) -> Truth | None:
    """What happened; None if a line made a NaN that is not meant to make one."""
    events = Events()
    names: dict[str, Any] = {**PLAIN, "made": events.made, "vmap": events.vmap}
    exec(program.text(True), names)

    def run(only: int | None, x: np.ndarray) -> np.ndarray:
        events.only, events.turn = only, 0
        out = jax.tree.leaves(names["f"](jax.numpy.array(x)))
        return np.concatenate([np.ravel(each).astype(np.float32) for each in out])

    out = run(None, program.x)
    clean = np.where(np.isnan(program.x), np.float32(1), program.x)
    marks: dict[int, np.ndarray] = {}
    together = len(events.noted) // events.rows
    turns = [(turn % together, line) for turn, (line, new) in enumerate(events.noted) if new.any()]
    first = min(turns)[1] if turns else 0
    for turn, (line, new) in enumerate(events.noted):
        if new.any():
            here = np.isnan(run(turn, clean))
            marks[line] = marks.get(line, False) | here
    given = np.isnan(run(-1, program.x))
    union = given.copy()
    for each in marks.values():
        union |= each
    if (union != np.isnan(out)).any():
        return None
    counts = {line: int(each.sum()) for line, each in marks.items() if each.any()}
    return Truth(bool(np.isfinite(out).all()), int(np.isnan(out).sum()), out.size, first, counts, int(given.sum()))


# --- what %nan prints


class Said(NamedTuple):
    """The claims of one answer of ``%nan``."""

    verdict: str
    nans: tuple[int, int] | None
    first: int
    main: int
    level: str
    also: dict[int, int]
    given: int
    text: str


def said(text: str, x: np.ndarray, call: str, number: int) -> Said:
    """Run ``%nan`` on ``call`` with the functions in ``text``."""
    session = Session(find, {})
    file = f"<nans {number}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    session.run_line("import minijax.numpy as jnp")
    session.run_line("from minijax import *")
    exec(compile(text, file, "exec"), session.namespace)
    session.namespace["x"] = session.namespace["jnp"].array(x)
    shown = plain(session.run_line(f"%nan {call}").shown, 400)
    return read(shown, file)


def read(shown: str, file: str) -> Said:
    place = re.escape(file) + r":(\d+)"
    verdict = re.search(r"result +(not finite|finite|unknown)", shown)
    nans = re.search(r"NaN in ([\d,]+) of ([\d,]+) elements", shown)
    head = re.search(rf"first NaN( of the result)? made by \S+ \((.*)\)\s+at +.*?{place}", shown)
    masked = re.search(rf"masked +\S+ \(.*?\) at {place}", shown)
    also = re.findall(rf"\S+ \([^()]*\) at {place}\S*.*?  ([\d,]+) elements? of the result", shown)
    given = re.search(r"the NaN of x is in (\d+) elements? of it", shown)
    main = int(head[3]) if head else 0
    return Said(
        verdict[1] if verdict else "",
        (int(nans[1].replace(",", "")), int(nans[2].replace(",", ""))) if nans else None,
        int(masked[1]) if masked and head and head[1] else main,
        main,
        head[2] if head else "",
        {int(line): int(count) for line, count in also},
        int(given[1]) if given else 0,
        shown,
    )


def false_claims(true: Truth, found: Said) -> Iterator[str]:
    if found.verdict != ("finite" if true.finite else "not finite"):
        yield f"verdict {found.verdict!r}"
    if true.nans and true.size > 1 and found.nans != (true.nans, true.size):
        yield f"counted {found.nans}, not {(true.nans, true.size)}"
    if not true.nans and found.nans:
        yield f"counted {found.nans} of none"
    if found.first != true.first:
        yield f"first NaN at line {found.first}, not {true.first}"
    lines = {*found.also, *([found.main] if true.nans and found.main in true.reaching else [])}
    if lines != {*true.reaching}:
        yield f"lines {sorted(lines)}, not {true.reaching}"
    for line, count in found.also.items():
        if count != true.reaching.get(line):
            yield f"line {line} in {count} elements, not in {true.reaching.get(line)}"
    if true.reaching and found.main not in true.reaching:
        yield f"line {found.main} did not make the result's NaN"
    if found.given != true.given:
        yield f"the argument's NaN in {found.given} elements, not in {true.given}"
    if found.level not in ("", "forward"):
        yield f"level {found.level}"


def forward(number: int) -> list[str]:
    """The false claims about program ``number``."""
    made = program(number)
    true = truth(made)
    if true is None:
        return []
    found = said(made.text(False), made.x, "f(x)", number)
    return [f"{each}\n{made.text(False)}x = {made.x}\n{found.text}" for each in false_claims(true, found)]


def backward(number: int) -> list[str]:
    """The false claims about a derivative."""
    rng = random.Random(number)
    text, line = BACKWARD[number % len(BACKWARD)]
    around = AROUND[number // len(BACKWARD) % len(AROUND)]
    x = np.array([rng.choice((0.0, 0.25, 1.0, 2.0)) for _ in range(3)], np.float32)
    body = "def f(x):\n" + "".join(f"    {each}\n" for each in text.split("\n"))
    text = f"{body}h = {around}\n"
    names: dict[str, Any] = {**vars(jax), "jnp": jax.numpy}
    exec(text, names)
    bad = ~np.isfinite(names["h"](x))
    found = said(body + "def h(x):\n" + f"    return ({around})(x)\n", x, "h(x)", number)
    out = []
    if found.verdict != ("not finite" if bad.any() else "finite"):
        out.append(f"verdict {found.verdict!r}")
    where = line if bad.any() else 0
    if found.main != where and line:
        out.append(f"first NaN at line {found.main}, not {where}")
    if where and not re.match("transpose|jvp|backward", found.level):
        out.append(f"level {found.level!r} of a backward operation")
    return [f"{each}\n{text}x = {x}\n{found.text}" for each in out]


def wrong(number: int) -> list[str]:
    return backward(number) if number % 8 == 7 else forward(number)


def main() -> int:
    numbers = [int(each) for each in sys.argv[1:]] or range(COUNT)
    found = [claim for number in numbers for claim in (f"{number}: {each}" for each in wrong(number))]
    print("\n\n".join(found))
    print(f"{Path(__file__).stem}: {len(numbers)} programs, {len(found)} false claims")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
