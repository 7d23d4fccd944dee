"""``jet`` beside JAX's, and beside derivatives of derivatives along the same curve."""

from __future__ import annotations

import math

import jax
import jax.numpy as rnp
import numpy as np
import pytest
from jax.experimental.jet import jet as theirs

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.experimental.jet import jet as ours

X = np.array([0.3, 0.7], np.float32)
TERMS = [np.array(t, np.float32) for t in ([1.0, 0.5], [0.2, -0.3], [0.1, 0.4])]
W = np.array([[0.3, -0.2], [0.5, 0.4], [-0.6, 0.1]], np.float32)

UNARY = "sin cos sinh cosh tanh exp log sqrt square expm1 log1p abs negative reciprocal arctanh".split()
PROGRAMS = {
    **{name: (lambda x, np_, name=name: getattr(np_, name)(x)) for name in UNARY},
    "arccosh": lambda x, np_: np_.arccosh(x + 1),
    "powers": lambda x, np_: x**2.5 + x**-3 + x**4 + 2.0**x + x**0,
    "quotient": lambda x, np_: (1 + x) / (x * x + 2) / x[::-1],
    "network": lambda x, np_: np_.tanh(np_.dot(W, x)).sum() ** 3,
    "shapes": lambda x, np_: np_.concatenate([x.reshape(2, 1).T, np_.ones((1, 2))]).sum(0)[:1] + np_.pad(x, 1)[1:2],
    "choices": lambda x, np_: np_.max(x) * np_.maximum(x, 0.5) + np_.where(x > 0.5, x * x, x),
    "logistic": lambda x, np_: (jax.nn if np_ is rnp else minijax.nn).sigmoid(x) * np_.cumsum(x),
    "several": lambda x, np_: {"a": x * 2, "b": (np_.sin(x), np_.ones(2), x > 0)} if np_ is jnp else None,
}
# JAX has no rules for what is in these
OURS_ALONE = {
    "inverse": lambda x: jnp.arcsin(x) + jnp.arctan(x) * jnp.tan(x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x),
    "branch": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "sorted": lambda x: jnp.sort(-x) * jnp.prod(x),
    "gathered": lambda x: x[np.array([1, 0, 1])] ** 2,
    "jitted": minijax.jit(lambda x: minijax.jit(jnp.sin)(x) * 2 + jnp.arange(2)),
}


def along_the_curve(fun, order):
    """The derivative of ``fun`` along the curve by forward mode applied so often."""

    def at(t):
        return fun(X + sum(term * t ** (k + 1) / math.factorial(k + 1) for k, term in enumerate(TERMS)))

    for _ in range(order):
        at = (lambda g: lambda t: minijax.jvp(g, (t,), (np.float32(1),))[1])(at)
    return at(np.float32(0))


def check(mine, real, rtol=1e-4):
    assert jax.tree.structure(mine) == jax.tree.structure(real)
    for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(real), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "several"])
def test_derivatives_are_jaxs(name):
    fun = PROGRAMS[name]
    mine = ours(lambda x: fun(x, jnp), (X,), (TERMS,))
    check(mine, theirs(lambda x: fun(x, rnp), (rnp.asarray(X),), (list(map(rnp.asarray, TERMS)),)))


@pytest.mark.parametrize("name", OURS_ALONE)
def test_every_primitive_that_has_a_jvp_rule_can_be_used(name):
    fun = OURS_ALONE[name]
    out, terms = ours(fun, (X,), (TERMS,))
    check(out, fun(X))
    for order, term in enumerate(terms, 1):
        check(term, along_the_curve(fun, order), rtol=1e-3)


def test_trees_constants_scaling_and_transformations():
    out, terms = ours(lambda x: PROGRAMS["several"](x, jnp), (X,), (TERMS,))
    np.testing.assert_array_equal(out["b"][2], [True, True])
    np.testing.assert_array_equal(terms["b"][1], np.zeros((3, 2)))
    np.testing.assert_allclose(terms["a"], [2 * t for t in TERMS], rtol=1e-6)
    coefficients = ours(jnp.sin, (X,), (TERMS,), factorial_scaled=False)
    check(coefficients, theirs(rnp.sin, (X,), (TERMS,), factorial_scaled=False))
    two = ours(lambda x, y: x * jnp.exp(y), (0.5, 2), ((1.0, 0.0), (0.0, 1.0)))
    check(two, theirs(lambda x, y: x * rnp.exp(y), (0.5, 2.0), ((1.0, 0.0), (0.0, 1.0))))
    run = lambda x: ours(jnp.sin, (x,), ((1.0, 0.0),))  # noqa: E731
    check(minijax.jit(run)(0.5), run(0.5))
    check(minijax.vmap(run)(X), ours(jnp.sin, (X,), ((np.ones(2, np.float32), np.zeros(2, np.float32)),)))
    np.testing.assert_allclose(minijax.grad(lambda x: run(x)[1][1])(0.5), -np.cos(0.5), rtol=1e-6)


@pytest.mark.parametrize(
    "args",
    [((X, X), ([X], [X, X])), (([X],), ([X],)), ((X,), ([[X]],))],
    ids=["unequal lengths", "a list for a value", "a list for a term"],
)
def test_wrong_use(args):
    for mode in (ours, theirs):
        with pytest.raises(ValueError, match="inconsistent lengths|is not an array"):
            mode(lambda *xs: xs[0], *args)
