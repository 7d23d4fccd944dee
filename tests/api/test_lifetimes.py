"""Objects that caches keep alive, state that threads share, and the memory of results."""

import gc
import threading

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core.trace import Tracer, stack_depth
from minijax.interpreters.jvp_rules import WORTH_DERIVING
from minijax.ir.jaxpr import ClosedJaxpr
from tests.threads import at_once

X = np.arange(1, 4, dtype=np.float32)


def identity(x):
    return x * 1.0


@minijax.custom_jvp
def sine(x):
    return jnp.sin(x)


@sine.defjvp
def sine_rule(primals, tangents):
    return sine(*primals), 2 * tangents[0]


@minijax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (doubled(x), x), lambda x, ct: (ct * x,))


def jit_in_grad_in_scan(i):
    def cell(c, x):
        slope = minijax.grad(lambda c: minijax.jit(lambda c: jnp.sin(c) * x * i)(c))(c)
        return c + slope, slope

    return minijax.grad(lambda c: lax.scan(cell, c, X)[0])(1.0)


# Each call creates new functions, and uses functions of this module that stay alive.
CALLS = {
    "cond, first branch new": lambda i: minijax.grad(lambda x: lax.cond(x > 0, lambda x: x * i, identity, x))(1.0),
    "jit in grad in scan": jit_in_grad_in_scan,
    "custom rules": lambda i: minijax.vmap(
        minijax.grad(lambda c: lax.scan(lambda c, x: (sine(c) * doubled(x * c) * i, None), c, X)[0])
    )(X),
    "linear solve": lambda i: minijax.grad(
        lambda b: lax.custom_linear_solve(lambda x: b * x * i, b, lambda _, y: y / (b * i), symmetric=True)
    )(1.0),
}


def alive(kind):
    gc.collect()
    return sum(isinstance(x, kind) for x in gc.get_objects())


@pytest.mark.parametrize("name", CALLS)
def test_cache_entries_of_a_function_die_with_it(name):
    """In some calls, a new function shares its cache entry with a function that stays alive."""
    for i in range(WORTH_DERIVING + 2):  # the rules that are derived for the signature stay alive
        CALLS[name](i + 1)
    jaxprs, tracers = alive(ClosedJaxpr), alive(Tracer)
    for i in range(5):
        CALLS[name](i + 3)
    assert alive(ClosedJaxpr) <= jaxprs
    assert alive(Tracer) <= tracers


def test_threads_share_a_pullback():
    """The backward pass of a batched ``custom_vjp`` function re-enters the vmap of its forward pass."""
    _, pullback = minijax.vjp(lambda x: minijax.vmap(lambda y: doubled(y) * y)(x).sum(), X)
    (wanted,) = pullback(np.float32(1))

    def work():
        for _ in range(100):
            np.testing.assert_allclose(pullback(np.float32(1))[0], wanted)
        assert stack_depth() == 0

    at_once(*[work] * 6, turn=1e-5)


class StopsIt(Exception):
    pass


def test_a_failed_backward_pass_leaves_its_vmap():
    """After a backward pass has failed, another thread can use the pullback."""
    refuses = [True]

    @minijax.custom_vjp
    def f(x):
        return x * 2

    def bwd(x, ct):
        if refuses[0]:
            raise StopsIt
        return (ct * x,)

    f.defvjp(lambda x: (x * 2, x), bwd)
    _, pullback = minijax.vjp(lambda x: minijax.vmap(f)(x).sum(), X)
    with pytest.raises(StopsIt):
        pullback(np.float32(1))
    assert stack_depth() == 0
    refuses[0] = False
    found = []
    thread = threading.Thread(target=lambda: found.append(pullback(np.float32(1))[0]), daemon=True)
    thread.start()
    thread.join(timeout=60)
    np.testing.assert_allclose(found[0], X)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda: lax.scan(lambda c, _: (f(), None), X, None, 1)[0]])
def test_the_result_of_a_callback_is_copied(wrap):
    buffer = np.ones(3, np.float32)
    result = wrap(lambda: minijax.pure_callback(lambda: buffer, minijax.ShapeDtypeStruct((3,), np.float32)))()
    buffer[:] = 7
    np.testing.assert_array_equal(result, 1)
