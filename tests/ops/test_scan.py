"""``scan`` matches JAX in programs that ``tests.oracle.control_flow`` lacks, and keeps few residuals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import minijax
import minijax.numpy as jnp
from minijax.core import observe
from minijax.core.trace import stack_depth
from minijax.errors import JaxprTypeError
from minijax.interpreters.partial_eval import dce_jaxpr
from minijax.ir.evaluate import eval_jaxpr
from minijax.ir.typecheck import typecheck_jaxpr
from tests.oracle.case import Case, floats
from tests.oracle.checks import check_programs, check_values

pytestmark = pytest.mark.usefixtures("compiled_quickly")

N = 5


def invariant(ns: Any, w: Any, xs: Any) -> Any:
    """Part of the step is loop-invariant, so the residuals of that part need not be stacked."""

    def cell(c: Any, x: Any) -> Any:
        scale = ns.numpy.sin(w) * 2.0
        return c * scale + x, ns.numpy.exp(scale) * c

    return ns.lax.scan(cell, w, xs)


def swapping(ns: Any, a: Any, b: Any, xs: Any) -> Any:
    """Two carried values swap at each step, so the rules need several iterations to find all active carries."""

    def cell(carry: Any, x: Any) -> Any:
        a, b, fixed = carry
        return (b, ns.numpy.sin(a) * x, fixed), a * fixed

    return ns.lax.scan(cell, (a, b, a), xs)


def only_late(ns: Any, x: Any, xs: Any) -> Any:
    """The initial carry is a constant; the carry becomes active only in the body."""
    return ns.lax.scan(lambda c, y: (c * 0.5 + x * y, None), 0.0, xs)[0]


def unrolled_backwards(ns: Any, c: Any, xs: Any) -> Any:
    return ns.lax.scan(lambda c, x: (ns.numpy.cos(c) * x, c * x), c, xs, unroll=2, reverse=True)


X = floats(N)
ROWS = (
    Case("invariant", invariant, (floats(), X)),
    Case("swapping", swapping, (floats(), floats(), X)),
    Case("only late", only_late, (floats(), X)),
    Case("unrolled backwards", unrolled_backwards, (floats(), X)),
)
CASES = {case.name: case for case in ROWS}


@pytest.fixture(autouse=True)
def clean_stack() -> Any:
    yield
    assert stack_depth() == 0


@pytest.mark.parametrize("name", CASES)
def test_programs_match_jax(name: str) -> None:
    check_programs(CASES[name], other=("grad_of_grad",) if name == "invariant" else ())


@pytest.mark.parametrize("name", CASES)
def test_values_match_jax(name: str) -> None:
    check_values(CASES[name])


# ---------------------------------------------------------------------------------------------- against a Python loop


def python_scan(f: Callable[..., Any], init: Any, xs: Any, reverse: bool) -> Any:
    """The definition of a scan as a Python loop."""
    carry, ys = init, []
    order = range(xs.shape[0])
    for i in reversed(order) if reverse else order:
        carry, y = f(carry, xs[i])
        ys.append(y)
    return carry, jnp.stack(ys[::-1] if reverse else ys)


UNARY = (jnp.sin, jnp.tanh, lambda x: x * 0.5, lambda x: x, lambda x: jnp.zeros_like(x), jnp.round)


@st.composite
def bodies(draw: Any) -> Any:
    """A random body ``(w, (a, b), x) -> ((a', b'), y)``. Each of the results is an expression of some inputs."""

    def expression() -> Callable[..., Any]:
        left, right, inner = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, len(UNARY) - 1))
        times = draw(st.booleans())

        def value(*inputs: Any) -> Any:
            a, b = UNARY[inner](inputs[left]), inputs[right]
            return a * b if times else a - b

        return value

    new_a, new_b, y = expression(), expression(), expression()
    return lambda w: lambda c, x: ((new_a(w, *c, x), new_b(w, *c, x)), y(w, *c, x))


@given(bodies(), st.booleans())
@hypothesis.settings(max_examples=40)
def test_any_scan_equals_a_python_loop(body: Any, reverse: bool) -> None:
    """Values, tangents and cotangents, single and batched, equal those of a Python loop. XLA does not run."""

    def by_scan(w: Any, c: Any, xs: Any) -> Any:
        return minijax.lax.scan(body(w), c, xs, reverse=reverse)

    def by_loop(w: Any, c: Any, xs: Any) -> Any:
        return python_scan(body(w), c, xs, reverse)

    def total(f: Any) -> Any:
        def sum_of_all(w: Any, c: Any, xs: Any) -> Any:
            (a, b), ys = f(w, c, xs)
            return a + 2.0 * b + jnp.sum(ys * jnp.arange(1.0, 4.0))

        return sum_of_all

    args = tuple(map(jnp.asarray, (np.float32(0.7),))) + (
        (jnp.float32(0.3), jnp.float32(-1.1)),
        jnp.asarray(floats(3, dtype=np.float32)),
    )
    many = (args[0], (jnp.asarray(floats(2, dtype=np.float32)), args[1][1]), args[2])
    axes = (None, (0, None), None)
    for of in (
        lambda f: f(*args),
        lambda f: minijax.jvp(f, args, args),
        lambda f: minijax.grad(total(f), (0, 1, 2))(*args),
        lambda f: minijax.vmap(minijax.grad(total(f), (0, 1, 2)), axes)(*many),
        lambda f: minijax.jvp(minijax.grad(total(f)), args, args),
    ):
        ours, loop = minijax.tree_util.tree_leaves(of(by_scan)), minijax.tree_util.tree_leaves(of(by_loop))
        for a, b in zip(ours, loop, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    typecheck_jaxpr(minijax.make_jaxpr(minijax.vmap(minijax.grad(total(by_scan), (0, 1, 2)), axes))(*many))


# ------------------------------------------------------------------------------------------ residuals and compilation


def scans(closed: Any) -> list[Any]:
    return [eqn for eqn in closed.eqns if eqn.primitive.name == "scan"]


def test_loop_invariant_residuals_are_not_stacked() -> None:
    """Residuals that are loop-invariant are computed once; slices of xs are not copied; carried values are stacked."""

    def loss(w: Any, xs: Any) -> Any:
        return minijax.lax.scan(lambda c, x: (jnp.sin(w) * c * x, None), 1.0, xs)[0]

    closed = minijax.make_jaxpr(minijax.grad(loss))(0.5, X)
    forward, backward = scans(closed)
    assert [eqn.primitive.name for eqn in closed.eqns if eqn.outvars[0].aval.shape == ()][:2] == ["sin", "cos"]
    assert all(eqn.primitive.name in ("mul", "convert_element_type") for eqn in forward.params["jaxpr"].eqns)
    stacked = [v for v in forward.outvars if v.aval.shape == (N,)]
    assert len(stacked) <= 2, f"{len(stacked)} values are kept for each step"
    assert closed.jaxpr.invars[1] in backward.invars


def test_unused_results_and_carried_values_are_pruned() -> None:
    def f(x: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            a, b, c = carry
            return (a + x, b + a, c * jnp.sin(c)), (jnp.cos(x), a)

        return minijax.lax.scan(cell, (0.0, 0.0, 2.0), x)

    closed = minijax.make_jaxpr(lambda x: f(x))(X)
    pruned, used = dce_jaxpr(closed.jaxpr, [False, True, False, False, False])
    typecheck_jaxpr(pruned)
    (eqn,) = [e for e in pruned.eqns if e.primitive.name == "scan"]
    assert used == [True] and eqn.params["num_carry"] == 2 and len(eqn.outvars) == 2
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns if e.primitive.name in ("sin", "cos")] == []
    np.testing.assert_allclose(eval_jaxpr(pruned, closed.consts, jnp.asarray(X))[0], f(X)[0][1], rtol=1e-5)


def test_a_loop_that_is_linear_in_part_is_transposed() -> None:
    """The transposed program first runs the counter forwards, then the linear part backwards."""

    def f(x: Any) -> Any:
        def cell(carry: Any, _: Any) -> Any:
            i, c = carry
            return (i + 1, c * 2.0 * i.astype(jnp.float32)), c

        return minijax.lax.scan(cell, (1, x), None, length=4)[1]

    for g in (f, minijax.jit(f)):
        (ct,) = minijax.linear_transpose(g, jnp.float32(0.0))(jnp.ones(4))
        assert float(ct) == 1 + 2 + 8 + 48


def test_loop_invariant_values_are_forwarded() -> None:
    """A carry that never changes becomes a constant operand, and a result that equals an input is forwarded."""
    closed = minijax.make_jaxpr(
        lambda w, xs: minijax.lax.scan(lambda c, x: ((c[0] + x, c[1]), (x, c[1])), (0.0, w), xs)
    )(1.0, X)
    (eqn,) = scans(closed)
    assert eqn.params["num_consts"] == 1 and eqn.params["num_carry"] == 1
    assert closed.jaxpr.outvars[2] is closed.jaxpr.invars[1] and closed.jaxpr.outvars[1] is closed.jaxpr.invars[0]
    typecheck_jaxpr(closed)


def test_a_long_scan_is_interpreted_once_then_compiled() -> None:
    compiled: list[str] = []

    def listen(name: str, executable: Any) -> None:
        compiled.append(name)

    def cell(c: Any, x: Any) -> Any:
        return jnp.sin(c) * x, c + x

    def short(c: Any, x: Any) -> Any:
        return c + x, c

    observe.on_compiled.append(listen)
    try:
        xs = jnp.asarray(floats(1000, dtype=np.float32))
        first = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == []
        second = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == ["scan"]
        third = minijax.lax.scan(cell, 0.5, xs)
        assert compiled == ["scan"]
        for _ in range(20):
            minijax.lax.scan(short, 0.0, X)
        assert compiled == ["scan"], "compiling a short loop costs more than running it"
        minijax.lax.scan(short, 0.0, jnp.zeros(100_000))
        assert compiled == ["scan"] * 2, "interpreting a long loop costs more than compiling it"
    finally:
        observe.on_compiled.remove(listen)
    for again in (second, third):
        np.testing.assert_allclose(first[1], again[1], rtol=1e-4, atol=1e-5)
    assert first[0].aval is second[0].aval and first[1].aval is second[1].aval


def test_a_body_is_staged_once() -> None:
    calls: list[Any] = []

    def cell(c: Any, x: Any) -> Any:
        calls.append(x)
        return c + x, c

    for _ in range(3):
        minijax.lax.scan(cell, 0.0, X)
    assert len(calls) == 1
    minijax.lax.scan(cell, 0.0, X[:2])
    assert len(calls) == 1, "the length is no part of the body"
    minijax.lax.scan(cell, np.zeros(2), np.zeros((3, 2)))
    assert len(calls) == 2


def test_without_jit_the_body_runs_in_python() -> None:
    seen: list[float] = []

    def cell(c: Any, x: Any) -> Any:
        seen.append(float(x))
        return c + x, {"y": c * x}

    with minijax.disable_jit():
        carry, ys = minijax.lax.scan(cell, 0.0, jnp.arange(3.0), reverse=True)
        assert seen == [2.0, 1.0, 0.0] and float(carry) == 3.0
        np.testing.assert_allclose(ys["y"], [0.0, 2.0, 0.0])
        with pytest.raises(ValueError, match="zero-length scan is not supported in disable_jit"):
            minijax.lax.scan(cell, 0.0, jnp.zeros(0))


def test_extended_dtypes_work_and_overflow_does_not_warn() -> None:
    """Where NumPy would warn, minijax silently returns inf or wraps around, as on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        carry, ys = minijax.lax.scan(lambda c, x: (c * x, c), jnp.bfloat16(1.5), jnp.full(3, 2, jnp.bfloat16))
        assert carry.dtype == jnp.bfloat16 and float(carry) == 12.0 and ys.dtype == jnp.bfloat16
        carry, _ = minijax.lax.scan(lambda c, _: (c * np.int8(100), None), jnp.int8(3), None, length=2)
        assert int(carry) == np.int32(30000).astype(np.int8)
        carry, _ = minijax.lax.scan(lambda c, _: (jnp.exp(c), None), 10.0, None, length=5)
        assert float(carry) == np.inf


def test_values_do_not_alias_writable_numpy_arrays() -> None:
    xs = np.arange(3.0, dtype=np.float32)
    carry, ys = minijax.lax.scan(lambda c, x: (x, x), np.zeros((), np.float32), xs)
    xs[:] = 7.0
    assert float(carry) == 2.0 and list(map(float, ys)) == [0.0, 1.0, 2.0]


# ---------------------------------------------------------------------------------------------- errors


def test_the_typechecker_refuses_broken_scans() -> None:
    closed = minijax.make_jaxpr(lambda c, xs: minijax.lax.scan(lambda c, x: (c * x, c), c, xs))(np.float32(1), X)
    typecheck_jaxpr(closed)
    (eqn,) = closed.eqns

    def broken(**changes: Any) -> Any:
        params = {**eqn.params, **changes.pop("params", {})}
        return closed.jaxpr.replace(eqns=[eqn.replace(params=params, **changes)])

    for jaxpr, words in (
        (broken(params={"length": 4}), "scan of length 4 over sequences of types"),
        (broken(params={"num_carry": -1}), "scan param num_carry must be a non-negative int"),
        (broken(params={"num_carry": 0, "num_consts": 1}), "takes slices of types|inconsistently typed"),
        (broken(invars=eqn.invars[::-1]), "scan of length 5 over sequences|takes a carry of types"),
    ):
        with pytest.raises(JaxprTypeError, match=words):
            typecheck_jaxpr(jaxpr)
