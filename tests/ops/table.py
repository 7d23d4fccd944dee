"""The primitives of ``ops`` other than the elementwise ones, each with operands of several shapes and dtypes.

A row is a function of a namespace (minijax or jax) and arrays; ``transformations`` derives from it
everything that is compared between the two libraries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

BATCH = 2
bfloat16 = ml_dtypes.bfloat16


@dataclass(frozen=True, eq=False)
class Row:
    """``function(ns, *args)``, and whether it is differentiated and mapped."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    derivative: bool = True
    vmap: bool = True


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Irregular values, of either sign where the dtype has them, small enough for every dtype."""
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
    """Whether it is differentiated with respect to ``x``."""
    return np.asarray(x).dtype.kind == "f" or np.asarray(x).dtype == bfloat16


def cotangent(x: Any) -> np.ndarray:
    """Something of the type of the result ``x`` to pull back."""
    return values(*x.shape, dtype=x.dtype)


def _rows() -> Iterator[Row]:
    f32, i8, u8, i32 = np.float32, np.int8, np.uint8, np.int32
    every = (f32, bfloat16, np.float16, i8, np.uint16, bool, np.complex64)

    # ---- conversions
    for old, new in itertools.product((f32, bfloat16, i8, np.uint32, bool), (f32, bfloat16, np.float16, i8, bool)):
        yield Row(
            f"convert {np.dtype(old)} to {np.dtype(new)}",
            lambda ns, x, new=new: ns.lax.convert_element_type(x, new),
            (values(3, 2, dtype=old),),
            derivative=is_float(np.empty((), new)),
        )
    yield Row(
        "convert out of range",
        lambda ns, x: [ns.lax.convert_element_type(x, d) for d in (i8, u8, i32, np.uint32)],
        (np.array([3e9, -3e9, np.nan, np.inf, -np.inf, 255.9, -128.9, -0.5], f32),),
        derivative=False,
    )
    yield Row(
        "convert to complex",
        lambda ns, x: ns.lax.convert_element_type(x, np.complex64),
        (values(3),),
        derivative=False,
    )
    yield Row("convert a scalar", lambda ns, x: ns.lax.convert_element_type(2, np.float32) * x, (values(3),))
    for old, new in ((f32, i32), (f32, np.uint16), (np.uint16, bfloat16), (i32, i8), (f32, f32)):
        yield Row(
            f"bitcast {np.dtype(old)} to {np.dtype(new)}",
            lambda ns, x, new=new: ns.lax.bitcast_convert_type(x, new),
            (values(3, 2, dtype=old),),
            derivative=False,
        )
    yield Row(
        "bitcast to wider",
        lambda ns, x: ns.lax.bitcast_convert_type(x, i32),
        (values(3, 4, dtype=i8),),
        derivative=False,
        vmap=False,
    )
    for bits in ((4, 2), (5, 10), (8, 7), (2, 3), (8, 23)):
        yield Row(
            f"reduce_precision {bits}",
            lambda ns, x, bits=bits: ns.lax.reduce_precision(x, *bits),
            (np.array([1.1, 1e3, -1e-4, np.nan, np.inf, 15.0, 15.9, 1e30, 0.24, 0.25, -0.251, 0.0, -7.75], f32),),
        )
    yield Row("stop_gradient", lambda ns, x: ns.lax.stop_gradient(x) * x, (values(3),))
    yield Row(
        "stop_gradient of a tree",
        lambda ns, x, y: ns.lax.stop_gradient({"a": x, "b": (y,)}),
        (values(3), values(2)),
    )

    # ---- choice
    for dtype in every:
        x, y = values(3, 2, dtype=dtype), values(3, 2, dtype=dtype)[::-1]
        yield Row(
            f"select {np.dtype(dtype)}",
            lambda ns, p, x, y: ns.lax.select(p, x, y),
            (values(3, 2, dtype=bool), x, y),
        )
    yield Row(
        "select by a scalar",
        lambda ns, p, x, y: ns.lax.select(p, x, y),
        (np.bool_(True), values(3), -values(3)),
    )
    yield Row("select scalars", lambda ns, p, x, y: ns.lax.select(p, x, y), (np.bool_(False), f32(1), f32(2)))
    for which in (
        np.array([0, 2, 1, 1], i32),
        np.array([-1, 5, 0, 2], i8),
        np.array([9, 1, 0, 2], u8),
        i32(1),
    ):
        yield Row(
            f"select_n by {which.dtype}{which.shape}",
            lambda ns, w, x, y, z: ns.lax.select_n(w, x, y, z),
            (which, values(4), 2 * values(4), 3 * values(4)),
        )
    yield Row(
        "select_n of one case",
        lambda ns, w, x: ns.lax.select_n(w, x),
        (values(3, dtype=bool), values(3)),
        derivative=False,  # JAX cannot transpose it
    )
    for dtype in (f32, bfloat16, i8, u8):
        yield Row(
            f"clamp {np.dtype(dtype)}",
            lambda ns, low, x, high: ns.lax.clamp(low, x, high),
            (np.ones((), dtype), values(3, 2, dtype=dtype), np.full((), 2, dtype)),
            derivative=False,
        )
        yield Row(
            f"clamp {np.dtype(dtype)} by constants",
            lambda ns, x, dtype=dtype: ns.lax.clamp(dtype(1), x, dtype(2)),
            (values(3, 2, dtype=dtype),),
        )
    yield Row(
        "clamp by arrays",
        lambda ns, low, x, high: ns.lax.clamp(low, x, high),
        (values(5) - f32(1), values(5)[::-1], values(5) + f32(1)),
    )
    yield Row(
        "clamp empty interval",
        lambda ns, x: ns.lax.clamp(f32(3), x, f32(1)),
        (np.array([np.nan, 0, 2, 4], f32),),
    )

    # ---- shapes
    for dtype in every:
        yield Row(
            f"broadcast_in_dim {np.dtype(dtype)}",
            lambda ns, x: ns.lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)),
            (values(2, 1, dtype=dtype),),
        )
    yield Row("broadcast a scalar", lambda ns, x: ns.lax.broadcast(x, (2, 3)), (f32(2),))
    yield Row("broadcast nothing", lambda ns, x: ns.lax.broadcast(x, ()), (values(2),))
    yield Row(
        "broadcast permuting",
        lambda ns, x: ns.lax.broadcast_in_dim(x, (3, 5, 2), (2, 0)),
        (values(2, 3),),
        derivative=False,  # JAX's transpose has the wrong shape
    )
    yield Row("broadcast empty", lambda ns, x: ns.lax.broadcast_in_dim(x, (2, 0), (1,)), (values(0),))
    yield Row("broadcast many", lambda ns, x: ns.lax.broadcast_in_dim(x, (70, 80), (1,)), (values(80),))
    yield Row("broadcast_to_rank", lambda ns, x: ns.lax.broadcast_to_rank(x, 3), (values(2),))
    yield Row("expand_dims", lambda ns, x: ns.lax.expand_dims(x, (0, -1)), (values(2, 3),))
    for dtype in every:
        yield Row(
            f"reshape {np.dtype(dtype)}",
            lambda ns, x: ns.lax.reshape(x, (3, 4)),
            (values(2, 6, dtype=dtype),),
        )
    yield Row("reshape permuting", lambda ns, x: ns.lax.reshape(x, (4, 3), (1, 0)), (values(3, 4),))
    yield Row("reshape a scalar", lambda ns, x: ns.lax.reshape(x, (1, 1)), (f32(2),))
    yield Row("reshape to itself", lambda ns, x: ns.lax.reshape(x, (2, 3)), (values(2, 3),))
    yield Row("collapse", lambda ns, x: ns.lax.collapse(x, 1, 3), (values(2, 3, 2, 2),))
    yield Row("squeeze", lambda ns, x: ns.lax.squeeze(x, (0, -1)), (values(1, 3, 1),))
    for permutation in ((1, 0, 2), (2, 0, 1), (0, 1, 2)):
        yield Row(
            f"transpose {permutation}",
            lambda ns, x, p=permutation: ns.lax.transpose(x, p),
            (values(2, 3, 4),),
        )
    yield Row("rev", lambda ns, x: ns.lax.rev(x, (0, 2)), (values(2, 3, 2),))
    yield Row("tile", lambda ns, x: ns.lax.tile(x, (2, 3)), (values(2, 3),))
    for dtype in (f32, bfloat16, i8, np.complex64):
        yield Row(
            f"iota {np.dtype(dtype)}",
            lambda ns, x, dtype=dtype: (ns.lax.iota(dtype, 3), ns.lax.broadcasted_iota(dtype, (2, 3), 0)),
            (f32(1),),
            derivative=False,
        )
    yield Row(
        "full",
        lambda ns, x: (
            ns.lax.full((2,), x),
            ns.lax.full((2,), 1, i8),
            ns.lax.full_like(x, 3),
            ns.lax.full_like(x, 1, i8),
        ),
        (f32(1.5),),
        derivative=False,
    )

    # ---- slices
    for dtype in every:
        yield Row(
            f"slice {np.dtype(dtype)}",
            lambda ns, x: ns.lax.slice(x, (1, 0), (3, 2)),
            (values(4, 3, dtype=dtype),),
        )
    yield Row("slice with strides", lambda ns, x: ns.lax.slice(x, (1, 0), (6, 3), (2, 3)), (values(7, 3),))
    yield Row("slice of nothing", lambda ns, x: ns.lax.slice(x, (1,), (1,), (2,)), (values(3),))
    yield Row("slice_in_dim", lambda ns, x: ns.lax.slice_in_dim(x, -3, None, 2, 1), (values(2, 5),))
    yield Row("index_in_dim", lambda ns, x: ns.lax.index_in_dim(x, -1, 1, False), (values(2, 5),))
    for config in (
        ((1, 2, 0), (0, 0, 0)),
        ((-1, 1, 0), (0, -1, 0)),
        ((1, 0, 2), (-1, -1, 1)),
        ((-2, -1, 0), (1, 1, 1)),
    ):
        yield Row(f"pad {config}", lambda ns, x, v, c=config: ns.lax.pad(x, v, c), (values(3, 3), f32(0.5)))
    for dtype in every[1:]:
        yield Row(
            f"pad {np.dtype(dtype)}",
            lambda ns, x, v: ns.lax.pad(x, v, ((1, 1, 1),)),
            (values(3, dtype=dtype), np.zeros((), dtype)),
        )
    yield Row("pad away", lambda ns, x, v: ns.lax.pad(x, v, ((-4, 3, 0),)), (values(3), f32(1)))
    for dtype in every:
        yield Row(
            f"concatenate {np.dtype(dtype)}",
            lambda ns, x, y: ns.lax.concatenate([x, y, x], 1),
            (values(2, 1, dtype=dtype), values(2, 3, dtype=dtype)),
        )
    yield Row("split", lambda ns, x: ns.lax.split(x, (1, 0, 3), 1), (values(2, 4),))
    yield Row("split, one part used", lambda ns, x: ns.lax.split(x, (1, 3), 0)[1], (values(4),))
    for axis in (0, 1, -1):
        yield Row(f"stack {axis}", lambda ns, x, y, a=axis: ns.lax.stack([x, y], a), (values(2, 3), -values(2, 3)))
        yield Row(f"unstack {axis}", lambda ns, x, a=axis: ns.lax.unstack(x, a), (values(2, 3),))

    # ---- reductions
    for dtype in (f32, bfloat16, np.float16, i8, np.uint16, np.complex64):
        for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
            if dtype is not np.complex64 or name == "reduce_sum":
                yield Row(
                    f"{name} {np.dtype(dtype)}",
                    lambda ns, x, name=name: getattr(ns.lax, name)(x, (0, 2)),
                    (values(3, 2, 2, dtype=dtype),),
                )
        if dtype is not np.complex64:
            for name in ("argmax", "argmin"):
                yield Row(
                    f"{name} {np.dtype(dtype)}",
                    lambda ns, x, name=name: getattr(ns.lax, name)(x, 1, i32),
                    (values(2, 5, dtype=dtype),),
                    derivative=False,
                )
    for name in ("reduce_sum", "reduce_prod", "reduce_max"):
        yield Row(f"{name} of no axes", lambda ns, x, name=name: getattr(ns.lax, name)(x, ()), (values(2, 3),))
        yield Row(f"{name} of nothing", lambda ns, x, name=name: getattr(ns.lax, name)(x, (0,)), (values(0, 3),))
    yield Row("reduce_max with ties", lambda ns, x: ns.lax.reduce_max(x, (0,)), (np.array([1, 3, 3, 2], f32),))
    yield Row("reduce_prod of five", lambda ns, x: ns.lax.reduce_prod(x, (1,)), (values(2, 5),))
    yield Row(
        "extrema with nan",
        lambda ns, x: [ns.lax.reduce_max(x, (0,)), ns.lax.argmax(x, 0, i32), ns.lax.argmin(x, 0, np.uint8)],
        (np.array([1, np.nan, 3, np.nan], f32),),
        derivative=False,
    )
    for dtype in (bool, i8, np.uint16):
        for name in ("reduce_and", "reduce_or", "reduce_xor", "reduce_max", "reduce_min"):
            yield Row(
                f"{name} {np.dtype(dtype)}",
                lambda ns, x, name=name: getattr(ns.lax, name)(x, (1,)),
                (values(3, 3, dtype=dtype),),
                derivative=False,
            )
    yield Row("argmax bool", lambda ns, x: ns.lax.argmax(x, 0, i32), (values(5, dtype=bool),), derivative=False)
    yield Row("reduce by add", lambda ns, x: ns.lax.reduce(x, 0.0, ns.lax.add, (0,)), (values(3, 2),))
    yield Row("reduce by max", lambda ns, x: ns.lax.reduce(x, -np.inf, ns.lax.max, (0,)), (values(3, 2),))
    yield Row(
        "reduce by or",
        lambda ns, x: ns.lax.reduce(x, False, ns.lax.bitwise_or, (0, 1)),
        (values(3, 2, dtype=bool),),
        derivative=False,
    )

    # ---- running reductions
    for dtype in (f32, bfloat16, i8):
        for name in ("cumsum", "cumprod", "cummax", "cummin"):
            for axis, reverse in ((0, False), (1, True)):
                yield Row(
                    f"{name} {np.dtype(dtype)} axis {axis}",
                    lambda ns, x, name=name, a=axis, r=reverse: getattr(ns.lax, name)(x, a, r),
                    (values(5, 2, dtype=dtype),),
                    derivative=dtype is f32,
                )
    yield Row("cumsum of nothing", lambda ns, x: ns.lax.cumsum(x, 1), (values(2, 0),))
    yield Row("cumprod of one", lambda ns, x: ns.lax.cumprod(x, 1), (values(2, 1),))

    # ---- sorting
    for dtype in (f32, bfloat16, i8, u8, bool, np.complex64):
        yield Row(f"sort {np.dtype(dtype)}", lambda ns, x: ns.lax.sort(x, 0), (values(7, 2, dtype=dtype),))
    yield Row(
        "sort specials",
        lambda ns, x: ns.lax.sort(x),
        (np.array([0.0, -0.0, np.nan, -np.inf, np.inf, 1, -0.0], f32),),
    )
    yield Row(
        "sort by two keys",
        lambda ns, x, y, z: ns.lax.sort((x, y, z), num_keys=2),
        (np.array([1, 0, 1, 0, 1], i32), np.array([4, 3, 2, 1, 2], f32), np.arange(5, dtype=i8)),
        derivative=False,
    )
    yield Row(
        "sort_key_val",
        lambda ns, x, y: ns.lax.sort_key_val(x, y, 0)[1],
        (np.array([2, 1, 2, 1], i8), values(4)),
    )

    # ---- products
    def product(numbers: Any, **options: Any) -> Callable[..., Any]:
        return lambda ns, x, y: ns.lax.dot_general(x, y, numbers, **options)

    for dtype in every:
        yield Row(
            f"dot {np.dtype(dtype)}",
            lambda ns, x, y: ns.lax.dot(x, y),
            (values(3, 4, dtype=dtype), values(4, 2, dtype=dtype)),
        )
        yield Row(
            f"dot batched {np.dtype(dtype)}",
            product((((2,), (1,)), ((0,), (0,)))),
            (values(2, 3, 4, dtype=dtype), values(2, 4, 3, dtype=dtype)),
        )
    yield Row("dot of vectors", lambda ns, x, y: ns.lax.dot(x, y), (values(3), values(3)[::-1]))
    yield Row("dot matrix vector", lambda ns, x, y: ns.lax.dot(x, y), (values(2, 3), values(3)))
    yield Row("dot vector matrix", lambda ns, x, y: ns.lax.dot(x, y), (values(3), values(3, 2)))
    yield Row("dot with itself", lambda ns, x: ns.lax.dot(x, x), (values(3, 3),))
    yield Row("dot of nothing", lambda ns, x, y: ns.lax.dot(x, y), (values(2, 0), values(0, 3)))
    yield Row("dot outer", product((((), ()), ((), ()))), (values(2), values(3)))
    yield Row("dot two contractions", product((((0, 2), (2, 0)), ((), ()))), (values(2, 3, 4), values(4, 5, 2)))
    yield Row("dot late batch", product((((0,), (2,)), ((2, 1), (0, 1)))), (values(4, 3, 2), values(2, 3, 4, 2)))
    yield Row(
        "dot in float32",
        product((((1,), (0,)), ((), ())), preferred_element_type=f32),
        (values(2, 3, dtype=bfloat16), values(3, 2, dtype=bfloat16)),
    )
    yield Row(
        "dot in int32",
        product((((1,), (0,)), ((), ())), preferred_element_type=i32),
        (values(2, 3, dtype=i8), values(3, 2, dtype=i8)),
    )
    yield Row("dot mixed", product((((1,), (0,)), ((), ()))), (values(2, 3, dtype=bfloat16), values(3, 2)))
    yield Row(
        "dot mixed with int",
        product((((1,), (0,)), ((), ()))),
        (values(2, 3, dtype=i8), values(3, 2)),
        derivative=False,
    )
    yield Row("dot precise", product((((1,), (0,)), ((), ())), precision="highest"), (values(2, 3), values(3, 2)))
    yield Row("batch_matmul", lambda ns, x, y: ns.lax.batch_matmul(x, y), (values(2, 3, 4), values(2, 4, 2)))


def convolution(
    name: str, lhs: Any, rhs: Any, strides: Any = (1, 1), padding: Any = "SAME", derivative: bool = True, **params: Any
) -> Row:
    """A row of ``conv_general_dilated``."""
    return Row(
        f"convolution {name}",
        lambda ns, x, k: ns.lax.conv_general_dilated(x, k, strides, padding, **params),
        (lhs, rhs),
        derivative,
    )


def _convolutions() -> Iterator[Row]:
    both = {"lhs_dilation": (1, 2), "rhs_dilation": (2, 1)}
    uneven = (2, 1), ((1, 2), (0, -1))
    yield convolution("same", values(2, 3, 4, 3), values(2, 3, 2, 3), (2, 1))
    yield convolution(
        "of feature groups", values(2, 4, 3, 2), values(2, 2, 2, 1), *uneven, **both, feature_group_count=2
    )
    yield convolution("of batch groups", values(4, 1, 3, 2), values(2, 1, 2, 1), *uneven, **both, batch_group_count=2)
    yield convolution(
        "in another layout", values(2, 4, 1, 3), values(2, 2, 2, 3), dimension_numbers=("CHNW", "HWIO", "HWNC")
    )
    yield convolution("without places", values(2, 3), values(2, 3), (), ())
    yield convolution("of nothing", values(0, 2, 3), values(2, 2, 2), (1,))
    yield convolution("of cropped images", values(1, 1, 4), values(1, 1, 2), (1,), ((-2, -1),), lhs_dilation=(2,))
    yield convolution(
        "in a wider type", values(1, 2, 4, dtype=bfloat16), values(2, 2, 2, dtype=bfloat16), (1,),
        precision=("highest", "default"), preferred_element_type=np.float32,
    )  # fmt: skip
    for dtype in (np.float16, np.int8, np.complex64):
        wider = {"preferred_element_type": np.int32} if dtype == np.int8 else {}
        yield convolution(
            f"of {np.dtype(dtype)}", values(1, 2, 4, dtype=dtype), values(2, 2, 2, dtype=dtype), (1,), "SAME_LOWER",
            dtype == np.float16, **wider,
        )  # fmt: skip
    yield convolution("of many numbers", values(2, 64, 64), values(64, 64, 33), (1,), derivative=False)
    yield Row(
        "convolution transposed",
        lambda ns, x, k: ns.lax.conv_transpose(x, k, (2,), "SAME", transpose_kernel=True),
        (values(1, 3, 2), values(3, 1, 2)),
    )


def _windows() -> Iterator[Row]:
    """Borrowed from JAX: one row of a sum, a maximum and a function of Python's."""
    for op, init in (("add", 0.0), ("max", -np.inf)):
        yield Row(
            f"windows {op}",
            lambda ns, x, op=op, init=init: ns.lax.reduce_window(x, init, getattr(ns.lax, op), (2, 3), (1, 2), "SAME"),
            (values(4, 5),),
        )
    yield Row(
        "windows of two operands",
        lambda ns, x, y: _forward(
            ns, lambda x, y: ns.lax.reduce_window(
                (x, y), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (2,), (1,), "SAME"
            ), x, y,
        ),
        (values(3), values(3)),
        False,
    )  # fmt: skip


def _forward(ns: Any, f: Callable[..., Any], *args: Any) -> Any:
    """``f`` at ``args``, with its derivative along them."""
    return ns.jvp(f, args, args)


def _products_and_orders() -> Iterator[Row]:
    halves, column = values(3, dtype=np.float16), values(2, 1, dtype=np.float16)
    yield Row("wider product", lambda ns, x, y: ns.lax.mul(x, y, out_dtype=np.dtype("float32")), (halves, 3 * halves))
    yield Row(
        "product of two types",
        lambda ns, x, y: ns.lax.mul(x, y, out_dtype=np.dtype("float32")),
        (column, values(2, 3, dtype=bfloat16)),
    )
    large = np.array([2**31 - 1, -(2**31), 12345678, -1, 0], np.int32)
    yield Row("narrower product", lambda ns, x: ns.lax.mul(x, x, out_dtype=np.dtype("int8")), (large,), False)
    yield Row("mulhi", lambda ns, x, y: ns.lax.mulhi(x, y), (large, large[::-1]), False, False)
    ordered = np.array([np.nan, -np.nan, 0, -0.0, 1, -1, np.inf, -np.inf], np.float32)
    yield Row(
        "total order",
        lambda ns, x, y: [p.bind(x, y) for p in (ns.lax.eq_to_p, ns.lax.le_to_p, ns.lax.lt_to_p)],
        (np.repeat(ordered, 8), np.tile(ordered, 8)),
        False,
    )
    yield Row("broadcast_like", lambda ns, x, y: ns.lax.broadcast_like(x, y), (values(2, 1), values(3, 2, 4)))


def _algorithms() -> Iterator[Row]:
    for name, dtype in (("F32_F32_F32", bfloat16), ("F16_F16_F16", np.float32), ("BF16_BF16_F32_X3", np.float32)):
        yield Row(
            f"dot by {name}",
            lambda ns, x, y, name=name: ns.lax.dot(x, y, precision=name),
            (values(2, 3, dtype=dtype), values(3, 2, dtype=dtype)),
        )
    yield Row(
        "products by the default algorithm",
        lambda ns, x, y: _by_default(
            ns, "BF16_BF16_F32", lambda: (ns.numpy.matmul(x, y), ns.lax.conv(x[None], y[None], (1,), "VALID"))
        ),
        (values(3, 3, dtype=bfloat16), values(3, 3, dtype=bfloat16)),
        vmap=False,
    )


def _by_default(ns: Any, name: str, f: Callable[[], Any]) -> Any:
    with ns.default_matmul_precision(name):
        return f()


_GROUPS = (_rows, _convolutions, _windows, _products_and_orders, _algorithms)
ROWS = {row.name: row for group in _GROUPS for row in group()}


def batched(x: Any, axis: int) -> np.ndarray:
    """``BATCH`` variations of ``x`` side by side along ``axis``."""
    x = np.asarray(x)
    return np.stack([x, np.roll(x, 1)], axis) if x.size > 1 else np.stack([x, x], axis)


def mappings(row: Row) -> Iterator[tuple[Any, ...]]:
    """The ``in_axes`` to try: all in front, each operand alone, and last axes against first ones."""
    n = len(row.args)
    yield (0,) * n
    if any(np.asarray(x).dtype not in (np.float32, np.int32, bool) for x in row.args):
        return  # dtypes make no difference to batching
    if n > 1:
        for i in range(n):
            yield tuple(0 if j == i else None for j in range(n))
            yield tuple(None if j == i else 0 for j in range(n))
    last = tuple(np.ndim(x) if i % 2 == 0 else 0 for i, x in enumerate(row.args))
    if any(last):
        yield last


def transformations(ns: Any, row: Row) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """name -> (function, arguments): the row itself, its jvp, its vjp and its vmaps."""

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
    return built
