"""Programs with the same results but without effects, so that they can be evaluated again.

In: a jaxpr, and for each input '' or the reason why it is unknown. Out: a jaxpr without ``jit`` and callbacks, with
zeros in place of values that depend on callbacks; and for each result '' or a reason. A custom derivative rule of the
user that is not staged yet is staged only with permission (``rules``), because staging runs the user's Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CellType, FunctionType, MethodType
from typing import Any

from minijax import errors
from minijax.api.custom_derivatives import CustomCall, CustomFunction
from minijax.core.array import get_aval
from minijax.core.rules import shown_rule
from minijax.core.trace import check_alive, state
from minijax.interpreters.program import called_jaxprs
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, inlined, subjaxprs
from minijax.ops.callback import debug_callback_p, debug_print_p, io_callback_p, pure_callback_p
from minijax.ops.custom_derivatives import Closed, Function, StagedFunction, Written
from minijax.tools.values.examples import RuleNeeded, zeros_of
from minijax.tools.values.loops import CALLED, programs_of
from minijax.tools.values.references import is_reference, without_references

Reasons = list[str]

CALLBACKS = {io_callback_p, pure_callback_p}
SILENT = {debug_callback_p, debug_print_p}
NOT_CALLED = "it comes from a callback, and the user's Python is not run again"
REFERENCE = "it is a reference, whose content changes while the program runs; the values read from it are known"


def refused(eqn: JaxprEqn) -> str:
    """The reason why the results of ``eqn`` are not evaluated; '' if they are."""
    if eqn.primitive in CALLBACKS:
        return NOT_CALLED
    if any(map(is_reference, (*eqn.invars, *eqn.outvars))):
        return REFERENCE
    return ""


def _calls_back(params: dict[str, Any]) -> bool:
    return any(e.primitive in CALLBACKS or _calls_back(e.params) for sub in subjaxprs(params) for e in sub.eqns)


class Purifier:
    """Creates pure programs and caches them. ``rules`` allows staging of custom derivative rules."""

    def __init__(self, rules: bool) -> None:
        self.rules = rules
        self.made: dict[Any, Any] = {}

    def closed(self, closed: ClosedJaxpr, reasons: Sequence[str]) -> tuple[ClosedJaxpr, Reasons]:
        """The pure form of ``closed``; for each result '' or the reason why it is unknown."""
        key = (id(closed), tuple(reasons))
        found = self.made.get(key)
        if found is None:
            # the original is kept, so that its id is not reused
            found = self.made[key] = (*_Rewriting(self, without_references(closed), reasons).done(), closed)
        return found[0], found[1]

    def whole(self, closed: ClosedJaxpr) -> tuple[ClosedJaxpr, Reasons]:
        """The pure form of ``closed`` if all inputs are known; for each result '' or the reason why it is unknown."""
        return self.closed(closed, [""] * len(closed.in_avals))

    def params(self, eqn: JaxprEqn, reasons: Sequence[str]) -> tuple[dict[str, Any] | None, Reasons]:
        """The pure parameters of ``eqn`` (None if all results are unknown); for each result '' or why it is unknown."""
        refusal = refused(eqn)
        if refusal:
            return None, [refusal] * len(eqn.outvars)
        inside = eqn.primitive.name in ("scan", "while", "cond", *CALLED)
        params, out = (self._inside if inside else self._others)(eqn, reasons)
        return (None if out and all(out) else params), out

    def rule(self, function: Function) -> KnownRule:
        """``function`` as a rule that is staged on demand, if that runs no user Python or ``rules`` allows it."""
        key = (id(function), "rule")
        if key not in self.made:
            self.made[key] = KnownRule(self, function), function
        return self.made[key][0]  # type: ignore[no-any-return]

    def _inside(self, eqn: JaxprEqn, reasons: Sequence[str]) -> tuple[dict[str, Any], Reasons]:
        name, params = (
            eqn.primitive.name,
            {k: self.rule(v) if isinstance(v, Function) else v for k, v in eqn.params.items()},
        )
        programs, first, count = programs_of(name, params, len(reasons))
        carried = list(reasons[first : first + count])
        while True:
            now = [*reasons[:first], *carried, *reasons[first + count :]]
            gate = now[0] if name == "cond" else ""
            made: dict[str, list[ClosedJaxpr]] = {}
            out = [""] * len(eqn.outvars)
            for each in programs:
                closed, found = self.closed(each.closed, [now[k] for k in each.operands])
                made.setdefault(each.key, []).append(closed)
                if each.key == "cond_jaxpr":
                    (gate,) = found
                else:
                    out = [a or b for a, b in zip(out, found, strict=True)]
            out[:count] = joined = [a or b for a, b in zip(carried, out, strict=False)]
            if joined == carried:
                break
            carried = joined
        params.update((key, tuple(each) if key == "branches" else each[0]) for key, each in made.items())
        return params, [gate or r for r in out]

    def _others(self, eqn: JaxprEqn, reasons: Sequence[str]) -> tuple[dict[str, Any], Reasons]:
        reason = next(filter(None, reasons), "")
        if not eqn.primitive.keeps_signatures:
            if _calls_back(eqn.params):
                reason = reason or NOT_CALLED
            return {k: self._parameter(v) for k, v in eqn.params.items()}, [reason] * len(eqn.outvars)
        return eqn.params, [reason] * len(eqn.outvars)

    def _parameter(self, value: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return self.whole(value)[0]
        if isinstance(value, tuple):
            items = [self._parameter(x) for x in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value


class _Rewriting:
    """The conversion of one jaxpr to its pure form."""

    def __init__(self, purifier: Purifier, closed: ClosedJaxpr, reasons: Sequence[str]) -> None:
        self.purifier = purifier
        jaxpr = self.jaxpr = closed.jaxpr
        self.reasons = {v: r for v, r in zip(jaxpr.invars, reasons, strict=True) if r}
        self.consts: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        self.same_as: dict[Any, Any] = {}
        self.eqns: list[JaxprEqn] = []

    def done(self) -> tuple[ClosedJaxpr, Reasons]:
        jaxpr = self.jaxpr
        for eqn in jaxpr.eqns:
            self.equation(eqn)
        out = [self.reasons.get(v, "") if type(v) is not Literal else "" for v in jaxpr.outvars]
        outs = self.read(jaxpr.outvars)
        made = Jaxpr(list(self.consts), jaxpr.invars, outs, self.eqns, jaxpr.debug_name)
        return ClosedJaxpr(made, list(self.consts.values())), out

    def read(self, atoms: Sequence[Any]) -> list[Any]:
        return [a if type(a) is Literal else self.same_as.get(a, a) for a in atoms]

    def equation(self, eqn: JaxprEqn) -> None:
        if eqn.primitive in SILENT:
            return
        ins = [self.reasons.get(v, "") if type(v) is not Literal else "" for v in eqn.invars]
        called = called_jaxprs.get(eqn.primitive)
        if called is not None:
            body, out = self.purifier.closed(eqn.params[called], ins)
            open_jaxpr = body.jaxpr.replace(constvars=[], invars=[*body.jaxpr.constvars, *body.jaxpr.invars])
            held = [Var(v.aval) for v in body.jaxpr.constvars]
            self.consts.update(zip(held, body.consts, strict=True))
            eqns, outs = inlined(open_jaxpr, [*held, *self.read(eqn.invars)])
            self.eqns.extend(eqns)
            self.same_as.update(zip(eqn.outvars, outs, strict=True))
        else:
            params, out = self.purifier.params(eqn, ins)
            if params is not None:
                self.eqns.append(eqn.replace(invars=self.read(eqn.invars), params=params))
            else:
                self.stand_in(eqn.outvars)
        self.reasons.update((v, r) for v, r in zip(eqn.outvars, out, strict=True) if r)

    def stand_in(self, variables: Sequence[Var]) -> None:
        """Use zeros for the unknown results ``variables``: equations with inner programs need operands."""
        for v in variables:
            if not is_reference(v):
                zero = Var(v.aval)
                self.consts[zero] = zeros_of(v.aval, 0).array
                self.same_as[v] = zero


def written_rule(function: Any) -> Any:
    """The innermost function of a rule: the user's own function."""
    while not isinstance(function, Written) and getattr(function, "inner", None) is not None:
        function = function.inner
    return function


def _is_users(function: Function) -> bool:
    """Whether calling ``function`` runs Python from outside this package."""
    bottom = written_rule(function)
    if isinstance(bottom, Written):
        return _of_user((bottom.rule, bottom.run), set())
    return not getattr(bottom, "of_library", False)


def _of_user(value: Any, seen: set[int]) -> bool:
    """Whether ``value`` is a function of the user, or one of this package's that wraps such a function."""
    value = shown_rule(value)
    if id(value) in seen:
        return False
    seen.add(id(value))
    if isinstance(value, (tuple, list)):
        return any(_of_user(x, seen) for x in value)
    if isinstance(value, CustomFunction):
        return _of_user(value.fun, seen)
    if isinstance(value, MethodType):
        call = value.__self__
        return not isinstance(call, CustomCall) or _of_user([call.custom, *call.static.values()], seen)
    if not isinstance(value, FunctionType):
        return callable(value) and not isinstance(value, type)
    inside = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
    return errors.is_user_file(value.__code__.co_filename) or _of_user(inside, seen)


def _filled(cell: CellType) -> bool:
    try:
        return bool([cell.cell_contents])
    except ValueError:
        return False


class KnownRule(Function):
    """The rule ``inner`` as jaxprs. Missing jaxprs are staged if that runs no user Python or ``rules`` allows it."""

    def __init__(self, purifier: Purifier, inner: Function) -> None:
        self.purifier = purifier
        self.about = inner.about
        self.allowed = purifier.rules or not _is_users(inner)
        self.staged = inner if isinstance(inner, StagedFunction) else None
        self.inner = inner if self.staged is None else self.staged.inner
        self.closed_over = [] if self.staged is None else self.staged.closed_over
        known = {} if self.staged is None else self.staged.found
        self.found: dict[Any, Closed] = {key: self._pure(closed) for key, closed in known.items()}
        self.sides: dict[int, Any] = {}

    def call(self, side: Any, *values: Any) -> tuple[list[Any], Any]:
        closed = self.close(side, [get_aval(x) for x in values])
        operand_of = {id(c): x for c, x in zip(self.closed_over, values, strict=False)}
        consts = [operand_of[id(c)] if id(c) in operand_of else check_alive(c) for c in closed.consts]
        return closed.evaluate(*consts, *values[len(self.closed_over) :]), closed.side

    def close(self, side: Any, avals: Sequence[Any]) -> Closed:
        """The rule as a jaxpr for ``side``, the side result of the previous call. It may raise RuleNeeded."""
        key = (self._hashable(side), state.axis_env)
        if key not in self.found:
            if not self.allowed:
                # the short reason comes first: a table column may cut the rest
                rule = f"the {self.about.label} {self.about.subject}"
                raise RuleNeeded(f"{self.about.name} was not staged, and staging it runs the user's Python: {rule}")
            taken = avals if self.staged is None else self.staged.avals_for(side)
            self.found[key] = self._pure(self.inner.close(side, taken))
        return self.found[key]

    def _hashable(self, side: Any) -> Any:
        """``side`` as a cache key; a backward pass may get an unhashable side result."""
        if type(side) is tuple:
            return tuple(map(self._hashable, side))
        try:
            hash(side)
        except TypeError:
            self.sides[id(side)] = side  # kept, so that its id is not reused
            return "side", id(side)
        return side

    def _pure(self, closed: Closed) -> Closed:
        """The rule's jaxpr in pure form. RuleNeeded if one of its results comes from a callback."""
        made, reasons = self.purifier.whole(closed.jaxpr)
        if any(reasons):
            raise RuleNeeded(f"{self.about.subject}: {next(filter(None, reasons))}")
        return Closed(made, closed.consts, closed.side)
