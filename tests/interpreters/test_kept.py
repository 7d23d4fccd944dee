"""Cached programs under several interpreters give the same results as their equations bound one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.errors import UnexpectedTracerError
from minijax.interpreters.cached_programs import CachedProgram

X = jnp.asarray(0.7)
ON_DEVICE = minijax.jit(lambda x: x * 1.5)(X)
Function = Callable[[Any], Any]


def nested(f, times):
    for _ in range(times):
        f = minijax.grad(f)
    return f


def with_constants(x):
    return jnp.where(x > 0.5, x * ON_DEVICE, x) * jnp.sin(x) / (2.0 + jnp.tanh(x * np.float32(1.25)))


def closing_over_levels(x):
    """A program with operands that have tangents only at some levels of nested grads."""
    inner = minijax.grad(lambda y: minijax.grad(lambda z: jnp.sin(z * y) * jnp.exp(x * z))(y * 0.5) * x)
    return inner(x) * inner(jnp.float32(0.3))


def pushed(x):
    return minijax.jvp(nested(lambda y: jnp.cos(y * x) * y, 2), (x,), (x * 2.0,))[1]


def mapped(x):
    return jnp.sum(minijax.vmap(nested(lambda y: jnp.tanh(y * x) * y, 3))(jnp.arange(3.0) * x))


FUNCTIONS = [
    (jnp.sin, 6),
    (with_constants, 4),
    (closing_over_levels, 2),
    (pushed, 2),
    (mapped, 2),
    (lambda x: jnp.sum(jnp.sin(jnp.arange(3.0) * x) ** 3), 3),
]


@pytest.mark.parametrize(("f", "times"), FUNCTIONS)
def test_cached_programs_match_binding(f, times, monkeypatch):
    derivative = nested(f, times)
    found = [derivative(X) for _ in range(7)]
    monkeypatch.setattr(CachedProgram, "run", CachedProgram.evaluate)
    bound = derivative(X)
    assert {x.aval for x in found} == {bound.aval}
    assert {float(x) for x in found} == {float(bound)}


def test_an_escaped_value_is_refused():
    left = []

    def leaking(x):
        left.append(x)
        return jnp.sin(x)

    def using(x):
        return jnp.sin(x) * left[-1]

    for _ in range(6):
        nested(leaking, 3)(X)
    for times in 1, 2, 3:
        with pytest.raises(UnexpectedTracerError):
            nested(using, times)(X)
