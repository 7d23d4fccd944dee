"""Why an interpreter was given an operation."""

import pytest

import minijax.numpy as jnp
from minijax import grad, jvp, lax, make_jaxpr, vmap
from minijax.config import use_direct_linearize
from minijax.core import observe
from minijax.tools.recording.forcing import forced_by


class Forced(observe.Observer):
    """What ``forced_by`` says of each operation."""

    def __init__(self):
        self.seen = []

    def bind_enter(self, primitive, trace, args, params):
        self.seen.append((primitive.name, *forced_by(trace, args)))


def product(y):
    return vmap(lambda x: lax.mul(x, y))(jnp.ones(3))


CASES = {
    "evaluation": (lambda: lax.sin(1.0), ("sin", -1, "evaluation: no argument is traced")),
    "jvp": (lambda: jvp(lambda x: lax.mul(2.0, x), (1.0,), (1.0,)), ("mul", 1, "argument 1 is a jvp:1 tracer")),
    "the higher of two": (
        lambda: jvp(product, (1.0,), (1.0,)),
        ("mul", 0, "argument 0 is a vmap:2 tracer, a higher level than jvp:1"),
    ),
    "staging": (lambda: make_jaxpr(lax.sin)(1.0), ("sin", 0, "argument 0 is a make_jaxpr:1 tracer")),
    "staging of constants": (
        lambda: make_jaxpr(lambda x: x + lax.sin(2.0))(1.0),
        ("sin", -1, "make_jaxpr:1 stages every operation, also on constants"),
    ),
    "a mapped axis": (
        lambda: vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(jnp.arange(3)),
        ("axis_index", -1, "the mapped axis 'i' belongs to vmap:1"),
    ),
    "a tangent in grad": (lambda: grad(lambda x: lax.exp(x))(1.0), ("mul", 0, "argument 0 is a linearize:1 tangent")),
    "grad, the tutorial's way": (
        lambda: use_direct_linearize(False)(grad(lambda x: lax.exp(x)))(1.0),
        ("exp", 0, "argument 0 is a jvp:2 tracer"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_forced_by(name):
    call, expected = CASES[name]
    with observe.watching(Forced()) as watch:
        call()
    assert expected in watch.seen
