"""Derivative rules used wrongly: the errors of ``custom_jvp``, ``custom_vjp`` and their helpers are JAX's in both words
and types.
"""

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
    """Differentiate ``sin`` by ``rule(ns, f, primals, tangents)``."""

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


def undefined(ns: Any, kind: str) -> Any:
    def cube(x):
        return x**3

    return getattr(ns, kind)(cube)(1.0)


def closing_over(ns: Any, make: Callable[..., Any], active: bool, wrap: str = "") -> Any:
    """Differentiate in what a custom function closes over."""

    def outer(y):
        return make(ns, y)(y if active else 2.0)

    return ns.grad(getattr(ns, wrap)(outer) if wrap else outer)(ONE)


def vjp_in_forward_mode(ns: Any, wrap: Callable[..., Any]) -> Any:
    return wrap(ns, lambda x: sine_vjp(ns)(x, x))


def call_wrongly(ns: Any, kind: str, *args: Any, **kwargs: Any) -> Any:
    return (sine_jvp if kind == "jvp" else sine_vjp)(ns)(*args, **kwargs)


def nondiff_tracer(ns: Any) -> Any:
    f = ns.custom_vjp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (n * x, None), lambda n, residuals, ct: (ct * n,))
    return ns.jit(f)(2.0, 3.0)


def defjvps_and_nondiff(ns: Any) -> Any:
    ns.custom_jvp(lambda n, x: x, nondiff_argnums=(0,)).defjvps(None)


def tangent_as_primal(ns: Any) -> Any:
    f = ns.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (tangents[0], tangents[0]))
    return ns.grad(f)(ONE)


def remat_and_symbolic(ns: Any) -> Any:
    ns.custom_vjp(lambda x: x).defvjp(lambda x: (x, None), lambda r, g: (g,), symbolic_zeros=True, optimize_remat=True)


def converted_wrongly(ns: Any) -> Any:
    return ns.closure_convert(lambda x: x, (1.0,))[0]([1.0])


def symbolic_of_wrong_shape(ns: Any) -> Any:
    cd = rules(ns)
    f = ns.custom_vjp(lambda x: x)
    zero = cd.SymbolicZero.from_primal_value(ns.numpy.ones(3))
    f.defvjp(lambda x: (x.value, None), lambda r, g: (zero,), symbolic_zeros=True)
    return ns.grad(f)(ONE)


PAIR = "must produce a pair (list or tuple of length two)"
CLOSED = "Detected differentiation of a custom_vjp function with respect to a closed-over value. That isn't supported"
FORWARD_MODE = "can't apply forward-mode autodiff (jvp) to a custom_vjp function."
# how the forward-mode derivative of a custom_vjp function is differentiated once more
SECOND_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda n, g: n.grad(g)(ONE),
    "grad of jit": lambda n, g: n.grad(n.jit(g))(ONE),
    "jit of grad": lambda n, g: n.jit(n.grad(g))(ONE),
    "linearize": lambda n, g: n.linearize(g, ONE),
    "vjp": lambda n, g: n.vjp(g, ONE),
    "vmap of grad": lambda n, g: n.vmap(n.grad(g))(np.ones(3, np.float32)),
    "grad of checkpoint": lambda n, g: n.grad(n.checkpoint(g))(ONE),
    "jvp of jit": lambda n, g: n.jvp(n.jit(g), (ONE,), (ONE,)),
    "grad of scan": lambda n, g: n.grad(lambda x: n.lax.scan(lambda c, _: (g(c), None), x, None, length=2)[0])(ONE),
    "grad of cond": lambda n, g: n.grad(lambda x: n.lax.cond(x > 0, g, g, x))(ONE),
}
# name -> (what raises in both libraries, JAX's essential words)
REFUSED: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "no jvp": (lambda ns: undefined(ns, "custom_jvp"), ("No JVP defined for custom_jvp function cube using defjvp.",)),
    "no vjp": (lambda ns: undefined(ns, "custom_vjp"), ("No VJP defined for custom_vjp function cube using defvjp.",)),
    "no pair": (
        jvp_with(lambda ns, f, p, t: f(*p)),
        ("Custom JVP rule sine_rule for function sine", PAIR, "representing primal and tangent outputs, but got"),
    ),
    "trees of a pair": (
        jvp_with(lambda ns, f, p, t: (p[0], (t[0],))),
        ("must produce primal and tangent outputs with equal container (pytree) structures", "PyTreeDef((*,))"),
    ),
    "tangent's shape": (
        jvp_with(lambda ns, f, p, t: (f(*p), ns.numpy.ones(3))),
        ("corresponding shapes and dtypes. Expected float32[] (tangent type of float32[]) but got float32[3].",),
    ),
    "tangent's dtype": (
        jvp_with(lambda ns, f, p, t: (f(*p), t[0].astype("int32")), jitted=True),
        ("corresponding shapes and dtypes. Expected float32[] (tangent type of float32[]) but got int32[].",),
    ),
    "tangents' shapes": (
        jvp_with(lambda ns, f, p, t: ((f(*p), p[0]), (ns.numpy.ones(3), t[0]))),
        ("shapes and dtypes, but got:\n", "  primal float32[] with tangent float32[3], expecting tangent float32[]"),
    ),
    "primal's tree": (
        jvp_with(lambda ns, f, p, t: ((f(*p),), (t[0],)), jitted=True),
        (PAIR, "equal in value to the output of the custom_jvp-decorated function sine", "\n    (float32[],)\n"),
    ),
    "primal's shape": (
        jvp_with(lambda ns, f, p, t: (ns.numpy.ones(3), ns.numpy.ones(3)), jitted=True),
        ("with leaves of the same shape/dtype", "shapes/dtypes of:\n    float32[3]\nwhile"),
    ),
    "fwd: no pair": (
        vjp_with(lambda ns, x, y: x, forward),
        ("Custom VJP fwd rule product_fwd for function product", PAIR, "instead of a pair the fwd rule product_fwd"),
    ),
    "fwd: tree": (
        vjp_with(lambda ns, x, y: ((x,), None), forward, jitted=True),
        (PAIR, "(equal to the output of the custom_vjp-decorated function product)", "\n    (float32[],)\nwhile"),
    ),
    "fwd: shape": (
        vjp_with(lambda ns, x, y: (ns.numpy.ones(3), None), forward, jitted=True),
        ("the fwd rule output's first element had shapes/dtypes of:\n    float32[3]\nwhile",),
    ),
    "bwd: no tuple": (
        vjp_with(forward, lambda ns, r, ct: ct),
        ("Custom VJP bwd rule must produce an output with the same container (pytree) structure as the args tuple",),
    ),
    "bwd: length": (
        vjp_with(forward, lambda ns, r, ct: (ct,), jitted=True),
        ("but got bwd output structure PyTreeDef((*,)) for primal input structure PyTreeDef((*, *)).",),
    ),
    "bwd: nested": (
        vjp_with(forward, lambda ns, r, ct: ((ct,), ct)),
        ("structure PyTreeDef(((*,), *)) for primal input structure PyTreeDef((*, *)).",),
    ),
    "bwd: shape": (
        vjp_with(forward, lambda ns, r, ct: (ct, ns.numpy.ones(3))),
        ("at output[1] the bwd rule produced an output of type float32[3] corresponding to an input of type",),
    ),
    "bwd: symbolic zero": (symbolic_of_wrong_shape, ("SymbolicZero with a shape/dtype that does not match",)),
    "unknown keyword": (
        lambda ns: call_wrongly(ns, "jvp", 1.0, z=2.0),
        ("The input arguments to the custom_jvp-decorated function f could not be resolved to positional-only",),
    ),
    "too many": (lambda ns: call_wrongly(ns, "vjp", 1.0, 2.0, 3.0), ("custom_vjp-decorated function h", "too many")),
    "defjvps": (defjvps_and_nondiff, ("Can't use ``defjvps`` with ``nondiff_argnums``.",)),
    "nondiff tracer": (nondiff_tracer, ("Tracers cannot be passed as non-differentiable arguments to custom_vjp",)),
    "forward mode": (lambda ns: vjp_in_forward_mode(ns, lambda n, f: n.jvp(f, (ONE,), (ONE,))), (FORWARD_MODE,)),
    "jacfwd": (lambda ns: vjp_in_forward_mode(ns, lambda n, f: n.jacfwd(f)(ONE)), (FORWARD_MODE,)),
    "jit of jvp": (
        lambda ns: vjp_in_forward_mode(ns, lambda n, f: n.jit(lambda x: n.jvp(f, (x,), (x,)))(ONE)),
        (FORWARD_MODE,),
    ),
    **{
        f"forward mode, then {name}": (
            lambda ns, again=again: vjp_in_forward_mode(
                ns, lambda n, f: again(n, lambda x: n.jvp(f, (x,), (ONE,))[1])
            ),
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
    "closure_convert": (converted_wrongly, ("must have the same Pytree structure as the example arguments",)),
    "leaf": (
        lambda ns: rules(ns).custom_vjp_primal_tree_values((1.0,)),
        ("unexpected leaf type <class 'float'>",),
    ),
    "float0": (lambda ns: ns.grad(sine_jvp(ns))(ONE, 2), ("Called multiply with a float0 array",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_jax_words(name: str) -> None:
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
    """JAX fails here with "No constant handler"; the derivative would be wrong."""
    with pytest.raises(errors.UnexpectedTracerError, match="custom_jvp function with respect to a closed-over value"):
        closing_over(minijax, scaled_jvp, False, "jit")
    assert issubclass(CustomVJPException, Exception)
