"""Name stacks equal JAX's inside scopes, and are empty elsewhere."""

import re
import threading

import jax
import numpy as np
import pytest

import minijax
from minijax import errors
from minijax.core.names import current_names, names_of, transposed
from minijax.extend.core import parse_jaxpr
from minijax.ir.pretty import format_jaxpr

ones = np.ones(3, np.float32)


def programs(ns):
    """name -> (function, args), written with minijax or jax."""
    jnp, lax = ns.numpy, ns.lax
    found = {}

    def program(*args):
        def register(f):
            found[f.__name__] = (f, args)
            return f

        return register

    @program(1.0)
    @ns.named_scope("foo")
    def f(x):
        with ns.named_scope("bar"):
            y = jnp.sin(x)
        return y * jnp.cos(x)

    @program(1.0)
    def grad(x):
        return ns.grad(f)(x)

    @program(ones)
    def vmap_of_grad(x):
        return ns.vmap(ns.grad(f))(x)

    @program(1.0)
    def jit(x):
        return ns.jit(f)(x)

    @program(1.0)
    def grad_of_scan_in_a_scope(x):
        def g(x):
            with ns.named_scope("s"):
                return lax.scan(lambda c, x: (f(c), x), x, None, length=3)[0]

        return ns.grad(g)(x)

    @program(ones)
    def vmap_in_a_scope(x):
        with ns.named_scope("s"):
            return ns.vmap(f)(x)

    @program(ones)
    def grad_of_vmap_in_a_scope(x):
        return ns.grad(lambda x: vmap_in_a_scope(x).sum())(x)

    @program(1.0)
    def cond(x):
        with ns.named_scope("c"):
            return lax.cond(x > 0, f, jnp.cos, x)

    @program(1.0)
    def named_call(x):
        return ns.named_call(lambda x: jnp.sin(x), name="inner")(x) + ns.named_call(f)(x)

    return found


OURS, JAX = programs(minijax), programs(jax)


@pytest.mark.parametrize("name", OURS)
def test_name_stacks_print_as_in_jax(name):
    """The whole text is equal, except that JAX shows transformations outside all scopes too, as ``[vmap()]``."""
    theirs = jax.make_jaxpr(JAX[name][0])(*JAX[name][1])
    expected = theirs.pretty_print(width=40, use_color=False, name_stack=True)
    expected = re.sub(r"\[(?:\w+\()+\)+\]", "[]", expected)
    closed = minijax.make_jaxpr(OURS[name][0])(*OURS[name][1])
    text = format_jaxpr(closed, width=40, name_stack=True)
    assert text == expected
    assert str(parse_jaxpr(text)) == str(closed)


def test_name_stacks_print_with_source_notes_and_in_tutorial_style():
    closed = minijax.make_jaxpr(OURS["f"][0])(1.0)
    both = format_jaxpr(closed, width=40, name_stack=True, source_info=True)
    assert re.search(r"sin a +# \S*test_name_stacks.py:\d+:\d+ \(.*f\); \[foo/bar\]", both)
    assert "sin a   # [foo/bar]\n" in format_jaxpr(closed, style="tutorial", name_stack=True)


def test_equations_outside_scopes_have_no_names():
    closed = minijax.make_jaxpr(minijax.grad(minijax.numpy.sin))(1.0)
    assert errors.open_scopes == 0 and current_names() == ()
    assert not any(names_of(eqn.source) for eqn in closed.eqns)
    assert "# []" in format_jaxpr(closed, name_stack=True) and "#" not in str(closed)


def test_an_exception_closes_a_scope_and_scopes_are_per_thread():
    seen = []
    with pytest.raises(ZeroDivisionError):
        with minijax.named_scope("a"):
            thread = threading.Thread(target=lambda: seen.append(current_names()))
            thread.start()
            thread.join()
            assert current_names() == (("a", False),)
            raise ZeroDivisionError
    assert seen == [()] and current_names() == () and errors.open_scopes == 0


def test_a_stack_prints_as_text():
    place = (test_a_stack_prints_as_text.__code__, 0)
    assert names_of(None) == names_of(place) == ""
    assert names_of((*place, (("jvp", True), ("vmap", True)))) == "jvp(vmap())"
    assert names_of((*place, (("a", False), ("jvp", True), ("b", False), ("c", False)))) == "a/jvp(b)/c"
    assert transposed(place, "mul") == (*place, (), "mul") and transposed(None, "mul") is None


@pytest.mark.parametrize("name", [3, None, len])
def test_a_scope_must_have_a_name(name):
    with pytest.raises(TypeError, match="named_scope name argument must be a string"):
        minijax.named_scope(name)
    with pytest.raises(TypeError, match="named_call expects a function"):
        minijax.named_call("f")
