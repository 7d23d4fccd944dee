"""Every elementwise primitive matches JAX at zeros of both signs, infinities, nan, halves and extremes.

Subnormal numbers are left out: XLA flushes them to zero on CPUs; NumPy and accelerators do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import minijax
from minijax.core import dtypes
from minijax.ops.nary import elementwise_primitives

from ..oracle.subject import QUICKLY
from .table import bfloat16

DTYPES = (np.float32, np.float16, bfloat16, np.complex64, np.int32, np.int8, np.uint8, bool)
# primitives whose function in lax has a different name
FUNCTIONS = {"not": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
# dtype -> relative error to allow, because XLA rounds differently
ROUNDING = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "complex64": 2e-5}
# XLA is less exact than evaluation. It computes powers of two by exp of a rounded product, and lgamma and polygamma by
# series that lose digits near lgamma's zeros and at high orders. Where a part of a complex quotient or square cancels,
# a fused multiply-add gives another remainder.
INEXACT_IN_XLA = {
    ("exp2", "bfloat16"): 0.35,
    ("exp2", "float16"): 4e-3,
    ("lgamma", ""): 2e-3,
    ("polygamma", ""): 6e-3,
    ("div", "complex64"): 2e-5,
    ("square", "complex64"): 2e-5,
}
# Complex primitives that agree at all operands. The others are compared only at ``moderate`` operands: their formulas
# have several steps, whose order decides where infinities, nan and overflow appear.
COMPLEX_EVERYWHERE = ("abs", "complex", "conj", "eq", "max", "min", "ne", "neg", "real", "imag", "add", "sub", "sign")
# Complex primitives whose evaluation is not compared. XLA's formulas use an angle or a logarithm, which give a small
# number, a rounding error, where a part is zero, and nan for a power of 0.
COMPLEX_BY_ANGLES = ("atan2", "pow", "rsqrt")
SMALL = 1e-5  # absolute error to allow for primitives in INEXACT_IN_XLA


def elementwise_names() -> list[str]:
    """The primitives of the elementwise table for which JAX has a function."""
    rows = [p.name for p in elementwise_primitives if p.name != "add_any"]
    return sorted(name for name in rows if hasattr(jax.lax, FUNCTIONS.get(name, name)))


def specials(dtype: Any) -> np.ndarray:
    """The values of one dtype where functions are special."""
    dtype = np.dtype(dtype)
    kind = dtypes.kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info, bits = np.iinfo(dtype), 8 * dtype.itemsize
        numbers = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, info.max, info.max - 1, info.min, info.min + 1}
        return np.array(sorted(numbers | ({-1, -2, -7} if kind == "i" else set())), dtype)
    if kind == "c":
        parts = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -4.5, 0.3, np.inf, -np.inf, np.nan, 1e10, -1e30]
        out = np.empty((len(parts), len(parts)), dtype)
        out.real, out.imag = np.array(parts)[:, None], np.array(parts)
        return out.ravel()
    info = ml_dtypes.finfo(dtype)
    before_half = np.nextafter(dtype.type(0.5), dtype.type(0))
    positive = [0.0, 1, 0.5, 1.5, 2.5, 2, 3, 4.5, 0.3, before_half, 10, 88, np.inf, info.max, info.tiny, info.eps]
    return np.array([*positive, *[-x for x in positive], np.nan, -100, 1 - 1e-3, 1e-3]).astype(dtype)


def pairs(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values. For complex dtypes, only every fifth special value."""
    values = specials(dtype)[:: 5 if np.dtype(dtype).kind == "c" else 1]
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


def rows(dtype: Any) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """name -> (function of a library and operands, operands), for every primitive that takes ``dtype``."""
    found: dict[str, Any] = {}

    def add_row(name: str, function: Callable[..., Any]) -> None:
        for args in ((specials(dtype),), pairs(dtype)):
            try:
                minijax.eval_shape(lambda *xs: function(minijax, *xs), *args)
            except TypeError:
                continue
            found[name] = (function, args)

    for name in elementwise_names():
        if name == "round":
            for how in (0, 1):
                add_row(f"round {how}", lambda ns, x, how=how: ns.lax.round(x, ns.lax.RoundingMethod(how)))
        elif name == "integer_pow":
            for y in (-3, -2, -1, 0, 1, 2, 3, 4, 7):
                add_row(f"integer_pow {y}", lambda ns, x, y=y: ns.lax.integer_pow(x, y))
        elif name == "polygamma":
            for m in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, np.inf, np.nan):
                add_row(f"polygamma {m}", lambda ns, x, m=m: ns.lax.polygamma(ns.lax.full_like(x, m), x))
        else:
            function = FUNCTIONS.get(name, name)
            add_row(name, lambda ns, *xs, f=function: getattr(ns.lax, f)(*xs))
    if dtypes.kind(np.dtype(dtype)) in "iuf":
        add_row("clamp", lambda ns, x, y: ns.lax.clamp(x, y, x))
    return found


def compiled(ns: Any, table: Any, **options: Any) -> dict[str, np.ndarray]:
    """All values, computed by one program."""
    operands = {name: args for name, (_, args) in table.items()}
    program = ns.jit(lambda given: {name: table[name][0](ns, *args) for name, args in given.items()}, **options)
    return {name: np.asarray(out) for name, out in program(operands).items()}


def differences(found: np.ndarray, wanted: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Where two arrays differ: zeros are compared by sign, nan equals nan, and other values may differ by rounding."""
    if dtypes.is_complex(found.dtype):
        return differences(found.real, wanted.real, rtol, atol) | differences(found.imag, wanted.imag, rtol, atol)
    if not dtypes.is_float(found.dtype):
        return found != wanted
    least = 256 * float(ml_dtypes.finfo(found.dtype).tiny)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    # numbers below ``least`` count as zero, because XLA treats them so
    a, b = (np.where(np.abs(x) < least, np.copysign(0, x), x) for x in (a, b))
    with np.errstate(invalid="ignore"):
        finite, distance = np.isfinite(a) & np.isfinite(b), np.abs(a - b)
        near = finite & (((distance <= rtol * np.abs(b)) & (a != 0) & (b != 0)) | ((distance <= atol) & (a != b)))
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return ~(near | equal | (np.isnan(a) & np.isnan(b)))


def _inexact(name: str, dtype: str) -> float:
    return INEXACT_IN_XLA.get((name, dtype), INEXACT_IN_XLA.get((name, ""), 0.0))


def complaints(name: str, args: Any, found: np.ndarray, wanted: np.ndarray, exact: bool) -> list[str]:
    """The differences from JAX in one row. ``exact``: XLA compiled both programs, so only rounding may differ."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    loose = 0.0 if exact else _inexact(name.split()[0], str(found.dtype))
    rtol = max(ROUNDING.get(str(found.dtype), 0.0), loose)
    wrong = np.flatnonzero(differences(found, wanted, rtol, SMALL if loose else 0.0))
    shown = [f"  {name}({', '.join(str(x[i]) for x in args)}) = {found[i]}, JAX: {wanted[i]}" for i in wrong[:4]]
    way = "compiled" if exact else "evaluated"
    return [f"{name}, {way}: {len(wrong)} of {found.size} values differ", *shown] if shown else []


def moderate(name: str, args: Any) -> np.ndarray:
    """Which operands are to be compared: those far from overflow, without a division by zero."""
    kept = np.all([np.isfinite(x) & (np.abs(x) < 1e3) for x in args], axis=0)
    return kept & (args[0] != 0) if name.startswith("integer_pow -") else kept


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(np.dtype(dtype)))
def test_special_values_match_jax(dtype: Any) -> None:
    """Both NumPy's evaluation and XLA's compilation of minijax's lowering match JAX."""
    table = rows(dtype)
    is_complex = np.dtype(dtype).kind == "c"
    # where products of complex numbers overflow, XLA's optimisations change results
    options = {} if is_complex else {"compiler_options": QUICKLY}
    wanted, ours = compiled(jax, table, **options), compiled(minijax, table)
    wrong: list[str] = []
    for name, (function, args) in table.items():
        if not is_complex or name not in COMPLEX_BY_ANGLES:
            evaluated = np.asarray(function(minijax, *map(minijax.numpy.asarray, args)))
            kept = moderate(name, args) if is_complex and name not in COMPLEX_EVERYWHERE else np.s_[:]
            given = [x[kept] for x in args]
            wrong += complaints(name, given, evaluated[kept], wanted[name][kept], False)
        wrong += complaints(name, args, ours[name], wanted[name], True)
    assert not wrong, "\n".join(wrong)
