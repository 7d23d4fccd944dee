"""Linked programs as documents. ``annotated`` adds the equation and the source line to each line of a program;
``became`` shows the lines of some equations in each program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from minijax.tools.documents.document import Block, Code, Fitted, Indent, Line, Row, line, text
from minijax.tools.documents.theme import visible
from minijax.tools.programs import hlo
from minijax.tools.programs.links import Equation, LinkedPrograms, Numbers, Pane
from minijax.tools.programs.owners import GUESSED, INHERITED
from minijax.tools.programs.user_lines import Spot, user_lines

# The leftmost and the rightmost column at which the comments of a program begin.
_LEAST_COLUMN, _MOST_COLUMN = 36, 92
_MOST_NAMES = 4
# List at most this many fusions, each with its equations in this many characters.
_MOST_FUSED, _HELD = 20, 40
# A line with one of these notes gets no comment: its text shows why it has no equation.
_OBVIOUS = ("", "parameter", "constant", "tuple", "element of a tuple", "view", "module", "function", "return")


# The files that ipykernel creates for cells. Their names stay whole: a notebook displays them as cell names.
_CELL = r"[^ ]*[/\\]ipykernel_\d+[/\\]\d+\.py:|<ipython-input-[\w-]+>:"


def short_file(file: str) -> str:
    """A file's name without its folders."""
    return file if re.match(_CELL, file + ":") else os.path.basename(file)


def _length(words: str) -> int:
    """The columns of ``words`` after a notebook has replaced cell files by cell names."""
    return len(re.sub(_CELL, "Cell In[9], line ", words))


def ranges(numbers: Iterable[int]) -> str:
    """``1–3, 8``: sorted numbers, with runs abbreviated."""
    ordered = sorted(set(numbers))
    parts = []
    for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        parts.append(str(found[0]) if len(found) == 1 else f"{found[0]}–{found[-1]}")
    return ", ".join(parts)


def equations_text(numbers: Numbers) -> str:
    """The numbers of equations as text: ``eqn 3``, ``eqns 1–3, 8``."""
    return f"eqn{'s' if len(set(numbers)) > 1 else ''} {ranges(numbers)}"


def places_text(equations: Sequence[Equation]) -> str:
    """``model.py:3, 5–7``: the source lines of equations, with file names; '' if none is known."""
    lines: dict[str, set[int]] = {}
    for each in equations:
        if each.line:
            lines.setdefault(short_file(each.file), set()).add(each.line)
    return " ".join(f"{file}:{ranges(found)}" for file, found in lines.items())


def mark_text(places: Iterable[Spot], main: str) -> str:
    """Source lines as text: ``L4, 7–9 model:12``. ``L`` marks lines of the file ``main``."""
    numbers: dict[str, list[int]] = {}
    for file, number in places:
        numbers.setdefault(file, []).append(number)
    parts = []
    for file, found in numbers.items():
        name = "L" if file == main else _module(short_file(file)) + ":"
        parts.append(name + ranges(found))
    return " ".join(parts)


def _module(file: str) -> str:
    """A file's name without its ending. A notebook cell's file stays whole: it is displayed as the cell's name."""
    return file if os.path.dirname(file) else file.removesuffix(".py")


def signed(where: str, how: str) -> str:
    """``L4`` if XLA gives it (``how`` of ``owners``), ``↳L4`` if it is inherited, ``L4?`` if it is a guess."""
    return f"↳{where}" if where and how == INHERITED else f"{where}?" if where and how == GUESSED else where


def _meanings(hows: Iterable[str]) -> list[str]:
    meanings = {INHERITED: "↳ inherited from the instruction that it replaced", GUESSED: "? guessed from its users"}
    wanted = {*hows}
    return [meaning for how, meaning in meanings.items() if how in wanted]


def legend(hows: Iterable[str]) -> Iterator[Block]:
    """What the signs of lines mean, if there are any."""
    shown = _meanings(hows)
    if shown:
        yield text(" · ".join(shown), role="muted")


def held_text(equations: Sequence[Equation]) -> str:
    """``tanh, mul of line 4; add of line 5``: equations by name, with their source lines; '' if there are none."""
    lines: dict[tuple[str, int], list[str]] = {}
    for each in equations:
        lines.setdefault((each.file, each.line), []).append(each.primitive)
    several = len({file for file, line in lines if line}) > 1
    parts = []
    for (file, number), names in lines.items():
        where = f"{short_file(file)}:{number}" if several else f"line {number}"
        parts.append(", ".join(dict.fromkeys(names)) + (f" of {where}" if number else ""))
    return "; ".join(parts)


def names_text(equations: Sequence[Equation], most: int) -> str:
    """``tanh, mul +2``: the names of equations in at most ``most`` characters, and how many names are left out."""
    found = list(dict.fromkeys(each.primitive for each in equations))
    for count in range(len(found), 0, -1):
        said = ", ".join(found[:count]) + (f" +{len(found) - count}" if count < len(found) else "")
        if len(said) <= most or count == 1:
            return said
    return ""


def comment(programs: LinkedPrograms, numbers: Numbers, room: int, how: str = "") -> str:
    """``// eqn 3 · model.py:5 · sin`` in ``room`` columns: parts that do not fit are dropped, from the end."""
    equations = [programs.equation(number) for number in numbers]
    names = list(dict.fromkeys(each.primitive for each in equations))
    more = f" +{len(names) - _MOST_NAMES}" if len(names) > _MOST_NAMES else ""
    parts = [equations_text(numbers), signed(places_text(equations), how), ", ".join(names[:_MOST_NAMES]) + more]
    said = [part for part in parts if part]
    while len(said) > 1 and _length(" · ".join(said)) + 3 > room:
        said.pop()
    # keep a comment on one line, even if a file or a primitive has a strange name
    return visible("// " + " · ".join(said)).replace("\n", "\\n")


def annotated(programs: LinkedPrograms, pane: Pane, lines: Sequence[str] | None = None) -> Block:
    """A pane's program with comments that name each line's source: to the right if there is room, else above.

    If ``lines`` are given, they replace the lines of ``pane``, one for one.
    """
    shown = pane.lines if lines is None else tuple(lines)

    def drawn(width: int) -> tuple[Block, ...]:
        lines = [*_commented(programs, pane, shown, width)]
        lines += [("", (("comment", f"// {meaning}"),)) for meaning in _meanings(pane.notes)]
        code = "\n".join(text for text, _ in lines)
        return (Code(code, pane.language, after=tuple(said for _, said in lines)),)

    return Fitted(drawn)


def _coloured(programs: LinkedPrograms, numbers: Numbers, words: str) -> Line:
    """The comment ``words``. If all equations come from one source line, its place has the colour of that line."""
    known = user_lines(programs)
    spots = known.places(numbers)
    place = places_text([programs.equation(number) for number in numbers])
    before, found, after = words.partition(place) if place else (words, "", "")
    if not found:
        return (("comment", words),)
    return (("comment", before), (known.role(spots[0]) if len(spots) == 1 else "place", place), ("comment", after))


def _commented(programs: LinkedPrograms, pane: Pane, lines: Sequence[str], width: int) -> Iterator[tuple[str, Line]]:
    """Pairs of a program's line and its comment. A comment above a line has a pair of its own."""
    said = [
        comment(programs, numbers, width * 2 // 5, note) if numbers else "" if note in _OBVIOUS else f"// {note}"
        for numbers, note in zip(pane.links, pane.notes, strict=True)
    ]
    longest = max([_length(words) for words in said], default=0)
    lengths = [len(one) for one, words in zip(lines, said, strict=True) if words]
    column = min(max(lengths, default=0) + 2, width - longest, _MOST_COLUMN)
    before: tuple[Numbers, str] = (), ""
    for one, numbers, full, how in zip(lines, pane.links, said, pane.notes, strict=True):
        again = bool(numbers) and (numbers, how) == before
        words = f"// {equations_text(numbers)}" if again else full
        at = max(column, len(one) + 2)
        if not words or column < _LEAST_COLUMN and again:
            yield one, ()
        elif column >= _LEAST_COLUMN and at + _length(words) <= width:
            yield one, (("", " " * (at - len(one))), *_coloured(programs, numbers, words))
        elif numbers and not again:
            indent = " " * (len(one) - len(one.lstrip()))
            yield indent, _coloured(programs, numbers, comment(programs, numbers, width - len(indent), how))
            yield one, ()
        else:
            yield one, ()
        before = numbers, how


def fused_rows(programs: LinkedPrograms) -> Iterator[Block]:
    """``fusion.3  tanh, mul L4``: the equations in each fusion of the optimised program, and their source lines."""
    known = user_lines(programs)
    found = [
        (hlo.instruction_name(text), numbers, how)
        for text, numbers, how in zip(programs.hlo.lines, programs.hlo.links, programs.hlo.notes, strict=True)
        if numbers and hlo.holds(text)
    ]
    columns = max((len(name) for name, *_ in found), default=0)
    rows = []
    for name, numbers, how in found[:_MOST_FUSED]:
        held = names_text([programs.equation(number) for number in numbers], _HELD)
        places = known.places(numbers)
        role = known.role(places[0]) if len(places) == 1 else "place"
        where = (role, signed(mark_text(places, known.main_file), how))
        rows.append(line(("primitive", f"{name:<{columns}}"), f"  {held}  ", where))
    if len(found) > len(rows):
        rows.append(line(("muted", f"… {len(found) - len(rows)} more: --links shows every instruction")))
    if rows:
        yield Row("fused", tuple(rows))
        yield from legend(how for _, _, how in found[:_MOST_FUSED])


def missing_rows(programs: LinkedPrograms) -> Iterator[Block]:
    """The equations without a line in the optimised program, and why."""
    optimized = bool(programs.hlo.lines)
    reasons: dict[str, list[int]] = {}
    for each in programs.equations:
        reason = each.hlo_note if optimized else each.stablehlo_note
        if reason:
            reasons.setdefault(reason, []).append(each.number)
    lines = []
    for reason, numbers in reasons.items():
        names = ", ".join(dict.fromkeys(programs.equation(number).primitive for number in numbers))
        lines.append(line(("heading", equations_text(tuple(numbers))), ("muted", f" ({names}): "), reason))
    if lines:
        yield Row("no line", tuple(lines))


def became(programs: LinkedPrograms, numbers: Numbers) -> Iterator[Block]:
    """The lines of the equations ``numbers``, and of the equations inside them, in each program."""
    wanted = programs.with_inner(numbers)
    equations = [programs.equation(number) for number in sorted(wanted)]
    for pane in programs.panes:
        found = pane.with_equations(wanted)
        if pane.language == "python" and not found:
            continue
        where = [pane.numbers[i] for i in found]
        title = line(("heading", pane.title))
        if pane.language == "python":
            title = line(("heading", short_file(pane.title)), ("place", f":{ranges(where)}"))
        elif pane.language == "jaxpr":
            title = line(*title, ("muted", f" · {equations_text(tuple(wanted))}"))
        yield text(title)
        if found:
            yield Indent(Code("\n".join(_dedented([pane.lines[i] for i in found])), pane.language), columns=2)
            continue
        reasons = [e.hlo_note if pane.language == "hlo" else e.stablehlo_note for e in equations]
        said = dict.fromkeys(reason for reason in reasons if reason) or ("nothing",)
        yield Indent(text(*said, role="muted"), columns=2)


def _dedented(lines: Sequence[str]) -> list[str]:
    margin = min(len(each) - len(each.lstrip()) for each in lines)
    return [each[margin:] for each in lines]
