"""The core's figures: derivatives, batching, staging and partial evaluation of small functions, in 64-bit
mode.

The expected numbers are those of the published tutorial on JAX's core ("Autodidax"), re-run.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
jnp = importlib.import_module(mj.__name__ + ".numpy")
lax = importlib.import_module(mj.__name__ + ".lax")

F3 = 2.7177599838802657
DF3 = 2.979984993200891
DDF3 = 0.2822400161197344


@pytest.fixture(autouse=True)
def wide_mode() -> Iterator[None]:
    """The tutorial's figures are 64-bit."""
    with mj.enable_x64(True):
        yield


def f(x: Any) -> Any:
    """-(2 sin x) + x."""
    return -(jnp.sin(x) * 2.0) + x


def exactly(value: Any) -> Any:
    """Equal to all 16 printed digits: the last bit or two may depend on the processor's sine."""
    return pytest.approx(value, rel=5e-16, abs=5e-17)


def counted(function: Any) -> tuple[Any, list[int]]:
    """``function`` and a list that grows whenever its Python body runs."""
    runs: list[int] = []

    def wrapper(*args: Any) -> Any:
        runs.append(1)
        return function(*args)

    return wrapper, runs


# --- evaluation and jvp ------------------------------------------------------------------------------------


def test_value() -> None:
    assert float(f(3.0)) == exactly(F3)


def test_jvp_gives_value_and_derivative() -> None:
    primal, tangent = mj.jvp(f, (3.0,), (1.0,))
    assert float(primal) == exactly(F3)
    assert float(tangent) == exactly(DF3)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(1, -0.9899924966004454), (2, -0.1411200080598672), (3, 0.9899924966004454), (4, 0.1411200080598672)],
)
def test_derivatives_of_sine_by_nesting_jvp(order: int, expected: float) -> None:
    def derivative(function: Any) -> Any:
        return lambda x: mj.jvp(function, (x,), (1.0,))[1]

    function = jnp.sin
    for _ in range(order):
        function = derivative(function)
    assert float(function(3.0)) == exactly(expected)


@pytest.mark.parametrize(("at", "expected"), [(3.0, 2.0), (-3.0, 1.0)])
def test_python_branches_follow_the_primal(at: float, expected: float) -> None:
    def g(x: Any) -> Any:
        if x > 0:
            return 2.0 * x
        return x

    assert float(mj.jvp(g, (at,), (1.0,))[1]) == expected
    assert float(mj.grad(g)(at)) == expected


def test_jvp_of_a_function_with_a_tree_of_results() -> None:
    def tree(x: Any) -> Any:
        return {"hi": f(x), "there": [x, 2.0 * jnp.sin(x)]}

    primal, tangent = mj.jvp(tree, (3.0,), (1.0,))
    assert set(primal) == set(tangent) == {"hi", "there"}
    assert float(primal["hi"]) == exactly(F3)
    assert list(map(float, primal["there"])) == exactly([3.0, 0.2822400161197344])
    assert float(tangent["hi"]) == exactly(DF3)
    assert list(map(float, tangent["there"])) == exactly([1.0, -1.9799849932008908])


def test_jvp_refuses_tangents_of_another_structure() -> None:
    with pytest.raises(TypeError) as caught:
        mj.jvp(lambda pair: pair[0] * pair[1], ((3.0, 2.0),), ([1.0, 1.0],))
    text = str(caught.value)
    assert "(*, *)" in text and "[*, *]" in text, text


# --- vmap --------------------------------------------------------------------------------------------------


def test_vmap_hides_the_batch_axis() -> None:
    def add_one_to_a_scalar(s: Any) -> Any:
        assert np.ndim(s) == 0
        return 1.0 + s

    np.testing.assert_array_equal(mj.vmap(add_one_to_a_scalar)(np.arange(3.0)), [1.0, 2.0, 3.0])


def test_jacfwd_of_sine_is_diagonal() -> None:
    expected = np.diag([1.0, 0.54030231, -0.41614684])
    np.testing.assert_allclose(mj.jacfwd(jnp.sin)(np.arange(3.0)), expected, atol=5e-9)


# --- staging -----------------------------------------------------------------------------------------------


def test_jaxpr_has_an_inline_literal() -> None:
    closed = mj.make_jaxpr(lambda x: 2.0 * x)(np.float64(3.0))
    assert str(closed) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0:f64[] a in (b,) }"
    (eqn,) = closed.jaxpr.eqns
    assert eqn.primitive.name == "mul"
    assert closed.jaxpr.constvars == [] and eqn.invars[0].val == 2.0
    (argument,), (result,) = closed.in_avals, closed.out_avals
    assert (argument.shape, argument.dtype, result.shape, result.dtype) == ((), np.float64, (), np.float64)


def test_a_function_without_arguments_is_staged_not_folded() -> None:
    closed = mj.make_jaxpr(lambda: lax.mul(2.0, 2.0))()
    assert [eqn.primitive.name for eqn in closed.jaxpr.eqns] == ["mul"]


def test_jit_traces_once() -> None:
    body, runs = counted(lambda x, y: jnp.sin(x) * jnp.cos(y))
    jitted = mj.jit(body)
    assert float(jitted(3.0, 4.0)) == exactly(-0.09224219304455371)
    assert float(jitted(4.0, 5.0)) == exactly(-0.21467624978306993)
    assert len(runs) == 1


def test_jit_traces_once_more_for_each_signature() -> None:
    body, runs = counted(lambda x, y: jnp.sin(x) * jnp.cos(y))
    jitted = mj.jit(body)
    jitted(3.0, 4.0)
    narrow = jitted(np.float32(3.0), np.float32(4.0))
    assert len(runs) == 2 and narrow.dtype == np.float32
    wide = jitted(np.ones(2), np.ones(2))
    assert len(runs) == 3 and wide.shape == (2,)
    jitted(np.float32(4.0), np.float32(5.0))
    jitted(np.zeros(2), np.zeros(2))
    jitted(5.0, 6.0)
    assert len(runs) == 3


def test_jit_of_a_reduction() -> None:
    total = mj.jit(lambda x: jnp.sum(x, axis=0))(np.array([1.0, 2.0, 3.0]))
    assert float(total) == 6.0


def test_second_derivative_with_and_without_jit() -> None:
    def derivative(function: Any) -> Any:
        return lambda x: mj.jvp(function, (x,), (1.0,))[1]

    assert float(derivative(derivative(f))(3.0)) == exactly(DDF3)
    assert float(mj.jit(derivative(derivative(f)))(3.0)) == exactly(DDF3)


def test_jvp_of_jit_traces_once_in_all() -> None:
    body, runs = counted(f)
    jitted = mj.jit(body)
    for _ in range(2):
        primal, tangent = mj.jvp(jitted, (3.0,), (1.0,))
        assert float(primal) == exactly(F3)
        assert float(tangent) == exactly(DF3)
    assert len(runs) == 1


def test_vmap_of_jit() -> None:
    values = mj.vmap(mj.jit(f))(np.arange(3.0))
    np.testing.assert_allclose(values, [0.0, -0.68294197, 0.18140515], atol=5e-9)


# --- linearize, vjp and grad -------------------------------------------------------------------------------


def test_linearize_sine() -> None:
    value, linear = mj.linearize(jnp.sin, 3.0)
    assert float(value) == exactly(0.1411200080598672)
    assert float(linear(1.0)) == exactly(-0.9899924966004454)


def test_linearize_a_jitted_function() -> None:
    value, linear = mj.linearize(mj.jit(f), 3.0)
    assert float(value) == exactly(F3)
    assert float(linear(1.0)) == exactly(DF3)


def test_linearize_nested_jits() -> None:
    h = mj.jit(lambda x, y: jnp.cos(x) + y)
    value, linear = mj.linearize(mj.jit(lambda x: h(x, 2.0 * jnp.sin(x))), 3.0)
    assert float(value) == exactly(-0.7077524804807109)
    assert float(linear(1.0)) == exactly(-2.121105001260758)


def test_vjp_of_sine() -> None:
    _, pullback = mj.vjp(jnp.sin, 3.0)
    (cotangent,) = pullback(np.float64(1.0))
    assert float(cotangent) == exactly(-0.9899924966004454)


def test_grad() -> None:
    assert float(mj.grad(f)(3.0)) == exactly(DF3)


def test_grad_of_nested_jits() -> None:
    k = mj.jit(lambda y: 2.0 * jnp.cos(y))
    assert float(mj.grad(mj.jit(lambda x: k(2.0 * x)))(3.0)) == exactly(1.1176619927957034)


def tangent_of(function: Any) -> Any:
    """The derivative of a scalar function, forwards."""
    return lambda x: mj.jvp(function, (x,), (1.0,))[1]


def value_by_jvp(function: Any) -> Any:
    """The value, as jvp returns it."""
    return lambda x: mj.jvp(function, (x,), (1.0,))[0]


WAYS = {
    "value": {
        "plain": lambda: f,
        "jit": lambda: mj.jit(f),
        "jvp": lambda: value_by_jvp(f),
        "jvp of jit": lambda: value_by_jvp(mj.jit(f)),
    },
    "derivative": {
        "grad": lambda: mj.grad(f),
        "grad of jit": lambda: mj.grad(mj.jit(f)),
        "jit of grad of jit": lambda: mj.jit(mj.grad(mj.jit(f))),
        "jvp": lambda: tangent_of(f),
        "jvp of jit": lambda: tangent_of(mj.jit(f)),
    },
    "second derivative": {
        "grad of grad": lambda: mj.grad(mj.grad(f)),
        "grad of grad of jit": lambda: mj.grad(mj.grad(mj.jit(f))),
        "grad of jit of grad": lambda: mj.grad(mj.jit(mj.grad(f))),
        "jit of grad of grad": lambda: mj.jit(mj.grad(mj.grad(f))),
        "jvp of grad": lambda: tangent_of(mj.grad(f)),
        "jvp of jit of grad": lambda: tangent_of(mj.jit(mj.grad(f))),
        "jvp of grad of jit": lambda: tangent_of(mj.grad(mj.jit(f))),
    },
}
EXPECTED = {"value": F3, "derivative": DF3, "second derivative": DDF3}


@pytest.mark.parametrize(("what", "way"), [(what, way) for what, ways in WAYS.items() for way in ways])
def test_all_ways_lead_to_the_same_number(what: str, way: str) -> None:
    assert float(WAYS[what][way]()(3.0)) == pytest.approx(EXPECTED[what], abs=1e-12)


# --- the nested-calls stress -------------------------------------------------------------------------------


def stress(ns: Any, jit: Any) -> Any:
    """A scalar function built of jitted functions that close over tracers, ignore arguments or take none."""
    numpy = ns.numpy

    def outer(x: Any) -> Any:
        @jit
        def closes_over_x(y: Any) -> Any:
            @jit
            def closes_over_both(z: Any) -> Any:
                return numpy.sin(z) * x + y

            return closes_over_both(y * 2.0) + closes_over_both(x)

        @jit
        def ignores(y: Any) -> Any:
            return numpy.cos(x) * 0.5

        @jit
        def takes_none() -> Any:
            return x * x

        @jit
        def constant() -> Any:
            return numpy.sin(1.5)

        @jit
        def differentiates_inside(y: Any) -> Any:
            primal, tangent = ns.jvp(jit(lambda t: numpy.sin(t) * x), (y,), (x,))
            return primal * tangent

        @jit
        def several(y: Any) -> Any:
            return y, (x, 3.0), {"y": y * x}

        first, (second, third), rest = several(x * 0.5)
        return (
            closes_over_x(numpy.cos(x))
            + ignores(x)
            + takes_none() * constant()
            + differentiates_inside(x + 1.0)
            + first * second * third
            + rest["y"]
        )

    return jit(outer)


def no_jit(function: Any) -> Any:
    """In place of ``jit``."""
    return function


@pytest.mark.parametrize("order", [0, 1, 2])
def test_nested_calls_change_nothing(order: int) -> None:
    import jax

    def derivative(ns: Any, jit: Any) -> Any:
        function = stress(ns, jit)
        for _ in range(order):
            function = ns.grad(function)
        return function

    plain = float(derivative(mj, no_jit)(0.75))
    assert float(derivative(mj, mj.jit)(0.75)) == pytest.approx(plain, abs=1e-12)
    assert float(mj.jit(derivative(mj, mj.jit))(0.75)) == pytest.approx(plain, abs=1e-12)
    with jax.enable_x64(True):
        assert float(derivative(jax, jax.jit)(0.75)) == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_nested_calls_change_nothing_forwards(order: int) -> None:
    def derivative(jit: Any) -> Any:
        function = stress(mj, jit)
        for _ in range(order):
            function = tangent_of(function)
        return function

    assert float(derivative(mj.jit)(0.75)) == pytest.approx(float(derivative(no_jit)(0.75)), abs=1e-12)


# --- what grad refuses -------------------------------------------------------------------------------------


def test_grad_of_a_nonscalar_output() -> None:
    with pytest.raises(TypeError, match=r"Gradient only defined for scalar-output functions.*shape.*\(3,\)"):
        mj.grad(jnp.sin)(np.ones(3))


def test_grad_at_an_integer() -> None:
    words = r"grad requires real- or complex-valued inputs \(input dtype that is a sub-dtype of np\.inexact\)"
    with pytest.raises(TypeError, match=words):
        mj.grad(f)(3)


only_minijax = pytest.mark.skipif(mj.__name__ == "jax", reason="JAX stands in for minijax: no such module")

# --- cond ---------------------------------------------------------------------------------------------------


def test_cond_between_constants() -> None:
    assert int(lax.cond(True, lambda: 3, lambda: 4)) == 3


def test_jit_of_cond_between_constants() -> None:
    assert int(mj.jit(lambda: lax.cond(False, lambda: 1, lambda: 2))()) == 2


def test_jvp_of_cond() -> None:
    value, tangent = mj.jvp(lambda x: lax.cond(True, lambda: x * x, lambda: 0.0), (1.0,), (1.0,))
    assert (float(value), float(tangent)) == (1.0, 2.0)


def test_vmap_of_cond() -> None:
    out = mj.vmap(lambda x: lax.cond(True, lambda: x + 1, lambda: 0.0))(np.array([1.0, 2.0, 3.0]))
    assert np.asarray(out).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("jitted", [False, True])
def test_linearize_of_cond(jitted: bool) -> None:
    def function(x: Any) -> Any:
        return lax.cond(True, lambda: x, lambda: 0.0)

    _, linear = mj.linearize(mj.jit(function) if jitted else function, 1.0)
    assert float(linear(3.14)) == 3.14


def test_grad_of_cond() -> None:
    assert float(mj.grad(lambda x: lax.cond(True, lambda: x * x, lambda: 0.0))(1.0)) == 2.0


@pytest.mark.filterwarnings("ignore:invalid value")  # the square root in elements that are not selected
def test_cond_with_a_batched_predicate() -> None:
    """Both branches are run and the result is selected; an element's gradient is that of its branch alone."""
    import jax

    def function(ns: Any) -> Any:
        return lambda x: ns.lax.cond(x > 0.0, lambda x: ns.numpy.sqrt(x) * x, lambda x: ns.numpy.exp(x), x)

    xs = np.array([4.0, -1.0, 0.25, -2.0])
    jaxpr = mj.make_jaxpr(mj.vmap(function(mj)))(xs)
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert "cond" not in names and names[-1] == "select_n"
    with jax.enable_x64(True):
        for transform in (lambda f, ns: f, lambda f, ns: ns.grad(f), lambda f, ns: ns.grad(ns.grad(f))):
            wanted = np.asarray(jax.vmap(transform(function(jax), jax))(xs))
            for wrap in (no_jit, mj.jit):
                np.testing.assert_allclose(
                    np.asarray(wrap(mj.vmap(transform(function(mj), mj)))(xs)), wanted, rtol=1e-14
                )
        summed = lambda ns: ns.grad(lambda x: ns.numpy.sum(ns.vmap(function(ns))(x)))  # noqa: E731
        np.testing.assert_allclose(np.asarray(summed(mj)(xs)), np.asarray(summed(jax)(xs)), rtol=1e-14)


# --- partial evaluation of jaxprs ----------------------------------------------------------------------------


@only_minijax
def test_partial_evaluation_of_a_staged_jvp() -> None:
    """jvp of x -> -sin x, staged, with x known and the tangent unknown: two jaxprs that make up the original."""
    from minijax.interpreters.partial_eval import partial_eval_jaxpr
    from minijax.ir.evaluate import eval_closed
    from minijax.ir.typecheck import jaxpr_type, typecheck_jaxpr

    x, t = np.float64(3.0), np.float64(0.5)
    whole = mj.make_jaxpr(lambda x, t: mj.jvp(lambda y: -jnp.sin(y), (x,), (t,)))(x, t)
    known, unknown, unknown_out, residuals = partial_eval_jaxpr(whole, [False, True])
    assert list(unknown_out) == [False, True] and residuals == 1

    # (x) -> (-sin x, cos x) and (cos x, t) -> (-(cos x * t))
    assert {eqn.primitive.name for eqn in known.eqns} == {"sin", "cos", "neg"}
    assert [eqn.primitive.name for eqn in unknown.eqns] == ["mul", "neg"]
    for closed in (whole, known, unknown):
        typecheck_jaxpr(closed)
    assert jaxpr_type(known) == "(float64[]) -> (float64[], float64[])"
    assert jaxpr_type(unknown) == "(float64[], float64[]) -> (float64[])"

    value, cosine = eval_closed(known, x)
    (tangent,) = eval_closed(unknown, cosine, t)
    assert float(value) == exactly(-np.sin(3.0)) and float(cosine) == exactly(np.cos(3.0))
    assert float(tangent) == exactly(-np.cos(3.0) * 0.5)
    assert [float(out) for out in eval_closed(whole, x, t)] == [float(value), float(tangent)]

    # The two types together are the original's: known and unknown inputs and outputs, less the residuals.
    types = [v.aval for v in known.jaxpr.invars] + [v.aval for v in unknown.jaxpr.invars[residuals:]]
    assert types == whole.in_avals
    outs = [v.aval for v in known.jaxpr.outvars[: len(known.jaxpr.outvars) - residuals]]
    assert outs + [v.aval for v in unknown.jaxpr.outvars] == whole.out_avals


# --- the tutorial's way of printing ------------------------------------------------------------------------


@only_minijax
def test_the_tutorials_style_of_printing() -> None:
    from minijax.ir.pretty import format_jaxpr

    closed = mj.make_jaxpr(lambda x: 2.0 * x)(np.float64(3.0))
    text = format_jaxpr(closed, style="tutorial")
    assert " ".join(text.split()) == "{ lambda a:float64[] . let b:float64[] = mul 2.0 a in ( b ) }"
