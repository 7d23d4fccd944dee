"""Tracers print as JAX's do, for every interpreter and for nested interpreters."""

import jax
import pytest

import minijax

MINE = minijax
THEIRS = jax


def custom(J, f):
    """The identity, with a derivative rule that applies ``f`` to the tangent."""
    rule = J.custom_jvp(lambda x: x)
    rule.defjvp(lambda primals, tangents: (primals[0], f(tangents[0])))
    return rule


# name -> program. It takes the package, a function that notes its argument's text and doubles it, and a vector.
PROGRAMS = {
    "jit": lambda J, f, v: J.jit(f)(1.0),
    "jit of a key": lambda J, f, v: J.jit(lambda k: (f(J.random.key_data(k)), str(k))[0])(J.random.key(0)),
    "vmap": lambda J, f, v: J.vmap(f)(v),
    "vmap with a name": lambda J, f, v: J.vmap(f, axis_name="i")(v),
    "vmap of keys": lambda J, f, v: J.vmap(lambda k: f(J.random.key_data(k)))(J.random.split(J.random.key(0))),
    "vmap of a reference": lambda J, f, v: J.vmap(lambda r: (f(r), None)[1])(J.new_ref(J.numpy.ones((2, 3)))),
    "jvp": lambda J, f, v: J.jvp(f, (1.0,), (2.0,)),
    "jvp of a large array": lambda J, f, v: J.jvp(f, (J.numpy.ones((40, 40)),), (J.numpy.ones((40, 40)),)),
    "grad": lambda J, f, v: J.grad(f)(1.0),
    "scan": lambda J, f, v: J.lax.scan(lambda c, x: (f(c), x), 1.0, v),
    "vmap of grad": lambda J, f, v: J.vmap(J.grad(f))(v),
    "grad of vmap": lambda J, f, v: J.grad(lambda v: J.vmap(f)(v).sum())(v),
    "grad of jit": lambda J, f, v: J.grad(J.jit(f))(1.0),
    "a tangent in vmap of grad": lambda J, f, v: J.vmap(J.grad(custom(J, f)))(v),
    "inside of a list": lambda J, f, v: J.jit(lambda x: f([x, {"a": x}])[0])(1.0),
}


def printed(J, program, as_text):
    """The text of each value that ``program`` passes to its function, and of the doubled value."""
    texts = []

    def note(x):
        texts.append(as_text(x))
        if hasattr(x, "dtype") and "Ref" not in texts[-1]:
            texts.append(as_text(x * 2))
            return x * 2
        return x

    program(J, note, J.numpy.arange(3.0))
    return texts


@pytest.mark.parametrize("name", PROGRAMS)
def test_tracers_print_as_in_jax(name):
    mine = printed(MINE, PROGRAMS[name], repr)
    assert mine == printed(THEIRS, PROGRAMS[name], repr) and mine


def test_dead_tracers_print_as_in_jax():
    def leak(J):
        found = []
        for transform in (J.jit, J.grad, J.vmap):
            transform(lambda x: (found.append(x), x)[1])(1.0 if transform is not J.vmap else J.numpy.arange(3.0))
        return [*map(repr, found)]

    assert leak(MINE) == leak(THEIRS)


def test_the_levels_format_describes_each_level():
    texts = []
    minijax.vmap(minijax.grad(lambda x: (texts.append(f"{x:levels}"), x)[1]))(minijax.numpy.arange(3.0))
    assert texts == ["f32[]; linearize:2 adds a tangent; vmap:1 maps axis 0 of size 3, physically f32[3]"]
