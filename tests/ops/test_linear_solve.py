"""``custom_linear_solve`` and ``custom_root`` take any solver and have the derivatives of the exact solution."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.core.trace import stack_depth
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn
from minijax.ir.typecheck import JaxprTypeError, typecheck_jaxpr
from tests.oracle.case import Case, into
from tests.oracle.checks import check_programs, check_values

pytestmark = pytest.mark.usefixtures("compiled_quickly")

A = np.array([[4.0, 1.0], [0.5, 3.0]], np.float32)
B = np.array([1.0, -2.0], np.float32)


@pytest.fixture(autouse=True)
def stack_is_empty() -> Any:
    yield
    assert stack_depth() == 0


def cramer(ns: Any, matvec: Any, b: Any) -> Any:
    """Solve two equations by Cramer's rule; ``matvec`` gives the columns of the matrix."""
    one, two = ns.numpy.array([1.0, 0.0], "float32"), ns.numpy.array([0.0, 1.0], "float32")
    p, q = matvec(one), matvec(two)
    det = p[0] * q[1] - q[0] * p[1]
    return ns.numpy.stack([(b[0] * q[1] - b[1] * q[0]) / det, (p[0] * b[1] - p[1] * b[0]) / det])


def by_diagonal(ns: Any, matvec: Any, b: Any) -> Any:
    """Correct only for diagonal matrices. It needs no array constants, because JAX orders them differently."""
    return b / matvec(ns.numpy.ones_like(b))


CASES: dict[str, Case] = {}
case = into(CASES, scale=4)


def solved(ns: Any, matvec: Any, b: Any, solver: Any = cramer, **options: Any) -> Any:
    solve = functools.partial(solver, ns)
    return ns.lax.custom_linear_solve(matvec, b, solve, None if options else solve, **options)


@case(A, B)
def symmetric(ns: Any, a: Any, b: Any) -> Any:
    s = ns.numpy.dot(a.T, a)
    return solved(ns, lambda x: ns.numpy.dot(s, x), b, by_diagonal, symmetric=True) ** 2


@case(A, B)
def a_constant_matrix(ns: Any, a: Any, b: Any) -> Any:
    return solved(ns, lambda x: ns.numpy.dot(A, x), a[0] * b)


@case(A, B)
def a_constant_right_side(ns: Any, a: Any, b: Any) -> Any:
    return solved(ns, lambda x: ns.numpy.dot(a, x), ns.numpy.ones(2, "float32"), by_diagonal) * b


@case(A, B)
def trees(ns: Any, a: Any, b: Any) -> Any:
    def matvec(x: Any) -> Any:
        y = ns.numpy.dot(a, ns.numpy.stack([x["p"], x["q"][0]]))
        return {"p": y[0], "q": [y[1]]}

    def solve(matvec: Any, b: Any) -> Any:
        p, q = matvec({"p": 1.0, "q": [0.0]}), matvec({"p": 0.0, "q": [1.0]})
        det = p["p"] * q["q"][0] - q["p"] * p["q"][0]
        first = (b["p"] * q["q"][0] - b["q"][0] * q["p"]) / det
        return {"p": first, "q": [(p["p"] * b["q"][0] - p["q"][0] * b["p"]) / det]}

    x = ns.lax.custom_linear_solve(matvec, {"p": b[0], "q": [b[1] * b[0]]}, solve, solve)
    return x["p"] * x["q"][0]


@case(A, B, second=False)
def a_loop_and_auxiliary_output(ns: Any, a: Any, b: Any) -> Any:
    """The length of the loop depends on the data, so the program has no reverse mode."""

    def solve(matvec: Any, b: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + (b - matvec(state[0])) / 3.5, state[1] + 1

        return ns.lax.while_loop(
            lambda state: (abs(matvec(state[0]) - b).sum() > 1e-6) & (state[1] < 60), step, (b * 0.0, 0)
        )

    x, steps = ns.lax.custom_linear_solve(lambda x: ns.numpy.dot(a, x), b, solve, solve, has_aux=True)
    return (x * x).sum() * (steps > 0)


@case(A, B)
def in_scan_of_checkpoint(ns: Any, a: Any, b: Any) -> Any:
    step = ns.checkpoint(lambda x: solved(ns, lambda y: ns.numpy.dot(a, y), ns.numpy.sin(x), by_diagonal))
    return ns.lax.scan(lambda x, _: (step(x), None), b, None, length=2)[0]


@case(np.float32([2.0, 8.0, 0.5]), second=False)
def cube_roots(ns: Any, a: Any) -> Any:
    x = ns.lax.custom_root(
        lambda x: x * x * x - a, ns.numpy.ones_like(a), functools.partial(newton, ns),
        lambda g, y: y / g(ns.numpy.ones_like(y)),
    )  # fmt: skip
    return (x * a).sum()


def newton(ns: Any, f: Any, x: Any) -> Any:
    """Newton's method, elementwise, in a loop."""

    def step(x: Any) -> Any:
        value, slope = ns.jvp(f, (x,), (ns.numpy.ones_like(x),))
        return x - value / slope

    return ns.lax.while_loop(lambda x: (abs(f(x)) > 1e-5).any(), step, x)


@pytest.mark.parametrize("name", CASES)
def test_values_match_jax(name: str) -> None:
    check_values(CASES[name])


# JAX orders array constants differently among the operands, so this case is left out
@pytest.mark.parametrize("name", sorted(CASES.keys() - {"a_constant_matrix"}))
def test_programs_match_jax(name: str) -> None:
    """The programs of a mapped gradient mean the same, but JAX's shares the common code of both solves."""
    check_programs(CASES[name], other=("vmap_of_grad",))


def diagonal_solve(ns: Any) -> Any:
    def f(a: Any, b: Any) -> Any:
        solve = lambda matvec, y: y / matvec(ns.numpy.ones_like(y))  # noqa: E731
        return ns.lax.custom_linear_solve(lambda x: a * x, b, solve, solve)

    return f


def test_programs_print_as_in_jax() -> None:
    batch = np.ones((3, 2), np.float32)
    for wrap, b in ((lambda ns, f: f, B), (lambda ns, f: ns.vmap(f, in_axes=(None, 0)), batch)):
        found, expected = (str(ns.make_jaxpr(wrap(ns, diagonal_solve(ns)))(B, b)) for ns in (minijax, jax))
        assert found == expected
        assert "const_lengths=_LinearSolveTuple(matvec=1, vecmat=1, solve=1, transpose_solve=1)" in found


def test_complex_equations_are_transposed_not_conjugated() -> None:
    def program(ns: Any) -> Any:
        a = np.array([1.0 + 2.0j, 3.0 - 1.0j], np.complex64)
        solve = lambda matvec, y: y / matvec(ns.numpy.ones_like(y))  # noqa: E731
        f = lambda b: ns.lax.custom_linear_solve(lambda x: a * x, b, solve, solve)  # noqa: E731
        return ns.vjp(f, B.astype(np.complex64))[1](a)[0]

    np.testing.assert_allclose(program(minijax), program(jax), rtol=1e-6)


def test_scalars_and_integers_are_solved() -> None:
    def halved(ns: Any, b: Any) -> Any:
        return ns.lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda f, y: y / 2.0)

    for b in (3.0, np.float32(3.0)):
        found, expected = (str(ns.make_jaxpr(functools.partial(halved, ns))(b).out_avals) for ns in (minijax, jax))
        assert found.replace(", weak_type=True", "") == expected.replace(", weak_type=True", "")
        assert float(minijax.jit(functools.partial(halved, minijax))(b)) == 1.5
    assert float(halved(minijax, 3)) == 1.5


def test_the_auxiliary_output_has_no_derivative() -> None:
    def f(b: Any) -> Any:
        solve = lambda matvec, y: (y / 2.0, {"first": y[0], "count": 7})  # noqa: E731
        return minijax.lax.custom_linear_solve(lambda x: 2.0 * x, b, solve, has_aux=True)

    (x, aux), (dx, daux) = minijax.jvp(f, (B,), (B,))
    np.testing.assert_allclose(dx, B / 2)
    assert (float(aux["first"]), int(aux["count"])) == (1.0, 7)
    assert float(daux["first"]) == 0.0 and daux["count"].dtype == minijax.dtypes.float0
    batched, more = minijax.vmap(f)(np.stack([B, B]))
    assert (batched.shape, more["first"].shape, more["count"].shape) == ((2, 2), (2,), (2,))


def test_typecheck_refuses_operands_that_do_not_fit() -> None:
    closed = minijax.make_jaxpr(diagonal_solve(minijax))(B, B)
    (eqn,) = closed.eqns
    typecheck_jaxpr(closed)
    swapped = JaxprEqn(eqn.primitive, eqn.invars[:-1] + [closed.jaxpr.invars[0]], dict(eqn.params), eqn.outvars)
    typecheck_jaxpr(ClosedJaxpr(closed.jaxpr.replace(eqns=[swapped])))
    fewer = JaxprEqn(eqn.primitive, eqn.invars[:-1], dict(eqn.params), eqn.outvars)
    with pytest.raises(JaxprTypeError, match="the jaxpr of matvec expects"):
        typecheck_jaxpr(ClosedJaxpr(closed.jaxpr.replace(eqns=[fewer])))


def test_a_root_may_have_trees_and_auxiliary_output() -> None:
    def root(a: Any) -> Any:
        def f(x: Any) -> Any:
            return {"p": x["p"] - a, "q": x["q"] * 2.0 - x["p"] * a}

        def solve(f: Any, x: Any) -> Any:
            p = x["p"] - f(x)["p"]
            return {"p": p, "q": x["q"] - f({"p": p, "q": x["q"]})["q"] / 2.0}, {"steps": 1, "where": x["p"]}

        def tangent_solve(g: Any, y: Any) -> Any:
            p = y["p"]
            return {"p": p, "q": (y["q"] - g({"p": p, "q": 0.0})["q"]) / 2.0}

        return minijax.lax.custom_root(f, {"p": 1.0, "q": 1.0}, solve, tangent_solve, has_aux=True)

    x, aux = root(3.0)
    assert (float(x["p"]), float(x["q"]), int(aux["steps"])) == (3.0, 4.5, 1)
    (_, _), (dx, daux) = minijax.jvp(root, (3.0,), (1.0,))
    assert (float(dx["p"]), float(dx["q"]), float(daux["where"])) == (1.0, 3.0, 0.0)
    assert daux["steps"].dtype == minijax.dtypes.float0
