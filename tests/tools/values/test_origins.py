"""The origins of a value have the operations that dead-code elimination keeps in the staged jaxpr."""

import re

import jax
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.interop import from_jax
from minijax.repl import batch
from minijax.sharding import AxisType, PartitionSpec
from minijax.tools import record
from minijax.tools.documents.document import plain
from minijax.tools.values.moment import ledger
from minijax.tools.values.table import named_values
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
def test_slices_of_python_refs_rules_and_jax_programs(fun):
    staged = (lambda x, y: chosen_by_python(x, y, high=True)) if fun is chosen_by_python else fun
    args = [jnp.asarray(X), jnp.asarray(X * np.float32(0.5))]
    assert check_slices(fun, staged, args) > 1


def each(x):
    y = jnp.sin(x)
    return lax.psum(y * 2.0, "i")


def pmapped():
    return minijax.pmap(each, axis_name="i")


def jitted():
    mesh = minijax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    mapped = minijax.shard_map(each, mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec())
    return minijax.jit(mapped)


def around():
    inner = pmapped()

    def outer(x):
        w = inner(x)
        return w

    return minijax.jit(outer)


@pytest.mark.parametrize("made, more", [(pmapped, []), (jitted, []), (around, ["w"])])
def test_a_wrapper_does_not_get_its_callers_name(made, more):
    program = made()
    x = jnp.ones((1, 3))
    result = program(x)
    _, recording = record(program, x)
    names = [named.name for named in named_values(ledger(recording)) if named.number < 0]
    assert names == [*more, "y", "y * 2.0", 'lax.psum(y * 2.0, "i")'] and result.shape


@pytest.mark.parametrize("made", ["pmapped", "jitted"])
def test_letters_match_the_printed_jaxpr(made):
    session = batch.new_session({})
    session.run_line(f"from {__name__} import {made}; called = {made}(); u = called(jnp.ones((1, 3)))")
    shown = plain(session.run_line("%origin called(jnp.ones((1, 3)))").shown, 160)
    printed = plain(session.run_line("%jaxpr called(jnp.ones((1, 3)))").shown, 160)
    letters = re.findall(r"psum\w*\((\w)\)", shown)
    assert letters and letters == re.findall(r"psum\w*\[.*\] (\w)\n", printed)
