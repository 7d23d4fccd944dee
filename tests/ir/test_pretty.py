"""Converted JAX jaxprs print as in JAX, to the character. Printing has options and takes linear time."""

import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minijax import errors
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.ir import doc as pp
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import format_jaxpr, hide, pp_rules
from tests.ir.jax_jaxprs import convert

f32 = np.float32


def program(*args):
    """Decorator: add a function to the table under its name, with the arguments ``args``."""

    def register(f):
        PROGRAMS[f.__name__] = (f, args)
        return f

    return register


PROGRAMS = {}
ones = np.ones


@program(ones(8, f32), ones(8, f32))
def b1_straight_line(first, second):
    return jnp.sum(first + jnp.sin(second) * 3.0)


@program(1, 5.0)
def b2_switch(index, arg):
    return lax.switch(index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0], arg)


@program(5.0, (jnp.zeros(1), 2.0))
def b4_cond_with_constant(arg1, arg2):
    return lax.cond(arg1 >= 0.0, lambda x: x[0], lambda x: jnp.array([1]) + x[1], arg2)


@program(ones(16), 5)
def b5_fori_loop(arg, n):
    one = jnp.ones(arg.shape)
    return lax.fori_loop(0, n, lambda i, c: c + one * 3.0 + arg, arg + one)


@program(ones(16), 5.0)
def b6_scan(arr, extra):
    def body(c, ab):
        a, b = ab
        return c + a * b + extra, c

    return lax.scan(body, 0.0, (arr, jnp.ones(arr.shape)))


@program(1.0)
def b7_jit(arg):
    @jax.jit
    def inner(x):
        return x + arg * jnp.ones(1)

    return arg + inner(arg - 2.0)


@program(ones(8, f32), ones(8, f32))
def b9_grad(first, second):
    return jax.grad(b1_straight_line)(first, second)


@program()
def no_arguments():
    return 2.0


@program(1.0)
def returns_constants(x):
    return 1, x, 2.5, True, np.nan, -np.inf, 1e-30, 3 + 4j


@program(1.0)
def names_beyond_z(x):
    for _ in range(60):
        x = jnp.sin(x)
    return x


@program(ones(3), ones((2, 3), np.int32))
def dropped_results(x, y):
    jnp.cos(x)
    jnp.sort(y)
    return lax.top_k(x, 2)[1], jnp.linalg.qr(ones((3, 3), f32))[0]


@program(ones(3))
def constants(x):
    return x + np.arange(3.0, dtype=f32) * jnp.array([2, 3, 4]) + np.float32(2) + jnp.asarray(3, "bfloat16")


@program([1.0] * 30)
def wide_call(xs):
    return lax.cond(xs[0] > 0, lambda *xs: xs[1:], lambda *xs: xs[:-1], *xs)


@program(ones((3, 4)), ones((4, 5)), ones((7, 3, 4)), ones((7, 4, 5)))
def matrix_products(a, b, c, d):
    return (
        a @ b,
        jnp.einsum("bij,bjk->ikb", c, d),
        lax.dot(a, b, precision="highest", preferred_element_type="bfloat16"),
    )


@program(ones((1, 5, 5, 2)), ones((3, 3, 2, 4)))
def convolution(x, k):
    y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@program(1.0)
def same_name_twice(x):
    def make(k):
        @jax.jit
        def helper(x):
            return x * k

        return helper

    f, g = make(2.0), make(3.0)
    return f(x), g(x), f(x), g(x), jax.jit(lambda x: x + 1)(x)


@program(1.0)
def long_subjaxpr(x):
    @jax.jit
    def a(x):  # printed variables do not get this name
        for _ in range(11):
            x = jnp.cos(x)
        return x

    return a(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_converted_jaxprs_print_as_in_jax(name):
    f, args = PROGRAMS[name]
    closed = jax.make_jaxpr(f)(*args)
    assert str(convert(closed)) == str(closed)


@pytest.mark.parametrize("width", [1, 20, 40, 60, 120, 400])
def test_line_breaks_match_jax_at_other_widths(width):
    for name, (f, args) in PROGRAMS.items():
        closed = jax.make_jaxpr(f)(*args)
        expected = closed.pretty_print(width=width, use_color=False)
        assert format_jaxpr(convert(closed), width=width) == expected, name


def straight_line(n, shape=()):
    """The jaxpr of sin(sin(... x)) with n equations."""
    aval = ShapedArray(shape, np.dtype("float32"))
    sin = Primitive("sin")
    xs = [Var(aval) for _ in range(n + 1)]
    return Jaxpr([], xs[:1], xs[-1:], [JaxprEqn(sin, [a], {}, [b]) for a, b in zip(xs, xs[1:], strict=False)])


def mul_jaxpr(dtype="float64"):
    a, b = (Var(ShapedArray((), np.dtype(dtype))) for _ in "ab")
    return Jaxpr([], [a], [b], [JaxprEqn(Primitive("mul"), [Literal(np.float64(2.0), a.aval), a], {}, [b])])


def test_a_jaxpr_prints_in_tutorial_style():
    text = format_jaxpr(mul_jaxpr(), style="tutorial")
    assert text == "{ lambda a:float64[] .\n  let b:float64[] = mul 2.0 a\n  in ( b ) }"
    assert " ".join(text.split()) == "{ lambda a:float64[] . let b:float64[] = mul 2.0 a in ( b ) }"


def test_nested_jaxprs_params_and_constants_print_in_tutorial_style():
    inner = ClosedJaxpr(mul_jaxpr())
    aval, vector = ShapedArray((), np.dtype("float64")), ShapedArray((3,), np.dtype("float64"))
    k, x, y, z, w = Var(vector), Var(vector), Var(aval), Var(aval), DropVar(aval)
    eqns = [
        JaxprEqn(Primitive("reduce_sum"), [k], {"axes": (0,), "accurate": True}, [y]),
        JaxprEqn(Primitive("jit"), [y], {"name": "f", "jaxpr": inner}, [z]),
        JaxprEqn(Primitive("neg"), [z], {}, [w]),
    ]
    text = format_jaxpr(Jaxpr([k], [x], [z, y], eqns), style="tutorial")
    assert text == (
        "{ lambda a:float64[3], b:float64[3] .\n"
        "  let c:float64[] = reduce_sum [ accurate=True\n"
        "                                 axes=(0,) ] a\n"
        "      d:float64[] = jit [ name=f ] c\n"
        "        { lambda a:float64[] .\n"
        "          let b:float64[] = mul 2.0 a\n"
        "          in ( b ) }\n"
        "      _:float64[] = neg d\n"
        "  in ( d, c ) }"
    )


def here():
    """A position in this test file, in the form that ``errors.source_info`` gives for a user's line."""
    return errors.source_info()


@pytest.mark.parametrize("style", ["jax", "tutorial"])
def test_source_notes_are_aligned_at_the_end_of_their_lines(style):
    x = straight_line(3, (4,))
    for eqn in x.eqns:
        eqn.source = here()
    x.eqns[1].primitive = Primitive("much_longer_name")
    x.eqns[2].source = None
    lines = [line for line in format_jaxpr(x, style=style, source_info=True).split("\n") if " = " in line]
    assert len(lines) == 3
    column = lines[0].index("#")
    assert all(line[column - 1 : column + 2] == " # " for line in lines)
    assert lines[1][column - 2] != " "  # the column is as near as the longest line allows
    assert re.search(r"# \S*test_pretty\.py:\d+:\d+ \(here\)$", lines[0])
    assert lines[2].endswith("# <unknown>")


def test_source_notes_are_placed_as_in_jax():
    closed = jax.make_jaxpr(b6_scan)(*PROGRAMS["b6_scan"][1])
    expected = closed.pretty_print(source_info=True, use_color=False)
    ours = format_jaxpr(convert(closed), source_info=True)
    strip = r"#.*"
    assert re.sub(strip, "#", ours) == re.sub(strip, "#", expected)


@pytest.mark.parametrize("style", ["jax", "tutorial"])
def test_long_programs_can_be_cut(style):
    text = format_jaxpr(straight_line(10), style=style, max_eqns=3)
    assert text.count(" = sin") == 3 and "... (7 more equations)" in text
    assert format_jaxpr(straight_line(3), style=style, max_eqns=3) == format_jaxpr(straight_line(3), style=style)


def test_a_rule_chooses_the_printed_parameters():
    x = straight_line(1)
    eqn = x.eqns[0]
    eqn.params = {"axes": (), "how": "well", "secret": 1}
    assert "sin[axes=() how=well secret=1] a" in str(x)
    pp_rules[eqn.primitive] = hide("secret", trivial=["axes"])
    assert "sin[how=well] a" in str(x)
    pp_rules[eqn.primitive] = lambda eqn, printer: [("why", "because")]
    assert "sin[why=because] a" in str(x)


def test_parameter_values_are_printed():
    x = straight_line(1)
    values = {"a": frozenset({3, 1}), "b": object(), "c": np.dtype("float32"), "d": "s", "e": ("s",), "f": None}
    x.eqns[0].params = values
    text = format_jaxpr(x, width=200)
    assert re.search(r"\[a=frozenset\({1, 3}\) b=<object object at 0xX+> c=float32 d=s e=\('s',\) f=None\]", text)


def test_a_hundred_thousand_equations_print_in_linear_time(small_heap):
    def seconds(n):
        start = time.process_time()
        text = str(straight_line(n))
        assert text.count("\n") == n + 1
        return time.process_time() - start

    seconds(1000)
    small = min(seconds(10_000) for _ in range(3))
    assert any(seconds(100_000) < 20 * small + 0.5 for _ in range(3))
    assert format_jaxpr(straight_line(10_000), style="tutorial").count("\n") == 10_001


def test_jaxprs_shared_over_and_over_print_once():
    """Forty levels of jaxprs: each jaxpr calls the previous one twice, 2^40 calls in total."""
    aval = ShapedArray((), np.dtype("float32"))
    jit, jaxpr = Primitive("jit"), straight_line(1)
    for _ in range(40):
        x, y, z = Var(aval), Var(aval), Var(aval)
        closed = ClosedJaxpr(jaxpr)
        eqns = [JaxprEqn(jit, [a], {"jaxpr": closed, "name": "f"}, [b]) for a, b in [(x, y), (y, z)]]
        jaxpr = Jaxpr([], [x], [z], eqns)
    text = str(jaxpr)
    assert text.count(" = { lambda") == 40 and text.count("sin") == 1


def test_align_and_fill_break_lines():
    words = pp.join(pp.group(pp.brk()), [pp.text(w) for w in "one two three four".split()])
    assert pp.to_string(pp.text(">> ") + pp.align(words), 8) == ">> one two\n   three\n   four"
