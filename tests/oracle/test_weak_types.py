"""Derivatives at Python numbers have JAX's dtypes and weak types, on which later promotions depend.

JAX only infers types, so it compiles nothing. The subject evaluates the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from .subject import oracle, subject

# Expressions marked "strong" are also differentiated by jvp along a strongly typed tangent. JAX's numpy functions are
# jitted, so they make this tangent weak. In minijax the tangent of a number is weak from the start, also in lax.
EXPRESSIONS = """
jnp.sin(x)  # strong
jnp.ravel(x)  # strong
jnp.abs(x)  # strong
jnp.sum(x)  # strong
jnp.flip(jnp.ravel(x))  # strong
jnp.clip(x, 0, 1)
jnp.where(x > 0, x, 0)  # strong
jnp.where(x > 0, x, np.float32(0))
jnp.concatenate([jnp.ravel(x), jnp.ravel(x)])  # strong
jnp.dot(x, x)  # strong
jnp.ravel(x) @ jnp.ravel(x)
jnp.einsum(',->', x, x)
jnp.multiply(x, x)  # strong
jnp.divide(2, x)  # strong
jnp.maximum(x, 0)  # strong
jnp.maximum(x, np.float32(0))
jnp.arctan2(x, 2)
jnp.hypot(x, x)  # strong
jnp.logaddexp(x, x)  # strong
jnp.logical_and(x, 2)
lax.pow(x, 2)
lax.pow(x, 2.0)
jnp.asarray(x) ** 2.0
jnp.power(x, np.float32(2))
jnp.power(2.0, x)
jnp.power(x, jnp.sin(x))
jnp.float_power(x, 2)
nn.logsumexp(x)
nn.softmax(jnp.ravel(x))  # strong
nn.silu(x)  # strong
nn.selu(x)
nn.softplus(x)
lax.cond(x > 0, lambda y: y * 2, lambda y: y, x)
lax.scan(lambda c, _: (c * x, c), x, None, length=2)
ns.jit(lambda y: jnp.sin(y) * 2)(x)
ns.checkpoint(jnp.sin)(x)
jnp.ravel(x).at[0].multiply(x)  # strong
ns.vmap(lambda y: y * x)(jnp.ravel(x))
lax.reduce_or(lax.broadcast(x > 0, (2,)), (0,))
"""


FUNCTIONS = [f"jnp.{name}(x)" for name in (
    "cos tan exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal tanh arcsin arcsinh negative sign floor"
    " atleast_2d deg2rad sinc logical_not isnan isfinite signbit mean prod max var std nan_to_num cumsum any all"
).split()]  # fmt: skip
FUNCTIONS += EXPRESSIONS.strip().splitlines()
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


def evaluated(ns: Any, name: str, x: Any) -> Any:
    return eval(name, {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "nn": ns.nn, "np": np, "x": x})


def types(leaves: list[Any]) -> list[Any]:
    """The type of each leaf. A number that was returned unchanged has the type of its JAX array."""
    found = []
    for x in leaves:
        x = oracle.eval_shape(lambda y: y, x) if isinstance(x, (bool, int, float, complex)) else x
        found.append((str(x.dtype), tuple(x.shape), bool(getattr(x, "weak_type", False))))
    return found


def answer(ask: Callable[..., list[Any]], ns: Any, name: str, make: Any, x: Any) -> Any:
    """The types of a derivative, or the class of its error."""
    try:
        return types(ask(ns, lambda y: make(ns, lambda z: evaluated(ns, name, z), y), x))
    except (TypeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_of_derivatives_match_jax(name: str) -> None:
    """The types of the value at each kind of number, and of every derivative at a float, are JAX's."""
    wrong = []
    for derived, make in DERIVED.items():
        for x in (0.5, 2, True) if derived == "value" else (0.5,):
            check(wrong, f"{derived} at {x}", name, make, x)
    if name.endswith("strong"):
        check(wrong, "jvp along a strong tangent", name, lambda ns, f, x: ns.jvp(f, (x,), (STRONG,)), 0.5)
    assert not wrong, "\n".join(wrong)


def check(wrong: list[str], what: str, name: str, make: Any, x: Any) -> None:
    """Append a line to ``wrong`` if the subject's types are not JAX's."""
    ours, theirs = answer(_evaluated, subject, name, make, x), answer(_abstractly, oracle, name, make, x)
    if ours != theirs:
        wrong.append(f"{what}: {ours}, JAX: {theirs}")


def _evaluated(ns: Any, f: Any, x: Any) -> list[Any]:
    return ns.tree_util.tree_leaves(f(x))


def _abstractly(ns: Any, f: Any, x: Any) -> list[Any]:
    return jax.tree_util.tree_leaves(ns.eval_shape(f, x))
