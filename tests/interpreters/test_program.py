"""Jaxprs run on NumPy without the interpreter stack, with the same values as evaluation equation by equation."""

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.core.primitive import Primitive
from minijax.interpreters.program import program
from minijax.ir.evaluate import eval_closed

doubled_p = Primitive("doubled_in_test_program")
doubled_p.def_abstract_eval(lambda x: x)
doubled_p.def_impl(lambda x: minijax.numpy.asarray(2 * np.asarray(x)))

X = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)


def chain(x):
    """A chain of operations, in which a later value can reuse the variable of an earlier one."""
    y = jnp.sin(x)
    z = jnp.cos(y) + y
    return z * x - 1.0, jnp.sum(z, axis=0)


def through_jit(x):
    """A call that returns its operand. The caller uses that result after the last use of the operand."""
    inner = minijax.jit(lambda a: (a, jnp.sin(a)))
    a = x * 2.0
    same, sine = inner(a)
    more = jnp.exp(sine)
    again = jnp.tanh(more)
    return same + again, more


def several_results(x):
    values, indices = minijax.lax.top_k(x, 2)
    return indices, values


def without_equations(x):
    return x, 1.0, np.ones(2, np.float32)


def with_loops(x):
    def cell(c, row):
        c = minijax.lax.cond(jnp.sum(row) > 1.0, lambda c: c * row, lambda c: jnp.sin(c) + row, c)
        return minijax.lax.fori_loop(0, 3, lambda i, c: c + i * 0.1, c), c

    return minijax.lax.scan(cell, x[0], x)


def of_scalars(x):
    """Scalars are computed by Python's operators, which must not change types."""
    s, i, h = x[0, 0], jnp.int8(100), jnp.float16(300)
    return s * s - s, -s, s < 0.5, i + i, i * jnp.int8(3), h * h, jnp.bfloat16(1.5) * jnp.bfloat16(3)


def with_a_primitive_bound(x):
    """A primitive that has an implementation, but no NumPy rule."""
    return doubled_p.bind(jnp.sin(x)) + 1.0


FUNCTIONS = [chain, through_jit, several_results, without_equations, with_loops, of_scalars, with_a_primitive_bound]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_and_types_match_evaluation_equation_by_equation(function):
    closed = minijax.make_jaxpr(function)(X)
    with np.errstate(all="ignore"):
        found = program(closed).function(X)
    expected = eval_closed(closed, jnp.asarray(X))
    for value, other, aval in zip(found, expected, closed.out_avals, strict=True):
        assert (np.shape(value), np.asarray(value).dtype) == (aval.shape, aval.dtype)
        np.testing.assert_allclose(np.asarray(value, float), np.asarray(other, float), rtol=1e-6)


def test_a_program_is_built_once_and_its_runs_are_independent():
    closed = minijax.make_jaxpr(chain)(X)
    made = program(closed)
    assert program(closed) is made
    first = made.function(X)
    second = made.function(X * 2)
    np.testing.assert_array_equal(first[0], made.function(X)[0])
    assert not np.array_equal(first[0], second[0])


def test_variables_are_reused():
    def long(x):
        for _ in range(100):
            x = jnp.sin(x)
        return x

    assert program(minijax.make_jaxpr(long)(X)).function.__code__.co_nlocals <= 4
