"""The methods of numpy's own ufuncs: ``add.reduce``, ``maximum.accumulate``, ``multiply.outer``, ...

``add`` and the others are plain functions, so that a call of one costs nothing more; their methods are those of a
``ufunc``, which is made when one of them is first called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes
from minijax.numpy import reductions
from minijax.numpy.index_update import IndexUpdate
from minijax.numpy.logarithms import logaddexp, logaddexp2
from minijax.numpy.promotion import const, convert, ensure, promote, user_dtype
from minijax.numpy.reductions import Monoid, reduction
from minijax.numpy.ufuncs import INEXACT, subtract
from minijax.numpy.universal import ufunc

__all__: list[str] = []

BITWISE_AND = Monoid(lax.reduce_and, lax.bitwise_and, dtypes.all_bits)
BITWISE_OR = Monoid(lax.reduce_or, lax.bitwise_or, lambda dtype: 0)
BITWISE_XOR = Monoid(lax.reduce_xor, lax.bitwise_xor, lambda dtype: 0)


def _by(name: str, monoid: Monoid, kinds: str) -> Callable[..., Any]:
    """The reduction of arrays whose dtype is of ``kinds`` by ``monoid``."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        a = ensure(name, a)
        if kinds == "b":
            a = convert(a, np.dtype(bool))
        elif dtypes.kind(a.aval.dtype) not in kinds:
            raise ValueError(f"{name}.reduce: integer argument required; got dtype={a.aval.dtype}")
        return reduction(name, monoid, a, axis, keepdims, initial, where, dtype)

    return reduce


def _through(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reduction by a function of numpy, which may have options of its own."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        a = ensure(function.__name__, a)
        a = a if dtype is None else convert(a, user_dtype(dtype, "reduce"))
        return function(a, axis=axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


def _log_of_sum(combine: Callable[..., Any], base: float | None) -> Callable[..., Any]:
    """The logarithm of the sum of powers of ``base``, or of e; ``combine`` brings the initial value in."""

    def reduce(a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
        (a,) = promote("logaddexp", a, to=INEXACT)
        a = a if dtype is None else convert(a, user_dtype(dtype, "reduce"))
        a = a if base is None else lax.mul(a, const(a, np.log(base)))
        peak = reductions.max(a, axis, keepdims=keepdims, initial=-np.inf, where=where)
        shift = lax.stop_gradient(lax.select(lax.is_finite(peak), peak, lax.full_like(peak, 0)))
        axes = reductions.reduction_axes(axis, a.aval.ndim)
        powers = lax.exp(subtract(a, shift if keepdims else lax.expand_dims(shift, axes)))
        out = lax.add(lax.log(reductions.sum(powers, axis, keepdims=keepdims, where=where)), shift)
        out = out if base is None else lax.div(out, const(out, np.log(base)))
        return out if initial is None else combine(initial, out)

    return reduce


def _changed(update: str) -> Callable[..., Any]:
    """The changed copy, by one of the methods of ``x.at[...]``."""

    def at(a: Any, indices: Any, b: Any) -> Any:
        return getattr(IndexUpdate(ensure("at", a))[indices], update)(b)

    return at


# what takes the place of loops, by name
_OPTIONS: dict[str, dict[str, Any]] = {
    "add": {
        "reduce": reductions.sum,
        "accumulate": reductions.cumsum,
        "at": _changed("add"),
    },
    "multiply": {
        "reduce": reductions.prod,
        "accumulate": reductions.cumprod,
        "at": _changed("multiply"),
    },
    "subtract": {"at": _changed("subtract")},
    "maximum": {"reduce": _through(reductions.max)},
    "minimum": {"reduce": _through(reductions.min)},
    "logaddexp": {"reduce": _log_of_sum(logaddexp, None)},
    "logaddexp2": {"reduce": _log_of_sum(logaddexp2, 2.0)},
    "bitwise_and": {"reduce": _by("bitwise_and", BITWISE_AND, "biu")},
    "bitwise_or": {"reduce": _by("bitwise_or", BITWISE_OR, "biu")},
    "bitwise_xor": {"reduce": _by("bitwise_xor", BITWISE_XOR, "biu")},
    "logical_and": {"reduce": _by("logical_and", BITWISE_AND, "b")},
    "logical_or": {"reduce": _by("logical_or", BITWISE_OR, "b")},
    "logical_xor": {"reduce": _by("logical_xor", BITWISE_XOR, "b")},
}


@functools.cache
def library_ufunc(function: Callable[..., Any], nin: int, identity: Any) -> ufunc:
    """The ``ufunc`` of one of numpy's own functions."""
    return ufunc(function, nin, 1, identity=identity, call=function, **_OPTIONS.get(function.__name__, {}))
