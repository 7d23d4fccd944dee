"""``custom_jvp``, ``custom_vjp`` and their helpers have JAX's values and jaxprs, and
properties that only minijax has (closures under vmap, memory, observed rules).

Most rules here are wrong by a factor on purpose, so a test fails if a rule is not used.
"""

from __future__ import annotations

import functools
import gc
import importlib
import re
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.custom_derivatives
import numpy as np
import pytest

import minijax
from minijax import errors
from minijax.core import observe
from minijax.core.trace import stack_depth
from minijax.ir.jaxpr import subjaxprs
from minijax.ir.typecheck import typecheck_jaxpr
from tests.oracle.case import Case
from tests.oracle.checks import check_programs, check_values

pytestmark = pytest.mark.usefixtures("compiled_quickly")

ONE = np.float32(1.25)
SCALAR = np.array(ONE)
VECTOR = np.array([0.5, -1.5, 2.5], np.float32)


@pytest.fixture(autouse=True)
def nothing_left_on_the_stack() -> Any:
    yield
    assert stack_depth() == 0


def rules(ns: Any) -> Any:
    """The module ``custom_derivatives`` of the library ``ns``."""
    return importlib.import_module(f"{ns.__name__}.custom_derivatives")


# --- functions -----------------------------------------------------------------------------------------------------


def sine_jvp(ns: Any, factor: float = 2.0) -> Callable[..., Any]:
    jnp = ns.numpy

    @ns.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), jnp.cos(x) * dx * y * factor + jnp.sin(x) * dy * factor**2

    return f


def sine_vjp(ns: Any, factor: float = 2.0, call_itself: bool = False) -> Callable[..., Any]:
    """With ``call_itself``, the forward pass of ``h`` calls ``h``."""
    jnp = ns.numpy

    @ns.custom_vjp
    def h(x, y):
        return jnp.sin(x) * y

    def h_fwd(x, y):
        return h(x, y) if call_itself else jnp.sin(x) * y, {"of x": (jnp.cos(x), jnp.sin(x)), "y": y, "nothing": None}

    def h_bwd(residuals, g):
        cos_x, sin_x = residuals["of x"]
        return cos_x * g * residuals["y"] * factor, sin_x * g * factor**2

    h.defvjp(h_fwd, h_bwd)
    return h


def scaled_jvp(ns: Any, y: Any) -> Callable[..., Any]:
    @ns.custom_jvp
    def g(x):
        return x * y

    g.defjvps(lambda t, ans, x: 3 * t * y)
    return g


def scaled_vjp(ns: Any, y: Any) -> Callable[..., Any]:
    @ns.custom_vjp
    def g(x):
        return x * y

    g.defvjp(lambda x: (x * y, (y,)), lambda residuals, ct: (3 * ct * residuals[0],))
    return g


def of_tree(ns: Any) -> Callable[..., Any]:
    """Arguments and results are trees. ``n`` has a float0 tangent; ``bias`` has a default, and no derivative."""
    jnp = ns.numpy

    @ns.custom_jvp
    def f(tree, n, bias=2.0):
        return {"a": tree["w"] * n + bias, "b": (jnp.sin(tree["v"]), n)}

    @f.defjvp
    def f_jvp(primals, tangents):
        tree, n, bias = primals
        dtree, dn, _ = tangents
        assert dn.dtype == ns.dtypes.float0
        return f(*primals), {"a": dtree["w"] * n * 2, "b": (jnp.cos(tree["v"]) * dtree["v"] * 3, dn)}

    def fun(x):
        out = f({"w": x, "v": x + 1}, 3)
        return (out["a"] * out["b"][0]).sum()

    return fun


def symbolic(ns: Any) -> Callable[..., Any]:
    cd = rules(ns)

    @ns.custom_jvp
    def f(x, y):
        return x * y, y

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        assert type(dy) is cd.SymbolicZero and dy.shape == () and dy.dtype == np.float32
        return f(x, y), (dx * y * 5, cd.zero_from_primal(y, symbolic_zeros=True))

    return lambda x: sum(part.sum() for part in f(x, 2.0)[:1])


def symbolic_vjp(ns: Any) -> Callable[..., Any]:
    cd = rules(ns)

    @ns.custom_vjp
    def f(x, y):
        return x * y, x

    def fwd(x, y):
        assert isinstance(x, cd.CustomVJPPrimal) and x.perturbed and not y.perturbed
        x, y = cd.custom_vjp_primal_tree_values((x, y))
        return (x * y, x), y

    def bwd(y, cts):
        assert type(cts[1]) is cd.SymbolicZero
        return cts[0] * y * 5, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return lambda x: f(x, 2.0)[0].sum()


def with_function(ns: Any) -> Callable[..., Any]:
    @functools.partial(ns.custom_jvp, nondiff_argnums=(0,))
    def apply(fun, x):
        return fun(x)

    @apply.defjvp
    def apply_jvp(fun, primals, tangents):
        return apply(fun, *primals), 2 * tangents[0] * primals[0]

    return lambda x: apply(ns.numpy.sin, x).sum()


def vjp_with_function(ns: Any) -> Callable[..., Any]:
    @functools.partial(ns.custom_vjp, nondiff_argnames=("fun",))
    def apply(x, fun):
        return fun(x)

    apply.defvjp(lambda x, fun: (fun(x), x), lambda fun, x, ct: (ct * fun(x) * 2,))
    return lambda x: apply(x, ns.numpy.sin).sum()


def gradient_of(ns: Any) -> Callable[..., Any]:
    @ns.custom_gradient
    def f(x, y):
        s = ns.numpy.sin(x)
        return s * y, lambda g: (g * s * 7, (g * x).sum())

    return lambda x: f(x, 2.0).sum()


def converted(ns: Any) -> Callable[..., Any]:
    """A higher-order function with a rule, applied to a function that closes over a differentiated value."""

    @functools.partial(ns.custom_vjp, nondiff_argnums=(0,))
    def run(fun, x, *args):
        return fun(x, *args) * 2

    def fwd(fun, x, *args):
        return fun(x, *args) * 2, (x, args)

    def bwd(fun, residuals, ct):
        x, args = residuals
        return ns.vjp(fun, x, *args)[1](ct * 10)

    run.defvjp(fwd, bwd)

    def fun(y):
        converted, values = ns.closure_convert(lambda x: ns.numpy.sin(x) * y, 1.0)
        return run(converted, 1.0, *values).sum()

    return fun


def mapped_inside(ns: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    f = make(ns)
    return lambda x, xs: ns.vmap(f, in_axes=(None, 0))(x, xs).sum() + ns.vmap(ns.jit(f), in_axes=(0, None))(xs, x).sum()


def closing_over_mapped(ns: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    """The function and its rule close over the mapped values of two nested vmaps."""
    ys = ns.numpy.arange(3.0)

    def inner(x):
        return ns.vmap(lambda y: ns.vmap(lambda z: make(ns, y + z)(x * z))(ys))(ys)

    return lambda x: inner(x).sum()


# name -> (program, arguments, whether it has forward mode)
PROGRAMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...], bool]] = {
    "jvp in jit": (lambda ns: ns.jit(sine_jvp(ns)), (VECTOR, SCALAR), True),
    "vjp in jit": (lambda ns: ns.jit(sine_vjp(ns)), (VECTOR, VECTOR), False),
    "trees": (of_tree, (VECTOR,), True),
    "symbolic zeros": (symbolic, (VECTOR,), True),
    "symbolic zeros of vjp": (symbolic_vjp, (VECTOR,), False),
    "nondiff_argnums": (with_function, (VECTOR,), True),
    "nondiff_argnums of vjp": (vjp_with_function, (VECTOR,), False),
    "custom_gradient": (gradient_of, (VECTOR,), False),
    "closure_convert": (converted, (SCALAR,), False),
    "jvp mapped": (lambda ns: mapped_inside(ns, sine_jvp), (SCALAR, VECTOR), True),
    "vjp mapped": (lambda ns: mapped_inside(ns, sine_vjp), (SCALAR, VECTOR), False),
    "jvp closing over mapped": (lambda ns: closing_over_mapped(ns, scaled_jvp), (SCALAR,), True),
    "vjp closing over mapped": (lambda ns: closing_over_mapped(ns, scaled_vjp), (SCALAR,), False),
    "vjp in checkpoint": (lambda ns: ns.checkpoint(lambda x: ns.numpy.sin(sine_vjp(ns)(x, x))), (SCALAR,), False),
}
CASES = [
    Case(name, lambda ns, *args, p=program: p(ns)(*args), args, forward=forward)
    for name, (program, args, forward) in PROGRAMS.items()
]
# JAX's version of these programs has an unused equation.
OTHER = {"custom_gradient": ("value", "vmap"), "closure_convert": ("grad_of_vmap",)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values_match_jax(case: Case) -> None:
    check_values(case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_match_jax(case: Case) -> None:
    check_programs(case, other=OTHER.get(case.name, ()))


# --- printing ------------------------------------------------------------------------------------------------------


def with_constant(ns: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    return make(ns, ns.numpy.arange(3.0))


PRINTED: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {
    "vjp": (lambda ns: sine_vjp(ns, call_itself=True), (ONE, ONE)),
    "grad of grad": (lambda ns: ns.grad(ns.grad(sine_vjp(ns, call_itself=True))), (ONE, ONE)),
    "linear": (lambda ns: lambda x: ns.jvp(ns.jit(sine_vjp(ns)), (x, x), (x, x)), (ONE,)),
    "constant": (lambda ns: with_constant(ns, scaled_jvp), (VECTOR,)),
    "scan": (lambda ns: lambda x, xs: ns.lax.scan(lambda c, a: (sine_jvp(ns)(c, a), None), x, xs), (ONE, VECTOR)),
    "value and gradient of a scan of one call": (lambda ns: ns.value_and_grad(scan_of_one_call(ns)), (ONE,)),
    "partial": (lambda ns: with_rule(ns.custom_jvp(functools.partial(lambda a, x: a * x, 2.0))), (ONE,)),
}


def with_rule(f: Any) -> Any:
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f


def scan_of_one_call(ns: Any) -> Callable[..., Any]:
    """The body of the scan is one call of a function with a rule. The body's known part is one such call too."""
    f = with_rule(ns.custom_jvp(lambda x: x * x))
    return lambda x: ns.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


@pytest.mark.parametrize("name", PRINTED)
def test_programs_print_as_in_jax(name: str) -> None:
    program, args = PRINTED[name]
    closed = minijax.make_jaxpr(program(minijax))(*args)
    typecheck_jaxpr(closed)
    theirs = str(jax.make_jaxpr(program(jax))(*args))
    assert str(closed) == re.sub(r"\n +_split_transpose=False", "", theirs)


# --- properties that only minijax has ------------------------------------------------------------------------------


def test_a_plain_call_runs_the_function_itself() -> None:
    seen: list[Any] = []

    @minijax.custom_jvp
    def f(x):
        seen.append(x)
        return x * 2 if x > 0 else "negative".count("e") * x  # Python control flow on the value

    f.defjvps(lambda t, ans, x: t)
    assert float(f(3.0)) == 6.0 and float(f(-3.0)) == -6.0
    assert [type(x).__name__ for x in seen] == ["TypedFloat", "TypedFloat"]  # the types that JAX passes, too
    assert f.__name__ == "f" and "custom_jvp" in repr(f)


def test_the_function_is_not_called_if_its_rule_is_called() -> None:
    calls: list[str] = []

    @minijax.custom_jvp
    def f(x):
        calls.append("f")
        return x

    @f.defjvp
    def f_jvp(primals, tangents):
        calls.append("rule")
        return primals[0] * 2, tangents[0] * 3

    value, tangent = minijax.jvp(f, (1.0,), (1.0,))
    assert (float(value), float(tangent), calls) == (2.0, 3.0, ["rule"])


def test_a_function_and_its_rule_are_staged_once() -> None:
    calls: list[str] = []

    @minijax.custom_jvp
    def f(x):
        calls.append("f")
        return minijax.numpy.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        calls.append("rule")
        return minijax.numpy.sin(primals[0]), tangents[0] * 3

    g = minijax.jit(f)
    for _ in range(3):
        g(1.0)
        assert float(minijax.grad(g)(1.0)) == 3.0
    assert calls == ["f", "rule"]


def test_second_derivatives_through_scan_match_jax() -> None:
    """As in JAX, a partially evaluated scan keeps rules of custom_vjp functions, but not of custom_jvp functions."""

    def second(ns: Any, f: Callable[..., Any], scan: bool) -> Any:
        def fun(x):
            if scan:
                return ns.lax.scan(lambda c, a: (f(c, a), None), x, VECTOR)[0]
            for a in VECTOR:
                x = f(x, a)
            return x

        return ns.grad(ns.grad(fun))(ONE)

    for make in (sine_jvp, functools.partial(sine_vjp, call_itself=True)):
        in_scan, straight = second(minijax, make(minijax), True), second(minijax, make(minijax), False)
        np.testing.assert_allclose(in_scan, second(jax, make(jax), True), rtol=1e-5)
        assert np.isclose(in_scan, straight, rtol=1e-5) == (make is not sine_jvp)


@pytest.mark.parametrize("make", [sine_jvp, sine_vjp])
def test_a_call_with_a_dropped_result_keeps_its_rule(make: Callable[..., Any]) -> None:
    """Dead-code elimination drops one result of the call; the rule still gives the derivative of the others."""
    two = two_results(make is sine_vjp)

    def body(c, a):
        kept, dropped = two(c)
        return kept * a, dropped

    def fun(x):
        return minijax.lax.scan(body, x, minijax.numpy.asarray(VECTOR))[0]

    def straight(x):
        for a in VECTOR:
            x = body(x, a)[0]
        return x

    np.testing.assert_allclose(minijax.grad(fun)(ONE), minijax.grad(straight)(ONE), rtol=1e-5)
    once = minijax.jit(lambda x: two(x)[0])
    closed = minijax.make_jaxpr(minijax.grad(lambda x: once(x) * 2))(ONE)
    typecheck_jaxpr(closed)
    assert float(minijax.grad(once)(ONE)) == 5.0


def two_results(reverse: bool) -> Callable[..., Any]:
    if reverse:
        v = minijax.custom_vjp(lambda x: (x * 2, x * 3))
        v.defvjp(lambda x: (v(x), None), lambda residuals, cts: (5 * cts[0] + 7 * cts[1],))
        return v
    f = minijax.custom_jvp(lambda x: (x * 2, x * 3))
    f.defjvp(lambda primals, tangents: (f(*primals), (5 * tangents[0], 7 * tangents[0])))
    return f


@pytest.mark.parametrize("make", [sine_jvp, sine_vjp])
@pytest.mark.parametrize("used", [(True, False), (False, True), (True, True)])
def test_dead_code_elimination_keeps_values_and_derivatives(make: Callable[..., Any], used: tuple[bool, ...]) -> None:
    """The pruned equation is well typed, and has the same values and derivatives as before."""
    from minijax.interpreters.partial_eval import dce_jaxpr
    from minijax.ir.evaluate import eval_closed
    from minijax.ir.jaxpr import ClosedJaxpr

    closed = minijax.make_jaxpr(two_results(make is sine_vjp))(ONE)
    pruned, used_in = dce_jaxpr(closed.jaxpr, used)
    typecheck_jaxpr(pruned)
    assert used_in == [True]
    again = ClosedJaxpr(pruned, [])
    values, slopes = np.array([2.0, 3.0]) * ONE, np.array([5.0, 7.0])
    np.testing.assert_allclose(eval_closed(again, ONE), values[list(used)])
    np.testing.assert_allclose(minijax.grad(lambda x: sum(eval_closed(again, x)))(ONE), slopes[list(used)].sum())
    mapped = minijax.vmap(minijax.grad(lambda x: sum(eval_closed(again, x))))(VECTOR)
    np.testing.assert_allclose(mapped, np.full(3, slopes[list(used)].sum()))
    [inner] = [sub for eqn in pruned.eqns for sub in subjaxprs(eqn.params)]
    assert len(inner.eqns) == sum(used)


def test_a_backward_pass_may_close_over_mapped_values() -> None:
    """The backward pass runs after the vmap over ``y`` has ended. JAX reports a leaked tracer here."""

    def scaled(y):
        f = minijax.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (x * y, None), lambda residuals, ct: (3 * ct * y,))
        return f

    def fun(x):
        return minijax.vmap(lambda y: scaled(y)(x))(minijax.numpy.asarray(VECTOR)).sum()

    assert float(minijax.grad(fun)(2.0)) == float(minijax.jit(minijax.grad(fun))(2.0)) == 3 * VECTOR.sum()


def test_a_rule_in_a_loop_may_close_over_mapped_values() -> None:
    def fun(y):
        return minijax.grad(lambda x: minijax.lax.scan(lambda c, a: (scaled_jvp(minijax, y)(c), a), x, VECTOR)[0])(1.0)

    np.testing.assert_allclose(minijax.vmap(fun)(VECTOR), (3 * VECTOR) ** 3, rtol=1e-5)


def test_an_unmapped_result_may_have_a_mapped_tangent() -> None:
    g = minijax.custom_jvp(lambda x: 2.0)
    g.defjvp(lambda primals, tangents: (2.0, tangents[0]))
    np.testing.assert_array_equal(minijax.grad(lambda x: minijax.vmap(g)(x).sum())(VECTOR), np.ones(3))
    assert float(minijax.vmap(g, out_axes=None)(VECTOR)) == 2.0
    with pytest.raises(ValueError, match="result 0 of the function does not depend on the mapped arguments"):
        minijax.grad(lambda x: minijax.jit(minijax.vmap(g))(x).sum())(VECTOR)


def test_collectives_inside_match_jax() -> None:
    def of_axis(ns: Any) -> Any:
        f = sine_vjp(ns)
        return ns.vmap(ns.grad(lambda x: f(x, ns.lax.psum(x, "i"))), axis_name="i")

    np.testing.assert_allclose(of_axis(minijax)(VECTOR), of_axis(jax)(VECTOR), rtol=1e-5)


def test_a_backward_pass_keeps_no_more_than_its_residuals() -> None:
    f = minijax.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda residuals, ct: (ct * 2,))
    x = minijax.numpy.arange(1000.0)
    alive = weakref.ref(x)
    _, pullback = minijax.vjp(f, x)
    del x
    gc.collect()
    assert alive() is None
    assert float(pullback(minijax.numpy.ones(1000))[0][0]) == 2.0


def test_the_users_rules_are_seen_by_observers() -> None:
    class Seen(observe.Observer):
        def __init__(self) -> None:
            self.rules: list[tuple[str, str, str]] = []

        def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
            if table.startswith("custom"):
                self.rules.append((table, primitive.name, rule.__name__))

    seen = Seen()
    with observe.watching(seen):
        minijax.grad(sine_vjp(minijax))(1.0, 2.0)
        minijax.grad(sine_jvp(minijax))(1.0, 2.0)
    assert seen.rules == [
        ("custom_vjp fwd", "custom_vjp_call", "h_fwd"),
        ("custom_vjp bwd", "custom_vjp_call", "h_bwd"),
        ("custom_jvp rule", "custom_jvp_call", "f_jvp"),
    ]


def test_equations_come_from_the_lines_of_the_rule() -> None:
    f = sine_jvp(minijax)
    closed = minijax.make_jaxpr(lambda x, t: minijax.jvp(f, (x, x), (t, t)))(ONE, ONE)
    functions = {errors.summarize(eqn.source).rpartition("(")[2] for eqn in closed.eqns}
    assert {name.rpartition(".")[2] for name in functions} == {"f_jvp)"}


def test_a_method_can_be_custom() -> None:
    class Model:
        scale = 3.0

        @functools.partial(minijax.custom_jvp, nondiff_argnums=(0,))
        def apply(self, x):
            return x * self.scale

        @apply.defjvp
        def apply_jvp(self, primals, tangents):
            return self.apply(*primals), tangents[0] * 5

    assert float(minijax.grad(Model().apply)(1.0)) == 5.0
    assert float(minijax.grad(lambda x: Model().apply(x=x))(1.0)) == 5.0


STAGED = {
    "grad": lambda ns, f: ns.grad(f),
    "grad of jit": lambda ns, f: ns.grad(ns.jit(f)),
    "scan": lambda ns, f: ns.grad(lambda x: ns.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]),
    "checkpoint": lambda ns, f: ns.grad(ns.checkpoint(f)),
    "cond": lambda ns, f: ns.grad(lambda x: ns.lax.cond(x > 0, f, f, x)),
}


@pytest.mark.parametrize("transformed", STAGED.values(), ids=STAGED)
def test_python_residuals_stay_python_values(transformed: Any) -> None:
    """Python booleans and numbers in the residuals stay Python values, even if the forward pass was staged."""
    found: dict[str, list[Any]] = {}
    for ns in (minijax, jax):
        f = ns.custom_vjp(lambda x: x * 2)
        seen = found.setdefault(ns.__name__, [])

        def backward(residuals: Any, ct: Any, seen: list[Any] = seen) -> Any:
            seen.append([(type(each).__name__, float(each)) for each in residuals[:-1]])
            assert hasattr(residuals[-1], "shape")  # the NumPy boolean becomes an array
            return (ct * 6,)

        f.defvjp(lambda x: (x * 2, (False, 3, 2.5, True, np.bool_(True))), backward)
        transformed(ns, f)(1.0)
    assert found["minijax"][0] == found["jax"][0]
