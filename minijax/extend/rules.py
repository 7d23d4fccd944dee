"""The matrix primitive x interpreter: which rules there are, and why those that are missing are not needed.

``print(rule_matrix())`` shows all of it, ``rule_matrix([p])`` one primitive's row. It is made of the rule tables
themselves, so a primitive or an interpreter added anywhere is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minijax.core.lazy import load_all
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import DerivedRule, Rule, RuleTable

# Tables of which one entry is enough: the interpreter takes either.
EITHER = {"numpy": "evaluate", "vmap (axis)": "vmap"}
# Columns in the order of a primitive's life; interpreters not named here come after them.
ORDER = ("evaluate", "abstract", "jvp", "vmap", "partial_eval", "transpose", "lower")

YES, DEFAULT, NONE, MISSING = "yes", "default", "none", "missing"


class Cell(NamedTuple):
    """One rule, or the lack of one.

    ``status`` is 'yes' (``rule`` is the rule), 'default' (the interpreter needs none for most primitives), 'none' (for
    the stated ``reason``), or 'missing' (nobody said why: using it raises NotImplementedError).
    """

    status: str
    reason: str = ""
    rule: Rule | None = None


def columns() -> dict[str, list[RuleTable]]:
    """Interpreter -> its tables, in the order in which they are shown."""
    found: dict[str, list[RuleTable]] = {name: [] for name in ORDER}
    for table in RuleTable.tables:
        found.setdefault(EITHER.get(table.name, table.name), []).append(table)
    return {name: tables for name, tables in found.items() if tables}


def known_primitives() -> list[Primitive]:
    """Every primitive that some table has a rule for, by name."""
    load_all()
    known = {p for table in RuleTable.tables for p in (*table, *table.holes)}
    # packages in place of whose JAX minijax stands give rules for primitives that it lacks
    return sorted([p for p in known if isinstance(p, Primitive)], key=lambda p: p.name)


def cell(primitive: Primitive, tables: Sequence[RuleTable]) -> Cell:
    """What ``tables``, those of one interpreter, say of ``primitive``."""
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
    """``rows[primitive][interpreter]`` is a ``Cell``; ``str`` of it is a table, with the reasons below.

    Of a borrowed primitive it names the library that the rules come from.
    """

    def __init__(self, primitives: Iterable[Primitive]) -> None:
        tables = columns()
        self.columns = list(tables)
        self.rows = {p: {name: cell(p, tables[name]) for name in tables} for p in primitives}

    def missing(self) -> list[tuple[Primitive, str]]:
        """The holes for which no reason is stated: (primitive, interpreter)."""
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
    """The matrix of ``primitives``, by default of all known ones.

    A blank stands for an interpreter that treats the primitive by its default, which is what most need.
    """
    return RuleMatrix(known_primitives() if primitives is None else primitives)
