"""Programs of the tables print exactly as in JAX, under every transformation."""

from __future__ import annotations

from typing import Any

import pytest

from .checks import check_programs
from .control_flow import PROGRAMS
from .functions import CASES
from .normalise import printed
from .subject import MODES, oracle, subject

REVERSE = ("grad", "vmap_of_grad", "grad_of_vmap", "grad_of_grad", "jvp_of_grad")
# Transformations whose programs print differently than JAX's, with the reasons: only their ``meaning`` is compared.
OTHER = {
    # in the partial evaluation of a checkpointed scan, JAX makes a call of the scan's body
    "checkpointed_scan": REVERSE,
    "jit_of_grad_of_checkpoint_of_scan": ("value", "vmap", "jvp", *REVERSE),
    # JAX hoists the known part of an inner call out of a scan even if it is empty
    "scan_with_integer_and_bool_carries": REVERSE,
    # JAX stages a repeated branch once, and prints the shared jaxpr first
    "nested_conds": ("value", "jvp"),
    # JAX shares the common code of the two solves
    "linear_solve_by_iteration": ("vmap_of_grad",),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_functions_print_as_in_jax(name: str, mode: str) -> None:
    check_programs(CASES[name], mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_prints_as_in_jax(name: str) -> None:
    check_programs(PROGRAMS[name], other=OTHER.get(name, ()))


@pytest.mark.parametrize(
    ("transformation", "argnums"),
    [("jacfwd", 0), ("jacfwd", (0, 1, 2)), ("jacrev", 0), ("jacrev", (0, 1, 2)), ("hessian", 0), ("hessian", 1)],
)
def test_jacobians_print_as_in_jax(transformation: str, argnums: Any) -> None:
    """The function has arguments of three dtypes. For ``hessian`` it returns only its first result."""

    def text(ns: Any) -> str:
        jnp = ns.numpy

        def fun(a: Any, b: Any, c: Any) -> Any:
            first = jnp.sin(a).sum() * b * b
            return first if transformation == "hessian" else (first, c * a.astype(c.dtype))

        args = (jnp.ones(2), 3.0, jnp.ones((1, 2), jnp.bfloat16))
        return printed(ns.make_jaxpr(getattr(ns, transformation)(fun, argnums))(*args))

    assert text(subject) == text(oracle)
