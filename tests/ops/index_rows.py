"""Rows of gather, the scatters and the dynamic slices, for ``test_index``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .table import Row, bfloat16, values

SCATTERS = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
MODES = ("clip", "fill", "promise_in_bounds")
# the gathers at indices out of bounds for which every mode is tried
OUTSIDE = ("rows outside", "windows")


def indices(*rows: Any, dtype: Any = np.int32) -> np.ndarray:
    """An array of index vectors."""
    return np.array(rows, dtype)


def gathers() -> Iterator[tuple[str, tuple[int, ...], np.ndarray, tuple[Any, ...], tuple[int, ...]]]:
    """(name, operand's shape, indices, dimension numbers, slice sizes), some out of bounds."""
    yield "rows", (4, 3), indices([1], [3], [0], [1]), ((1,), (0,), (0,)), (1, 3)
    yield "rows outside", (4, 3), indices([-1], [4], [2]), ((1,), (0,), (0,)), (1, 3)
    yield "columns", (4, 3), indices([[2], [0]], [[1], [1]]), ((0,), (1,), (1,)), (4, 1)
    yield "columns behind", (4, 3), indices([2], [0]), ((1,), (1,), (1,)), (4, 1)
    yield "elements", (4, 3), indices([2, 0], [3, 2], [-1, 1], [0, 7]), ((), (0, 1), (1, 0)), (1, 1)
    yield "windows", (5, 4), indices([1, 1], [4, 0], [0, 9]), ((1, 2), (), (0, 1)), (2, 3)
    yield "part of a row", (4, 5), indices([2], [3], [0]), ((1,), (0,), (1,)), (1, 3)
    yield "whole", (2, 3), indices([], []), ((1, 2), (), ()), (2, 3)
    yield "one slice", (4, 3), np.array([2], np.int32), ((0,), (0,), (0,)), (1, 3)
    yield (
        "batching",
        (3, 4),
        indices([[1], [0]], [[5], [3]], [[2], [2]]),
        ((), (1,), (1,), (0,), (0,)),
        (1, 1),
    )
    yield (
        "batching with windows",
        (2, 5, 3),
        indices([[1], [4]], [[0], [2]], [[3], [3]]),
        ((2,), (2,), (1,), (0,), (1,)),
        (1, 2, 1),
    )
    yield "no index", (4, 3), np.zeros((0, 1), np.int32), ((1,), (0,), (0,)), (1, 3)
    yield "empty window", (4, 3), indices([1], [2]), ((0, 2), (), (0,)), (0, 3)


def taking(numbers: Any, sizes: Any, **options: Any) -> Callable[..., Any]:
    """A gather as a function of a namespace, an operand and indices."""
    return lambda ns, x, i: ns.lax.gather(x, i, ns.lax.GatherDimensionNumbers(*numbers), sizes, **options)


def putting(name: str, numbers: Any, **options: Any) -> Callable[..., Any]:
    """A scatter as a function of a namespace, an operand, indices and updates."""
    return lambda ns, x, i, y: getattr(ns.lax, name)(x, i, y, ns.lax.ScatterDimensionNumbers(*numbers), **options)


def rows() -> Iterator[Row]:
    """All rows. Scatters of equal indices are differentiated only where JAX does."""
    for name, shape, where, numbers, sizes in gathers():
        for mode in MODES if name in OUTSIDE else ("fill",):
            yield Row(f"gather {name}, {mode}", taking(numbers, sizes, mode=mode), (values(*shape), where))
    every, numbers, sizes = (4, 3), ((1,), (0,), (0,)), (1, 3)
    outside = indices([3], [-1], [0], [200])
    for dtype in (np.int8, np.uint16, bool, np.complex64, bfloat16, np.float16):
        function = taking(numbers, sizes, mode="fill")
        yield Row(f"gather {np.dtype(dtype)}", function, (values(*every, dtype=dtype), outside))
    for dtype in (np.int8, np.uint8, np.uint32, np.int16):
        where = indices([3], [120], [0], dtype=dtype)
        for mode in MODES:
            args = (values(*every), where)
            yield Row(f"gather at {np.dtype(dtype)}, {mode}", taking(numbers, sizes, mode=mode), args)
    filled = taking(numbers, sizes, mode="fill", fill_value=7, indices_are_sorted=True)
    yield Row("gather, filled", filled, (values(*every), outside))
    yield from scatters()
    yield from dynamic_slices()


def scatters() -> Iterator[Row]:
    """The scatters that each kind of gather undoes."""
    for shape_name, shape, where, numbers, sizes in gathers():
        outer = iter(where.shape)
        window = iter(n for d, n in enumerate(sizes) if d not in numbers[1] + (*numbers[3:4], ())[0])
        rank = len(numbers[0]) + where.ndim - 1
        updates = tuple(next(window) if d in numbers[0] else next(outer) for d in range(rank))
        outside = shape_name in OUTSIDE
        for name in SCATTERS if outside or "batching" in shape_name else SCATTERS[:2]:
            for mode in MODES if outside and name in SCATTERS[:2] else ("fill",):
                args = (values(*shape), where, values(*updates) * 1.5)
                # JAX differentiates scatter_mul only if it is told that no element is updated twice
                told = name == "scatter_mul" and shape_name == "rows outside"
                function = putting(name, numbers, mode=mode, unique_indices=told)
                derivative = told or name != "scatter_mul"
                yield Row(f"{name} {shape_name}, {mode}", function, args, derivative=derivative)
    numbers, distinct = ((1,), (0,), (0,)), indices([3], [1])
    for name in SCATTERS:
        for dtype in (np.int8, np.uint16, np.complex64, bfloat16, np.float16):
            if dtype == np.complex64 and name in ("scatter_min", "scatter_max"):
                continue
            args = (values(4, 3, dtype=dtype), distinct, values(2, 3, dtype=dtype)[::-1].copy())
            yield Row(f"{name} {np.dtype(dtype)}", putting(name, numbers, unique_indices=True), args)
        args = (values(4, 3), distinct, values(2, 3))
        yield Row(f"{name}, unique", putting(name, numbers, unique_indices=True, indices_are_sorted=False), args)
        if name in ("scatter", "scatter_min", "scatter_max"):
            args = (values(4, 3, dtype=bool), distinct, values(2, 3, dtype=bool))
            yield Row(f"{name} bool", putting(name, numbers), args)
    for where in (distinct, indices([2], [2], [2], [0])):

        def apply(ns: Any, x: Any, i: Any) -> Any:
            numbers = ns.lax.ScatterDimensionNumbers((1,), (0,), (0,))
            shape = (i.shape[0], 3)
            return ns.lax.scatter_apply(x, i, lambda v: ns.lax.sin(v) * 2, numbers, update_shape=shape)

        yield Row(f"scatter_apply {len(where)}", apply, (values(4, 3), where), derivative=False)


def dynamic_slices() -> Iterator[Row]:
    """Starts inside, negative and beyond; as scalars, Python integers and a vector."""
    start = np.int32
    for i, j in ((1, 2), (-2, 0), (9, -9)):
        yield Row(
            f"dynamic_slice at {i}, {j}",
            lambda ns, x, i, j: ns.lax.dynamic_slice(x, (i, j), (2, 3)),
            (values(4, 5), start(i), start(j)),
        )
        yield Row(
            f"dynamic_update_slice at {i}, {j}",
            lambda ns, x, y, i, j: ns.lax.dynamic_update_slice(x, y, (i, j)),
            (values(4, 5), values(2, 3) * 2, start(i), start(j)),
        )
    yield Row(
        "dynamic_slice, static",
        lambda ns, x: ns.lax.dynamic_slice(x, (-1, 1), (1, 2)) + ns.lax.dynamic_slice(x, [1, np.int32(2)], (1, 2)),
        (values(4, 5),),
    )
    yield Row(
        "dynamic_slice, vector",
        lambda ns, x, i: ns.lax.dynamic_slice(x, i, (2, 3)),
        (values(4, 5), np.array([1, -4], np.int32)),
    )
    yield Row(
        "dynamic_slice, nonnegative",
        lambda ns, x, i: ns.lax.dynamic_slice(x, (i, 0), (2, 3), allow_negative_indices=(False, True)),
        (values(4, 5), start(2)),
    )
    for dtype in (np.int8, np.uint8, np.uint32):
        yield Row(
            f"dynamic slices at {np.dtype(dtype)}",
            lambda ns, x, y, i: (
                ns.lax.dynamic_slice(x, (i,), (2,)),
                ns.lax.dynamic_update_slice(x, y, (i,)),
            ),
            (values(6), values(3), np.array(5, dtype)),
        )
    for dtype in (np.int8, bool, np.complex64, bfloat16):
        yield Row(
            f"dynamic slices of {np.dtype(dtype)}",
            lambda ns, x, y, i: (
                ns.lax.dynamic_slice(x, (i,), (2,)),
                ns.lax.dynamic_update_slice(x, y, (i,)),
            ),
            (values(6, dtype=dtype), values(3, dtype=dtype), start(-2)),
        )
    yield Row(
        "dynamic slices of a scalar",
        lambda ns, x, y: (ns.lax.dynamic_slice(x, (), ()), ns.lax.dynamic_update_slice(x, y, ())),
        (values()[()], values()[()] * 2),
        vmap=False,
    )
    for axis in (0, 1, -1):
        yield Row(
            f"dynamic slices in dim {axis}",
            lambda ns, x, y, i, axis=axis: (
                ns.lax.dynamic_slice_in_dim(x, i, 2, axis),
                ns.lax.dynamic_update_slice_in_dim(x, y, i, axis),
                ns.lax.dynamic_index_in_dim(x, i, axis),
                ns.lax.dynamic_index_in_dim(x, i, axis, keepdims=False),
                ns.lax.dynamic_update_index_in_dim(x, ns.lax.index_in_dim(y, 0, axis, False), i, axis),
            ),
            (values(4, 4), values(4, 4), start(1)),
        )
