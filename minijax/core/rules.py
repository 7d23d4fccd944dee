"""Tables of rules: how each interpreter processes each primitive.

A rule is a function that an interpreter calls for one primitive. A ``RuleTable`` holds the rules of one interpreter.
``RuleTable.tables`` lists all tables, so that a matrix of primitives and interpreters can be shown.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

# Types in signatures of rules. ``Dims``: batch axes. ``Axes``: dimension numbers, or one number for each dimension.
Rule = Callable[..., Any]
Values = Sequence[Any]
Dims = Sequence[int | None]
Flags = Sequence[bool]
Ints = Sequence[int]
Names = Sequence[str]
Shape = tuple[int, ...]
Axes = tuple[int, ...]
Params = dict[str, Any]


class RuleTable(dict):  # type: ignore[type-arg]
    """The rules of one interpreter: primitive -> rule. A missing rule's error is made of ``wording`` and ``remedy``."""

    tables: list[RuleTable] = []

    def __init__(self, name: str, wording: str, remedy: str) -> None:
        super().__init__()
        self.name = name
        self.wording = wording
        self.remedy = remedy
        # primitive -> why it needs no rule here ("integer-valued: no derivative")
        self.holes: dict[Any, str] = {}
        self.suffix = "batch" if name.startswith("vmap") else name  # rules are renamed to mul_batch, scan_transpose
        RuleTable.tables.append(self)

    def __setitem__(self, primitive: Any, rule: Rule) -> None:
        if _is_ours(rule):
            name = rule.__qualname__
            if "<locals>" in name or name.startswith("_") and name.endswith(f"_{self.suffix}"):
                rename(rule, f"{primitive.name.replace('-', '_')}_{self.suffix}")
        super().__setitem__(primitive, rule)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, primitive: Any) -> Rule:
        raise NotImplementedError(self.missing(primitive))

    def missing(self, primitive: Any, **fields: str) -> str:
        """The error text for a missing rule of ``primitive``; ``fields`` fill in the wording."""
        text = self.wording.format(name=primitive.name, **fields)
        hole = self.holes.get(primitive)
        why = f" ({hole})" if hole else ""
        return f"{text}{why}\n  {primitive.name} was defined at {primitive.defined_at}\n  {self.remedy}"


class ReplaceableRules(RuleTable):
    """A table of rules that cached programs are derived from. Replacing a rule drops the cached programs."""

    # called when a rule in any of these tables is replaced or removed
    forgetting: list[Callable[[], None]] = []

    def __setitem__(self, primitive: Any, rule: Rule) -> None:
        if primitive in self:
            self._forget()
        super().__setitem__(primitive, rule)

    def __delitem__(self, primitive: Any) -> None:
        self._forget()
        super().__delitem__(primitive)

    def pop(self, *args: Any) -> Any:
        self._forget()
        return super().pop(*args)

    def _forget(self) -> None:
        for forget in self.forgetting:
            forget()


def _is_ours(function: Any) -> bool:
    return isinstance(function, FunctionType) and (function.__module__ or "").startswith("minijax.")


def rename(function: Any, name: str) -> None:
    """Rename a function that a factory made, and minijax's functions that it wraps. Tracebacks show the new name."""
    while _is_ours(function):
        function.__name__ = function.__qualname__ = name
        function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
        function = getattr(function, "__wrapped__", None)


def depends_on_types(rule: Rule) -> Rule:
    """Mark a jvp rule: it runs once per signature, and the derivative programs are cached. Returns ``rule``.

    The rule may use only its operands' types and its parameters: no values, and no Python state that changes. It must
    not print. The same holds for the transpose rules of the operations that it applies to tangents.
    """
    rule.depends_on_types = True  # type: ignore[attr-defined]
    return rule


class DerivedRule:
    """A rule derived from a rule of ``library``. ``find()`` returns that rule or None. Tools show the original rule."""

    def __init__(self, library: str, find: Callable[[], Rule | None]) -> None:
        self.library = library
        self.find = find

    @property
    def lacking(self) -> str:
        """The text "... has no such rule" if the library has none; '' if it has one."""
        return "" if self.find() is not None else f"{self.library} has no such rule"

    @property
    def said(self) -> str:
        """The text that tools show after the rule's name."""
        return self.lacking or f"borrowed from {self.library}"

    def __call__(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError


def shown_rule(rule: Any) -> Any:
    """The function to show for ``rule``: a partial's function, a derived rule's original, or ``rule`` itself."""
    while True:
        if isinstance(rule, functools.partial):
            rule = rule.func
        elif isinstance(rule, DerivedRule) and not rule.lacking:
            rule = rule.find()
        else:
            return rule


def bad_result(table: RuleTable, primitive: Any, result: Any, expected: str, error: Exception) -> Exception:
    """``error``, reworded for the author of a rule that did not return ``expected``."""
    rule = shown_rule(table.get(primitive))
    code = getattr(rule, "__code__", None)
    at = "" if code is None else f"\n  the rule is {code.co_qualname} at {code.co_filename}:{code.co_firstlineno}"
    text = f"The {table.name} rule of '{primitive.name}' must return {expected}, but returned {result!r}: {error}"
    return type(error)(f"{text}\n  {primitive.name} was defined at {primitive.defined_at}{at}")
