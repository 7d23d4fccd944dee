"""The matrix primitive x interpreter: which rules exist, and the reason where no rule is needed.

``print(rule_matrix())`` shows the matrix, and ``print(rule_matrix([p]))`` the row of ``p``. Both read the rule tables,
so they include every registered primitive and interpreter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minijax.core.lazy import load_all
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import DerivedRule, Rule, RuleTable

# Pairs of tables of one interpreter, which accepts a rule in either table.
EITHER = {"numpy": "evaluate", "vmap (axis)": "vmap"}
ORDER = ("evaluate", "abstract", "jvp", "vmap", "partial_eval", "transpose", "lower")

YES, DEFAULT, NONE, MISSING = "yes", "default", "none", "missing"


class Cell(NamedTuple):
    """One rule, or its absence.

    ``status``: 'yes' (see ``rule``), 'default' (most primitives need no rule here), 'none' (``reason`` says why), or
    'missing' (no reason is known: a use of the rule raises NotImplementedError).
    """

    status: str
    reason: str = ""
    rule: Rule | None = None


def columns() -> dict[str, list[RuleTable]]:
    """Interpreter -> its tables, in display order."""
    found: dict[str, list[RuleTable]] = {name: [] for name in ORDER}
    for table in RuleTable.tables:
        found.setdefault(EITHER.get(table.name, table.name), []).append(table)
    return {name: tables for name, tables in found.items() if tables}


def known_primitives() -> list[Primitive]:
    """Every primitive with a rule in some table, by name."""
    load_all()
    known = {p for table in RuleTable.tables for p in (*table, *table.holes)}
    # packages that run on minijax in place of JAX also register rules, for primitives that minijax lacks
    return sorted([p for p in known if isinstance(p, Primitive)], key=lambda p: p.name)


def cell(primitive: Primitive, tables: Sequence[RuleTable]) -> Cell:
    """The entry for ``primitive`` in ``tables``, which all belong to one interpreter."""
    for table in tables:
        rule = table.get(primitive)
        if isinstance(rule, DerivedRule) and rule.lacking:
            return Cell(NONE, rule.lacking)
        if rule is not None:
            return Cell(YES, rule=rule)
    reasons = [table.holes[primitive] for table in tables if primitive in table.holes]
    if reasons:
        return Cell(NONE, "; ".join(reasons))
    if all(table.remedy.startswith("most primitives need none") for table in tables):
        return Cell(DEFAULT)
    return Cell(MISSING, tables[0].remedy)


class RuleMatrix:
    """``rows[primitive][interpreter]`` is a ``Cell``. ``str`` gives a table, with a reason for each number in it."""

    def __init__(self, primitives: Iterable[Primitive]) -> None:
        tables = columns()
        self.columns = list(tables)
        self.rows = {p: {name: cell(p, tables[name]) for name in tables} for p in primitives}

    def missing(self) -> list[tuple[Primitive, str]]:
        """The holes without a stated reason: (primitive, interpreter)."""
        return [(p, name) for p, row in self.rows.items() for name, c in row.items() if c.status == MISSING]

    def __str__(self) -> str:
        notes: dict[str, int] = {}
        lines = [["primitive", *self.columns]]
        for p, row in self.rows.items():
            marks = []
            for name in self.columns:
                c = row[name]
                if c.status == NONE:
                    marks.append(f"- [{notes.setdefault(c.reason, len(notes) + 1)}]")
                else:
                    marks.append({YES: p.borrowed_from or "yes", DEFAULT: "", MISSING: "MISSING"}[c.status])
            lines.append([p.name, *marks])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ["  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        legend = [f"[{n}] {reason}" for reason, n in notes.items()]
        return "\n".join([*table, *(["", *legend] if legend else [])])

    __repr__ = __str__


def rule_matrix(primitives: Iterable[Primitive] | None = None) -> RuleMatrix:
    """The matrix of ``primitives``, by default of all. A cell is blank where most primitives need no rule."""
    return RuleMatrix(known_primitives() if primitives is None else primitives)
