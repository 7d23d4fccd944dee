"""The table of borrowed primitives: JAX functions, their operands, and the primitive to test in each program."""

from functools import partial

import jax
import numpy as np
from jax import lax
from jax._src.lax.linalg import geqrf


class Row:
    """One call of a primitive. ``fun(*args)`` is a JAX program that contains an equation with this primitive."""

    def __init__(self, label, primitive, fun, args):
        self.label = label
        self.primitive = primitive
        self.fun = fun
        self.args = list(map(np.asarray, args))
        # operands that JAX's rule can differentiate
        self.floats = [i for i in DIFFERENTIATED.get(label, range(len(args))) if inexact(self.args[i])]

    def equation(self):
        """The first equation of the primitive that takes exactly the operands of the row."""
        found = next(equations(jax.make_jaxpr(self.fun)(*self.args).jaxpr, self.primitive))
        assert [(v.aval.shape, v.aval.dtype) for v in found.invars] == [(x.shape, x.dtype) for x in self.args]
        return found


def equations(jaxpr, name):
    """The equations of the primitive ``name`` in a JAX jaxpr and its inner jaxprs."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == name:
            yield eqn
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner, name)


def inexact(x):
    return jax.numpy.issubdtype(x.dtype, np.inexact)


# label of a row -> the operands that have a derivative in JAX, if only some have
DIFFERENTIATED = {"reduce": (0, 1), "reduce_window": (0,)}


def f32(*shape, low=0.2, high=1.0):
    """Distinct numbers between ``low`` and ``high``, shuffled in a fixed order."""
    n = int(np.prod(shape))
    order = (np.arange(n) * 7 + 3) % n if n % 7 else (np.arange(n) * 5 + 3) % n
    return np.asarray(low + (high - low) * (order + 0.5) / max(n, 1), np.float32).reshape(shape)


def positive(n, *batch):
    """Symmetric positive definite matrices."""
    x = f32(*batch, n, n)
    return np.asarray(x @ np.swapaxes(x, -1, -2) + np.diag(np.arange(1.0, n + 1)), np.float32)


def general(m, n, *batch):
    """Matrices of full rank, far from singular."""
    return np.asarray(f32(*batch, m, n) + 2 * np.eye(m, n), np.float32)


def complexes(x):
    return np.asarray(x + 0.3j * x.T[::-1].T, np.complex64)


linalg = lax.linalg


def windowed_product(x, init):
    """A window reduction with a user-defined computation."""
    return lax.reduce_window(x, init, lambda a, b: a * b + 0 * a, (2,), (1,), "VALID")


def reduced(x, y, zero, one):
    """A reduction of two operands at once, with a user-defined computation."""
    return lax.reduce((x, y), (zero, one), lambda a, b: (a[0] + b[0] * b[1], a[1] * b[1]), (1,))


def rows():
    """One row for each kind of primitive; ``tests/oracle`` tests the values of every primitive."""
    for label, primitive, fun, args in ROWS:
        yield Row(label or primitive, primitive, fun, args)


ROWS = [
    ("", "cholesky", partial(linalg.cholesky, symmetrize_input=False), (positive(3),)),
    ("empty cholesky", "cholesky", partial(linalg.cholesky, symmetrize_input=False), (f32(0, 3, 3),)),
    ("", "cholesky_update", linalg.cholesky_update, (np.linalg.cholesky(positive(3)).T.copy(), f32(3))),
    ("", "lu", linalg.lu, (general(3, 3),)),
    ("", "geqrf", geqrf, (general(3, 2),)),
    ("", "householder_product", linalg.householder_product, (general(3, 2), f32(2))),
    ("singular values", "svd", partial(linalg.svd, compute_uv=False), (general(2, 3),)),
    ("", "triangular_solve", partial(linalg.triangular_solve, left_side=True, lower=True),
     (np.tril(general(3, 3)), f32(3, 2))),
    ("complex triangular_solve", "triangular_solve",
     partial(linalg.triangular_solve, left_side=True, lower=True, conjugate_a=True, transpose_a=True),
     (complexes(np.tril(general(2, 2))), complexes(f32(2, 1)))),
    ("", "reduce_window", windowed_product, (f32(5), np.float32(1))),
    ("", "cumsum", partial(lax.cumsum, axis=1), (f32(2, 3),)),
    ("irfft", "fft", partial(lax.fft, fft_type="IRFFT", fft_lengths=(4,)), (complexes(f32(2, 3)),)),
    ("", "logistic", lax.logistic, (complexes(f32(3)),)),
    ("sort of several", "sort", lambda *xs: lax.sort(xs, num_keys=2), (np.int32([1, 0, 1]), f32(3), f32(3) * 2)),
    ("", "top_k", partial(lax.top_k, k=2), (f32(2, 4),)),
    ("", "reduce", reduced, (f32(2, 3), f32(2, 3), np.float32(0), np.float32(1))),
    ("dot_general of halves", "dot_general",
     partial(lax.dot_general, dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type=np.float32),
     (f32(2, 3).astype(np.float16), f32(3, 2).astype(np.float16))),
]  # fmt: skip
