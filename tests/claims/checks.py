"""The commands, asked about a program, and their claims compared with the log: a function a command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from minijax.repl import batch
from minijax.tools.documents.document import plain
from tests.claims.log import Reference, Run, Seen, Value
from tests.claims.programs import Program
from tests.claims.reading import called_alike, cell, cell_is

WIDTH = 240


@dataclass(frozen=True)
class Claim:
    """Something printed. ``true`` says what is so instead, and is '' if the claim holds; 'unknown' was printed so."""

    command: str
    kind: str
    seed: int
    line: str
    printed: str
    true: str = ""
    unknown: bool = False


@dataclass
class Asked:
    """A program in a session of minijax, and in JAX; ``claims`` are what was checked so far."""

    program: Program
    claims: list[Claim] = field(default_factory=list)
    unchecked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.session = batch.new_session({})
        jax.config.update("jax_enable_x64", self.program.x64)
        self.printed("%x64 on" if self.program.x64 else "%x64 off")
        self.said = self.printed(self.program.source)
        self.reference = Reference(self.program.source, self.program.call, self.program.x64)
        self.command, self.line = "", ""

    def printed(self, line: str, width: int = WIDTH) -> str:
        self.line, self.command = line, line.split()[0]
        outcome = self.session.run_line(line)
        text = plain(outcome.shown, width)
        if outcome.error is not None:
            self.claim("runs", line, f"raises {text}")
        return text

    def claim(self, kind: str, printed: str, true: str = "", unknown: bool = False) -> None:
        """Notes a claim; ``true`` is what is so if it is false."""
        self.claims.append(Claim(self.command, kind, self.program.seed, self.line, printed.strip(), true, unknown))


def shown(array: np.ndarray | None) -> str:
    return (
        "nothing"
        if array is None
        else np.array2string(np.asarray(array), precision=8, separator=", ").replace("\n", "")
    )


# %values

GROUP = re.compile(
    r"^  (?:(?P<outside>top level)|(?:in )?(?P<function>[\w<>.]+)(?P<rest> in \w+ ·.*| at top level| · .*)?)$"
)
LOOP = re.compile(r"(?:iteration|turn) (\d+) of (\d+)")


@dataclass
class Row:
    name: str
    cells: dict[str, str]
    function: str
    iteration: tuple[int, int] | None


def table_rows(text: str) -> Iterator[Row]:
    """The rows of a table of values, with the function and the iteration of the group that they stand in."""
    lines = text.splitlines()
    heads = [line for line in lines if re.match(r"^  name  +primal", line)]
    if not heads:
        return
    columns = [(found[0], found.start()) for found in re.finditer(r"\S+", heads[0])]
    function, iteration = "", None
    for text in lines[lines.index(heads[0]) + 1 :]:
        group = GROUP.match(text)
        if group:
            function = group["function"] or ""
            loop = LOOP.search(group["rest"] or "")
            iteration = (int(loop[1]), int(loop[2])) if loop else None
            if " · " in (group["rest"] or "") and not loop and " in " not in group["rest"]:
                function = ""  # the scope of a transformation, which calls of other functions belong to
            continue
        bounds = [start for _, start in columns] + [None]
        parts = [text[a:b].strip() for a, b in zip(bounds, bounds[1:], strict=False)]
        if parts[0] and text.startswith("  ") and not re.match(r"(\.\.\.|…) \d+ earlier", parts[0]):
            cells = dict(zip([name for name, _ in columns[1:]], parts[1:], strict=True))
            yield Row(parts[0], cells, function, iteration)


def check_rows(asked: Asked, run: Run, text: str) -> None:
    """Each row is a value of the run, under a name that it had in that function, in the order of the program."""
    at, written = -1, {text for _, _, text, _ in asked.reference.nodes}
    rows = list(table_rows(text))
    asked.claim("has rows", text[:300], "" if rows else "the call computes values")
    for row in rows:
        primal = cell(row.cells.get("primal", ""))
        if primal.said:
            check_said(asked, run, row)
            continue
        printed = f"{row.name}  {row.cells['primal']}  (in {row.function or '?'})"
        named = [s for s in run.log.seen if called_alike(row.name, s.name) and in_function(s, row)]
        if not named:
            if any(called_alike(row.name, each) for each in written):
                asked.unchecked["traced only"] += 1  # JAX computes it without a value: a tangent of its linearize
            else:
                asked.claim("name", printed, f"{row.function or 'the program'} has no such name or expression")
            continue
        asked.claim("name", printed)
        equal = [s for s in named if cell_is(primal, s.value.primal, s.value.batched)]
        if not equal:
            asked.claim("value", printed, "its values are " + "; ".join(shown(s.value.primal) for s in named[:4]))
            continue
        asked.claim("value", printed)
        if row.iteration:
            loops = [s for s in equal if s.loops and s.loops[-1][1] == row.iteration[0]]
            asked.claim("iteration", printed, "" if loops else f"not in iteration {row.iteration[0]}")
            equal = loops or equal
        if not any(s.value.text for s in equal):
            asked.unchecked["order of arguments"] += (
                1  # an argument stands where it is first read, perhaps by another name
            )
            continue
        later = sorted((m, s.value.number) for s in equal for m in (s.value.moment, s.moment) if m > at)
        if not later:
            asked.claim("order", printed, "it was computed before the row above")
            continue
        asked.claim("order", printed)
        at = later[0][0]
        value = run.log.values[later[0][1]]
        same = [value] + [s.value for s in equal]
        for column in ("tangent", "cotangent"):
            check_derivative(asked, row, column, same)


def in_function(seen: Seen, row: Row) -> bool:
    return not row.function or seen.function == row.function or row.function in ("<listcomp>", "<genexpr>")


def check_derivative(asked: Asked, row: Row, column: str, same: Sequence[Value]) -> None:
    text = row.cells.get(column, "")
    known = [getattr(v, column) for v in same if getattr(v, column) is not None]
    if not text or not known:
        return
    said = cell(text)
    printed = f"{column} of {row.name}: {text}"
    if said.said:
        asked.claim(column, printed, unknown=True)
    else:
        ok = any(cell_is(said, each) for each in known)
        asked.claim(column, printed, "" if ok else f"it is {shown(known[0])}")


def check_said(asked: Asked, run: Run, row: Row) -> None:
    """A row without a value: the branch was not taken, or the value is unknown."""
    said = row.cells.get("primal", "")
    if not said:
        return
    if said.startswith("this branch"):
        ran = {s.function for s in run.log.seen if s.stored}
        false = row.function in ran and row.function not in ("", "<lambda>")
        asked.claim("branch", f"{row.function}: {said}", "it was taken" if false else "")
    else:
        asked.claim("value", f"{row.name}  {said}", unknown=True)


def check_values(asked: Asked) -> None:
    call, _function = asked.program.call, "f"
    plainly = asked.reference.run()
    check_rows(asked, plainly, asked.printed(f"%values {call}"))
    jitted = call.replace("f(", "jf(", 1)
    asked.printed("jf = jit(f)")
    for _ in range(2):
        check_rows(asked, asked.reference.run("jit"), asked.printed(f"%values {jitted}"))
    if asked.program.forward_only:
        return
    backward = asked.reference.run("grad")
    asked.printed("gf = jit(value_and_grad(f))")
    check_rows(asked, backward, asked.printed(f"%values {call.replace('f(', 'grad(f)(', 1)}"))
    for _ in range(2):
        check_rows(asked, backward, asked.printed(f"%values {call.replace('f(', 'gf(', 1)}"))


# %nan

PLACE = re.compile(r"<minijax-\d+>:(\d+)(?::\d+)?(?: \(([^)]*)\))?")


def made(run: Run, odd: Any, values: Sequence[Value] | None = None) -> list[Value]:
    """The values that have elements that are ``odd`` (``np.isnan``), of operands that have none there."""
    found = []
    for value in run.log.values if values is None else values:
        if value.primal.dtype.kind != "f" or not odd(value.primal).any() or not value.operands:
            continue
        here = odd(value.primal)
        for number in value.operands:
            operand = run.log.values[number].primal
            there = odd(operand) if operand.dtype.kind == "f" else np.zeros((), bool)
            here = here & ~(there if there.shape in ((), here.shape) else there.any())
        if here.any():
            found.append(value)
    return found


def check_nan(asked: Asked) -> None:
    run = asked.reference.run()
    text = asked.printed(f"%nan {asked.program.call}")
    finite = bool(np.isfinite(run.result).all())
    verdict = re.search(r"^ *result +(.*)$", text, re.M)
    if verdict:
        unknown = verdict[1].startswith("unknown")
        wrong = not unknown and verdict[1].startswith("finite") != finite
        asked.claim("verdict", verdict[0], f"the result is {shown(run.result)}" if wrong else "", unknown)
    else:
        asked.claim("verdict", text, "no verdict")
    firsts = {"nan": made(run, np.isnan), "inf": made(run, np.isinf)}
    if "nothing" in text:
        some = firsts["nan"] or firsts["inf"]
        asked.claim("nothing", text.splitlines()[0], f"line {some[0].line}: {some[0].text}" if some else "")
    for what, kind in (("first NaN made", "nan"), ("first infinity made", "inf")):
        block = re.search(rf"^{what}.*?(?=^first |^ result|\Z)", text, re.M | re.S)
        if block:
            check_first(asked, run, block[0], firsts[kind])


def check_first(asked: Asked, run: Run, block: str, those: Sequence[Value]) -> None:
    place = PLACE.search(block)
    head = " ".join(block.split())[:200]
    if place is None:
        asked.claim("place", head, unknown=True)
        return
    line = int(place[1])
    if not those:
        inside = any(v.line == line and not np.isfinite(v.primal).all() for v in run.log.values)
        asked.claim("place", head, "" if inside else "no operation makes one")
        return
    first = those[0]
    asked.claim("place", head, "" if first.line == line else f"first in line {first.line}: {first.text}")
    if first.line != line:
        return
    if place[2]:
        asked.claim("function", place[0], "" if place[2].split(".")[-1] == first.function else f"in {first.function}")
    loop = LOOP.search(block)
    if loop:
        ok = first.loops and first.loops[-1][1] == int(loop[1])
        asked.claim("iteration", loop[0], "" if ok else f"in {first.loops}")
    count = re.search(r"(\d+) of (\d+) elements", block)
    if count:
        bad = int((~np.isfinite(first.primal)).sum())
        ok = (int(count[1]), int(count[2])) == (bad, first.primal.size) or (first.batched and bad >= int(count[1]))
        asked.claim("count", count[0], "" if ok else f"{bad} of {first.primal.size}")


CHECKS = {"values": check_values, "nan": check_nan}
