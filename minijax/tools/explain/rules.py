"""The rules of primitives as documents: a matrix of primitives and interpreters, and the source of a primitive's rules.

The rule tables are read on each call, so a primitive defined at the prompt is included.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minijax import errors
from minijax.core.primitive import Primitive, abstract_rules
from minijax.core.rules import DerivedRule, Rule, shown_rule
from minijax.errors import did_you_mean
from minijax.extend.rules import DEFAULT, MISSING, NONE, YES, Cell, RuleMatrix, known_primitives
from minijax.lowering.foreign import AuthorsRule
from minijax.tools.documents.document import (
    Block,
    Code,
    Document,
    Fitted,
    Indent,
    Line,
    Row,
    Section,
    Segment,
    Text,
    line,
)
from minijax.tools.documents.words import plural
from minijax.tools.session import real_jax
from minijax.tools.session.source import parse_expression
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# the status of a rule that comes from JAX
BORROWED = "borrowed"
# status -> its mark in the matrix
MARKS: dict[str, Segment] = {
    YES: ("good", "●"),
    BORROWED: ("good", "○"),
    DEFAULT: ("muted", "·"),
    NONE: ("muted", "–"),
    MISSING: ("error", "✗"),
}
_MEANINGS = {
    YES: "has a rule",
    BORROWED: "borrowed from JAX",
    DEFAULT: "needs none",
    NONE: "none, for a reason",
    MISSING: "missing",
}
# interpreter -> its headings for narrow and for very narrow pages; the names of other interpreters are cut
SHORT = {
    "evaluate": ("eval", "E"),
    "abstract": ("abst", "A"),
    "jvp": ("jvp", "J"),
    "vmap": ("vmap", "V"),
    "partial_eval": ("peval", "P"),
    "transpose": ("trans", "T"),
    "lower": ("lower", "L"),
    "stage": ("stage", "S"),
    "partial_eval_jaxpr": ("split", "Q"),
    "dce": ("dce", "D"),
    "recompute": ("recom", "R"),
}
# Maximum number of a rule's source lines that are shown by default.
MOST_LINES = 24
_LONGEST_STATEMENT = 20


def primitives(session: Session) -> list[Primitive]:
    """All primitives, sorted by name. Primitives that only the session's namespace contains are included."""
    own = [x for x in session.namespace.values() if isinstance(x, Primitive)]
    return sorted({*known_primitives(), *own}, key=lambda p: p.name)


def primitive_named(session: Session, command: str, text: str) -> Primitive:
    """The primitive with the name ``text`` (``sin``, ``sin_p``), or the value of that expression (``lax.sin_p``).

    If several primitives have this name, primitives in the user's variables take precedence, then minijax's primitives.
    Of several such primitives, the latest is chosen. Raise UsageError if no primitive is found.
    """
    __tracebackhide__ = True
    text = text.strip()
    value = real_jax.counterpart(session.lookup(text))
    if isinstance(value, Primitive):
        return value
    known = primitives(session)
    named = [p for p in known if p.name in (text, text.removesuffix("_p"))]
    users = [p for p in named if any(p is x for x in session.namespace.values())]
    if named:
        ours = [p for p in named if errors.is_own_file(p.defined_at.rpartition(":")[0])]
        return _by_age(users or ours or named)[-1]
    if not session.has(text) and (of_jax := real_jax.primitive_of(text)) is not None:
        return of_jax
    names = [p.name for p in known]
    if text.isidentifier() and not session.has(text):
        hint = did_you_mean(text.removesuffix("_p"), names)
        raise UsageError(f"there is no primitive {text}.{hint} %rules lists all")
    value = real_jax.counterpart(session.evaluate(parse_expression(command, text, "a primitive"), {}))
    if isinstance(value, Primitive):
        return value
    if callable(value):
        raise UsageError(f"{text} is a function, not a primitive; %jaxpr {text}(...) shows the primitives that it uses")
    raise UsageError(f"{text} is of type {type(value).__name__}, not a primitive. %rules lists all")


def _by_age(candidates: Iterable[Primitive]) -> list[Primitive]:
    """The primitives in the order of their abstract rules, oldest first. Primitives without such a rule come last."""
    order = {primitive: i for i, primitive in enumerate(abstract_rules)}
    return sorted(candidates, key=lambda primitive: order.get(primitive, len(order)))


# --- the matrix
# ---------------------------------------------------------------------------------------------------


def matrix(rows: Iterable[Primitive]) -> Document:
    """The matrix of ``rows``, with a legend for its marks and headings."""
    made = RuleMatrix(rows)
    return Document((Fitted(lambda width: (Text(tuple(_matrix_lines(made, width)), hanging=2),)),))


def _headings(names: Sequence[str], room: int) -> tuple[list[str], str]:
    """The longest column headings for which there is room, and the separator before each."""
    for kind in range(3):
        shown = [name if kind == 0 else SHORT.get(name, (name[:5], name[:1].upper()))[kind - 1] for name in names]
        if sum(len(each) + 1 for each in shown) <= room:
            return shown, " "
    return shown, ""


def _matrix_lines(made: RuleMatrix, width: int) -> Iterator[Line]:
    first = max((len(p.name) for p in made.rows), default=9)
    heads, gap = _headings(made.columns, width - first - 1)
    yield line(" " * (first + 1 - len(gap)), *(("heading", gap + head) for head in heads))
    for p, row in made.rows.items():
        cells: list[Segment] = [("primitive", p.name), ("", " " * (first + 1 - len(gap) - len(p.name)))]
        for name, head in zip(made.columns, heads, strict=True):
            role, mark = MARKS[_shown_status(p, row[name])]
            left = (len(head) - 1) // 2
            cells += [("", gap + " " * left), (role, mark), ("", " " * (len(head) - left - 1))]
        yield tuple(cells)
    seen = {_shown_status(p, c) for p, row in made.rows.items() for c in row.values()}
    legend = [(MARKS[status], meaning) for status, meaning in _MEANINGS.items() if status in seen]
    out: list[Segment] = [("muted", f"{plural(len(made.rows), 'primitive')}   ")]
    for each, meaning in legend:
        out += [each, ("muted", f" {meaning}  ")]
    yield tuple(out)
    if heads != made.columns:
        pairs = [f"{head}:{name}" for head, name in zip(heads, made.columns, strict=True) if head != name]
        yield line(("muted", "  ".join(pairs)))


def _shown_status(primitive: Primitive, cell: Cell) -> str:
    return BORROWED if cell.status == YES and primitive.borrowed_from else cell.status


def holes(rows: Iterable[Primitive]) -> Document:
    """For each interpreter, the reasons why rules are missing, each with the primitives that lack a rule."""
    made = RuleMatrix(rows)
    blocks: list[Block] = []
    for name in made.columns:
        reasons: dict[tuple[str, str], list[str]] = {}
        for p, row in made.rows.items():
            if row[name].status in (NONE, MISSING):
                reasons.setdefault((row[name].status, row[name].reason), []).append(p.name)
        lines: list[Line] = []
        for (status, reason), names in reasons.items():
            said = ("error", "missing; ") if status == MISSING else ("", "")
            lines.append(line(said, ("string", reason), ("muted", f" ({len(names)})")))
            lines.append(line(*(("primitive" if i % 2 == 0 else "", each) for i, each in _spaced(names))))
        if lines:
            blocks.append(Section(line(("heading", name)), (Text(tuple(lines), hanging=2),)))
    if not blocks:
        blocks.append(Text((line(("good", "no hole: every interpreter has its rule, or needs none")),)))
    return Document(tuple(blocks))


def _spaced(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    pieces = [piece for name in names for piece in (name, " ")][:-1]
    return enumerate(["", "  ", *pieces])


# --- one primitive
# ------------------------------------------------------------------------------------------------


def one(primitive: Primitive, full: bool = False) -> Document:
    """All rules of ``primitive``, with places and source. ``full`` shows all lines of the source."""
    row = RuleMatrix([primitive]).rows[primitive]
    file, _, number = primitive.defined_at.rpartition(":")
    blocks: list[Block] = [Row("name", (line(("primitive", primitive.name)),), _place(file, int(number)))]
    defined = source_at(file, int(number))
    if defined:
        blocks.append(_code(defined, full))
    plain: list[str] = []
    for name, cell in row.items():
        if cell.status == DEFAULT:
            plain.append(name)
        else:
            blocks += _rule(name, cell, full)
    if plain:
        said = f" {', '.join(plain)}: as for most primitives, no rule needed"
        by_default = line(MARKS[DEFAULT], ("muted", said))
        blocks.append(Text((by_default,)))
    return Document(tuple(blocks))


def _rule(name: str, cell: Cell, full: bool) -> Iterator[Block]:
    mark = MARKS[cell.status]
    if cell.status != YES:
        needless = " (only a linear primitive needs one)" if name == "transpose" else ""
        reason = f"missing{needless}; {cell.reason}" if cell.status == MISSING else cell.reason
        yield Text((line(mark, " ", ("heading", name), ("muted" if cell.status == NONE else "error", f"  {reason}")),))
        return
    fun, place = located(cell.rule)
    head = line(mark, " ", ("heading", name), "  ", ("function", fun))
    if isinstance(cell.rule, DerivedRule):
        head = line(*head, ("muted", f"  {cell.rule.said}"))
    if place is None:
        yield Text((line(*head, ("muted", "  (compiled, no Python source)")),))
        return
    yield Text((line(*head, "  ", *_place(*place)),))
    text = source_at(*place)
    if text:
        yield _code(text, full)


def _code(text: str, full: bool) -> Block:
    return Indent(Code(text, "python"), 4, most=0 if full else MOST_LINES, rest="(--full shows them)")


def _place(file: str, number: int) -> Line:
    return line(("place", f"{short_path(file)}:{number}"))


def short_path(file: str) -> str:
    """``minijax/ops/dot.py`` for a file of minijax; the path of a user's file is unchanged."""
    if errors.is_user_file(file):
        return file
    return os.path.relpath(file, os.path.dirname(errors._PACKAGE))


def located(rule: Rule | None) -> tuple[str, tuple[str, int] | None]:
    """The name of a rule, and its file and line (None if the rule is not written in Python)."""
    if isinstance(rule, AuthorsRule):
        rule = rule.example
    fun: Any = inspect.unwrap(shown_rule(rule))
    fun = getattr(fun, "__func__", fun)
    code = getattr(fun, "__code__", None)
    if code is None and not isinstance(fun, type) and not inspect.isbuiltin(fun):
        # a callable object: its class has the code
        code = getattr(vars(type(fun)).get("__call__"), "__code__", None)
    name = str(getattr(fun, "__qualname__", None) or getattr(fun, "__name__", type(fun).__name__))
    return name.replace("<locals>.", ""), None if code is None else (code.co_filename, code.co_firstlineno)


def source_at(file: str, number: int) -> str:
    """The statement or function that begins at a line, without its indent; '' if the file cannot be read."""
    lines = linecache.getlines(file)[number - 1 :]
    if not lines:
        return ""
    block: Sequence[str] = lines[:1]
    if lines[0].lstrip().startswith(("def ", "class ", "@", "async ")):
        try:
            block = inspect.getblock(lines)
        except (SyntaxError, IndentationError):
            pass
    else:
        block = _statement(lines)
    return textwrap.dedent("".join(block)).rstrip()


def _statement(lines: Sequence[str]) -> Sequence[str]:
    """The lines of the statement that begins with ``lines``; only the first line if no statement begins there."""
    for count in range(1, min(len(lines), _LONGEST_STATEMENT) + 1):
        try:
            ast.parse(textwrap.dedent("".join(lines[:count])))
        except (SyntaxError, ValueError):
            continue
        return lines[:count]
    return lines[:1]
