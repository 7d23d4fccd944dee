"""Testing derivatives and rules: ``check_grads`` and its parts as in ``jax.test_util``, and ``check_rules``.

``check_grads`` is for functions. ``check_rules`` is for primitives: it compares all rules of a primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijax.api import jvp, linearize, vjp
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.extend.check import assert_rules, check_rules
from minijax.extend.report import RulesError, RulesReport
from minijax.extend.rules import rule_matrix
from minijax.tree_util import tree_leaves, tree_map, tree_structure

__all__ = [
    "RulesError",
    "RulesReport",
    "assert_rules",
    "check_grads",
    "check_jvp",
    "check_rules",
    "check_vjp",
    "rule_matrix",
]

# As in JAX: the step of finite differences, and for each dtype the largest error of an element of a derivative.
EPS = 1e-4
GRADIENT_TOLERANCE = {
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 2e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}
Tolerance = float | dict[Any, float] | None


def _limit(tolerance: Tolerance, dtype: np.dtype) -> float:
    if isinstance(tolerance, dict):
        tolerance = {np.dtype(k): v for k, v in tolerance.items()}.get(dtype)
    if tolerance is None:
        # for float8 and float4, which have at most three bits after the binary point
        return GRADIENT_TOLERANCE.get(dtype.name, 5e-1 if dtypes.is_inexact(dtype) else 0.0)
    return tolerance


def _check_close(what: str, found: Any, wanted: Any, atol: Tolerance, rtol: Tolerance) -> None:
    if tree_structure(found) != tree_structure(wanted):
        raise AssertionError(f"{what}: trees differ: {tree_structure(found)} against {tree_structure(wanted)}")
    for a, b in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        x, y = np.asarray(a), np.asarray(b)
        if x.shape != y.shape:
            raise AssertionError(f"{what}: shapes differ: {x.shape} against {y.shape}")
        if x.dtype == dtypes.float0 or y.dtype == dtypes.float0:
            continue
        limits = [max(_limit(tol, x.dtype), _limit(tol, y.dtype)) * max(x.size, 1) for tol in (atol, rtol)]
        if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4:
            x, y = x.astype(np.float32), y.astype(np.float32)
        np.testing.assert_allclose(x, y, atol=limits[0], rtol=limits[1], err_msg=what)


def _direction(rng: np.random.Generator, x: Any) -> Any:
    """A random tangent for the value ``x``. It is a Python number if ``x`` is a Python float or complex number."""
    aval = get_aval(x)
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    values = rng.standard_normal(aval.shape)
    if dtypes.is_complex(aval.dtype):
        values = values + 1j * rng.standard_normal(aval.shape)
    if type(x) in (float, complex):
        return type(x)(values)
    return np.asarray(values).astype(aval.dtype)


def _difference(f: Callable[..., Any], primals: Any, tangents: Any, eps: float) -> Any:
    """The central difference of ``f`` along ``tangents``: a tree like the result of ``f``."""

    def moved(step: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            if np.asarray(t).dtype == dtypes.float0:
                return x
            moved_x = x + step * t
            return type(x)(moved_x) if type(x) in (float, complex) else np.asarray(moved_x, np.asarray(x).dtype)

        return f(*tree_map(move, primals, tangents))

    def slope(ahead: Any, behind: Any) -> Any:
        a, b = np.asarray(ahead), np.asarray(behind)
        if not dtypes.is_inexact(a.dtype):
            return np.zeros(a.shape, dtypes.float0)
        with np.errstate(invalid="ignore"):
            return np.where(a == b, 0, (a - b) * (0.5 / eps)).astype(a.dtype)

    return tree_map(slope, moved(eps), moved(-eps))


def _inner(xs: Any, ys: Any) -> Any:
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(tree_leaves(xs), tree_leaves(ys), strict=True)]
    products = [np.real(np.sum(np.conj(x) * y)) for x, y in pairs if dtypes.is_inexact(x.dtype)]
    return np.sum(products) if products else np.float32(0)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = EPS,
    err_msg: str = "",
) -> None:
    """Compare ``f_jvp``, such as ``partial(jvp, f)``, with finite differences in one random direction.

    ``atol``, ``rtol``: tolerances per element, or dicts by dtype. AssertionError if values or types differ; its message
    begins with ``err_msg``.
    """
    args = tuple(args)
    rng = np.random.default_rng(0)
    tangents = tree_map(partial(_direction, rng), args)
    value, pushed = f_jvp(args, tangents)
    for v, t in zip(tree_leaves(value), tree_leaves(pushed), strict=True):
        if get_aval(t).dtype != get_aval(v).to_tangent_aval().dtype:
            raise AssertionError(f"{err_msg} a tangent of {get_aval(v)} is {get_aval(t)}".strip())
    _check_close(f"{err_msg} primal".strip(), value, f(*args), atol, rtol)
    _check_close(f"{err_msg} tangent".strip(), pushed, _difference(f, args, tangents, eps), atol, rtol)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = EPS,
    err_msg: str = "",
) -> None:
    """Compare ``f_vjp``, such as ``partial(vjp, f)``, with finite differences for a random direction and cotangent.

    The arguments and errors are those of ``check_jvp``.
    """
    args = tuple(args)
    rng = np.random.default_rng(0)
    value, pullback = f_vjp(*args)
    _check_close(f"{err_msg} primal".strip(), value, f(*args), atol, rtol)
    tangents = tree_map(partial(_direction, rng), args)
    cotangents = tree_map(partial(_direction, rng), value)
    pulled = pullback(tree_map(_conjugate, cotangents))
    found = _inner(tangents, tree_map(_conjugate, pulled))
    wanted = _inner(_difference(f, args, tangents, eps), cotangents)
    _check_close(f"{err_msg} cotangent projection".strip(), found, wanted, atol, rtol)


def _conjugate(x: Any) -> Any:
    array = np.asarray(x)
    return np.conj(array) if dtypes.is_complex(array.dtype) else x


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Compare the derivatives of ``f`` at ``args`` with finite differences, up to ``order``.

    ``modes``: a selection from 'fwd' (jvp), 'rev' (vjp) and 'lin' (linearize). ``atol``, ``rtol``: tolerances per
    element, or dicts by dtype. ``eps``: the step. AssertionError for a wrong derivative; it names the mode and order.
    """
    unknown = set(modes) - {"fwd", "rev", "lin"}
    if unknown:
        raise ValueError(f"modes of check_grads are 'fwd', 'rev' and 'lin', got {sorted(unknown)}")
    options: dict[str, Any] = {"atol": atol, "rtol": rtol, "eps": eps or EPS}

    def linear_jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
        value, linear = linearize(f, *primals)
        return value, linear(*tangents)

    def check(f: Callable[..., Any], args: Any, order: int, outer: str) -> None:
        for mode, name, how in (("fwd", "JVP", jvp), ("lin", "LIN", linear_jvp)):
            if mode in modes:
                message = f"{name} of {outer}" if outer else name
                check_jvp(f, partial(how, f), args, err_msg=message, **options)
                if order > 1:
                    check(partial(how, f), (args, args), order - 1, message)
        if "rev" in modes:
            message = f"VJP of {outer}" if outer else "VJP"
            check_vjp(f, partial(vjp, f), args, err_msg=message, **options)
            if order > 1:

                def pulled(*args: Any) -> Any:
                    value, pullback = vjp(f, *args)
                    return pullback(value)

                check(pulled, args, order - 1, message)

    check(f, tuple(args), order, "")
