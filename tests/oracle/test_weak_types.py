"""Dtypes and weak types of derivatives at Python numbers, against JAX's: what they promote later depends on them.

JAX is asked abstractly, which compiles nothing; the subject is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from .subject import oracle, subject

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda ns, x, name=name: getattr(ns.numpy, name)(x)
        for name in (
            "sin cos tan exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal tanh arcsin arcsinh "
            "abs negative sign floor ravel atleast_2d deg2rad sinc logical_not isnan isfinite signbit sum mean prod "
            "max var std nan_to_num cumsum any all"
        ).split()
    },
    "flip": lambda ns, x: ns.numpy.flip(ns.numpy.ravel(x)),
    "clip": lambda ns, x: ns.numpy.clip(x, 0, 1),
    "where": lambda ns, x: ns.numpy.where(x > 0, x, 0),
    "where strong": lambda ns, x: ns.numpy.where(x > 0, x, np.float32(0)),
    "concatenate": lambda ns, x: ns.numpy.concatenate([ns.numpy.ravel(x), ns.numpy.ravel(x)]),
    "dot": lambda ns, x: ns.numpy.dot(x, x),
    "matmul": lambda ns, x: ns.numpy.ravel(x) @ ns.numpy.ravel(x),
    "einsum": lambda ns, x: ns.numpy.einsum(",->", x, x),
    "multiply": lambda ns, x: ns.numpy.multiply(x, x),
    "divide": lambda ns, x: ns.numpy.divide(2, x),
    "maximum": lambda ns, x: ns.numpy.maximum(x, 0),
    "maximum strong": lambda ns, x: ns.numpy.maximum(x, np.float32(0)),
    "arctan2": lambda ns, x: ns.numpy.arctan2(x, 2),
    "hypot": lambda ns, x: ns.numpy.hypot(x, x),
    "logaddexp": lambda ns, x: ns.numpy.logaddexp(x, x),
    "logical_and": lambda ns, x: ns.numpy.logical_and(x, 2),
    "power of int": lambda ns, x: ns.lax.pow(x, 2),
    "power of float": lambda ns, x: ns.lax.pow(x, 2.0),
    "operator **": lambda ns, x: ns.numpy.asarray(x) ** 2.0,
    "power strong": lambda ns, x: ns.numpy.power(x, np.float32(2)),
    "power by x": lambda ns, x: ns.numpy.power(2.0, x),
    "power by itself": lambda ns, x: ns.numpy.power(x, ns.numpy.sin(x)),
    "float_power": lambda ns, x: ns.numpy.float_power(x, 2),
    "logsumexp": lambda ns, x: ns.nn.logsumexp(x),
    "softmax": lambda ns, x: ns.nn.softmax(ns.numpy.ravel(x)),
    "silu": lambda ns, x: ns.nn.silu(x),
    "selu": lambda ns, x: ns.nn.selu(x),
    "softplus": lambda ns, x: ns.nn.softplus(x),
    "cond": lambda ns, x: ns.lax.cond(x > 0, lambda y: y * 2, lambda y: y, x),
    "scan": lambda ns, x: ns.lax.scan(lambda c, _: (c * x, c), x, None, length=2),
    "jit": lambda ns, x: ns.jit(lambda y: ns.numpy.sin(y) * 2)(x),
    "checkpoint": lambda ns, x: ns.checkpoint(ns.numpy.sin)(x),
    "at": lambda ns, x: ns.numpy.ravel(x).at[0].multiply(x),
    "vmap": lambda ns, x: ns.vmap(lambda y: y * x)(ns.numpy.ravel(x)),
    "reduce_or": lambda ns, x: ns.lax.reduce_or(ns.lax.broadcast(x > 0, (2,)), (0,)),
}
STRONG = np.float32(0.5)


def _summed(ns: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: sum(ns.numpy.sum(leaf) for leaf in ns.tree_util.tree_leaves(f(x)))


DERIVED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "value": lambda ns, f, x: f(x),
    "jvp": lambda ns, f, x: ns.jvp(f, (x,), (x,)),
    "grad": lambda ns, f, x: ns.grad(_summed(ns, f))(x),
    "second": lambda ns, f, x: ns.grad(ns.grad(_summed(ns, f)))(x),
    "jacfwd": lambda ns, f, x: ns.jacfwd(f)(x),
    "grad of jacfwd": lambda ns, f, x: ns.grad(ns.jacfwd(_summed(ns, f)))(x),
    "vjp": lambda ns, f, x: ns.vjp(_summed(ns, f), x)[1](1.0),
    "linearize": lambda ns, f, x: ns.linearize(f, x)[1](x),
}
# Functions of JAX's numpy are jitted, so a strongly typed tangent of a number becomes weak in them; ours of a number
# is weak from the start, also where JAX's function is no jit: lax's functions, and powers by Python's integers.
OF_STRONG_TANGENTS = (
    "sin ravel flip where concatenate dot multiply divide maximum hypot logaddexp softmax silu at abs sum"
).split()


def types(leaves: list[Any]) -> list[Any]:
    """The type of each leaf; of a number that came back as it was, JAX's array of it."""
    found = []
    for x in leaves:
        x = oracle.eval_shape(lambda y: y, x) if isinstance(x, (bool, int, float, complex)) else x
        found.append((str(x.dtype), tuple(x.shape), bool(getattr(x, "weak_type", False))))
    return found


def answer(ask: Callable[..., list[Any]], ns: Any, name: str, make: Any, x: Any) -> Any:
    """The types of what a derivative gives, or what it raises."""
    try:
        return types(ask(ns, lambda y: make(ns, lambda z: FUNCTIONS[name](ns, z), y), x))
    except (TypeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weak_types(name: str) -> None:
    """The value at numbers of each kind, and every derivative at a float."""
    wrong = []
    for derived, make in DERIVED.items():
        for x in (0.5, 2, True) if derived == "value" else (0.5,):
            check(wrong, f"{derived} at {x}", name, make, x)
    if name in OF_STRONG_TANGENTS:
        check(wrong, "jvp along a strong tangent", name, lambda ns, f, x: ns.jvp(f, (x,), (STRONG,)), 0.5)
    assert not wrong, "\n".join(wrong)


def check(wrong: list[str], what: str, name: str, make: Any, x: Any) -> None:
    """Note in ``wrong`` if the subject's types are not JAX's."""
    ours, theirs = answer(_evaluated, subject, name, make, x), answer(_abstractly, oracle, name, make, x)
    if ours != theirs:
        wrong.append(f"{what}: {ours}, JAX: {theirs}")


def _evaluated(ns: Any, f: Any, x: Any) -> list[Any]:
    return ns.tree_util.tree_leaves(f(x))


def _abstractly(ns: Any, f: Any, x: Any) -> list[Any]:
    return jax.tree_util.tree_leaves(ns.eval_shape(f, x))
