"""Primitives, and ``bind``, which passes operands to the interpreter that processes them.

A ``Primitive`` is a name and an identity. Rules give its meaning: each interpreter has one rule for it, in a
``RuleTable`` (``core.rules``).
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.array import Array, LiteralArray
from minijax.core.keys import is_key
from minijax.core.numpy_warnings import QUIET, quiet_numpy
from minijax.core.observe import bind_watched, emit, on_bind_enter, on_bind_exit, on_bind_raise, on_rule
from minijax.core.refs import AbstractRef
from minijax.core.rules import Rule, RuleTable, bad_result
from minijax.core.trace import Trace, Tracer, raise_dead, reaching, set_current_trace, state

# A primitive's table of output types is cleared beyond this many signatures.
MAX_SIGNATURES = 8192
# Not empty while some thread checks results or keys, or has a current mesh: ``interpreters.evaluate`` fills it.
evaluation_watched: list[str] = []

# Functions that may replace an operation's operands. ``bind`` does not call them for plain arrays at a known signature.
# Empty until types name mesh axes: see ``core.varying``, ``ops.meshes.reshard``.
bind_hooks: list[Callable[[Primitive, tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]] = []
# Functions that infer result types if operands' types say more than shape and dtype: the axes along which values vary
# (``core.varying``), the sharding (``core.explicit``). Each infers its part of the type and calls ``infer_type`` for
# the rest, or returns None if the types have no such part. Empty until there is such a type.
TypeHook = Callable[["Primitive", tuple[Any, ...], dict[str, Any], int], Any]
abstract_hooks: list[TypeHook] = []

_numpy_value = operator.attrgetter("_np")
_aval = operator.attrgetter("aval")
_new = object.__new__
# The classes of arrays on the host: evaluation needs only their values. Committed arrays have classes of their own.
_EVALUATED = frozenset([Array, LiteralArray])


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

    ``Primitive(name)`` makes one. Set ``multiple_results = True`` if ``bind(*arrays, **params)`` returns a list. Each
    interpreter needs one rule, registered with

    - ``p.def_impl(rule)``: evaluation, ``rule(*arrays, **params) -> array``;
    - ``p.def_abstract_eval(rule)``: staging and jit, ``rule(*avals, **params) -> aval``;
    - ``interpreters.mlir.register_lowering(p, rule)``: compilation;
    - ``interpreters.ad.primitive_jvps[p] = rule``: derivatives;
    - ``interpreters.ad.primitive_transposes[p] = rule``: reverse mode, if derivatives contain ``p``;
    - ``interpreters.batching.primitive_batchers[p] = rule``: vmap.

    The first use of a missing rule raises an error that says where to add it. ``minijax.test_util.check_rules`` checks
    the rules against each other. The registration is as in JAX (https://docs.jax.dev/en/latest/jax-primitives.html).
    """

    multiple_results: bool = False
    # False for primitives with jaxprs as parameters: a signature table would keep the jaxprs and their constants alive.
    keeps_signatures: bool = True
    # True for primitives that compute with numbers and refuse random keys: see ``ops.declare``.
    refuses_keys: bool = False
    # True for primitives that take references: see ``core.refs``.
    takes_refs: bool = False
    # The effect on the first operand, if that is a reference: a class of ``core.refs`` (``ReadEffect``). Else None.
    ref_effect: Any = None
    # True for primitives with side effects (a callback): their equations stay even if nothing reads the results.
    effectful: bool = False
    # rule(*avals, **params) -> (type(s), effects), for a primitive with effects of a user's class.
    effects_rule: Rule | None = None
    # The name of the parameter with the result's sharding, or ''. The parameter is None where types have no shardings.
    sharding_param: str = ""
    # The library that the primitive is borrowed from; its rules come from that library's rules: see interop.borrowed.
    borrowed_from: str = ""

    def __init__(self, name: str, multiple_results: bool = False) -> None:
        self.name = name
        if multiple_results:
            self.multiple_results = True
        # signature (the avals, and params if there are any) -> output aval(s); see abstract_eval
        self.signatures: dict[Any, Any] = {}
        # Signature -> (function of NumPy values, output aval(s)); None without a NumPy rule: see interpreters.evaluate
        self.evaluations: dict[Any, tuple[Callable[..., Any], Any]] | None = None
        # Signature with tangents -> jvp rule on NumPy values; None if it runs at each call: see interpreters.jvp_rules
        self.pushforwards: dict[Any, Any] | None = None
        # Signature -> its linearization; None if the jvp rule runs at each call: see interpreters.derived
        self.linearizations: dict[Any, Any] | None = None
        self._site = _definition_site()

    @property
    def defined_at(self) -> str:
        """``file.py:12``, where the primitive was made. The line is computed only on request, because that is slow."""
        return f"{self._site[0].co_filename}:{errors.position(self._site)[0]}"

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive to ``args``: arrays, tracers, NumPy values or Python scalars."""
        usual = args and type(args[0]) in _EVALUATED and not (bind_watched or evaluation_watched)
        if usual and not (reaching and state.dynamic.level):
            # Evaluation of host arrays with a known signature, inlined: finding and calling the interpreter would take
            # a third of the operation's time. ``EvalTrace`` handles all other cases.
            values: Any = None
            avals: tuple[Any, ...]
            try:
                if len(args) == 1:
                    (x,) = args
                    values, avals = (x._np,), (x.aval,)
                elif len(args) == 2:
                    x, y = args
                    if type(y) in _EVALUATED:
                        values, avals = (x._np, y._np), (x.aval, y.aval)
                elif _EVALUATED.issuperset(map(type, args)):
                    values, avals = [*map(_numpy_value, args)], tuple(map(_aval, args))
                if values is not None:
                    function, out_aval = self.evaluations[(avals, *params.items()) if params else avals]  # type: ignore[index]
                    if warnings.filters[0] is not QUIET:
                        quiet_numpy()
            except (AttributeError, KeyError, TypeError, IndexError):
                values = None
            if values is not None:
                try:
                    out = function(*values)
                except (RuntimeWarning, FloatingPointError, MemoryError) as error:
                    out = without_errors(self, function, values, error)
                if self.multiple_results:
                    return [*map(Array, out, out_aval)]
                result = _new(Array)  # does what Array(out, out_aval) does, in half the time
                result._np = out
                result.aval = out_aval
                return result
        # find_top_trace, inlined: the engine's hottest loop (0.1 us of the 0.7 us that an operation takes)
        top = dynamic = state.dynamic
        level = top.level
        for x in args:
            if isinstance(x, Tracer) and x._trace.level > level:
                top = x._trace
                level = top.level
        if top is not dynamic and top.stack is not dynamic.stack:
            raise_dead(args, self)
        if bind_hooks:
            args = _fitted(self, args, params)
        if bind_watched:
            return _observed_bind(self, top, args, params)
        try:
            return top.process_primitive(self, args, params)
        except TypeError as error:
            name_operand(self, args, error)
            raise

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], avals: Any, params: dict[str, Any]) -> Any:
        """``bind`` with ``trace``, or with a tracer's interpreter if that is higher. ``avals`` is ignored."""
        with set_current_trace(trace):
            return self.bind(*args, **params)

    def def_impl(self, rule: Rule) -> Rule:
        """Set the evaluation rule ``rule(*arrays, **params)``, and return it: this is a decorator too."""
        impl_rules[self] = rule
        return rule

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Set the rule ``rule(*avals, **params)`` for the output's ``ShapedArray`` (a list if multiple results)."""
        abstract_rules[self] = rule
        self.signatures.clear()
        if self.evaluations is not None:
            self.evaluations.clear()
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Set a ``rule`` that returns type(s) and effects, a set of ``extend.core.Effect``s."""
        self.effectful, self.effects_rule = True, rule
        self.def_abstract_eval(lambda *avals, **params: rule(*avals, **params)[0])
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


def without_errors(
    primitive: Primitive, function: Callable[..., Any], values: Sequence[Any], error: BaseException
) -> Any:
    """Repeat ``function(*values)`` without NumPy's floating-point errors; HostOutOfMemoryError for a MemoryError."""
    if isinstance(error, MemoryError):
        raise errors.HostOutOfMemoryError(f"RESOURCE_EXHAUSTED: Out of memory in {primitive.name}: {error}") from None
    with np.errstate(all="ignore"):
        return function(*values)


def bind_at(primitive: Primitive, top: Trace, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply the primitive with the interpreter ``top``, for primitives whose operands alone do not determine it."""
    if top.stack is not state.dynamic.stack:
        raise_dead(args, primitive)
    if bind_hooks:
        args = _fitted(primitive, args, params)
    if bind_watched:
        return _observed_bind(primitive, top, args, params)
    try:
        return top.process_primitive(primitive, args, params)
    except TypeError as error:
        name_operand(primitive, args, error)
        raise


def name_operand(primitive: Primitive, args: Sequence[Any], error: TypeError) -> None:
    """Add the primitive and the operand's position to ``error``, if it is about an operand that is not an array."""
    if not hasattr(error, "refused"):
        return
    x = error.refused
    for position, arg in enumerate(args):
        if arg is x:
            del error.refused
            instead = getattr(type(x), "refusal_advice", "Pass an array or a number.")
            error.args = (
                f"Error interpreting argument to {primitive.name} as a JAX value. The problematic value is of type "
                f"{type(x)} and was passed to {primitive.name} at position {position}: {x!r} is not a valid JAX type. "
                f"{instead}",
            )
            return


def _fitted(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    try:
        for hook in tuple(bind_hooks):
            args = hook(primitive, args, params)
    except TypeError as error:
        name_operand(primitive, args, error)
        raise
    return args


def _observed_bind(primitive: Primitive, top: Trace, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    if on_bind_enter:
        for method in tuple(on_bind_enter):  # ``emit``, inlined, as below
            method(primitive, top, args, params)
    try:
        if on_rule:
            rule = top.rule_of(primitive)
            if rule is not None:
                table = top.table_of(primitive)
                for method in tuple(on_rule):
                    method(table, primitive, rule)
        try:
            out = top.process_primitive(primitive, args, params)
        except TypeError as error:
            name_operand(primitive, args, error)
            raise
    except BaseException as error:
        if on_bind_raise:
            emit(on_bind_raise, primitive, top, error)
        raise
    if top.counted:  # a Tally has counted this operation already
        top.counted = False  # type: ignore[misc]
        return out
    for method in tuple(on_bind_exit):
        method(primitive, top, out)
    return out


def abstract_eval(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The output type(s) of ``primitive`` on ``avals``, cached by signature. NotImplementedError without a rule."""
    key: Any = (avals, *params.items()) if params else avals
    try:
        return primitive.signatures[key]
    except KeyError:
        keeps = primitive.keeps_signatures
    except TypeError:  # a parameter is not hashable
        keeps = False
    # outside of the ``except`` blocks, so that errors of the rule are not chained to the failed lookup
    if primitive.refuses_keys:
        _check_no_keys(primitive, avals)
    if AbstractRef.made and not primitive.takes_refs:
        _check_no_refs(primitive, avals)
    out = infer_type(primitive, avals, params) if abstract_hooks else abstract_rules[primitive](*avals, **params)
    if out is None:
        expected = "a list of ShapedArrays" if primitive.multiple_results else "a ShapedArray"
        raise bad_result(abstract_rules, primitive, out, expected, TypeError("no type"))
    if keeps:
        if len(primitive.signatures) >= MAX_SIGNATURES:
            primitive.signatures.clear()
        primitive.signatures[key] = out
    return out


def infer_type(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], first: int = 0) -> Any:
    """The output type(s) from the ``abstract_hooks`` (from number ``first`` on), else from the primitive's rule."""
    for place in range(first, len(abstract_hooks)):
        out = abstract_hooks[place](primitive, avals, params, place + 1)
        if out is not None:
            return out
    return abstract_rules[primitive](*avals, **params)


def _check_no_keys(primitive: Primitive, avals: tuple[Any, ...]) -> None:
    for i, aval in enumerate(avals):
        if is_key(aval.dtype):
            where = f" at position {i}" if len(avals) > 1 else ""
            raise TypeError(
                f"{primitive.name} does not accept dtype {aval.dtype.name}{where}: random keys can only be "
                "rearranged and compared. To compute with their words, use random.key_data(keys)."
            )


def _check_no_refs(primitive: Primitive, avals: tuple[Any, ...]) -> None:
    for i, aval in enumerate(avals):
        if type(aval) is AbstractRef:
            raise TypeError(
                f"{primitive.name} requires arrays or scalars, got a mutable array reference of type {aval} at "
                f"position {i}. Read it first: r[...] is the array that it holds."
            )


def _definition_site() -> tuple[CodeType, int]:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("minijax.ops"):
        if frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti
