"""References for testing derivatives: finite differences, inner products, tolerances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval

Values = list[np.ndarray]

# dtype -> the tolerance between two computations of one value, relative to its size
ROUNDING = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "float32": 3e-5,
    "complex64": 3e-5,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# dtype -> the tolerance between a derivative and a finite difference, and the difference's step
LIMIT = {"float64": 1e-6, "complex128": 1e-6, "float32": 5e-3, "complex64": 5e-3}
STEP = {"float64": 2.0**-12, "complex128": 2.0**-12, "float32": 2.0**-5, "complex64": 2.0**-5}


class Wrong(Exception):
    """The compared values differ; the message shows how."""


class Inconclusive(Exception):
    """The check cannot decide at this point; the message says why."""


def wide(x: Any) -> np.ndarray:
    """Widen small floats to float32 for comparing."""
    array = np.asarray(x)
    if dtypes.is_float(array.dtype) and array.dtype.itemsize < 4:
        return array.astype(np.float32)
    return array


def rounding(*arrays: Any) -> float:
    """The tolerance of the least precise dtype among ``arrays``."""
    names = [np.asarray(x).dtype.name for x in arrays]
    return max((ROUNDING.get(name, 5e-2) for name in names if dtypes.is_inexact(np.dtype(name))), default=0.0)


def inexact(x: Any) -> bool:
    """Whether a function can be differentiated with respect to ``x``."""
    return dtypes.is_inexact(get_aval(x).dtype)


def direction(like: Any, seed: int) -> np.ndarray:
    """Irregular values with magnitudes around 1, with the shape and dtype of ``like`` (an aval or a value)."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 1.5, like.shape) * rng.choice([-1.0, 1.0], like.shape)
    if dtypes.is_complex(like.dtype):
        values = values + 1j * rng.uniform(-1, 1, like.shape)
    return np.asarray(values).astype(like.dtype)


def compare(what: str, found: Any, wanted: Any, by: str, tolerance: float | None = None) -> None:
    """Raise Wrong unless shapes, dtypes and rounded values are equal. ``by`` names the source of ``wanted``."""
    a, b = np.asarray(found), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Wrong(f"{what} is {_type(a)}, {by} says {_type(b)}")
    if a.dtype == dtypes.float0:
        return
    limit = rounding(b) if tolerance is None else tolerance
    x, y = wide(a), wide(b)
    with np.errstate(all="ignore"):
        finite = np.abs(y[np.isfinite(y)])
        # a small element may be the difference of large ones: then its absolute error is as large as theirs
        scale = float(finite.max(initial=0.0)) if dtypes.is_inexact(a.dtype) else 0.0
        same = (x == y) | (np.abs(x - y) <= limit * (scale + np.abs(y))) if limit else x == y
        if dtypes.is_inexact(a.dtype):
            same = same | (np.isnan(x) & np.isnan(y))
    if not same.all():
        place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
        where = f" at {list(place)}" if x.ndim else ""
        raise Wrong(f"{what} is {np.atleast_1d(x)[place]}{where}, {by} says {np.atleast_1d(y)[place]}")


def _type(x: np.ndarray) -> str:
    name = "float0" if x.dtype == dtypes.float0 else x.dtype.name
    return f"{name}[{','.join(map(str, x.shape))}]"


def check_derivative(
    what: str,
    fun: Callable[..., Sequence[Any]],
    point: Sequence[np.ndarray],
    tangents: Sequence[np.ndarray],
    found: Sequence[Any],
) -> None:
    """Raise Wrong if ``found``, the tangents of ``fun``'s results at ``point``, differs from finite differences."""
    h, limit = _step_and_limit([*point, *fun(*point)])

    def beside(h: float) -> list[np.ndarray]:
        return [np.asarray(y) for y in fun(*[_moved(x, h * t) for x, t in zip(point, tangents, strict=True)])]

    with np.errstate(all="ignore"):
        values = [np.asarray(y) for y in fun(*point)]
        sides = zip(beside(h), beside(-h), beside(h / 2), beside(-h / 2), strict=True)
        for i, (value, around, t) in enumerate(zip(values, sides, found, strict=True)):
            _check_one(f"{what}, result {i}" if len(values) > 1 else what, value, around, np.asarray(t), limit, h)


def differences(fun: Callable[..., Sequence[Any]], point: Values, tangents: Values) -> Values:
    """The tangents of ``fun``'s results by central differences only: for a function without a jvp."""
    values = [np.asarray(y) for y in fun(*point)]
    h, _ = _step_and_limit([*point, *values])
    ahead, behind = [fun(*[_moved(x, s * t) for x, t in zip(point, tangents, strict=True)]) for s in (h, -h)]
    return [
        ((np.asarray(a) - np.asarray(b)) / (2 * h)).astype(v.dtype) if inexact(v) else np.zeros(v.shape, dtypes.float0)
        for v, a, b in zip(values, ahead, behind, strict=True)
    ]


def _step_and_limit(values: Sequence[Any]) -> tuple[float, float]:
    names = [np.asarray(x).dtype.name for x in values if inexact(x)]
    if any(name not in STEP for name in names):
        raise Inconclusive(f"differences in {', '.join(dict.fromkeys(names))} are too coarse to tell")
    return max(STEP[name] for name in names), max(LIMIT[name] for name in names)


def _moved(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.asarray(x + step, x.dtype)


def _check_one(
    what: str, value: np.ndarray, around: tuple[np.ndarray, ...], tangent: np.ndarray, limit: float, h: float
) -> None:
    """Compare one tangent; ``around`` holds the results at steps h, -h, h/2, -h/2."""
    if not inexact(value):
        if tangent.dtype != dtypes.float0:
            raise Wrong(f"{what} is {_type(tangent)}, but the tangent of {_type(value)} has dtype float0")
        return
    if tangent.shape != value.shape or tangent.dtype != value.dtype:
        raise Wrong(f"{what} is {_type(tangent)}, but the result it belongs to is {_type(value)}")
    ahead, behind, near_ahead, near_behind = around
    wanted = (8 * (near_ahead - near_behind) - (ahead - behind)) / (6 * h)
    if not np.isfinite(wanted).all():
        raise Inconclusive("finite differences are not finite here")
    scale = float(np.abs(wanted).max(initial=0.0))
    noise = float(np.finfo(value.dtype).eps * np.abs(value).max(initial=0.0) / h)
    error = np.abs(tangent - wanted)
    if (error <= limit * scale + 20 * noise).all():
        return
    if not np.isfinite(tangent).all():
        raise Wrong(f"{what} is not finite, but finite differences are")
    # at a kink or a jump the slopes on the two sides differ at every step size
    bend = np.abs((ahead - value) - (value - behind)) / h
    if bend.max() > 0.25 * error.max():
        raise Inconclusive("not smooth here: finite differences on the two sides disagree")
    place = np.unravel_index(int(np.argmax(error)), error.shape)
    where = f" at {[int(i) for i in place]}" if value.ndim else ""
    raise Wrong(f"{what} is {tangent[place]}{where}, finite differences say {wanted[place]:.6g}")


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The real part of the inner product of two lists of arrays, and the sum of absolute products."""
    products = [wide(x) * wide(y) for x, y in zip(xs, ys, strict=True) if inexact(x) and inexact(y)]
    return float(sum(p.real.sum() for p in products)), float(sum(np.abs(p).sum() for p in products))


def check_adjoint(
    what: str,
    cts: Sequence[Any],
    pushed: Sequence[Any],
    pulled: Sequence[Any],
    tangents: Sequence[Any],
    limit: float | None = None,
) -> None:
    """Raise Wrong unless ``<ct, J t> == <J' ct, t>``, the definition of the transpose, within rounding or ``limit``."""
    (forward, size1), (backward, size2) = inner(cts, pushed), inner(pulled, tangents)
    limit = rounding(*cts, *pulled) if limit is None else limit
    if not np.isfinite(forward) or not np.isfinite(backward):
        if np.isfinite(forward) != np.isfinite(backward):
            raise Wrong(f"{what}: one side of <ct, J t> = <J' ct, t> is not finite: {forward:.6g}, {backward:.6g}")
        return
    if abs(forward - backward) > limit * max(size1, size2, 1e-30) * 4:
        raise Wrong(f"{what}: <ct, J t> is {forward:.6g} forwards, but <J' ct, t> backwards is {backward:.6g}")
