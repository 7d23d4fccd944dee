"""Programs of the tables, under every transformation, are printed as JAX prints them, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from .checks import check_programs
from .control_flow import PROGRAMS
from .functions import CASES
from .normalise import printed
from .subject import MODES, oracle, subject

REVERSE = ("grad", "vmap_of_grad", "grad_of_vmap", "grad_of_grad", "jvp_of_grad")
# Where texts differ, and why: what the programs mean is compared.
OTHER = {
    # JAX calls the body of a scan when it evaluates a checkpoint of it partially
    "checkpointed_scan": REVERSE,
    "jit_of_grad_of_checkpoint_of_scan": ("value", "vmap", "jvp", *REVERSE),
    # JAX hoists the known part of an inner call out of a scan though nothing is left of it
    "scan_with_integer_and_bool_carries": REVERSE,
    # JAX stages a branch that is given twice once, and prints what is shared ahead
    "nested_conds": ("value", "jvp"),
    # JAX shares what both solves run
    "linear_solve_by_iteration": ("vmap_of_grad",),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_functions(name: str, mode: str) -> None:
    check_programs(CASES[name], mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow(name: str) -> None:
    check_programs(PROGRAMS[name], other=OTHER.get(name, ()))


@pytest.mark.parametrize(
    ("transformation", "argnums"),
    [("jacfwd", 0), ("jacfwd", (0, 1, 2)), ("jacrev", 0), ("jacrev", (0, 1, 2)), ("hessian", 0), ("hessian", 1)],
)
def test_jacobians(transformation: str, argnums: Any) -> None:
    """Of a function of leaves of three types, to leaves of two; the second derivatives of the first of these."""

    def text(ns: Any) -> str:
        jnp = ns.numpy

        def fun(a: Any, b: Any, c: Any) -> Any:
            first = jnp.sin(a).sum() * b * b
            return first if transformation == "hessian" else (first, c * a.astype(c.dtype))

        args = (jnp.ones(2), 3.0, jnp.ones((1, 2), jnp.bfloat16))
        return printed(ns.make_jaxpr(getattr(ns, transformation)(fun, argnums))(*args))

    assert text(subject) == text(oracle)
