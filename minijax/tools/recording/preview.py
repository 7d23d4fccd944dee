"""Values as short strings, bounded in length and in cost for every kind of value.

This module keeps no value. It calls no method of a user's class, because a ``repr`` could do anything. Values
on a device stay there unless ``fetch`` is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.array import Array, get_aval
from minijax.core.avals import AnyArray
from minijax.core.keys import KeyType, PRNGImpl, is_key
from minijax.core.structural import Zero
from minijax.core.trace import Tracer
from minijax.interpreters.jvp import DualTracer, JVPTracer
from minijax.interpreters.partial_eval import PartialEvalTracer
from minijax.interpreters.stage import JaxprTracer
from minijax.interpreters.vmap import BatchTracer
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from minijax.ops.callback import FlatCallback
from minijax.ops.custom_derivatives import Function
from minijax.tools.documents.words import MOST_DIGITS, decimal, plural, shortened

# Arrays of up to this many elements are shown with their values.
MOST_ELEMENTS = 6
# Larger arrays (in bytes) are not searched for NaNs and infinities.
MOST_BYTES = 100_000_000


# Texts of types. There are few types, and each has one shared text.
type_texts: dict[Any, str] = {}


def aval_text(aval: Any) -> str:
    """``f32[8]`` for an abstract value."""
    text = type_texts.get(aval)
    if text is None:
        if len(type_texts) > 4096:
            type_texts.clear()
        text = type_texts[aval] = aval.str_short()
    return text


def type_text(value: Any) -> str:
    """``f32[8]`` for a value with an aval, the class's name otherwise."""
    if isinstance(value, (Tracer, Array)):
        return aval_text(value.aval)
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.name}{list(value.shape)}".replace(" ", "")
    return type(value).__name__


def _number(value: Any) -> str:
    item = value.item()
    if not isinstance(item, float):
        return str(item)
    return float_text(item)


def float_text(item: float) -> str:
    """A float with up to seven digits. A whole number ends in ``.0``."""
    return decimal(item, MOST_DIGITS)


def _elements(value: np.ndarray) -> str:
    if value.ndim == 0:
        return _number(value)
    if value.ndim == 1:
        return "[" + ", ".join(_number(x) for x in value) + "]"
    return "[" + ", ".join(_elements(row) for row in value) + "]"


def host_value(array: Array, fetch: bool = False) -> Any:
    """The NumPy value of ``array``; None if it is on a device.

    With ``fetch`` its memory is read from the device, which is not possible for arrays on several devices and for
    dtypes that NumPy lacks.
    """
    if array.on_host:
        return array._value()
    if not fetch:
        return None
    try:
        return np.asarray(memoryview(array._buffer))
    except Exception:  # deleted, on several devices, of a dtype without a format, or the result of a failed program
        return None


def value_text(value: Any, fetch: bool = False) -> str:
    """The text of a value: ``3.0``, ``[1, 2, 3]``, ``f32[1000]``, ``jvp:2 f32[]``, ``linearize:1 tangent f32[]``; at
    most ``words.LONGEST`` characters.
    """
    if isinstance(value, Tracer):
        return f"{level_text(value)} {'tangent ' if is_tangent(value) else ''}{aval_text(value.aval)}"
    if isinstance(value, Array):
        if type(getattr(value, "_np", None)) is np.float32:  # the most frequent operand
            return float_text(value._np.item())
        few = value.aval.size <= MOST_ELEMENTS and not is_key(value.aval.dtype)
        held = host_value(value, fetch) if few else None
        return aval_text(value.aval) if held is None else shortened(_elements(np.asarray(held)))
    if isinstance(value, (np.ndarray, np.generic)):
        return shortened(_elements(np.asarray(value))) if value.size <= MOST_ELEMENTS else type_text(value)
    if isinstance(value, Zero):
        return "0 (symbolic)"
    if value is None or isinstance(value, (bool, int, float, complex, str, np.dtype)):
        return shortened(repr(value) if isinstance(value, str) else str(value))
    return parameter_text(value)


def worth_and_type(value: Any) -> tuple[Any, str]:
    """The value's text, or its number if it is a float32 scalar on the host; and its type as in ``short_type``."""
    if isinstance(value, Array) and type(getattr(value, "_np", None)) is np.float32:
        return value._np.item(), type_texts.get(value.aval) or aval_text(value.aval)
    return value_text(value, fetch=True), short_type(value)


def short_type(value: Any) -> str:
    """The type of an operand, as jaxprs print it; '' for other objects."""
    try:
        return aval_text(value.aval if isinstance(value, AnyArray) else get_aval(value))
    except Exception:  # the operation itself gives a better error
        return ""


def held(tracer: Tracer) -> tuple[Any, ...]:
    """The values inside a tracer: primal and tangent, or the batched value."""
    if isinstance(tracer, JVPTracer):
        return (tracer.primal, tracer.tangent)
    if isinstance(tracer, DualTracer):  # a tracer whose tangent is a place on a tape
        return (tracer.primal,)
    return (tracer.val,) if isinstance(tracer, BatchTracer) else ()


def tangent_variable(tracer: Tracer) -> Var | None:
    """The variable of a tracer's tangent while its linear program is recorded."""
    if not isinstance(tracer, DualTracer):
        return None
    tangent = tracer.tangent if isinstance(tracer, JVPTracer) else tracer
    variable = getattr(tangent, "variable", None)
    return variable if isinstance(variable, Var) else None


def physical_type(tracer: Tracer) -> str:
    """The type of the innermost value in a tracer, which has the batch axes of all vmap levels."""
    value: Any = tracer
    while isinstance(value, (DualTracer, BatchTracer)):
        value = value.primal if isinstance(value, DualTracer) else value.val
    return short_type(value)


def nonfinite(value: Any) -> bool:
    """Whether an element of ``value``, or of a value inside a tracer, is known to be NaN or infinite."""
    if isinstance(value, Tracer):
        return any(map(nonfinite, held(value)))
    if isinstance(value, Array):
        if type(getattr(value, "_np", None)) is np.float32:
            return not math.isfinite(value._np)
        if value.aval.dtype.kind in "biukO" or value.nbytes > MOST_BYTES:
            return False
        value = host_value(value, fetch=True)
    if type(value) is np.float32 or isinstance(value, float):  # np.float64 is a float too; most results are scalars
        return not math.isfinite(value)
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "fcV" or value.nbytes > MOST_BYTES:
        return False
    try:
        return not np.isfinite(value).all()
    except TypeError:  # a dtype without NaNs and infinities
        return False


def parameter_text(value: Any) -> str:
    """A primitive's parameter, in brief."""
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        count = len((value.jaxpr if isinstance(value, ClosedJaxpr) else value).eqns)
        return f"{{ jaxpr of {plural(count, 'equation')} }}"
    if type(value) in (tuple, list):
        if len(value) > 8:
            return f"{type(value).__name__} of {len(value)}"
        return shortened("(" + ", ".join(map(value_text, value)) + ("," if len(value) == 1 else "") + ")")
    if value is None or isinstance(value, (bool, int, float, complex, str, np.dtype, KeyType, PRNGImpl)):
        return shortened(str(value))
    if isinstance(value, Function):
        return shortened(value.about.name)
    if isinstance(value, FlatCallback):
        value = value.callback_func
    return shortened(value.__name__) if isinstance(value, FunctionType) else type(value).__name__


# Texts of parameters that consist of a few plain values.
_plain_texts: dict[Any, tuple[tuple[str, str], ...]] = {}
_PLAIN = {type(None), bool, int, str}


# Parameters (see ``Primitive.sharding_param``) that carry no information if types have no shardings.
_PLACING = ("sharding", "out_sharding")


def plain_parameters(params: dict[str, Any]) -> tuple[tuple[str, str], ...] | None:
    """The result of ``parameters``, cached, if all parameters are plain values; else None."""
    key: list[Any] = []
    for name, value in params.items():
        kind = type(value)
        if kind is tuple:
            for each in value:
                if type(each) is not int:
                    return None
        elif kind not in _PLAIN and not isinstance(value, np.dtype):
            return None
        key += (name, kind, value)
    found = _plain_texts.get(tuple(key))
    if found is None:
        if len(_plain_texts) > 4096:
            _plain_texts.clear()
        found = _plain_texts[tuple(key)] = parameters(params)
    return found


def parameters(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """A primitive's parameters, sorted by name."""
    if not params:
        return ()
    shown = [name for name in sorted(params) if name not in _PLACING or params[name] is not None]
    return tuple([(name, parameter_text(params[name])) for name in shown])


def subject_text(subject: str) -> str:
    """The function of an interpreter: ``f at file.py:12``; without the place for a function of the engine."""
    name, _, place = subject.partition(" at ")
    return name if place and not errors.is_user_file(place.rpartition(":")[0]) else subject


def is_tangent(tracer: Tracer) -> bool:
    """Whether ``tracer`` is the unknown tangent that ``linearize`` gives to jvp rules."""
    trace = tracer._trace
    return trace is not trace.main.trace


def level_text(tracer: Tracer) -> str:
    """The interpreter of a tracer: ``jvp:2``."""
    return repr(tracer._trace.main)


def fields(tracer: Tracer, variable: str = "", fetch: bool = False) -> tuple[tuple[str, str], ...]:
    """The values inside a tracer, by name: ``(('primal', '3.0'), ('tangent', 'partial_eval:1 f32[]'))``.

    ``variable`` is the name of the tracer's variable in its jaxpr, if it has one.
    """
    if isinstance(tracer, JVPTracer):
        return (("primal", value_text(tracer.primal, fetch)), ("tangent", value_text(tracer.tangent, fetch)))
    if isinstance(tracer, DualTracer):
        return (("primal", value_text(tracer.primal, fetch)), ("tangent", variable))
    if isinstance(tracer, BatchTracer):
        return (("batched", type_text(tracer.val)), ("axis", str(tracer.batch_dim)))
    if isinstance(tracer, JaxprTracer):
        return (("variable", variable),) if variable else ()
    if isinstance(tracer, PartialEvalTracer):
        return (("tangent" if is_tangent(tracer) else "unknown", variable),)
    return ()


def listed(texts: Sequence[str], count: int, limit: int = 4) -> str:
    """The first ``limit`` of ``count`` values, and how many more there are. ``texts`` may lack the others."""
    shown = ", ".join(texts[:limit])
    return f"{shown}, ... {count - limit} more" if count > limit else shown
