"""Parsing printed jaxprs: print -> parse -> print is the identity, and the parsed jaxpr gives the same values."""

import copy
import difflib
import pathlib
import re
import time

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minijax as mj
import minijax.numpy as jnp
from minijax import lax
from minijax.core.avals import ShapedArray
from minijax.core.primitive import Primitive
from minijax.extend import core as extend_core
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import DropVar, JaxprEqn, Var, subjaxprs
from minijax.ir.parse import JaxprSyntaxError, MissingConstant, Unread, page_consts, parse_jaxpr
from minijax.ir.pretty import format_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr
from tests.ir.constructs import programs
from tests.ir.jax_jaxprs import convert
from tests.ir.test_pretty import PROGRAMS, straight_line
from tests.oracle.functions import CASES
from tests.oracle.subject import subject
from tests.oracle.transforms import build, rows

GOLDEN = sorted((pathlib.Path(__file__).parent.parent / "golden").glob("jaxpr_*.txt"))
WIDTHS = [1, 40, 80, 10**6]


def primitives_of(closed):
    """name -> primitive in ``closed``, including stand-ins for primitives of converted JAX jaxprs."""
    found = {}
    todo = [closed.jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            found[eqn.primitive.name] = eqn.primitive
            todo += subjaxprs(eqn.params)
    return found


def assert_same_text(text, again):
    assert text == again, "\n".join(difflib.unified_diff(text.split("\n"), again.split("\n"), lineterm=""))


def assert_reads_back(closed, *args):
    """Assert that the parsed jaxpr prints the same at several widths, is well typed, and computes the same bits."""
    for width in WIDTHS:
        text = format_jaxpr(closed, width=width)
        read = parse_jaxpr(text, consts=page_consts(closed), primitives=primitives_of(closed))
        assert_same_text(text, format_jaxpr(read, width=width))
    typecheck_jaxpr(read)
    if args:
        for expected, got in zip(eval_closed(closed, *args), eval_closed(read, *args), strict=True):
            np.testing.assert_array_equal(np.asarray(expected), np.asarray(got))
    return read


# ---- print -> parse -> print gives the same text


@pytest.mark.parametrize("name", PROGRAMS)
def test_converted_jaxprs_of_jax_are_parsed(name):
    """JAX traced these jaxprs, and they have many primitives and parameters that minijax lacks."""
    function, args = PROGRAMS[name]
    closed = convert(jax.make_jaxpr(function)(*args))
    for width in WIDTHS:
        text = format_jaxpr(closed, width=width)
        read = parse_jaxpr(text, primitives=primitives_of(closed))
        assert_same_text(text, format_jaxpr(read, width=width))


def test_text_printed_by_jax_is_parsed():
    """A jaxpr printed by JAX runs in minijax, even if the text omits parameters for sharding."""
    text = str(jax.make_jaxpr(jax.grad(lambda x: (jax.numpy.sin(x) * 2.0).sum()))(np.ones(3, np.float32)))
    assert " out_sharding=None" in text
    before = text.replace(" out_sharding=None", "")
    for each in (text, before):
        read = parse_jaxpr(each)
        assert str(read) == text
        typecheck_jaxpr(read)
        np.testing.assert_allclose(eval_closed(read, np.ones(3, np.float32))[0], 2 * np.cos(1), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(CASES))
def test_jaxprs_of_the_oracle_table_are_parsed(name):
    """For each function of the table and each transformation, the parsed jaxpr has the same text, types and bits."""
    for transformation in [t for n, t in rows() if n == name]:
        function, args = build(subject, CASES[name])[transformation]
        closed = subject.make_jaxpr(function)(*args)
        text = str(closed)
        read = parse_jaxpr(text, consts=page_consts(closed))
        assert_same_text(text, str(read))
        typecheck_jaxpr(read)
        if transformation in ("plain", "grad", "vmap"):
            flat = mj.tree_util.tree_leaves(args)
            for expected, got in zip(eval_closed(closed, *flat), eval_closed(read, *flat), strict=True):
                np.testing.assert_array_equal(np.asarray(expected), np.asarray(got))


OURS = programs(mj)  # all constructs; programs that only matter to parsing are added below


def ours(*args):
    """Decorator: add a function of minijax to ``OURS`` under its name, with the arguments ``args``."""

    def register(f):
        OURS[f.__name__] = (f, args)
        return f

    return register


@ours(5.0)
def cond_with_constants(x):
    return lax.cond(x > 0, lambda x: jnp.sin(x) + jnp.array([1.0, 2.0]), lambda x: x * jnp.ones(2), x)


@ours(np.ones(3, np.float32))
def grad_of_scan(xs):
    return mj.grad(lambda xs: lax.scan(lambda c, x: (jnp.sin(c * x), c + 1), 1.0, xs)[0])(xs)


@mj.jit
def shared_helper(x):
    return jnp.sin(x) * 2


@mj.jit
def outer_helper(x):
    return shared_helper(x) + shared_helper(x * jnp.array([1.0, 2.0]))


@ours(np.arange(12, dtype=np.float32).reshape(3, 4), 1)
def parameters_of_every_sort(x, i):
    return (
        x[i],
        x[jnp.array([0, 2])],
        x.at[i].set(0.0),
        x.at[0].add(1.0),
        jnp.sort(x),
        jnp.round(x),
        jnp.matmul(x, x.T, precision="highest"),
        jnp.cumsum(x),
        x.astype("bfloat16").astype(bool),
        x * (1 + 2j),
        x * np.float32(0.1) * 0.1,
        x + -np.inf,
    )


@pytest.mark.parametrize("name", OURS)
def test_jaxprs_of_minijax_are_parsed(name):
    function, args = OURS[name]
    closed = mj.make_jaxpr(function)(*args)
    # a parsed callback is a stand-in and cannot run, so programs with callbacks are not evaluated
    assert_reads_back(closed, *(() if name in ("pure_callback", "debug_callback") else args))


def test_a_parsed_jaxpr_can_be_transformed():
    """A parsed jaxpr can be compiled, differentiated and batched."""
    closed = mj.make_jaxpr(outer_helper)(jnp.ones(2))
    read = extend_core.jaxpr_as_fun(extend_core.parse_jaxpr(str(closed), consts=page_consts(closed)))
    x = jnp.array([0.5, 2.0])
    np.testing.assert_array_equal(mj.jit(read)(x)[0], outer_helper(x))
    np.testing.assert_array_equal(mj.grad(lambda x: read(x)[0].sum())(x), mj.grad(lambda x: outer_helper(x).sum())(x))
    np.testing.assert_array_equal(mj.vmap(read)(jnp.ones((3, 2)))[0], mj.vmap(outer_helper)(jnp.ones((3, 2))))


def test_user_defined_primitives_are_found():
    """The parser finds primitives with an abstract evaluation rule: minijax's own first, then the last one defined."""
    text = "{ lambda ; a:f32[2]. let b:f32[2] = users_own[k=3] a; c:f32[2] = sin b in (c,) }"
    with pytest.raises(JaxprSyntaxError, match="no primitive called 'users_own'"):
        parse_jaxpr(text)
    defined = {}
    for name in ("users_own", "users_own", "sin"):
        defined[name] = Primitive(name)
        defined[name].def_abstract_eval(lambda aval, **params: aval)
    read = parse_jaxpr(text)
    assert str(read) == text
    assert read.eqns[0].primitive is defined["users_own"] and read.eqns[0].params == {"k": 3}
    assert read.eqns[1].primitive is not defined["sin"]
    assert parse_jaxpr(text, primitives={"sin": defined["sin"]}).eqns[1].primitive is defined["sin"]


def test_collectives_inside_pmap_are_parsed():
    """If the text lacks the axis size, the size is inferred from the types, or parsing raises an error."""

    def exchange(split, concat):
        def f(x):
            return lax.all_to_all(x, "i", split, concat, tiled=True)

        return mj.make_jaxpr(mj.pmap(f, axis_name="i"))(np.ones((2, 4, 6), np.float32))

    for split, concat in ((0, 1), (1, 0)):
        (mapped,) = assert_reads_back(exchange(split, concat)).eqns[0].params["jaxpr"].eqns
        assert [eqn.params.get("axis_size") for eqn in mapped.params["jaxpr"].eqns] == [None, 2, None]
    with pytest.raises(JaxprSyntaxError, match="'all_to_all' lacks a parameter or an operand: 'axis_size'"):
        parse_jaxpr(str(exchange(0, 0)))


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_types_and_parameters_that_name_meshes_are_parsed(kind):
    """Types and parameters contain varying axes, shardings, meshes and specs; the parser uses the current mesh."""
    of = mj.sharding
    mesh = of.make_mesh((2, 1), ("x", "y"), (of.AxisType[kind],) * 2)
    with of.set_mesh(mesh):
        x, summed = mj.device_put(np.ones((4, 2), np.float32), of.P("x")), of.P(reduced={"x"})
        reduced = mj.shard_map(mj.jit(jnp.transpose), in_specs=summed, out_specs=summed)
        for f in (
            *([lambda a: of.reshard(reduced(of.reshard(a, summed)), of.P())] if kind == "Explicit" else ()),
            mj.shard_map(lambda a: lax.psum(a * 2.0, "x"), in_specs=of.P("x"), out_specs=of.P()),
            mj.jit(lambda a: a.reshape(8) + 1.0, out_shardings=of.P(("x", "y"))),
            (lambda a: of.reshard(a, of.P(None, "x")))
            if kind == "Explicit"
            else (lambda a: lax.with_sharding_constraint(a, of.P("y"))),
        ):
            closed = mj.make_jaxpr(f)(x)
            read = assert_reads_back(closed)
            assert read.in_avals == closed.in_avals and read.out_avals == closed.out_avals
            np.testing.assert_array_equal(*[np.asarray(eval_closed(each, x)[0]) for each in (closed, read)])
    assert ("@x" in str(closed)) == (kind == "Explicit")
    if kind == "Explicit":
        with pytest.raises(JaxprSyntaxError, match="does not give the size of the mesh axis x"):
            parse_jaxpr(str(closed))


def test_source_notes_are_skipped():
    closed = mj.make_jaxpr(grad_of_scan)(jnp.ones(3))
    text = format_jaxpr(closed, source_info=True)
    assert text.count("# ") > 5
    assert_same_text(str(closed), str(parse_jaxpr(text)))


def test_variables_may_be_called_in_let_inf_and_nan():
    jaxpr = straight_line(9_200)
    text = str(jaxpr)
    for name in ("in", "let", "inf", "nan"):
        assert f"{name}:f32[] = sin " in text and f" = sin {name}\n" in text
    read = parse_jaxpr(text)
    assert_same_text(text, str(read))
    flat = format_jaxpr(jaxpr, width=10**7)
    assert len(parse_jaxpr(flat).eqns) == 9_200


def test_parsing_takes_linear_time(small_heap):
    def seconds(n, width):
        text = format_jaxpr(straight_line(n), width=width)
        start = time.process_time()
        parse_jaxpr(text)
        return time.process_time() - start

    seconds(100, 80)
    for width in (80, 10**8):
        small = min(seconds(1_000, width) for _ in range(3))
        assert any(seconds(8_000, width) < 16 * small + 0.5 for _ in range(3))


def test_results_called_underscore_are_parsed():
    """If a call's results are dropped, its jaxpr shows each of them as ``_``."""
    text = (
        "{ lambda ; a:f32[] b:i32[2]. let\n"
        "    _:i32[2] _:f32[] c:f32[] = jit[\n"
        "      name=f\n"
        "      jaxpr={ lambda ; a:f32[] b:i32[2]. let\n"
        "          _:f32[] = sin a\n"
        "          _:i32[2] = neg b\n"
        "          c:f32[] = cos a\n"
        "        in (_, _, c) }\n"
        "    ] a b\n"
        "  in (c,) }"
    )
    read = parse_jaxpr(text)
    assert_same_text(text, str(read))
    typecheck_jaxpr(read)
    call = read.eqns[0]
    assert [type(v) for v in call.outvars] == [DropVar, DropVar, Var]
    np.testing.assert_allclose(eval_closed(read, 0.0, np.zeros(2, np.int32))[0], 1.0)


# ----- constants and values that a text lacks


CONSTANTS = "{ lambda a:f32[2] b:i32[]; c:f32[2]. let d:f32[2] = add a c in (d, b) }"


def test_constants_are_passed_in_printed_order():
    read = parse_jaxpr(CONSTANTS, consts=[[1.0, 2.0], 7])
    x, b = eval_closed(read, np.ones(2, np.float32))
    np.testing.assert_array_equal(x, [2.0, 3.0])
    assert b == 7 and str(b.dtype) == "int32"
    assert [str(c) for c in page_consts(read)] == ["[1. 2.]", "7"]


def test_without_constants_a_jaxpr_only_prints_and_typechecks():
    read = parse_jaxpr(CONSTANTS)
    assert isinstance(read.consts[0], MissingConstant) and str(read) == CONSTANTS
    typecheck_jaxpr(read)
    with pytest.raises(TypeError, match=r"a:f32\[2\] of this jaxpr is not known.*parse_jaxpr\(text, consts="):
        eval_closed(read, np.ones(2, np.float32))
    assert extend_core.parse_jaxpr is parse_jaxpr


@pytest.mark.parametrize(
    ("consts", "error", "words"),
    [
        ([], ValueError, r"2 constvars \(a:f32\[2\], b:i32\[\]\), but 0 consts"),
        ([1, 2, 3], ValueError, "but 3 consts are given"),
        ([np.ones(3), 1], TypeError, r"constvar a:f32\[2\] cannot have a value of type f32\[3\]"),
        ([np.ones(2), 1.5], TypeError, r"constvar b:i32\[\] cannot have a value of type"),
    ],
)
def test_constants_that_do_not_fit_are_refused(consts, error, words):
    with pytest.raises(error, match=words):
        parse_jaxpr(CONSTANTS, consts=consts)


def test_functions_among_the_parameters_are_stand_ins():
    """A stand-in prints like the function, and raises if it is called."""
    closed = mj.make_jaxpr(lambda x: mj.pure_callback(np.sin, x, x))(1.0)
    read = parse_jaxpr(str(closed))
    assert_same_text(str(closed), str(read))
    typecheck_jaxpr(read)
    stand_in = read.eqns[0].params["callback"]
    assert isinstance(stand_in, Unread) and stand_in == Unread(str(stand_in)) != Unread("f")
    with pytest.raises(TypeError, match="was read from text, which names .*sin.* but does not hold it"):
        stand_in(1.0)
    with pytest.raises(AttributeError, match="does not hold it"):
        stand_in.call(1.0)
    assert copy.copy(stand_in) == stand_in


def test_values_of_parameters_are_parsed():
    x = straight_line(1)
    p = Primitive("row")
    params = {
        "a": (1, -2.5, None, True, "it's", (), (3,)),
        "b": frozenset({1, 2}),
        "c": np.dtype("float32"),
        "d": [1, [2]],
        "e": {"k": 1},
        "f": np.inf,
        "g": 1 + 2j,
        "h": (np.int64(3), np.float32(0.5), np.dtype("int8")),
        "new_dtype": np.dtype("float32"),
        "i": "word",
        "j": "two words, and more",
        "name": "<lambda>",
        "k": print,
        "l": ShapedArray((2,), np.dtype("int8"), True),
    }
    x.eqns[0] = JaxprEqn(p, x.invars, params, x.outvars)
    text = format_jaxpr(x, width=10**6)
    read = parse_jaxpr(text, primitives={"row": p})
    assert_same_text(text, format_jaxpr(read, width=10**6))
    got = read.eqns[0].params
    for key in params.keys() - {"c", "k", "j", "l"}:
        assert got[key] == params[key] and type(got[key]) is type(params[key]), key
    assert got["k"] == Unread("<built-in function print>")


# --------------- invalid texts

BAD = [
    ("", 1, 1, "expected '{' (a jaxpr), found the end of the text"),
    ("hello", 1, 1, "expected '{' (a jaxpr), found 'hello'"),
    ("{ lambda ; a:f32[]. let b:f32[] = sin a in (b)", 1, 47, "expected '}' (which ends the jaxpr)"),
    ("{ lambda ; a:f32[]. let\n    b:f32[] = [x=1] a\n  in (b,) }", 2, 15, "expected a primitive's name, found '['"),
    ("{ lambda ; a:f32[]. let\n    b:f32[] = sinn a\n  in (b,) }", 2, 15,
     "there is no primitive called 'sinn'; did you mean 'sin'"),
    ("{ lambda ; a:f32[]. let\n    b:f32[] = sin c\n  in (b,) }", 2, 19, "the variable 'c' is not defined"),
    ("{ lambda ; a:f32[]. let\n    b:f32[] = sin b\n  in (b,) }", 2, 19, "the variable 'b' is not defined"),
    ("{ lambda ; a:f99[]. let in (a,) }", 1, 14, "no dtype called 'f99'"),
    ("{ lambda ; a:f32[x]. let in (a,) }", 1, 14, "expected a type such as f32[8], found 'f32'"),
    ("{ lambda ; a:f32[]. let a:f32[] = sin a in (a,) }", 1, 25, "the variable 'a' is bound already"),
    ("{ lambda a. let in (a,) }", 1, 10, "expected ';' (which ends the constants), found 'a'"),
    ("{ lambda a:float32[] . let b:float32[] = sin a in ( b ) }", 1, 22, "the tutorial's style is not read"),
    ("{ lambda ; a:f32[]. let b:f32[] sin a in (b,) }", 1, 33, "expected '='"),
    ("{ lambda ; a:f32[]. let b:f32[] = reduce_sum[axes=] a in (b,) }", 1, 51, "expected the value of 'axes'"),
    ("{ lambda ; a:f32[]. let b:f32[] = reduce_sum[axes=(0,) a in (b,) }", 1, 56,
     "expected a parameter 'name=value', or ']'"),
    ("{ lambda ; a:f32[]. let b:f32[] = reduce_sum[axes=(0,) axes=1] a in (b,) }", 1, 56, "'axes' is given twice"),
    ("{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a in (b,) }", 1, 52, "no 'let' binds a jaxpr called 'f'"),
    ("{ lambda ; a:f32[]. let b:f32[] = jit[name=f] a in (b,) }", 1, 35,
     "'jit' lacks a parameter or an operand: 'jaxpr'"),
    ("let f = { lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f] a in (b,) } in f", 1, 60,
     "the jaxpr 'f' contains itself"),
    ("{ lambda ; a:i32[]. let b:i32[] = mul 1.5:i32[] a in (b,) }", 1, 39, "1.5 is no value of type i32[]"),
    ("{ lambda ; a:i8[]. let b:i8[] = mul 300:i8[] a in (b,) }", 1, 37, "300 is no value of type i8[]"),
    ("{ lambda ; a:f32[]. let b:f32[3] = mul [...]:f32[3] a in (b,) }", 1, 40,
     "does not hold the value of this literal"),
    ("{ lambda ; a:f32[]. let b:f32[] = sin a\n  ... (7 more equations)\n in (b,) }", 2, 3, "equations were left out"),
    ("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) } x", 1, 51, "expected the end of the text, found 'x'"),
    ("{ lambda ; a:f32[]. let b:f32[] = sin a in (b c) }", 1, 47, "expected ',' or ')', found 'c'"),
    ("{ lambda ; . let _:f32[] = sin 1.0:f32[]; _:f32[] = cos 1.0:f32[]\n in (_,) }", 2, 6,
     "'_' is read, but 2 variables"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "words"), BAD)
def test_syntax_errors_name_their_places(text, line, column, words):
    with pytest.raises(JaxprSyntaxError, match=re.escape(words)) as caught:
        parse_jaxpr(text)
    error = caught.value
    assert isinstance(error, ValueError) and (error.line, error.column) == (line, column)
    head, shown, caret = str(error).split("\n")
    assert head.startswith(f"line {line}, column {column}: ")
    offending = text.split("\n")[line - 1]
    if len(offending) < 60:
        assert shown == "  " + offending and caret == " " * (column + 1) + "^"
    assert shown[len(caret) - 1 :][:1] == offending[column - 1 : column]


def test_only_text_is_parsed():
    with pytest.raises(TypeError, match="expects the text of a jaxpr, got ClosedJaxpr"):
        parse_jaxpr(parse_jaxpr(CONSTANTS))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_text_raises_an_error_with_a_place(data):
    """After random deletions and insertions, a text parses or raises JaxprSyntaxError."""
    text = data.draw(st.sampled_from([path.read_text() for path in GOLDEN]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    new = data.draw(st.text(st.sampled_from("{}[]()=:;,. \nab_in0.5jlet-#'"), max_size=6))
    try:
        parse_jaxpr(text[:start] + new + text[end:])
    except JaxprSyntaxError as error:
        assert error.line >= 1 and "\n" in str(error)
