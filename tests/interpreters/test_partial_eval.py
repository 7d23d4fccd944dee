"""The backward pass leaves out unused tangents, in loops and in calls too."""

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

X = np.arange(1, 4, dtype=np.float32)


def two_carries(ns):
    def cell(c, x):
        return (c[0] * x, ns.numpy.sin(c[1]) * x), None

    return lambda a: ns.lax.scan(cell, (a, a), X)[0]


def pair(ns):
    return lambda a: (a * 2, ns.numpy.sin(a))


PROGRAMS = {
    "scan": two_carries,
    "scan in jit": lambda ns: ns.jit(two_carries(ns)),
    "scan in checkpoint": lambda ns: ns.checkpoint(two_carries(ns)),
    "jit": lambda ns: ns.jit(pair(ns)),
    "checkpoint": lambda ns: ns.checkpoint(pair(ns)),
    "cond": lambda ns: lambda a: ns.lax.cond(a > 0, pair(ns), lambda a: (a, a * a), a),
}


def last_sizes(ns, program):
    """Follow the gradient's last equation inwards; (primitive, operand count, result count) of the two innermost."""
    jaxpr = ns.make_jaxpr(ns.grad(lambda a: program(a)[0]))(np.float32(0.5)).jaxpr
    found = []
    while jaxpr is not None and jaxpr.eqns:
        eqn = jaxpr.eqns[-1]
        found.append((eqn.primitive.name, len(eqn.invars), len(eqn.outvars)))
        inner = eqn.params.get("jaxpr")
        jaxpr = getattr(inner, "jaxpr", inner)
    return found[-2:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_backward_pass_is_as_small_as_in_jax(name):
    ours, theirs = (last_sizes(ns, PROGRAMS[name](ns)) for ns in (minijax, jax))
    assert ours == theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pruned_program_computes_the_gradient(name):
    gradient = minijax.grad(lambda a: PROGRAMS[name](minijax)(a)[0])
    wanted = jax.grad(lambda a: PROGRAMS[name](jax)(a)[0])(np.float32(0.5))
    typecheck_jaxpr(minijax.make_jaxpr(gradient)(np.float32(0.5)))
    np.testing.assert_allclose(gradient(np.float32(0.5)), wanted, rtol=1e-6)
    np.testing.assert_allclose(minijax.jit(gradient)(np.float32(0.5)), wanted, rtol=1e-6)


def test_prints_survive_an_unused_tangent(capsys):
    def f(x):
        minijax.debug.print("x = {}", x)
        return x * 2, minijax.numpy.sin(x)

    minijax.grad(minijax.checkpoint(lambda x: f(x)[0]))(1.0)
    theirs = ["x = 1.0", "x = 1.0"]  # printed once forward, and once again in the backward pass
    assert capsys.readouterr().out.split("\n")[:-1] == theirs
