"""The result of ``check_rules``: every check with its outcome, readable as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.avals import dtype_name
from minijax.core.primitive import Primitive
from minijax.core.records import Frozen
from minijax.core.rules import DerivedRule, Rule, shown_rule
from minijax.lowering.foreign import AuthorsRule

PASSED, FAILED, SKIPPED = "passed", "FAILED", "skipped"


class RulesError(AssertionError):
    """A rule of a primitive is wrong; ``report`` names it."""

    def __init__(self, report: RulesReport) -> None:
        super().__init__(str(report))
        self.report = report


class RuleOutcome(Frozen):
    """One check: its comparison and outcome.

    ``interpreter``: the one whose rule is suspected; ``rule``: the rule's place; ``detail``: the error or why it is
    skipped; ``example``: the smallest failing operands; ``also``: the number of further failing cases.
    """

    check: str
    interpreter: str
    status: str
    detail: str = ""
    example: tuple[Any, ...] | None = None
    rule: str = ""
    also: int = 0

    @property
    def verdict(self) -> str:
        """The word for a failure: 'wrong', or 'missing' for a missing rule, which has no failing operands."""
        return "missing" if self.example is None else "wrong"


class RulesReport:
    """All outcomes for one primitive. ``ok`` if none failed; ``str`` gives a readable text."""

    def __init__(self, primitive: Primitive, params: dict[str, Any]) -> None:
        self.primitive = primitive
        self.params = params
        self.outcomes: list[RuleOutcome] = []

    @property
    def failures(self) -> list[RuleOutcome]:
        return [o for o in self.outcomes if o.status == FAILED]

    @property
    def skipped(self) -> list[RuleOutcome]:
        """The skipped checks; ``detail`` has the reason."""
        return [o for o in self.outcomes if o.status == SKIPPED]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    def raise_if_failed(self) -> RulesReport:
        """Return this report, or raise RulesError with its text if a check failed."""
        if not self.ok:
            raise RulesError(self)
        return self

    def __str__(self) -> str:
        passed = sum(o.status == PASSED for o in self.outcomes)
        head = f"rules of {self.primitive.name} (defined at {self.primitive.defined_at}): "
        head += f"{len(self.failures)} wrong, {passed} right, {len(self.skipped)} not checked"
        lines = [head]
        for o in self.failures:
            lines.append(f"\n  {o.check}: {o.verdict}" + (f"; suspect {o.rule}" if o.rule else ""))
            lines += [f"    {line}" for line in o.detail.splitlines()]
            if o.example is not None:
                lines.append(f"    smallest example: {call_text(self.primitive, o.example, self.params)}")
            if o.also:
                lines.append(f"    and {o.also} more of this kind")
        if self.skipped:
            lines.append("")
            lines += [f"  {o.check}: not checked: {o.detail}" for o in self.skipped]
        return "\n".join(lines)

    __repr__ = __str__


class NamedFunction(Primitive):
    """A function with custom rules, as reports show it: a name and a place. The rule tables have no rules for it."""

    def __init__(self, name: str, defined_at: str) -> None:
        super().__init__(name, multiple_results=True)
        self._place = defined_at

    @property
    def defined_at(self) -> str:
        """The location of the function's definition."""
        return self._place


def call_text(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> str:
    """``p.bind(float32[1] [2.], axes=(0,))``: a readable call, almost ready to paste."""
    shown = [*map(value_text, args)]
    for name, value in params.items():
        text = repr(value)
        shown.append(f"{name}={text if len(text) <= 60 and chr(10) not in text else '...'}")
    called = primitive.name if isinstance(primitive, NamedFunction) else f"{primitive.name}_p.bind"
    return f"{called}({', '.join(shown)})"


def value_text(x: Any) -> str:
    """``float32 2.0``, ``float32[3] [1.0, 2.0, 3.0]`` or, for more than 12 elements, ``float32[13] ...``."""
    array = np.asarray(x)
    name = dtype_name(array.dtype)
    if array.ndim == 0:
        return f"{name} {array[()]}"
    if array.size > 12:
        return f"{name}[{','.join(map(str, array.shape))}] ..."
    return f"{name}[{','.join(map(str, array.shape))}] {array.tolist()}"


def rule_text(rule: Rule | None) -> str:
    """The author's function, as ``sin_jvp at file.py:12``; ``borrowed from JAX`` for a rule derived from JAX's."""
    if isinstance(rule, AuthorsRule):
        rule = rule.example
    if rule is None:
        return ""
    shown = shown_rule(rule)
    shown = getattr(shown, "__wrapped__", None) or shown  # the author's function, if a rule wraps it
    code = getattr(shown, "__code__", None)
    name = getattr(shown, "__name__", type(shown).__name__)
    place = f"{name} at {code.co_filename}:{code.co_firstlineno}" if code is not None else name
    return f"{place}, {rule.said}" if isinstance(rule, DerivedRule) else place
