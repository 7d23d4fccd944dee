"""The figures of the published tutorial on JAX's core ("Autodidax"): small functions, in 64-bit mode."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
jnp = importlib.import_module(mj.__name__ + ".numpy")
lax = importlib.import_module(mj.__name__ + ".lax")

F3 = 2.7177599838802657
DF3 = 2.979984993200891
DDF3 = 0.2822400161197344
COS3 = -0.9899924966004454
SIN3 = 0.1411200080598672


@pytest.fixture(autouse=True)
def wide_mode() -> Iterator[None]:
    with mj.enable_x64(True):
        yield


def f(x: Any) -> Any:
    """-(2 sin x) + x."""
    return -(jnp.sin(x) * 2.0) + x


def exactly(value: Any) -> Any:
    """Equal to all 16 printed digits: the last bit or two may depend on the processor's sine."""
    return pytest.approx(value, rel=5e-16, abs=5e-17)


def derivative(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The derivative of a scalar function, forwards."""
    return lambda x: mj.jvp(function, (x,), (1.0,))[1]


def nested(times: int, transform: Callable[[Any], Any], function: Any) -> Any:
    for _ in range(times):
        function = transform(function)
    return function


def doubled_if_positive(x: Any) -> Any:
    if x > 0:
        return 2.0 * x
    return x


def linearized(function: Callable[..., Any], at: float, tangent: float = 1.0) -> tuple[Any, Any]:
    value, linear = mj.linearize(function, at)
    return value, linear(tangent)


def nested_jits() -> Any:
    inner = mj.jit(lambda x, y: jnp.cos(x) + y)
    return mj.jit(lambda x: inner(x, 2.0 * jnp.sin(x)))


def gradient_of_nested_jits() -> Any:
    inner = mj.jit(lambda y: 2.0 * jnp.cos(y))
    return mj.grad(mj.jit(lambda x: inner(2.0 * x)))


def chosen(x: Any) -> Any:
    return lax.cond(True, lambda: x * x, lambda: 0.0)


# A name -> a computation, and its value.
FIGURES: dict[str, tuple[Callable[[], Any], Any]] = {
    "value": (lambda: f(3.0), F3),
    "jvp": (lambda: mj.jvp(f, (3.0,), (1.0,)), (F3, DF3)),
    "derivatives of sine": (lambda: [nested(k, derivative, jnp.sin)(3.0) for k in range(1, 5)],
                            [COS3, -SIN3, -COS3, SIN3]),
    "a Python branch follows the primal": (
        lambda: [g(doubled_if_positive)(x) for g in (mj.grad, derivative) for x in (3.0, -3.0)], [2.0, 1.0, 2.0, 1.0],
    ),
    "jvp of a tree": (
        lambda: mj.jvp(lambda x: {"hi": f(x), "there": [x, 2.0 * jnp.sin(x)]}, (3.0,), (1.0,)),
        ({"hi": F3, "there": [3.0, DDF3]}, {"hi": DF3, "there": [1.0, 2 * COS3]}),
    ),
    "jit of a reduction": (lambda: mj.jit(lambda x: jnp.sum(x, axis=0))(np.array([1.0, 2.0, 3.0])), 6.0),
    "linearize": (lambda: linearized(jnp.sin, 3.0), (SIN3, COS3)),
    "linearize jit": (lambda: linearized(mj.jit(f), 3.0), (F3, DF3)),
    "linearize nested jits": (lambda: linearized(nested_jits(), 3.0), (-0.7077524804807109, -2.121105001260758)),
    "vjp": (lambda: mj.vjp(jnp.sin, 3.0)[1](np.float64(1.0)), (COS3,)),
    "grad of nested jits": (lambda: gradient_of_nested_jits()(3.0), 1.1176619927957034),
    "cond": (lambda: lax.cond(True, lambda: 3, lambda: 4), 3),
    "jit of cond": (lambda: mj.jit(lambda: lax.cond(False, lambda: 1, lambda: 2))(), 2),
    "jvp of cond": (lambda: mj.jvp(chosen, (1.0,), (1.0,)), (1.0, 2.0)),
    "grad of cond": (lambda: mj.grad(chosen)(1.0), 2.0),
    "linearize cond": (lambda: linearized(lambda x: lax.cond(True, lambda: x, lambda: 0.0), 1.0, 3.14), (1.0, 3.14)),
    # Ways to the same derivative, with jit at every place.
    "value with jit": (lambda: [g(3.0) for g in (mj.jit(f), lambda x: mj.jvp(mj.jit(f), (x,), (1.0,))[0])], [F3] * 2),
    "derivative": (
        lambda: [
            g(3.0) for g in (mj.grad(f), mj.grad(mj.jit(f)), mj.jit(mj.grad(mj.jit(f))), derivative(mj.jit(f)))
        ],
        [DF3] * 4,
    ),
    "second derivative": (
        lambda: [
            g(3.0)
            for g in (
                mj.grad(mj.grad(f)), mj.grad(mj.grad(mj.jit(f))), mj.grad(mj.jit(mj.grad(f))),
                mj.jit(mj.grad(mj.grad(f))), derivative(mj.grad(f)), derivative(mj.jit(mj.grad(f))),
                derivative(mj.grad(mj.jit(f))), nested(2, derivative, f), mj.jit(nested(2, derivative, f)),
            )
        ],
        [DDF3] * 9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure(name: str) -> None:
    compute, expected = FIGURES[name]
    tolerance = (lambda x: pytest.approx(x, abs=1e-12)) if "derivative" in name else exactly
    leaves, tree = mj.tree_util.tree_flatten(compute())
    wanted, wanted_tree = mj.tree_util.tree_flatten(expected)
    assert tree == wanted_tree
    assert list(map(float, leaves)) == tolerance(wanted)


def test_vmap() -> None:
    def add_one_to_a_scalar(s: Any) -> Any:
        assert np.ndim(s) == 0
        return 1.0 + s

    xs = np.arange(3.0)
    np.testing.assert_array_equal(mj.vmap(add_one_to_a_scalar)(xs), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(mj.jacfwd(jnp.sin)(xs), np.diag([1.0, 0.54030231, -0.41614684]), atol=5e-9)
    np.testing.assert_allclose(mj.vmap(mj.jit(f))(xs), [0.0, -0.68294197, 0.18140515], atol=5e-9)
    np.testing.assert_array_equal(mj.vmap(lambda x: lax.cond(True, lambda: x + 1, lambda: 0.0))(xs), xs + 1)


def test_jit_traces_once_for_each_signature() -> None:
    runs: list[int] = []

    @mj.jit
    def jitted(x: Any, y: Any) -> Any:
        runs.append(1)
        return jnp.sin(x) * jnp.cos(y)

    assert float(jitted(3.0, 4.0)) == exactly(-0.09224219304455371)
    assert float(jitted(4.0, 5.0)) == exactly(-0.21467624978306993) and len(runs) == 1
    assert jitted(np.float32(3.0), np.float32(4.0)).dtype == np.float32 and len(runs) == 2
    assert jitted(np.ones(2), np.ones(2)).shape == (2,) and len(runs) == 3
    for _ in range(2):
        mj.jvp(lambda x: jitted(x, 1.0), (3.0,), (1.0,))
    assert len(runs) == 3


def test_what_is_staged() -> None:
    closed = mj.make_jaxpr(lambda x: 2.0 * x)(np.float64(3.0))
    assert str(closed) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0:f64[] a in (b,) }"
    assert closed.jaxpr.constvars == [] and closed.jaxpr.eqns[0].invars[0].val == 2.0
    # A function without arguments is staged, not folded.
    assert [eqn.primitive.name for eqn in mj.make_jaxpr(lambda: lax.mul(2.0, 2.0))().jaxpr.eqns] == ["mul"]


def stress(ns: Any, jit: Any) -> Any:
    """A scalar function built of jitted functions that close over tracers, ignore arguments or take none."""
    numpy = ns.numpy

    def outer(x: Any) -> Any:
        @jit
        def closes_over_x(y: Any) -> Any:
            closes_over_both = jit(lambda z: numpy.sin(z) * x + y)
            return closes_over_both(y * 2.0) + closes_over_both(x)

        @jit
        def differentiates_inside(y: Any) -> Any:
            primal, tangent = ns.jvp(jit(lambda t: numpy.sin(t) * x), (y,), (x,))
            return primal * tangent

        ignores = jit(lambda y: numpy.cos(x) * 0.5)
        takes_none = jit(lambda: x * x)
        constant = jit(lambda: numpy.sin(1.5))
        several = jit(lambda y: (y, (x, 3.0), {"y": y * x}))
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
    return function


@pytest.mark.parametrize("order", [0, 1, 2])
def test_nested_calls_change_nothing(order: int) -> None:
    import jax

    plain = float(nested(order, mj.grad, stress(mj, no_jit))(0.75))
    found = [
        nested(order, mj.grad, stress(mj, mj.jit)),
        mj.jit(nested(order, mj.grad, stress(mj, mj.jit))),
        nested(order, derivative, stress(mj, mj.jit)),
        nested(order, derivative, stress(mj, no_jit)),
    ]
    assert [float(each(0.75)) for each in found] == pytest.approx([plain] * 4, abs=1e-12)
    with jax.enable_x64(True):
        assert float(nested(order, jax.grad, stress(jax, jax.jit))(0.75)) == pytest.approx(plain, abs=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")  # the square root in elements that are not selected
def test_cond_with_a_batched_predicate() -> None:
    """Both branches run and the result is selected; an element's gradient is that of its branch alone."""
    import jax

    def function(ns: Any) -> Any:
        return lambda x: ns.lax.cond(x > 0.0, lambda x: ns.numpy.sqrt(x) * x, lambda x: ns.numpy.exp(x), x)

    xs = np.array([4.0, -1.0, 0.25, -2.0])
    names = [eqn.primitive.name for eqn in mj.make_jaxpr(mj.vmap(function(mj)))(xs).eqns]
    assert "cond" not in names and names[-1] == "select_n"
    with jax.enable_x64(True):
        for order in range(3):
            wanted = jax.vmap(nested(order, jax.grad, function(jax)))(xs)
            found = mj.vmap(nested(order, mj.grad, function(mj)))
            for each in (found, mj.jit(found)):
                np.testing.assert_allclose(np.asarray(each(xs)), np.asarray(wanted), rtol=1e-14)


@pytest.mark.skipif(mj.__name__ == "jax", reason="JAX stands in for minijax: no such module")
def test_partial_evaluation_of_a_staged_jvp() -> None:
    """jvp of x -> -sin x, staged, with x known and the tangent unknown: two jaxprs that make up the original."""
    from minijax.interpreters.partial_eval import partial_eval_jaxpr
    from minijax.ir.evaluate import eval_closed
    from minijax.ir.typecheck import typecheck_jaxpr

    x, t = np.float64(3.0), np.float64(0.5)
    whole = mj.make_jaxpr(lambda x, t: mj.jvp(lambda y: -jnp.sin(y), (x,), (t,)))(x, t)
    known, unknown, unknown_out, residuals = partial_eval_jaxpr(whole, [False, True])
    assert list(unknown_out) == [False, True] and residuals == 1
    # (x) -> (-sin x, cos x) and (cos x, t) -> (-(cos x * t))
    assert {eqn.primitive.name for eqn in known.eqns} == {"sin", "cos", "neg"}
    assert [eqn.primitive.name for eqn in unknown.eqns] == ["mul", "neg"]
    for closed in (known, unknown):
        typecheck_jaxpr(closed)
    assert [len(known.in_avals), len(known.out_avals), len(unknown.in_avals), len(unknown.out_avals)] == [1, 2, 2, 1]
    value, cosine = eval_closed(known, x)
    assert [float(out) for out in eval_closed(whole, x, t)] == [float(value), float(*eval_closed(unknown, cosine, t))]
