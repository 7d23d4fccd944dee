"""Small programs that give ``%check`` operands and parameters for primitives with parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax import lax, random
from minijax import numpy as jnp
from minijax.api import grad, jit, jvp, make_jaxpr
from minijax.core.keys import is_key
from minijax.core.primitive import Primitive
from minijax.ir.jaxpr import ClosedJaxpr, Literal
from minijax.ops.random.threefry import threefry2x32_p

Call = tuple[tuple[Any, ...], dict[str, Any]]

_VECTOR = np.array([0.5, -1.25, 2.0], np.float32)
_MATRIX = np.array([[0.3, 1.7, -0.4], [0.9, -1.1, 0.6]], np.float32)
_SQUARE = np.array([[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]], np.float32)
_FLAGS = np.array([True, False, True])
_WHOLE = np.array([3, 1, 2], np.int32)
_WORDS = np.arange(6, dtype=np.uint32).reshape(3, 2)
_AT = np.array([2, 0], np.int32)


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "VALID")


# name of a primitive -> a function that uses it, and arguments for this function
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "argmax": (lambda x: jnp.argmax(x, 1), (_MATRIX,)),
    "argmin": (lambda x: jnp.argmin(x, 1), (_MATRIX,)),
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, np.int32), (_VECTOR,)),
    "broadcast_in_dim": (lambda x: jnp.broadcast_to(x, (2, 3)), (_VECTOR,)),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (_SQUARE,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), (_VECTOR, 2 * _VECTOR)),
    "cond": (lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), (np.bool_(True), _VECTOR)),
    "conj": (lambda x: jnp.conj(x), (_VECTOR + 1j * _VECTOR[::-1],)),
    "conv_general_dilated": (
        lambda x, kernel: lax.conv_general_dilated(x, kernel, (1,), "SAME"),
        (_MATRIX[None], np.stack([_MATRIX[::-1], -_MATRIX])),
    ),
    "convert_element_type": (lambda x: x.astype(np.float32), (_WHOLE,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), (_MATRIX,)),
    "cummax": (lambda x: lax.cummax(x, 1), (_MATRIX,)),
    "cummin": (lambda x: lax.cummin(x, 1), (_MATRIX,)),
    "cumprod": (lambda x: lax.cumprod(x, 1), (_MATRIX,)),
    "cumsum": (lambda x: lax.cumsum(x, 1), (_MATRIX,)),
    "dot_general": (lambda x, y: x @ y, (_MATRIX, _MATRIX.T)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (_VECTOR, np.int32(1))),
    "dynamic_update_slice": (
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i,)),
        (_VECTOR, np.array([7.0], np.float32), np.int32(1)),
    ),
    "eig": (lambda x: lax.linalg.eig(x), (_SQUARE,)),
    "eigh": (lambda x: lax.linalg.eigh(x), (_SQUARE,)),
    "fft": (lambda x: lax.fft(x, "RFFT", (3,)), (_MATRIX,)),
    "gather": (lambda x, i: x[i], (_VECTOR, _AT)),
    "geqrf": (lambda x: lax.linalg.geqrf_p.bind(x), (_SQUARE,)),
    "hessenberg": (lambda x: lax.linalg.hessenberg(x), (_SQUARE,)),
    "householder_product": (lambda x, y: lax.linalg.householder_product(x, y), (_SQUARE, _VECTOR)),
    "integer_pow": (lambda x: x**3, (_VECTOR,)),
    "iota": (lambda x: x + lax.iota(np.float32, 3), (_VECTOR,)),
    "jit": (lambda x: jit(jnp.sin)(x), (_VECTOR,)),
    "lu": (lambda x: lax.linalg.lu(x), (_SQUARE,)),
    "lu_pivots_to_permutation": (lambda x: lax.linalg.lu_pivots_to_permutation(x, 3), (np.array([1, 2, 2], np.int32),)),
    "pad": (lambda x: lax.pad(x, np.float32(0), [(1, 2, 0)]), (_VECTOR,)),
    "qr": (lambda x: lax.linalg.qr(x, full_matrices=False), (_SQUARE,)),
    "random_bits": (lambda x: random.bits(random.wrap_key_data(x), (3,)), (_WORDS[1],)),
    "random_clone": (lambda x: random.key_data(random.clone(random.wrap_key_data(x))), (_WORDS[1],)),
    "random_gamma": (lambda k, x: random.gamma(random.wrap_key_data(k), x), (_WORDS[1], abs(_VECTOR))),
    "random_fold_in": (lambda x: random.key_data(random.fold_in(random.wrap_key_data(x), 5)), (_WORDS[1],)),
    "random_seed": (lambda x: random.key_data(random.key(x)), (np.int32(7),)),
    "random_split": (lambda x: random.key_data(random.split(random.wrap_key_data(x))), (_WORDS[1],)),
    "random_unwrap": (lambda x: random.key_data(random.wrap_key_data(x)), (_WORDS,)),
    "random_wrap": (lambda x: random.wrap_key_data(x), (_WORDS,)),
    "reduce": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b, (1,)), (_MATRIX,)),
    "reduce_and": (lambda x: jnp.all(x), (_FLAGS,)),
    "reduce_max": (lambda x: jnp.max(x, 1), (_MATRIX,)),
    "reduce_min": (lambda x: jnp.min(x, 1), (_MATRIX,)),
    "reduce_or": (lambda x: jnp.any(x), (_FLAGS,)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), (_VECTOR,)),
    "reduce_prod": (lambda x: jnp.prod(x, 1), (_MATRIX,)),
    "reduce_sum": (lambda x: jnp.sum(x, 1), (_MATRIX,)),
    "reduce_window": (
        lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: a + b + a * b, (1, 2), (1, 1), "VALID"),
        (_MATRIX,),
    ),
    "reduce_window_max": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "VALID"), (_MATRIX,)),
    "reduce_window_min": (lambda x: lax.reduce_window(x, np.inf, lax.min, (1, 2), (1, 1), "VALID"), (_MATRIX,)),
    "reduce_window_sum": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), "SAME"), (_MATRIX,)),
    "reshape": (lambda x: x.reshape(3, 2), (_MATRIX,)),
    "rev": (lambda x: lax.rev(x, (0,)), (_VECTOR,)),
    "round": (lambda x: jnp.round(x), (_VECTOR + np.float32(0.1),)),
    "scan": (lambda c, xs: lax.scan(lambda c, x: (jnp.sin(c) * x, c + x), c, xs), (np.float32(0.75), _VECTOR)),
    "scatter": (lambda x, i, y: x.at[i].set(y), (_VECTOR, _AT, _VECTOR[:2])),
    "scatter-add": (lambda x, i, y: x.at[i].add(y), (_VECTOR, _AT, _VECTOR[:2])),
    "scatter-max": (lambda x, i, y: x.at[i].max(y), (_VECTOR, _AT, 3 * _VECTOR[:2])),
    "scatter-min": (lambda x, i, y: x.at[i].min(y), (_VECTOR, _AT, 3 * _VECTOR[:2])),
    "scatter-mul": (lambda x, i, y: x.at[i].multiply(y), (_VECTOR, _AT, _VECTOR[:2])),
    "schur": (lambda x: lax.linalg.schur(x), (_SQUARE,)),
    "select_and_gather_add": (lambda x: jvp(_pooled, (x,), (x[::-1],)), (_MATRIX,)),
    "select_and_scatter_add": (lambda x: grad(lambda y: _pooled(y).sum())(x), (_MATRIX,)),
    "slice": (lambda x: lax.slice(x, (1,), (3,)), (_VECTOR,)),
    "sort": (lambda x: jnp.sort(x), (_VECTOR,)),
    "split": (lambda x: lax.split(x, (1, 2)), (_VECTOR,)),
    "squeeze": (lambda x: jnp.squeeze(x), (_VECTOR[None],)),
    "svd": (lambda x: lax.linalg.svd(x, full_matrices=False), (_MATRIX,)),
    "threefry2x32": (threefry2x32_p.bind, (*_WORDS[0], *_WORDS[1:].T)),
    "top_k": (lambda x: lax.top_k(x, 2), (_VECTOR,)),
    "transpose": (lambda x: x.T, (_MATRIX,)),
    "triangular_solve": (lambda x, y: lax.linalg.triangular_solve(x, y, lower=True), (_SQUARE, _MATRIX)),
    "tridiagonal": (lambda x: lax.linalg.tridiagonal(x), (_SQUARE,)),
    "while": (
        lambda n, x: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) * x), (0, x)),
        (np.int32(3), _VECTOR),
    ),
    "zeta": (lambda x, q: lax.zeta(x, q), (np.abs(_VECTOR) + np.float32(1.5), _VECTOR[::-1] + np.float32(2))),
}


def call_of(primitive: Primitive) -> Call | None:
    """The operands and parameters of ``primitive`` in its program in ``PROGRAMS``; None if it has no program."""
    program = PROGRAMS.get(primitive.name)
    if program is None:
        return None
    fun, args = program
    return next((call for p, call in _calls(make_jaxpr(fun)(*args), args) if p is primitive), None)


def plain(x: Any, aval: Any) -> Any:
    """An operand of the type ``aval`` as a NumPy array; keys are unchanged."""
    return x if is_key(aval.dtype) else np.asarray(x, aval.dtype)


def _calls(closed: ClosedJaxpr, args: Sequence[Any]) -> Iterator[tuple[Primitive, Call]]:
    """Evaluate ``closed`` on ``args``; yield the primitive, operands and parameters of each equation, also in jit."""
    env: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    for eqn in closed.jaxpr.eqns:
        operands = tuple(v.val if type(v) is Literal else plain(env[v], v.aval) for v in eqn.invars)
        yield eqn.primitive, (operands, eqn.params)
        if eqn.primitive.name == "jit":
            yield from _calls(eqn.params["jaxpr"], operands)
        out = eqn.primitive.bind(*operands, **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True))
