"""Calls of the non-elementwise primitives of ``ops``: one or more rows for each line of ``rows.txt``.

A line is an expression of arrays and of the names in ``named``: ``lax``, ``jnp``, ``np``... ``{a|b}`` makes one row for
each of the texts, ``{*}`` one for each dtype of ``EVERY``; ``\\1`` repeats the text chosen for the first braces. The
name ``f32_2_3`` is a float32 array of shape (2, 3); with ``y`` behind it the array is reversed, with ``z`` doubled.
``ARRAYS`` has the other names. A line that ends in ``!d`` is not differentiated; one with ``!v`` is not vmapped.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from jax.tree import map as tree_map

BATCH = 2
bfloat16 = ml_dtypes.bfloat16

DTYPES = {"f32": np.float32, "bf16": bfloat16, "f16": np.float16, "c64": np.complex64, "b1": np.bool_}
DTYPES |= {f"{kind}{n}": f"{name}{n}" for kind, name in (("i", "int"), ("u", "uint")) for n in (8, 16, 32)}
EVERY = "f32|bf16|f16|i8|u16|b1|c64"
_f32, _i32 = (lambda *x, d=dtype: np.array(x, d) for dtype in (np.float32, np.int32))
_large = _i32(2**31 - 1, -(2**31), 12345678, -1, 0)
_ordered = _f32(np.nan, -np.nan, 0, -0.0, 1, -1, np.inf, -np.inf)
_rows = _i32([1], [3], [0], [1])
ARRAYS = {
    "wild": _f32(3e9, -3e9, np.nan, np.inf, -np.inf, 255.9, -128.9, -0.5),
    "precise": _f32(1.1, 1e3, -1e-4, np.nan, np.inf, 15.0, 15.9, 1e30, 0.24, 0.25, -0.251, 0.0, -7.75),
    "special": _f32(3.0, np.nan, -0.0, 0.0, np.inf, 3.0, -np.nan, -np.inf),
    "ties": _f32(1, 3, 3, 2),
    "nans": _f32(1, np.nan, 3, np.nan),
    "which": _i32(0, 2, 1, 1),
    "which_i8": np.array([-1, 5, 0, 2], np.int8),
    "which_u8": np.array([9, 1, 0, 2], np.uint8),
    "key": _i32(1, 0, 1, 0, 1),
    "key_y": _f32(4, 3, 2, 1, 2),
    "large": _large,
    "large_y": _large[::-1],
    "ordered": np.repeat(_ordered, 8),
    "ordered_y": np.tile(_ordered, 8),
    "rows": _rows,
    "rows_outside": _i32([-1], [4], [2]),
    **{f"rows_{name}": np.array([[3], [120], [0]], DTYPES[name]) for name in ("i8", "u8", "u32", "i16")},
    "columns": _i32([[2], [0]], [[1], [1]]),
    "elements": _i32([2, 0], [3, 2], [-1, 1], [0, 7]),
    "windows": _i32([1, 1], [4, 0], [0, 9]),
    "one_row": _i32(2),
    "distinct": _i32([3], [1]),
    "batched": _i32([[1], [0]], [[5], [3]], [[2], [2]]),
    "batched_y": _i32([[1], [4]], [[0], [2]], [[3], [3]]),
    "start_vector": _i32(1, -4),
    "one": np.int32(1),
    "minus": np.int32(-2),
    "nine": np.int32(9),
}
ARRAY = re.compile(rf"(?<![\w.'])(?:({'|'.join(DTYPES)})((?:_\d+)*)([yz]?)|{'|'.join(ARRAYS)})(?![\w'])")


@dataclass(frozen=True, eq=False)
class Row:
    """``function(ns, *args)``. ``derivative``, ``vmap``: whether to test its derivatives and its vmaps."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    derivative: bool = True
    vmap: bool = True


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Irregular values, positive and negative if the dtype allows, small enough for every dtype."""
    size = int(np.prod(shape))
    if np.dtype(dtype) == bool:
        return (np.arange(size) * 5 % 3 == 0).reshape(shape)
    steps = (np.arange(1, size + 1) * 7) % 11 - (0 if np.dtype(dtype).kind == "u" else 5)
    if np.dtype(dtype).kind in "iu":
        return steps.astype(dtype).reshape(shape)
    fractions = steps / 4 + 1 / 8
    if np.dtype(dtype).kind == "c":
        return (fractions + 1j * fractions[::-1]).astype(dtype).reshape(shape)
    return fractions.astype(dtype).reshape(shape)


def is_float(x: Any) -> bool:
    """Whether ``x`` is a floating point array, which is differentiated."""
    return np.asarray(x).dtype.kind == "f" or np.asarray(x).dtype == bfloat16


def cotangent(x: Any) -> np.ndarray:
    """A cotangent of the same type as the result ``x``."""
    return values(*x.shape, dtype=x.dtype)


def array(found: re.Match[str]) -> Any:
    """The array that this name denotes in an expression."""
    dtype, shape, how = found.groups()
    if dtype is None:
        return ARRAYS[found[0]]
    x = values(*map(int, shape.split("_")[1:]), dtype=DTYPES[dtype])
    return np.flip(x).copy() if how == "y" and x.ndim else x + x if how else x


def named(ns: Any) -> dict[str, Any]:
    """The names that expressions use, except arrays, with their values."""
    lax = ns.lax

    def gather(x: Any, i: Any, sizes: Any, *numbers: Any, mode: str = "fill", **options: Any) -> Any:
        return lax.gather(x, i, lax.GatherDimensionNumbers(*numbers), sizes, mode=mode, **options)

    def scatter(name: str) -> Callable[..., Any]:
        return lambda x, i, y, *numbers, **options: getattr(lax, name)(
            x, i, y, lax.ScatterDimensionNumbers(*numbers), **options
        )

    def conv(x: Any, k: Any, strides: Any = (1, 1), padding: Any = "SAME", **params: Any) -> Any:
        return lax.conv_general_dilated(x, k, strides, padding, **params)

    def by_default(algorithm: str, f: Callable[[], Any]) -> Any:
        with ns.default_matmul_precision(algorithm):
            return f()

    scatters = {name: scatter(name) for name in dir(lax) if re.fullmatch(r"scatter(_[a-z]+)?", name)}
    return {"lax": lax, "jnp": ns.numpy, "np": np, "bfloat16": bfloat16, **scatters} | {
        "gather": gather, "conv": conv, "by_default": by_default
    }  # fmt: skip


def expressions(path: Path = Path(__file__).parent / "rows.txt") -> Iterator[tuple[str, str]]:
    """(expression, marks) of each line of a file, with its braces expanded."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        text, _, marks = line.partition(" !")
        parts = re.split(r"\{([^{}:]*)\}", text.replace("{*}", f"{{{EVERY}}}"))
        for chosen in itertools.product(*(part.split("|") for part in parts[1::2])):
            whole = "".join(itertools.chain(*itertools.zip_longest(parts[::2], chosen, fillvalue="")))
            yield re.sub(r"\\(\d)", lambda found: chosen[int(found[1]) - 1], whole), marks  # noqa: B023


def row(expression: str, marks: str) -> Row:
    args = {found[0]: array(found) for found in ARRAY.finditer(expression)}

    def function(ns: Any, *given: Any) -> Any:
        return eval(f"lambda {', '.join(args)}: {expression}", named(ns))(*given)

    return Row(expression, function, tuple(args.values()), "d" not in marks, "v" not in marks)


ROWS = {expression: row(expression, marks) for expression, marks in expressions()}


def batched(x: Any, axis: int) -> np.ndarray:
    """``BATCH`` variations of ``x``, stacked along the new ``axis``."""
    x = np.asarray(x)
    return np.stack([x, np.roll(x, 1)], axis) if x.size > 1 else np.stack([x, x], axis)


def mappings(row: Row) -> Iterator[tuple[Any, ...]]:
    """The ``in_axes`` to try: axis 0 of all operands; of only one; of all but one; and last axes mixed with axis 0."""
    n = len(row.args)
    yield (0,) * n
    if any(np.asarray(x).dtype not in (np.float32, np.int32, bool) for x in row.args):
        return  # batching does not depend on dtypes
    if n > 1:
        for i in range(n):
            yield tuple(0 if j == i else None for j in range(n))
            yield tuple(None if j == i else 0 for j in range(n))
    last = tuple(np.ndim(x) if i % 2 == 0 else 0 for i, x in enumerate(row.args))
    if any(last):
        yield last


def transformations(ns: Any, row: Row) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """name -> (function, arguments): the row itself, its jvp, vjp and vmaps, and the vmap of its vjp."""

    def f(*args: Any) -> Any:
        return row.function(ns, *args)

    built: dict[str, Any] = {"value": (f, row.args)}
    places = [i for i, x in enumerate(row.args) if is_float(x)] if row.derivative else []
    if places:

        def of_floats(args: tuple[Any, ...]) -> Callable[..., Any]:
            def g(*floats: Any) -> Any:
                given = iter(floats)
                return f(*[next(given) if i in places else x for i, x in enumerate(args)])

            return g

        def jvp(args: Any, tangents: Any) -> Any:
            return ns.jvp(of_floats(args), tuple(args[i] for i in places), tangents)

        def vjp(args: Any, cts: Any) -> Any:
            return ns.vjp(of_floats(args), *[args[i] for i in places])[1](cts)

        tangents = tuple(cotangent(np.asarray(row.args[i])) for i in places)
        built["jvp"] = (jvp, (row.args, tangents))
        shapes = ns.eval_shape(f, *row.args)
        flat, tree = ns.tree_util.tree_flatten(shapes)
        if all(is_float(np.empty((), s.dtype)) for s in flat):
            cts = ns.tree_util.tree_unflatten(tree, [cotangent(s) for s in flat])
            built["vjp"] = (vjp, (row.args, cts))
    if row.vmap:
        for axes in dict.fromkeys(mappings(row)):
            args = tuple(x if a is None else batched(x, a) for x, a in zip(row.args, axes, strict=True))
            built[f"vmap {axes}"] = (ns.vmap(f, in_axes=axes), args)
        if "vjp" in built:
            stacked = tree_map(lambda x: batched(x, 0), built["vjp"][1])
            built["mapped vjp"] = (ns.vmap(vjp), stacked)
    return built
