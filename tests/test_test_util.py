"""``check_grads`` and its parts accept correct derivatives and reject wrong ones, with JAX's messages."""

from functools import partial

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
import minijax.test_util
from minijax.api.custom_jvp import custom_jvp
from minijax.api.custom_vjp import custom_vjp
from minijax.core.trace import stack_depth
from minijax.test_util import check_grads, check_jvp, check_vjp

X = np.array([0.3, -1.2, 0.7])
WIDE = {"eps": 1e-2}  # in float32, a step of 1e-4 would be lost in rounding


def tree(x, y):
    """A function of pytrees."""
    return {"a": jnp.sin(x) * y["k"], "b": [jnp.sum(x) * y["k"] ** 2]}


def test_right_derivatives_pass():
    with minijax.enable_x64(True):
        check_grads(tree, (X, {"k": 1.5}), 2, modes=("fwd", "rev", "lin"))
        check_grads(jnp.sin, (0.5,), 3)
        check_grads(lambda x: jnp.real(x * x) + jnp.abs(x), (np.array([1 + 2j, 0.5 - 1j]),), 2)
    check_grads(lambda x: jnp.sum(x * x), (X.astype(np.float32),), 2, **WIDE)
    check_grads(lambda x, n: x * n, (X.astype(np.float32), np.arange(3)), 1, modes=("fwd",), **WIDE)
    assert stack_depth() == 0


@custom_jvp
def wrong_forwards(x):
    """x^2 with a wrong rule: it gives the slope 3x."""
    return x * x


wrong_forwards.defjvp(lambda primals, tangents: (wrong_forwards(*primals), 3 * primals[0] * tangents[0]))


@custom_vjp
def wrong_backwards(x):
    """x^2 with a wrong pullback: the factor 2 is missing."""
    return x * x


wrong_backwards.defvjp(lambda x: (x * x, x), lambda x, ct: (x * ct,))


@custom_jvp
def wrong_second(x):
    """sin with a correct first derivative and a wrong second one."""
    return jnp.sin(x)


@custom_jvp
def cosine(x):
    """cos with a wrong rule: it gives the slope sin."""
    return jnp.cos(x)


cosine.defjvp(lambda primals, tangents: (cosine(*primals), jnp.sin(primals[0]) * tangents[0]))
wrong_second.defjvp(lambda primals, tangents: (wrong_second(*primals), cosine(primals[0]) * tangents[0]))


@pytest.mark.parametrize(
    ("function", "order", "modes", "words"),
    [
        (wrong_forwards, 1, ("fwd",), "JVP tangent"),
        (wrong_forwards, 1, ("lin",), "LIN tangent"),
        (wrong_forwards, 1, ("rev",), "VJP cotangent projection"),
        (wrong_backwards, 1, ("rev",), "VJP cotangent projection"),
        (wrong_second, 2, ("fwd",), "JVP of JVP tangent"),
        (wrong_second, 2, ("rev",), "VJP of VJP cotangent projection"),
    ],
)
def test_wrong_derivatives_are_found(function, order, modes, words):
    with minijax.enable_x64(True):
        if order > 1:
            check_grads(function, (0.5,), order - 1, modes=modes)
        with pytest.raises(AssertionError, match=words):
            check_grads(function, (0.5,), order, modes=modes)
    assert stack_depth() == 0


def test_check_jvp_and_check_vjp_find_wrong_values():
    with minijax.enable_x64(True):
        check_jvp(jnp.sin, partial(minijax.jvp, jnp.sin), (X,))
        check_vjp(jnp.sin, partial(minijax.vjp, jnp.sin), (X,))
        with pytest.raises(AssertionError, match="the sine primal"):
            check_jvp(jnp.sin, partial(minijax.jvp, jnp.cos), (X,), err_msg="the sine")
        with pytest.raises(AssertionError, match="primal"):
            check_vjp(jnp.sin, partial(minijax.vjp, jnp.cos), (X,))
        with pytest.raises(AssertionError, match=r"a tangent of .*float64.* is .*float32"):
            check_jvp(lambda x: x, lambda primals, tangents: (primals[0], tangents[0].astype(np.float32)), (X,))


def test_tolerances_can_be_given():
    with minijax.enable_x64(True):
        slightly = custom_jvp(lambda x: x * x)
        slightly.defjvp(lambda primals, tangents: (slightly(*primals), 2.001 * primals[0] * tangents[0]))
        with pytest.raises(AssertionError):
            check_grads(slightly, (0.5,), 1)
        check_grads(slightly, (0.5,), 1, atol=1e-2, rtol=1e-2)
        check_grads(slightly, (0.5,), 1, atol={np.float64: 1e-2}, rtol={np.float64: 1e-2})
    with pytest.raises(ValueError, match="'fwd', 'rev' and 'lin', got \\['sideways'\\]"):
        check_grads(jnp.sin, (0.5,), 1, modes=("sideways",))


def test_check_rules_refuses_a_function():
    with pytest.raises(TypeError, match="expects a Primitive and example arguments, got <function"):
        minijax.test_util.check_rules(lambda x: x, 1.0)
