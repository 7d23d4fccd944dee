"""Evaluation: the interpreter at level 0.

In: arrays, NumPy values, Python scalars. Out: ``Array``s. Invariant: abstract evaluation gives an output's type, so
evaluation checks as much as staging does.

A primitive has a NumPy implementation (``numpy_rules``, from NumPy values to NumPy values) or a ``def_impl`` rule
(``impl_rules``, from the bound arguments to the result).
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import Setting, context_mesh, debug_infs, debug_nans, results_checked, while_on
from minijax.core import avals, dtypes
from minijax.core.array import (
    HELD,
    Array,
    MeshArray,
    as_array,
    committed,
    common_device,
    get_aval,
    is_array_like,
    not_an_array,
    uncommitted,
)
from minijax.core.keys import is_key
from minijax.core.lazy import HigherModule
from minijax.core.numpy_warnings import quiet_numpy
from minijax.core.primitive import (
    MAX_SIGNATURES,
    Primitive,
    abstract_eval,
    evaluation_watched,
    impl_rules,
    without_errors,
)
from minijax.core.rules import ReplaceableRules, Rule
from minijax.core.trace import Trace, check_alive, set_base_trace, state
from minijax.errors import source_info, summarize
from minijax.ir.evaluate import eval_closed

# Modules for programs, operations and arrays over several devices, imported at first use.
_partitioned = HigherModule("partitioned_programs")
_eager = HigherModule("eager_over_meshes")
_sharded = HigherModule("sharded_arrays")


class _NumPyRules(ReplaceableRules):
    """primitive -> function of NumPy values and params, giving NumPy value(s)."""

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        super().__setitem__(primitive, rule)
        primitive.evaluations = {}


numpy_rules = _NumPyRules(
    "numpy",
    "NumPy implementation for '{name}' not found",
    "give its value with: primitive.def_impl(rule)   # rule(*arrays, **params) -> array",
)

# Primitives whose evaluation rule itself places the results on devices.
commits_itself: set[Primitive] = set()

# Primitives that call a program. It is compiled if an operand is over a mesh of devices, or if it names a mesh.
compiled_over_meshes: set[Primitive] = set()
# The primitives that name a mesh. While the list is empty, programs need not be searched for them.
constraints: list[Primitive] = []


def _names_mesh(params: dict[str, Any]) -> bool:
    """Whether a program among ``params`` constrains the sharding of a value."""
    return bool(constraints) and _partitioned.names_any(params)


def _on(device: Any, out: Any) -> Any:
    """``out``, one result or several, on ``device``. Results over a mesh (a tuple of devices) stay as they are."""
    if type(device) is tuple:
        return out
    return [committed(x, device) for x in out] if isinstance(out, (list, tuple)) else committed(out, device)


def by_type(choose: Callable[..., Callable[..., Any]]) -> Rule:
    """The NumPy rule ``choose(*operands, **params)(*operands)``. ``choose`` needs only types: it runs once for each
    signature.
    """

    @functools.wraps(choose)
    def rule(*values: Any, **params: Any) -> Any:
        return choose(*values, **params)(*values)

    rule.choose = choose  # type: ignore[attr-defined]
    return rule


def numpy_function(primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> Callable[..., Any] | None:
    """The function of NumPy values of types ``avals`` that evaluates ``primitive``; None if it has no NumPy rule."""
    rule = numpy_rules.get(primitive)
    if rule is None:
        return None
    choose = getattr(rule, "choose", None)
    if choose is not None:
        return choose(*avals, **params)
    return functools.partial(rule, **params) if params else rule


# On scalars, Python's operators use NumPy's scalar arithmetic, which takes at most a third of a ufunc's time.
SCALAR_RULES: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.negative: operator.neg,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}


def _evaluation(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
    """The function of NumPy values and the output type(s) for a signature, cached in ``evaluations``."""
    out_aval = abstract_eval(primitive, avals, params)
    function = numpy_function(primitive, avals, params)
    # floats only: if an integer overflows, scalar arithmetic emits a warning, slow though hidden; ufuncs emit none
    if all([aval.dtype.kind == "f" and not aval.shape for aval in avals]):
        function = SCALAR_RULES.get(function, function)
    found: Any = function, out_aval
    known: Any = primitive.evaluations
    if primitive.keeps_signatures:
        if len(known) >= MAX_SIGNATURES:
            known.clear()
        with contextlib.suppress(TypeError):  # a parameter is not hashable
            known[(avals, *params.items()) if params else avals] = found
    return found


class EvalTrace(Trace):
    """Evaluation on NumPy, for all operations that ``bind`` does not evaluate on its inlined path."""

    __slots__ = ()
    rules = numpy_rules

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        known = primitive.evaluations
        if known is None:
            try:
                if primitive in compiled_over_meshes and (MeshArray in map(type, args) or _names_mesh(params)):
                    return _partitioned.evaluate_over_mesh(primitive, args, params)
                out = impl_rules[primitive](*args, **params)
                if primitive not in commits_itself and not HELD.isdisjoint(map(type, args)):
                    out = _on(common_device(args, primitive.name), out)
                return out
            except TypeError:
                for x in args:
                    if not is_array_like(x):
                        raise not_an_array(x) from None
                raise
        if avals.sharded_types_made and (params.get("sharding") or params.get("out_sharding")) is not None:
            return _partitioned.evaluate_over_mesh(primitive, args, params)  # a parameter is the result's sharding
        args = [x if isinstance(x, Array) else as_array(check_alive(x)) for x in args]
        try:
            values: Any = [x._np for x in args]
        except AttributeError:
            values = None
        if values is None:  # an operand is on the device
            if avals.sharded_types_made:  # errors about types come before errors about devices
                abstract_eval(primitive, tuple([x.aval for x in args]), params)
            device = common_device(args, primitive.name)
            if type(device) is tuple:
                return _partitioned.evaluate_over_mesh(primitive, args, params)
            if device is not None:
                return _on(device, self.process_primitive(primitive, [*map(uncommitted, args)], params))
            values = [x._value() for x in args]
        types = tuple([x.aval for x in args])
        try:
            function, out_aval = known[(types, *params.items()) if params else types]
        except (KeyError, TypeError):
            out_aval = None
        if out_aval is None:
            function, out_aval = _evaluation(primitive, types, params)
        quiet_numpy()
        try:
            out = function(*values)
        except (RuntimeWarning, FloatingPointError, MemoryError) as error:
            out = without_errors(primitive, function, values, error)
        return [*map(Array, out, out_aval)] if primitive.multiple_results else Array(out, out_aval)

    def rule_of(self, primitive: Primitive) -> Rule | None:
        return numpy_rules.get(primitive) or impl_rules.get(primitive)


set_base_trace(EvalTrace)


# -------------------------------------------------------------------------------- debug_nans, the current mesh

_evaluate = EvalTrace.process_primitive


def _checked(self: EvalTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """``EvalTrace.process_primitive`` while a thread has a current mesh, or checks results or the use of keys."""
    if key_checks and not _within.checked:
        out = _checking_keys(self, primitive, args, params)
    else:
        out = _evaluated(self, primitive, args, params)
    if results_checked():
        for x in out if primitive.multiple_results else (out,):
            for setting, found in _SOUGHT:
                if setting.value and _has(found, x):
                    raise _nan_error(primitive, args, params, found.__name__[2:])
    return out


# (setting, function that finds the values that the setting forbids)
_SOUGHT: tuple[tuple[Setting, Any], ...] = ((debug_nans, np.isnan), (debug_infs, np.isinf))


def _evaluated(self: EvalTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    if context_mesh() is not None:  # the results are over the mesh
        return _eager.evaluate(_evaluate, self, primitive, args, params)
    return _evaluate(self, primitive, args, params)


class _Within(threading.local):
    """Whether this thread is inside a primitive that was passed to ``key_checks``: then inner primitives are not."""

    checked = False


_within = _Within()


def _checking_keys(self: EvalTrace, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    for check in key_checks:
        check(primitive, args, params)
    _within.checked = True
    try:
        return _evaluated(self, primitive, args, params)
    finally:
        _within.checked = False


# Called for each primitive before it is evaluated, while ``debug_key_reuse`` is on in some thread.
key_checks: list[Callable[[Primitive, Sequence[Any], dict[str, Any]], None]] = []


def look_at_each(name: str, on: bool) -> None:
    """Turn a reason for checked evaluation on or off. While there is any reason, all threads use ``_checked``."""
    (evaluation_watched.append if on else evaluation_watched.remove)(name)
    EvalTrace.process_primitive = _checked if evaluation_watched else _evaluate  # type: ignore[method-assign]


for _name in ("debug_nans", "debug_infs", "context_mesh"):
    while_on(_name, functools.partial(look_at_each, _name, True), functools.partial(look_at_each, _name, False))


def _has(found: Any, x: Any) -> bool:
    if not dtypes.is_inexact(get_aval(x).dtype):
        return False
    if type(x) is MeshArray and (x.aval.unreduced or not x.device.is_fully_addressable):  # there is no whole value
        return any([_has(found, part.data) for part in _sharded.addressable_shards(x)])
    value = np.asarray(x._value() if isinstance(x, Array) else x)
    return bool(found(value).any())


def _nan_error(primitive: Primitive, args: Sequence[Any], params: dict[str, Any], found: str) -> FloatingPointError:
    """The error for ``primitive``, whose result has a 'nan' or 'inf'. If a jit call failed, its operations run one by
    one, to find the operation that fails.
    """
    closed = params.get("jaxpr")
    if primitive.name == "jit" and closed is not None and not any(params.get("donated_invars", ())):
        try:
            eval_closed(closed, *args)
        except FloatingPointError as error:
            return error
    name = f"jit({params.get('name')})" if primitive.name == "jit" else primitive.name
    place = summarize(state.source or source_info(3))
    lines = [f"invalid value ({found}) encountered in {name}", f"It happened at {place}."]
    lines += [f"  operand {i}: {_extremes(x)}" for i, x in enumerate(args)]
    lines.append("Keep its operands in its domain; %nan at the prompt, or in IPython, shows how they were computed.")
    return FloatingPointError("\n".join(lines))


def _extremes(x: Any) -> str:
    """``f32[3]: from -1.0 to 1.0``; just the type if the array cannot be read any more."""
    kind = get_aval(x).str_short()
    if is_key(get_aval(x).dtype):
        return kind
    try:
        value = np.asarray(as_array(x)._value())
    except RuntimeError:  # its buffer was donated
        return kind
    if not value.size:
        return kind
    return f"{kind}: {value}" if value.ndim == 0 else f"{kind}: from {value.min()} to {value.max()}"
