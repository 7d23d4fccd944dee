"""``%nan`` finds the first operation that makes a NaN or infinity, wherever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import minijax.numpy as jnp
from minijax import custom_jvp, custom_vjp, debug, errors, grad, jit, lax, pure_callback, vmap
from minijax.core import observe
from minijax.core.trace import stack_depth
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.explain import nan, walk
from minijax.tools.explain.nan import Found, find_nonfinite
from minijax.tools.explain.nan_view import search_document
from minijax.tools.session.session import Session


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    yield
    assert stack_depth() == 0 and not observe.observers


def f(x):
    y = x - 1.0
    return jnp.log(y).sum()


LINE = f.__code__.co_firstlineno


@custom_jvp
def root(x):
    return jnp.sqrt(x)


root.defjvp(lambda p, t: (root(p[0]), t[0] * 0.5 / root(p[0])))


@custom_vjp
def halved(x):
    return x * 0.5


halved.defvjp(lambda x: (x * 0.5, x), lambda x, ct: (jnp.log(x - 2.0) * ct,))


def body(c, x):
    return jnp.sqrt(c - x), c


def turns(x):
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.sqrt(c[1]) - 1.0), (0, x))[1]


XS = np.array([1.0, 0.0, 0.5, 2.0], np.float32)
A = np.arange(6, dtype=np.float32).reshape(2, 3)


class Case(NamedTuple):
    """A call, and the operation in it that makes the first NaN; with ``what='inf'``, the first infinity."""

    function: Callable[..., Any]
    argument: Any
    primitive: str
    inside: tuple[str, ...] = ()
    index: tuple[int, ...] = ()
    what: str = "nan"
    level: str = "forward"
    batch: tuple[str, ...] = ()
    backward: bool = False


ONE = np.float32(1.0)
CASES = {
    "eager": Case(f, XS, "log", (), (1,)),
    "jvp rule": Case(
        lambda x: jnp.sqrt(x).sum(), XS, "div", (), (1,), what="inf", level="jvp rule of sqrt", backward=True
    ),
    "transpose rule": Case(
        lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum(),
        XS,
        "mul",
        (),
        (1,),
        level="transpose rule of mul",
        backward=True,
    ),
    "scan in jit": Case(
        jit(lambda c: lax.scan(body, c, XS)[0]), ONE * 1.2, "sqrt", ("jit <lambda>", "scan, iteration 3 of 4")
    ),
    "while": Case(turns, ONE * 4.0, "sqrt", ("while, turn 3",)),
    "cond": Case(lambda x: lax.cond(x > 0, jnp.sin, jnp.log, x), -ONE, "log", ("cond, branch 0 (false)",)),
    "custom_vjp backward": Case(halved, ONE, "log", level="transpose rule of custom_lin", backward=True),
    "vmap of vmap along other axes": Case(
        vmap(vmap(lambda x: jnp.sqrt(3.5 - x)), in_axes=1),
        A,
        "sqrt",
        (),
        (1, 1),
        batch=("vmap:2 index 1", "vmap:3 index 1"),
    ),
    "vmap of grad": Case(
        vmap(grad(lambda x: jnp.sqrt(x) + 1.0)),
        XS,
        "div",
        (),
        (1,),
        what="inf",
        level="jvp rule of sqrt",
        batch=("vmap:2 index 1",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_nonfinite_operation_is_found(name):
    case = CASES[name]
    search = find_nonfinite(case.function, (case.argument,), {}, case.backward)
    found = search.nan if case.what == "nan" else search.inf
    assert isinstance(found, Found), search
    assert (found.what, found.primitive, found.inside) == (case.what, case.primitive, case.inside)
    # staging the function takes level 1, so the interpreters of the function itself begin at level 2
    assert (found.level, found.batch) == (case.level, case.batch)
    made = next(out for out in found.outputs if out.bad)
    assert made.index == case.index or made.size == 1
    assert made.element in ("nan", "inf", "-inf")
    assert not search.given
    text = plain(search_document(search, name, case.backward), 120)
    assert f"made by {case.primitive}" in text and "advice" in text


def test_a_finding_has_line_inputs_and_extremes():
    found = find_nonfinite(f, (XS,), {}).nan
    assert found is not None
    assert errors.summarize(found.source).startswith(f"{__file__}:{LINE + 2}:")
    (operand,) = found.inputs
    assert (operand.name, operand.type, operand.smallest, operand.largest) == ("y", "f32[4]", "-1", "1")
    assert operand.index == (1,) and operand.element == "-1"
    (result,) = found.outputs
    assert (result.name, result.bad, result.size, result.element) == ("jnp.log(y)", 2, 4, "nan")


def test_the_infinity_before_the_nan_is_shown_too():
    search = find_nonfinite(lambda x: (1.0 / x) * x, (XS,), {})
    assert search.inf is not None and search.inf.primitive == "div"
    assert search.nan is not None and search.nan.primitive == "mul" and search.bad_result


@pytest.mark.parametrize("run", [lambda f: f, jit, lambda f: lambda x: f(x) if bool(x[0] < 9) else x])
def test_a_nan_literal_is_not_ascribed_to_an_operation(run):
    """The NaN is a literal: in a staged program, inside a call, or in Python code that branches on values."""
    search = find_nonfinite(run(lambda x: jnp.sin(x) * np.float32("nan") + 1.0), (XS,), {})
    assert search.nan is None and search.bad_result and search.read is not None and search.read.primitive == "mul"
    text = " ".join(plain(search_document(search, "f(x)", False), 120).split())
    assert "first NaN was there before any operation, first read by mul" in text
    assert text.endswith("result not finite: NaN in 4 of 4 elements")
    infinite = find_nonfinite(run(lambda x: jnp.sin(x) + np.float32("inf")), (XS,), {})
    assert infinite.inf is None and infinite.read is not None and infinite.read.what == "inf"
    # a NaN that ``where`` drops is mentioned too; if the inner program has no line, the line of the call is shown
    chosen = find_nonfinite(run(lambda x: jnp.where(x < -100.0, np.float32("nan"), x)), (XS,), {})
    text = " ".join(plain(search_document(chosen, "f(x)", False), 200).split())
    assert "first NaN" not in text and "result finite: the NaN did not reach it the NaN is written in the" in text
    assert f"at {Path(__file__).name}:" in text.replace(str(Path(__file__).parent) + "/", "")


def test_nonfinite_arguments_are_reported():
    x = np.array([1.0, np.nan, np.inf], np.float32)
    search = find_nonfinite(lambda tree: tree["k"] * 2.0, ({"k": x},), {})
    (given,) = search.given
    assert given.name == "tree['k']" and given.index == (1,) and given.bad == 2
    assert search.nan is None and search.bad_result
    text = plain(search_document(search, "f(x)", False), 120)
    assert "tree['k'] f32[3]  is not finite to begin with:  min 1  max inf  at [1]: nan" in text
    # in spite of the NaN in x, an operation that makes a new NaN is found
    again = find_nonfinite(lambda x, y: jnp.log(y) + x, (x, np.float32(-1.0)), {}).nan
    assert again is not None and again.primitive == "log"


def test_a_difference_of_infinities_gets_no_advice_about_overflow():
    shown = plain(search_document(find_nonfinite(lambda x: x - x, (jnp.array(np.inf),), {}), "f(x)", False), 100)
    assert "first NaN made by sub" in shown and "or mask before" in shown


def test_an_infinity_beside_a_nan_is_not_the_first_problem():
    """The operation reads a NaN in one element and makes an infinity in another. The NaN was there first."""
    search = find_nonfinite(lambda x: 1.0 / x, (np.array([np.nan, 0.0], np.float32),), {})
    assert search.nan is None and search.inf is None and search.bad_result
    (given,) = search.given
    assert given.index == (0,) and given.element == "nan"


def test_a_function_whose_python_depends_on_values_is_searched():
    def g(x):
        if jnp.sin(x) > 0:
            return jit(lambda y: jnp.log(-y))(x)
        return x

    found = find_nonfinite(g, (1.0,), {}).nan
    assert found is not None and (found.primitive, found.inside) == ("log", ("jit <lambda>",))
    found = find_nonfinite(grad(g), (1.0,), {}).nan
    assert found is not None and found.primitive in ("log", "jit")


def test_long_loops_run_as_one_operation_past_the_bound(monkeypatch):
    monkeypatch.setattr(walk, "MOST_EQUATIONS", 50)

    def g(x):
        x = lax.fori_loop(0, 100, lambda i, c: c * 0.5, x)
        return lax.fori_loop(0, 10, lambda i, c: c - 1.0, jnp.log(x - 1.0))

    search = find_nonfinite(g, (np.float32(1.0),), {})
    assert search.hurried and search.nan is not None and search.nan.primitive == "log"
    assert "loops ran as a whole" in plain(search_document(search, "g(x)", False))


def shown(*lines):
    session = Session(find, {})
    for each in ("import minijax.numpy as jnp", "from minijax import *", "x = jnp.array([1.0, 0.0])", *lines):
        outcome = session.run_line(each)
    return " ".join(plain(outcome.shown, 100).split())


def test_argument_expressions_are_searched_too():
    text = shown("%nan jnp.sin(jnp.log(x - 1.0))")
    assert "first NaN made by log (forward)" in text and "<minijax-4>:1" in text
    assert "next %origin jnp.sin(jnp.log(x - 1.0)) tells" in text
    for line in ("%nan jnp.sqrt(x).sum() --grad", "%%nan y=0.0\njnp.log(y)", "%nan jnp.sin(x)"):
        assert "%origin" not in shown(line)


def test_variables_are_named():
    text = shown("bad = jnp.log(x)", "bad", "%nan bad * 2.0")
    assert "given bad f32[2] is not finite to begin with:" in text and "before any operation" not in text


def test_a_hint_fits_the_operation():
    assert "--grad looks at the derivative too" in shown("%nan jnp.sqrt(x).sum()")
    text = shown("%nan jnp.sqrt(x).sum() --grad")
    assert "jvp rule of sqrt" in text and "guard the argument before the operation" in text
    for divisor in ("jnp.exp(100.0)", "-jnp.exp(x + 100.0)"):
        text = shown(f"%nan jnp.exp(100.0) / {divisor}")
        assert "inf / inf is nan: look where the infinity comes from" in text and "0 / 0" not in text
    assert "0 / 0 is nan: choose another divisor" in shown("%nan x / jnp.sum(x - x)")


def test_a_loop_that_a_nan_makes_endless_has_no_verdict(monkeypatch):
    monkeypatch.setattr(walk, "MOST_EQUATIONS", 50)
    search = find_nonfinite(
        lambda x: lax.while_loop(lambda c: ~(c < 1.0), lambda c: jnp.sqrt(c - 5.0), x), (ONE * 2,), {}
    )
    assert search.nan is not None and search.nan.primitive == "sqrt" and search.bad_result is None
    assert "unknown: a loop did not end" in plain(search_document(search, "f(x)", False))


def test_a_nan_before_an_endless_loop_is_found(monkeypatch):
    def endless(x):
        y = jnp.log(x)
        return jit(lambda y: lax.while_loop(lambda c: ~(c < 1e-3), lambda c: c * 0.5, y))(y)

    monkeypatch.setattr(walk, "MOST_EQUATIONS", 50)
    search = find_nonfinite(endless, (-ONE,), {})
    assert search.nan is not None and search.nan.primitive == "log" and search.bad_result is None
    assert "unknown: a loop did not end" in plain(search_document(search, "f(x)", False))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_loop_that_already_ran_is_searched_up_to_its_nan(monkeypatch):
    looks = []

    def unstaged(x):
        assert x > 0
        return lax.while_loop(lambda c: c[0] < 1000, lambda c: (c[0] + 1, jnp.sqrt(c[1] - 1.0)), (0, x))[1]

    class Walk(nan._NanWalk):
        def equation(self, eqn, env, inside, level):
            looks.append(eqn.primitive.name)
            super().equation(eqn, env, inside, level)

    monkeypatch.setattr(nan, "_NanWalk", Walk)
    monkeypatch.setattr(walk, "MOST_EQUATIONS", 50)
    search = find_nonfinite(unstaged, (ONE,), {})
    assert search.nan is not None and search.nan.primitive == "sqrt" and search.bad_result
    assert len(looks) < 30


def test_an_error_after_the_nan_does_not_hide_it():
    def refuse(value):
        raise ValueError(f"refused: {value}")

    def checked(x):
        y = jnp.log(x)
        debug.callback(refuse, y)
        return y

    search = find_nonfinite(checked, (-ONE,), {})
    assert search.nan is not None and search.nan.primitive == "log" and search.bad_result is None
    assert "unknown: the program raised" in plain(search_document(search, "f(x)", False))
    with pytest.raises(Exception, match="refused"):
        find_nonfinite(checked, (ONE,), {})


def test_a_callback_is_not_called_again_without_its_nan():
    given = []

    def called(value):
        given.append(float(value))
        return value

    nan_given = np.float32(np.nan)
    search = find_nonfinite(lambda x: pure_callback(called, ONE, x), (nan_given,), {})
    assert search.nan is None and search.bad_result and len(given) == 1


def test_a_nan_beside_a_given_one_is_found():
    y = np.array([np.nan, -1.0, 4.0], np.float32)
    found = find_nonfinite(lambda y: jnp.where(jnp.isnan(y), 0.0, jnp.log(y)).sum(), (y,), {}).nan
    assert found is not None and found.primitive == "log"
    (result,) = found.outputs
    assert (result.index, result.bad, result.size) == ((1,), 1, 3) and result.largest == f"{np.log(np.float32(4)):.7g}"
    assert find_nonfinite(lambda y: jnp.exp(y).sum(), (y,), {}).nan is None


def test_overflow_is_named():
    for line in ("%nan jnp.array(1e30) * 1e30", "%nan jnp.sum(x * 3e38 + x * 3e38)"):
        text = shown(line)
        assert "beyond the largest number of its type" in text and "0 * inf" not in text


def test_dictionaries_keep_the_order_of_a_plain_call():
    def chain(p, **k):
        x = ONE
        for value in [*p.values(), *k.values()]:
            x = jnp.log(x * value)
        return x

    search = find_nonfinite(chain, ({"b": ONE * 2, "a": ONE},), {"d": ONE * 9, "c": ONE})
    assert search.nan is not None
    assert search.nan.inputs[0].element == f"{9 * np.log(np.log(np.float32(2))):.7g}"


def test_python_numbers_are_not_rounded_to_float32():
    text = shown("o = lambda x: (x * 1e30) * 1e30", "%nan o(1e5)")
    assert text.endswith("result finite")


def test_an_infinity_that_the_program_writes_is_not_said_to_be_shown():
    text = shown("y = jnp.where(x > 0, x, -jnp.inf)", "%nan jnp.where(x > 0, x, -jnp.inf) - y")
    assert "first NaN made by sub" in text and "shown above" not in text and "NaN in 1 of 2 elements" in text


def test_a_derivative_by_jax_is_backward():
    session = Session(find, {})
    for line in ("import jax", "import jax.numpy as jn", "from minijax.interop import from_jax"):
        session.run_line(line)
    session.run_line("step = from_jax(jax.jit(jax.grad(lambda p: jn.where(p > 0, jn.sqrt(p), 0.).sum())))")
    text = plain(session.run_line("%nan step(jn.array([1., 0.]))").shown, 100)
    assert "first NaN made by mul (backward, in a derivative by JAX)" in text


def test_a_nan_that_does_not_reach_the_result_is_not_blamed():
    def g(x):
        masked = jnp.nan_to_num(jnp.log(x - 5.0))
        return masked + jnp.sqrt(x - 0.75) + lax.scan(lambda c, e: (c, jnp.arccos(e)), 0.0, x)[1]

    text = " ".join(plain(search_document(find_nonfinite(g, (XS,), {}), "g(x)", False), 200).split())
    assert "first NaN of the result made by sqrt" in text and "masked log (forward)" in text
    assert "also by acos (forward)" in text and "1 element of the result" in text
    assert "result not finite: NaN in 3 of 4 elements" in text
