"""Wrong uses of ``custom_jvp``, ``custom_vjp`` and their helpers raise JAX's types of error, with JAX's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax import errors
from minijax.core.trace import stack_depth
from minijax.ops.custom_vjp import CustomVJPException
from tests.ops.test_custom_derivatives import rules, scaled_jvp, scaled_vjp, sine_jvp, sine_vjp

ONE = np.float32(1.25)


def jvp_with(rule: Callable[..., Any], jitted: bool = False) -> Callable[[Any], Any]:
    """A program that differentiates ``sin`` with the jvp rule ``rule(ns, f, primals, tangents)``."""

    def attempt(ns: Any) -> Any:
        @ns.custom_jvp
        def sine(x):
            return ns.numpy.sin(x)

        @sine.defjvp
        def sine_rule(primals, tangents):
            return rule(ns, sine, primals, tangents)

        return ns.jvp(ns.jit(sine) if jitted else sine, (ONE,), (ONE,))

    return attempt


def vjp_with(fwd: Callable[..., Any], bwd: Callable[..., Any], jitted: bool = False) -> Callable[[Any], Any]:
    def attempt(ns: Any) -> Any:
        @ns.custom_vjp
        def product(x, y):
            return x * y

        def product_fwd(x, y):
            return fwd(ns, x, y)

        product.defvjp(product_fwd, lambda residuals, ct: bwd(ns, residuals, ct))
        return ns.grad(ns.jit(product) if jitted else product, (0, 1))(ONE, ONE)

    return attempt


def forward(ns: Any, x: Any, y: Any) -> Any:
    return x * y, (x, y)


def closing_over(ns: Any, make: Callable[..., Any], active: bool, wrap: str = "") -> Any:
    """Differentiate ``make(ns, y)``, whose rule closes over ``y``, at ``y`` if ``active``, else at a constant."""

    def outer(y):
        return make(ns, y)(y if active else 2.0)

    return ns.grad(getattr(ns, wrap)(outer) if wrap else outer)(ONE)


def vjp_in_forward_mode(ns: Any, wrap: Callable[..., Any]) -> Any:
    return wrap(ns, lambda x: sine_vjp(ns)(x, x))


def nondiff_tracer(ns: Any) -> Any:
    f = ns.custom_vjp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (n * x, None), lambda n, residuals, ct: (ct * n,))
    return ns.jit(f)(2.0, 3.0)


def tangent_as_primal(ns: Any) -> Any:
    f = ns.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (tangents[0], tangents[0]))
    return ns.grad(f)(ONE)


def remat_and_symbolic(ns: Any) -> Any:
    ns.custom_vjp(lambda x: x).defvjp(lambda x: (x, None), lambda r, g: (g,), symbolic_zeros=True, optimize_remat=True)


def symbolic_of_wrong_shape(ns: Any) -> Any:
    cd = rules(ns)
    f = ns.custom_vjp(lambda x: x)
    zero = cd.SymbolicZero.from_primal_value(ns.numpy.ones(3))
    f.defvjp(lambda x: (x.value, None), lambda r, g: (zero,), symbolic_zeros=True)
    return ns.grad(f)(ONE)


CLOSED = "Detected differentiation of a custom_vjp function with respect to a closed-over value. That isn't supported"
FORWARD_MODE = "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
# the ways to differentiate again a forward-mode derivative ``g`` of a custom_vjp function
SECOND_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda n, g: n.grad(g)(ONE),
    "grad of jit": lambda n, g: n.grad(n.jit(g))(ONE),
    "linearize": lambda n, g: n.linearize(g, ONE),
    "grad of scan": lambda n, g: n.grad(lambda x: n.lax.scan(lambda c, _: (g(c), None), x, None, length=2)[0])(ONE),
    "grad of cond": lambda n, g: n.grad(lambda x: n.lax.cond(x > 0, g, g, x))(ONE),
}
# name -> (program that raises in both libraries, JAX's essential words)
REFUSED: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "tangents' shapes": (
        jvp_with(lambda ns, f, p, t: ((f(*p), p[0]), (ns.numpy.ones(3), t[0]))),
        ("shapes and dtypes, but got:\n", "  primal float32[] with tangent float32[3], expecting tangent float32[]"),
    ),
    "bwd: nested": (
        vjp_with(forward, lambda ns, r, ct: ((ct,), ct)),
        ("structure PyTreeDef(((*,), *)) for primal input structure PyTreeDef((*, *)).",),
    ),
    "bwd: symbolic zero": (symbolic_of_wrong_shape, ("SymbolicZero with a shape/dtype that does not match",)),
    "nondiff tracer": (nondiff_tracer, ("Tracers cannot be passed as non-differentiable arguments to custom_vjp",)),
    "jit of jvp": (
        lambda ns: vjp_in_forward_mode(ns, lambda n, f: n.jit(lambda x: n.jvp(f, (x,), (x,)))(ONE)),
        (FORWARD_MODE,),
    ),
    **{
        f"forward mode, then {name}": (
            lambda ns, again=again: vjp_in_forward_mode(ns, lambda n, f: again(n, lambda x: n.jvp(f, (x,), (ONE,))[1])),
            ("Differentiation rule for 'custom_lin' not implemented",),
        )
        for name, again in SECOND_ORDER.items()
    },
    "linearize": (lambda ns: vjp_in_forward_mode(ns, lambda n, f: n.linearize(f, ONE)[1](ONE)), (FORWARD_MODE,)),
    "jvp closes over": (lambda ns: closing_over(ns, scaled_jvp, False), ("ncountered an unexpected tracer",)),
    "jvp closes over its input": (lambda ns: closing_over(ns, scaled_jvp, True), ("ncountered an unexpected tracer",)),
    "vjp closes over": (lambda ns: closing_over(ns, scaled_vjp, False), ("ncountered an unexpected tracer",)),
    "vjp closes over its input": (lambda ns: closing_over(ns, scaled_vjp, True), ("ncountered an unexpected tracer",)),
    "vjp in jit closes over": (lambda ns: closing_over(ns, scaled_vjp, False, "jit"), (CLOSED,)),
    "primal from tangent": (tangent_as_primal, ("Linearization failed to produce known values for all output",)),
    "optimize_remat": (remat_and_symbolic, ("remat optimization for custom_vjp does not support symbolic zeros",)),
    "leaf": (
        lambda ns: rules(ns).custom_vjp_primal_tree_values((1.0,)),
        ("unexpected leaf type <class 'float'>",),
    ),
    "float0": (lambda ns: ns.grad(sine_jvp(ns))(ONE, 2), ("Called multiply with a float0 array",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_use_the_words_of_jax(name: str) -> None:
    attempt, words = REFUSED[name]
    kinds = []
    for ns in (jax, minijax):
        with pytest.raises(Exception) as caught:
            attempt(ns)
        kinds.append(type(caught.value).__name__)
        for part in words:
            assert part in str(caught.value), (ns.__name__, str(caught.value))
    assert kinds[0] == kinds[1]
    assert stack_depth() == 0


def test_closing_over_in_a_staged_custom_jvp_is_refused_too() -> None:
    """JAX fails here with the message "No constant handler". A derivative that ignored ``y`` would be wrong."""
    with pytest.raises(errors.UnexpectedTracerError, match="custom_jvp function with respect to a closed-over value"):
        closing_over(minijax, scaled_jvp, False, "jit")
    assert issubclass(CustomVJPException, Exception)
