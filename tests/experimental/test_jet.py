"""``jet``, borrowed from JAX. It also works for primitives that have no Taylor rule in JAX."""

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

# programs with primitives for which JAX has no Taylor rules
OURS_ALONE = {
    "inverse": lambda x: jnp.arcsin(x) + jnp.arctan(x) * jnp.tan(x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x),
}


def along_the_curve(fun, order):
    """The ``order``-th derivative of ``fun`` along the curve, by repeated forward mode."""

    def at(t):
        return fun(X + sum(term * t ** (k + 1) / math.factorial(k + 1) for k, term in enumerate(TERMS)))

    for _ in range(order):
        at = (lambda g: lambda t: minijax.jvp(g, (t,), (np.float32(1),))[1])(at)
    return at(np.float32(0))


def check(mine, real, rtol=1e-4):
    assert jax.tree.structure(mine) == jax.tree.structure(real)
    for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(real), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-4)


def test_derivatives_match_jax():
    fun = lambda x: x**2.5 + x**-3 + x**4 + 2.0**x + x**0  # noqa: E731
    check(ours(fun, (X,), (TERMS,)), theirs(fun, (rnp.asarray(X),), (list(map(rnp.asarray, TERMS)),)))


@pytest.mark.parametrize("name", OURS_ALONE)
def test_every_primitive_that_has_a_jvp_rule_can_be_used(name):
    fun = OURS_ALONE[name]
    out, terms = ours(fun, (X,), (TERMS,))
    check(out, fun(X))
    for order, term in enumerate(terms, 1):
        check(term, along_the_curve(fun, order), rtol=1e-3)
    _, coefficients = ours(fun, (X,), ([t / math.factorial(k) for k, t in enumerate(TERMS, 1)],), False)
    check(coefficients, [term / math.factorial(k) for k, term in enumerate(terms, 1)], rtol=1e-3)


@pytest.mark.parametrize("extra", [lambda x: x, jnp.arctan], ids=["by JAX's rules", "by jvp"])
def test_jet_returns_trees_and_can_be_transformed(extra):
    tree = lambda x: {"a": extra(x) * 2, "b": (jnp.ones(2), x > 0)}  # noqa: E731
    _, terms = ours(tree, (X,), (TERMS,))
    assert [np.asarray(t).shape for t in jax.tree.leaves(terms)] == [(2,)] * 9
    np.testing.assert_array_equal(terms["b"][1], np.zeros((3, 2)))
    run = lambda x: ours(lambda y: jnp.sin(y * x + extra(y) - y), (x,), ((1.0, 0.0),))  # noqa: E731
    check(minijax.jit(run)(0.5), run(0.5))
    check(minijax.vmap(run)(X)[0], jnp.stack([run(x)[0] for x in X]))
    slope = (run(0.501)[1][1] - run(0.499)[1][1]) / 0.002
    np.testing.assert_allclose(minijax.grad(lambda x: run(x)[1][1])(0.5), slope, rtol=2e-2)


def test_different_numbers_of_terms_are_refused():
    for mode in (ours, theirs):
        with pytest.raises(ValueError, match="inconsistent lengths"):
            mode(lambda *xs: xs[0], (X, X), ([X], [X, X]))
