"""The origins of a value have the operations that dead-code elimination keeps in the staged jaxpr."""

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.interop import from_jax
from tests.tools.values.programs import PROGRAMS, X
from tests.tools.values.slicing import check_slices

NAMES = (
    "straight",
    "jit in jit",
    "scan backwards",
    "while",
    "cond in scan",
    "checkpoint",
    "linear solve",
    "gradient under vmap",
    "derivative",
)


@pytest.mark.parametrize("name", NAMES)
def test_slices_of_recordings_match_dce_of_the_jaxpr(name):
    fun, args = PROGRAMS[name].build(minijax), [jnp.asarray(x) for x in PROGRAMS[name].args]
    staged = minijax.jit(tupled(fun)) if name == "linear solve" else tupled(fun)
    assert check_slices(staged, staged, args)


def tupled(fun):
    return lambda *args: fun(*args)


def chosen_by_python(x, y, high=None):
    if x.sum() > 1.0 if high is None else high:
        x = x * 3.0
    return jnp.cos(x), y


def reference(x, y):
    def written():
        box = minijax.new_ref(x)
        box[0] = y[1]
        kept = box[...]
        box[1] = y[2]
        return kept * 2.0, kept + box[...]

    return minijax.jit(written)()


@minijax.custom_jvp
def own_jvp(x, y):
    return jnp.sin(x) + y, y * 3.0


@own_jvp.defjvp
def own_jvp_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return own_jvp(x, y), (dx * 5.0, dy)


@minijax.custom_vjp
def own_vjp(x, y):
    return jnp.sin(x) * y


own_vjp.defvjp(lambda x, y: (own_vjp(x, y), x), lambda x, ct: (ct * x, ct * 2.0))


def custom_rules(x, y):
    forward = minijax.jvp(lambda x: own_jvp(x, y), (x,), (y,))
    return own_jvp(x, y), own_vjp(x, y), forward, minijax.grad(lambda y: own_vjp(x, y).sum())(y)


@from_jax
def of_jax(a, b):
    carried, seen = jax.lax.scan(lambda c, t: (c * t, c), a[0], b)
    return jax.numpy.tanh(a) * carried, seen


def imported(x, y):
    first, seen = of_jax(x, y)
    return first + y, seen, minijax.grad(lambda a: of_jax(a, y)[0].sum())(x)


@pytest.mark.parametrize("fun", [chosen_by_python, reference, custom_rules, imported])
def test_slices_of_branches_refs_rules_and_jax_programs_match_dce(fun):
    staged = (lambda x, y: chosen_by_python(x, y, high=True)) if fun is chosen_by_python else fun
    args = [jnp.asarray(X), jnp.asarray(X * np.float32(0.5))]
    assert check_slices(fun, staged, args) > 1
