"""Primitives and the tables of their rules.

A ``Primitive`` is a name and an identity. What it means is given by rules, one per interpreter, kept in that
interpreter's ``RuleTable``. The tables know each other, so the matrix primitive x interpreter can be shown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]

# Beyond this many signatures of one primitive, its table of output types starts afresh.
MAX_SIGNATURES = 8192


class RuleTable(dict):  # type: ignore[type-arg]
    """The rules of one interpreter: primitive -> rule.

    Subscripting with a primitive that has none raises ``NotImplementedError`` with JAX's opening words
    (``wording``, with ``{name}`` for the primitive's), where the primitive was defined, and where to add the rule.
    """

    tables: list[RuleTable] = []

    def __init__(self, name: str, wording: str, remedy: str) -> None:
        super().__init__()
        self.name = name
        self.wording = wording
        self.remedy = remedy
        # primitive -> why it needs no rule here ("integer-valued: no derivative")
        self.holes: dict[Primitive, str] = {}
        RuleTable.tables.append(self)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, primitive: Primitive) -> Rule:
        raise NotImplementedError(self.missing(primitive))

    def missing(self, primitive: Primitive, **fields: str) -> str:
        """The error text for ``primitive`` having no rule in this table; ``fields`` fill in the wording."""
        text = self.wording.format(name=primitive.name, **fields)
        hole = self.holes.get(primitive)
        why = f" ({hole})" if hole else ""
        return f"{text}{why}\n  {primitive.name} was defined at {primitive.defined_at}\n  {self.remedy}"


abstract_rules = RuleTable(
    "abstract",
    "Abstract evaluation for '{name}' not implemented",
    "give its output type with: primitive.def_abstract_eval(rule)   # rule(*avals, **params) -> aval",
)
impl_rules = RuleTable(
    "evaluate",
    "Evaluation rule for '{name}' not implemented",
    "give its value with: primitive.def_impl(rule)   # rule(*arrays, **params) -> array",
)


class Primitive:
    """An operation that every interpreter knows by identity.

    ``Primitive(name)``, with ``multiple_results = True`` when ``bind(*arrays, **params)`` returns a list. Each
    interpreter needs one rule, registered with

    - ``p.def_impl(rule)``: evaluation, ``rule(*arrays, **params) -> array``;
    - ``p.def_abstract_eval(rule)``: staging and jit, ``rule(*avals, **params) -> aval``;
    - ``interpreters.mlir.register_lowering(p, rule)``: compilation;
    - ``interpreters.ad.primitive_jvps[p] = rule``: derivatives;
    - ``interpreters.ad.primitive_transposes[p] = rule``: reverse mode, where a derivative is computed with ``p``;
    - ``interpreters.batching.primitive_batchers[p] = rule``: vmap.

    A missing rule is reported, with where to add it, when it is first needed; ``minijax.test_util.check_rules`` holds
    those there are against each other. All are JAX's (https://docs.jax.dev/en/latest/jax-primitives.html).

    ``bind`` itself is installed by ``core.trace``: it needs the interpreter stack.
    """

    multiple_results: bool = False
    # False for primitives with subjaxprs: a table of signatures would keep them, and their constants, alive.
    keeps_signatures: bool = True
    # True for primitives that act on the world (a callback): their equations stay although nothing reads the results.
    effectful: bool = False
    # Called by bind(*args, **params): see core.trace.
    bind: Callable[..., Any]

    def __init__(self, name: str, multiple_results: bool = False) -> None:
        self.name = name
        if multiple_results:
            self.multiple_results = True
        # avals (and params) -> output aval(s); see abstract_eval
        self.signatures: dict[Any, Any] = {}
        self.defined_at = _definition_site()

    def def_impl(self, rule: Rule) -> Rule:
        """Set the evaluation rule ``rule(*arrays, **params)``. Returns it, so that it can decorate."""
        impl_rules[self] = rule
        return rule

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Set ``rule(*avals, **params)`` giving the output's ``ShapedArray`` (a list if multiple results)."""
        abstract_rules[self] = rule
        self.signatures.clear()
        return rule

    @property
    def impl(self) -> Rule:
        """The evaluation rule."""
        return impl_rules[self]

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """The type of the result(s) on arguments of these types."""
        return abstract_eval(self, avals, params)

    def __repr__(self) -> str:
        return self.name


def abstract_eval(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The output type(s) of ``primitive`` on ``avals``, computed once per signature.

    Raises whatever the rule raises (TypeError for arguments that do not fit), or NotImplementedError without one.
    """
    key: Any = (avals, *params.items()) if params else avals
    try:
        return primitive.signatures[key]
    except KeyError:
        out = abstract_rules[primitive](*avals, **params)
        if out is None:
            expected = "a list of ShapedArrays" if primitive.multiple_results else "a ShapedArray"
            raise bad_result(abstract_rules, primitive, out, expected, TypeError("no type")) from None
        if primitive.keeps_signatures:
            if len(primitive.signatures) >= MAX_SIGNATURES:
                primitive.signatures.clear()
            primitive.signatures[key] = out
        return out
    except TypeError:  # a parameter is unhashable, or the rule itself refused: the rule decides
        return abstract_rules[primitive](*avals, **params)


def bad_result(table: RuleTable, primitive: Primitive, result: Any, expected: str, error: Exception) -> Exception:
    """``error``, which taking the result of a rule apart raised, in words for the author of the rule.

    ``expected`` is what the rule must return.
    """
    rule = table.get(primitive)
    code = getattr(rule, "__code__", None)
    at = "" if code is None else f"\n  the rule is {code.co_qualname} at {code.co_filename}:{code.co_firstlineno}"
    text = f"The {table.name} rule of '{primitive.name}' must return {expected}, but returned {result!r}: {error}"
    return type(error)(f"{text}\n  {primitive.name} was defined at {primitive.defined_at}{at}")


def _definition_site() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("minijax.ops"):
        if frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
