"""The table of borrowed primitives: JAX functions, operands, and which primitive of their programs is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src.lax.linalg import geqrf
from jax.extend.core.primitives import threefry2x32_p
from ml_dtypes import bfloat16


class Row:
    """One call of a primitive: ``fun(*args)`` is a program of JAX's that is an equation of it, or holds one."""

    def __init__(self, group: str, label: str, primitive: str, fun: Callable[..., Any], args: Sequence[Any]) -> None:
        self.group = group
        self.label = label
        self.primitive = primitive
        self.fun = fun
        self.args = list(map(np.asarray, args))
        # the operands that JAX's rule differentiates by
        self.floats = [i for i in DIFFERENTIATED.get(label, range(len(args))) if inexact(self.args[i])]

    def equation(self) -> Any:
        """The first equation of the primitive that takes the operands themselves, with its params."""
        found = next(equations(jax.make_jaxpr(self.fun)(*self.args).jaxpr, self.primitive))
        assert [(v.aval.shape, v.aval.dtype) for v in found.invars] == [(x.shape, x.dtype) for x in self.args]
        return found


def equations(jaxpr: Any, name: str) -> Iterator[Any]:
    """The equations of the primitive called ``name`` in a jaxpr of JAX's, and in those in it."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == name:
            yield eqn
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner, name)


def inexact(x: Any) -> bool:
    return jax.numpy.issubdtype(x.dtype, np.inexact)


# Where JAX has no derivative by some operands: those by which it has one.
DIFFERENTIATED = {
    "polygamma": (1,),
    "regularized_incomplete_beta": (2,),
    "reduce": (0, 1),
    "reduce_window": (0,),
}


def f32(*shape: int, low: float = 0.2, high: float = 1.0) -> np.ndarray:
    """Different numbers between ``low`` and ``high``, in no order, the same each time."""
    n = int(np.prod(shape))
    order = (np.arange(n) * 7 + 3) % n if n % 7 else (np.arange(n) * 5 + 3) % n
    return np.asarray(low + (high - low) * (order + 0.5) / max(n, 1), np.float32).reshape(shape)


def positive(n: int, *batch: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    x = f32(*batch, n, n)
    return np.asarray(x @ np.swapaxes(x, -1, -2) + np.diag(np.arange(1.0, n + 1)), np.float32)


def general(m: int, n: int, *batch: int) -> np.ndarray:
    """Matrices of full rank, far from singular."""
    return np.asarray(f32(*batch, m, n) + 2 * np.eye(m, n), np.float32)


def complexes(x: np.ndarray) -> np.ndarray:
    return np.asarray(x + 0.3j * x.T[::-1].T, np.complex64)


IMAGE, KERNEL = f32(1, 2, 5, 4), f32(3, 2, 3, 2, low=-0.5)
U32 = np.arange(3, dtype=np.uint32)
BITS = np.array([0, 1, 6, 255, -3], np.int32)
PHILOX = lax.RandomAlgorithm.RNG_PHILOX
SEED = np.uint32([1, 2, 3, 4])

linalg = lax.linalg


def windowed_product(x: Any, init: Any) -> Any:
    """A window with a computation of the user's own."""
    return lax.reduce_window(x, init, lambda a, b: a * b + 0 * a, (2,), (1,), "VALID")


UNDILATED = {"base_dilation": (1, 1), "window_dilation": (1, 1)}


def pool(primitive: Any, **params: Any) -> Callable[..., Any]:
    """What the derivative of pooling by maxima is made of."""
    window = {"window_dimensions": (2, 2), "window_strides": (1, 2), "padding": ((0, 0), (0, 0))}
    return partial(primitive.bind, select_prim=lax.ge_p, **window, **params)


def threefry2x32(*xs: Any) -> Any:
    return threefry2x32_p.bind(*xs)


def reduced(x: Any, y: Any, zero: Any, one: Any) -> Any:
    """A reduction of two operands at once, with a computation of its own."""
    return lax.reduce((x, y), (zero, one), lambda a, b: (a[0] + b[0] * b[1], a[1] * b[1]), (1,))


def rows() -> Iterator[Row]:
    """All of the table."""
    for group, listed in GROUPS.items():
        for label, primitive, fun, args in listed:
            yield Row(group, label or primitive, primitive, fun, args)


def conv(label: str, lhs: Any = IMAGE, rhs: Any = KERNEL, **params: Any) -> Any:
    params = {"window_strides": (1, 1), "padding": "SAME", **params}
    return label, "conv_general_dilated", partial(lax.conv_general_dilated, **params), (lhs, rhs)


def window(reducer: str, x: Any, dims: Any, strides: Any, padding: Any = "VALID", **dilations: Any) -> Any:
    init = {"sum": 0.0, "max": -np.inf, "min": np.inf}[reducer]
    op = {"sum": lax.add, "max": lax.max, "min": lax.min}[reducer]

    def fun(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(init), op, dims, strides, padding, **dilations)

    return f"reduce_window_{reducer}{dims}{strides}", f"reduce_window_{reducer}", fun, (x,)


GROUPS: dict[str, list[Any]] = {
    "linear algebra": [
        ("", "cholesky", partial(linalg.cholesky, symmetrize_input=False), (positive(3),)),
        ("cholesky of many", "cholesky", partial(linalg.cholesky, symmetrize_input=False), (positive(2, 2),)),
        ("", "cholesky_update", linalg.cholesky_update, (np.linalg.cholesky(positive(3)).T.copy(), f32(3))),
        ("", "lu", linalg.lu, (general(3, 3),)),
        ("", "lu_pivots_to_permutation", partial(linalg.lu_pivots_to_permutation, permutation_size=4),
         (np.array([2, 1, 2], np.int32),)),
        ("", "qr", partial(linalg.qr, full_matrices=False), (general(4, 3),)),
        ("", "geqrf", geqrf, (general(3, 2),)),
        ("", "householder_product", linalg.householder_product, (general(3, 2), f32(2))),
        ("", "ormqr", partial(linalg.ormqr, left=True, transpose=False), (general(3, 2), f32(2), f32(3, 2))),
        ("", "eigh", partial(linalg.eigh, symmetrize_input=False), (positive(3),)),
        ("", "eig", linalg.eig, (general(3, 3) + np.diag([0, 1, 2]).astype(np.float32),)),
        ("", "svd", partial(linalg.svd, full_matrices=False), (general(3, 2),)),
        ("singular values", "svd", partial(linalg.svd, compute_uv=False), (general(2, 3),)),
        ("", "triangular_solve", partial(linalg.triangular_solve, left_side=True, lower=True),
         (np.tril(general(3, 3)), f32(3, 2))),
        ("triangular_solve from the right", "triangular_solve",
         partial(linalg.triangular_solve, transpose_a=True, unit_diagonal=True), (np.triu(general(2, 2)), f32(3, 2))),
        ("complex triangular_solve", "triangular_solve",
         partial(linalg.triangular_solve, left_side=True, lower=True, conjugate_a=True, transpose_a=True),
         (complexes(np.tril(general(2, 2))), complexes(f32(2, 1)))),
        ("", "schur", linalg.schur, (general(3, 3),)),
        ("", "hessenberg", linalg.hessenberg, (general(3, 3),)),
        ("", "tridiagonal", partial(linalg.tridiagonal, lower=True), (positive(3),)),
        ("", "tridiagonal_solve", linalg.tridiagonal_solve,
         (np.array([0, 0.1, 0.2], np.float32), f32(3) + 2, np.array([0.3, 0.1, 0], np.float32), f32(3, 2))),
        ("", "symmetric_product", partial(linalg.symmetric_product, symmetrize_output=False), (f32(3, 2), positive(3))),
    ],
    "convolution": [
        conv("conv"),
        conv("conv with strides", window_strides=(2, 1), padding="VALID"),
        conv("cropped conv", padding=((-1, 0), (0, -1))),
        conv("transposed conv", lhs_dilation=(2, 1), padding=((1, 1), (1, 1))),
        conv("dilated conv", rhs_dilation=(1, 2), padding="VALID"),
        conv("conv of groups", f32(1, 4, 3, 3), f32(4, 2, 2, 2), feature_group_count=2),
        conv("conv of batch groups", f32(2, 2, 3, 3), f32(4, 2, 2, 2), batch_group_count=2),
        conv("conv in NHWC", f32(1, 3, 3, 2), f32(2, 2, 2, 3), dimension_numbers=("NHWC", "HWIO", "NHWC")),
        conv("conv in 1 dimension", f32(2, 2, 5), f32(2, 2, 3), window_strides=(1,)),
        conv("conv in no dimension", f32(2, 3), f32(2, 3), window_strides=(), padding=()),
        conv("conv in half precision", IMAGE.astype(np.float16), KERNEL.astype(np.float16)),
        conv("complex conv", complexes(f32(1, 2, 3, 3)), complexes(f32(2, 2, 2, 2))),
        conv("conv of integers", np.arange(8, dtype=np.int32).reshape(1, 1, 8), np.ones((1, 1, 3), np.int32),
             window_strides=(1,), preferred_element_type=np.int32),
    ],
    "windows": [
        window("sum", f32(4, 3), (2, 2), (1, 1)),
        window("sum", f32(5), (3,), (2,), "SAME"),
        window("sum", f32(5), (2,), (1,), ((1, 0),), base_dilation=(2,), window_dilation=(2,)),
        window("max", f32(4, 3), (2, 2), (2, 1)),
        window("max", f32(5), (3,), (1,), "SAME"),
        window("min", f32(4, 3), (2, 1), (1, 2)),
        ("", "reduce_window", windowed_product, (f32(5), np.float32(1))),
        ("", "select_and_scatter_add", pool(lax.select_and_scatter_add_p), (f32(4, 2), f32(5, 4))),
        ("", "select_and_gather_add", pool(lax.select_and_gather_add_p, **UNDILATED), (f32(5, 4) - 1, f32(5, 4))),
        ("", "cumsum", partial(lax.cumsum, axis=1), (f32(2, 3),)),
        ("", "cumprod", partial(lax.cumprod, axis=0), (f32(3, 2),)),
        ("", "cummax", partial(lax.cummax, axis=0), (f32(4),)),
        ("", "cummin", partial(lax.cummin, axis=0), (f32(4),)),
        ("", "cumlogsumexp", partial(lax.cumlogsumexp, axis=0), (f32(4),)),
    ],
    "fft": [
        ("fft", "fft", partial(lax.fft, fft_type="FFT", fft_lengths=(4,)), (complexes(f32(2, 4)),)),
        ("ifft", "fft", partial(lax.fft, fft_type="IFFT", fft_lengths=(2, 4)), (complexes(f32(2, 4)),)),
        ("rfft", "fft", partial(lax.fft, fft_type="RFFT", fft_lengths=(5,)), (f32(2, 5),)),
        ("irfft", "fft", partial(lax.fft, fft_type="IRFFT", fft_lengths=(4,)), (complexes(f32(2, 3)),)),
    ],
    "special functions": [
        ("", "igamma", lax.igamma, (np.float32(0.7), np.float32(1.2))),
        ("", "igammac", lax.igammac, (np.float32(0.7), np.float32(1.2))),
        ("", "lgamma", lax.lgamma, (f32(3),)),
        ("", "digamma", lax.digamma, (f32(3),)),
        ("", "polygamma", lax.polygamma, (np.float32([1, 2]), f32(2))),
        ("", "zeta", lax.zeta, (f32(2) + 1.5, f32(2))),
        ("", "bessel_i0e", lax.bessel_i0e, (f32(3),)),
        ("", "bessel_i1e", lax.bessel_i1e, (f32(3),)),
        ("", "regularized_incomplete_beta", lax.regularized_incomplete_beta_p.bind,
         (np.float32(0.7), np.float32(1.2), np.float32(0.4))),
        ("", "erf_inv", lax.erf_inv, (f32(3),)),
        ("", "erfc", lax.erfc, (f32(3),)),
        ("", "logistic", lax.logistic, (complexes(f32(3)),)),
        ("", "cbrt", lax.cbrt, (f32(3),)),
        ("", "atan2", lax.atan2, (f32(2), f32(2) - 1)),
    ],
    "sorting": [
        ("", "sort", partial(lax.sort, dimension=0), (f32(3, 2),)),
        ("sort of several", "sort", lambda *xs: lax.sort(xs, num_keys=2), (np.int32([1, 0, 1]), f32(3), f32(3) * 2)),
        ("", "top_k", partial(lax.top_k, k=2), (f32(2, 4),)),
        ("", "approx_top_k", partial(lax.approx_max_k, k=2), (f32(2, 4),)),
        ("", "argmax", partial(lax.argmax, axis=1, index_dtype=np.int32), (f32(2, 4),)),
        ("", "argmin", partial(lax.argmin, axis=0, index_dtype=np.int32), (f32(2, 4),)),
    ],
    "random numbers": [
        ("", "threefry2x32", threefry2x32, (U32 + 1, U32 + 2, U32, U32 + 9)),
        ("", "rng_bit_generator", partial(lax.rng_bit_generator, shape=(3,)), (SEED,)),
        ("philox", "rng_bit_generator", partial(lax.rng_bit_generator, shape=(2, 2), algorithm=PHILOX), (SEED,)),
    ],
    "integers": [
        ("", "population_count", lax.population_count, (BITS,)),
        ("", "clz", lax.clz, (BITS,)),
        ("", "nextafter", lax.nextafter, (f32(3), f32(3) + 1)),
        ("", "mulhi", lax.mulhi, (BITS * 1000003, BITS + 77)),
        ("", "reduce_and", partial(lax.reduce_and, axes=(0,)), (BITS,)),
        ("", "reduce_or", partial(lax.reduce_or, axes=(0,)), (BITS.reshape(1, 5),)),
        ("", "reduce_xor", partial(lax.reduce_xor, axes=(0,)), (BITS,)),
        ("", "bitcast_convert_type", partial(lax.bitcast_convert_type, new_dtype=np.uint8), (BITS[:2],)),
    ],
    "products and reductions": [
        ("", "reduce", reduced, (f32(2, 3), f32(2, 3), np.float32(0), np.float32(1))),
        ("", "reduce_precision", partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=4), (f32(3),)),
        ("", "ragged_dot_general", lax.ragged_dot, (f32(4, 2), f32(2, 2, 3), np.int32([1, 3]))),
        ("", "dot_general", partial(lax.dot_general, dimension_numbers=(((2,), (1,)), ((0,), (0,)))),
         (f32(2, 3, 4), f32(2, 4, 2))),
        ("dot_general of halves", "dot_general",
         partial(lax.dot_general, dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=np.float32),
         (f32(2, 3).astype(np.float16), f32(3, 2).astype(np.float16))),
        ("", "reduce_prod", partial(lax.reduce_prod, axes=(0,)), (f32(3, 2),)),
        ("empty cumsum", "cumsum", partial(lax.cumsum, axis=1), (f32(0, 3),)),
        ("empty fft", "fft", partial(lax.fft, fft_type="RFFT", fft_lengths=(4,)), (f32(0, 4),)),
        ("empty cholesky", "cholesky", partial(linalg.cholesky, symmetrize_input=False), (f32(0, 3, 3),)),
        ("conv in bfloat16", "conv_general_dilated",
         partial(lax.conv_general_dilated, window_strides=(1,), padding="SAME"),
         (np.asarray(f32(1, 1, 4), bfloat16), np.asarray(f32(1, 1, 2), bfloat16))),
    ],
}  # fmt: skip
