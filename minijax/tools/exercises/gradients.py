"""Exercises about wrong gradients: a ``where`` that comes too late, and a rule that ignores its cotangent."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.api import grad, jit, vmap
from minijax.api.custom_vjp import custom_vjp
from minijax.errors import JAXTypeError
from minijax.tools.exercises.measure import Mistake, close, expect, pair, shown
from minijax.tools.exercises.model import Answer, NotYet, Passed

# --- the gradient of a norm at zero -------------------------------------------------------------------------


def _check_norm(answer: Answer) -> Passed:
    norm = answer.function("norm")
    zero = jnp.zeros(2, jnp.float32)
    for v, due in (([3.0, 4.0], 5.0), ([3e-4, 4e-4], 5e-4)):
        expect(
            f"norm({v})",
            norm(jnp.array(v, jnp.float32)),
            np.float32(due),
            [(due * due, "That is the square of the norm.")],
            lambda: "norm itself must stay as it was: a number added below the root changes it for small v.",
            1e-7,
        )
    _judge_at_zero(norm(zero))
    at = grad(norm)(jnp.array([3.0, 4.0], jnp.float32))
    expect(
        "grad(norm)([3.0, 4.0])",
        at,
        [0.6, 0.8],
        [([0.0, 0.0], "The gradient is zero everywhere now; away from 0 it is v / norm(v).")],
    )
    found = grad(norm)(zero)
    if np.isnan(found).any():
        raise NotYet(
            f"grad(norm)([0, 0]) is {shown(found)}. The root of 0 is still computed, and its derivative there is inf; "
            "choosing afterwards is too late, because 0 * inf is NaN. Choose the argument of the root."
        )
    expect("grad(norm)([0, 0])", found, [0.0, 0.0], (), lambda: "What norm gives there must not depend on v.")
    both = jnp.array([[0.0, 0.0], [3.0, 4.0]], jnp.float32)
    try:
        many = jit(vmap(grad(norm)))(both)
    except JAXTypeError as error:
        raise NotYet(
            "Right for one vector of numbers. Under jit and vmap a Python if has no value to test: the choice must be "
            "part of the program.",
            error=error,
        ) from None
    expect("vmap(grad(norm)) under jit", many, [[0.0, 0.0], [0.6, 0.8]])
    return Passed("grad(norm) is [0, 0] at 0 and v / norm(v) elsewhere, under jit and vmap too.")


def _judge_at_zero(found: Any) -> None:
    """Raise NotYet unless the norm of the zero vector is exactly 0."""

    def why() -> str:
        if np.shape(found) == () and 0 < found < 1e-2:
            return "Something small was added below the root, or put in the place of 0: norm itself must not change."
        return "The result is now the root of the number that replaces 0: choose once more, after the root."

    expect("norm([0.0, 0.0])", found, np.float32(0.0), (), why, 0.0)


# --- custom_vjp ---------------------------------------------------------------------------------------------

AT, CT = 0.4, 3.0


def _check_softplus(answer: Answer) -> Passed:
    forward, backward = answer.function("softplus_fwd"), answer.function("softplus_bwd")
    softplus = custom_vjp(getattr(answer["softplus"], "__wrapped__", answer["softplus"]))
    softplus.defvjp(forward, backward)
    x = jnp.float32(AT)
    due = np.log1p(np.exp(AT))
    value, residuals = pair("softplus_fwd", forward(x), "the value, and what softplus_bwd will need")
    expect("The value of softplus_fwd", value, due, [(AT, "The value comes first, then the residuals.")])
    found = backward(residuals, jnp.float32(CT))
    if not isinstance(found, tuple):
        raise NotYet(
            f"softplus_bwd returned {shown(found)}. It returns a tuple with a cotangent for each argument: (ct_x,)."
        )
    if len(found) != 1:
        raise NotYet(f"softplus_bwd returned {len(found)} cotangents; softplus has one argument.")
    slope = float(np.log1p(np.exp(AT + 1e-5)) - np.log1p(np.exp(AT - 1e-5))) / 2e-5
    said = f"The derivative there is {shown(slope)}, say finite differences."
    expect(f"ct_x at x={AT} for ct={CT}", found[0], CT * slope, _softplus_mistakes(due, slope), lambda: said)
    _judge_far(softplus)
    many = jit(vmap(grad(lambda v: 3 * softplus(v))))(jnp.array([AT, 0.0], jnp.float32))
    expect("vmap(grad(3 * softplus))", many, [3 * slope, 1.5])
    return Passed(f"ct_x is {shown(found[0])} for ct={CT}, and finite for large x.")


def _softplus_mistakes(value: float, slope: float) -> tuple[Mistake, ...]:
    return (
        (
            slope,
            "That does not depend on ct. grad alone gives a ct of 1, so grad(softplus) looks right, and grad of 3 * "
            "softplus(x) is wrong: the chain rule multiplies with ct.",
        ),
        (slope + CT, "ct is added. The chain rule multiplies with it."),
        (slope / CT, "ct is divided by. The chain rule multiplies with it."),
        (CT * value, "That is ct times the value. It should be ct times the derivative."),
        (CT, "ct is returned unchanged: the derivative is missing."),
        (AT / (1 + np.exp(-CT)), "The arguments are exchanged: softplus_bwd takes the residuals, and then ct."),
        (
            CT * (1 - slope),
            "That is ct times 1 / (1 + exp(x)), which is the derivative of softplus(-x) up to the sign. It should be "
            "ct times exp(x) / (1 + exp(x)).",
        ),
        (
            CT * np.exp(AT),
            "exp(x) is the derivative of the log's argument; the derivative of log(u) is 1 / u: divide by 1 + exp(x).",
        ),
    )


def _judge_far(softplus: Any) -> None:
    for x, due in ((200.0, 1.0), (-200.0, 0.0)):
        far = grad(softplus)(jnp.float32(x))
        if not close(far, due):
            raise NotYet(
                f"Right at x={AT}; at x={x:.0f} the gradient is {shown(far)}, and {due:.0f} is expected. exp(200) is "
                "inf in 32 bits, and inf / inf is NaN: write the same function so that it does not overflow, as "
                "nn.sigmoid(x) or 1 / (1 + exp(-x))."
            )


CHECKS = {"safe-where": _check_norm, "custom-vjp": _check_softplus}
