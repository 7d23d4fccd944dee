"""The printed programs of derivatives beside JAX's, where either library linearizes directly.

Every function of the tables under every transformation that differentiates, to the letter; of
JAX's texts only that some numbers are NumPy's is left out, and its memory spaces.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import minijax

from .case import Case
from .control_flow import PROGRAMS
from .functions import CASES
from .normalise import printed
from .subject import oracle, x64_mode
from .transforms import build

settings = importlib.import_module("minijax.config")

TABLE = {name: case for name, case in [*CASES.items(), *PROGRAMS.items()] if case.grads}

CLOSED_CALL = "JAX calls the body of a scan when it evaluates a checkpoint of it partially"
NOTHING_CALLED = "JAX hoists the known part of an inner call out of a scan though nothing is left of it"
SHARED = "JAX stages a branch given twice once, and prints what is shared ahead"

REVERSE = ("grad", "vmap_of_grad", "grad_of_vmap", "grad_of_grad", "jvp_of_grad")

# Where texts differ: under which transformations, and why.
DIFFERENT: dict[str, tuple[tuple[str, ...], str]] = {
    "checkpointed_scan": (REVERSE, CLOSED_CALL),
    "jit_of_grad_of_checkpoint_of_scan": (("jvp", *REVERSE), CLOSED_CALL),
    "scan_with_integer_and_bool_carries": (REVERSE, NOTHING_CALLED),
    "nested_conds": (("jvp",), SHARED),
    "linear_solve_by_iteration": (("vmap_of_grad",), "JAX shares what both solves run, here each has its own"),
}


def derivatives(case: Case) -> list[str]:
    """The transformations of ``case`` that differentiate."""
    return [name for name in build(oracle, case) if name not in ("value", "vmap")]


def differing(case: Case) -> list[str]:
    """The transformations under which the two libraries print different programs."""

    def text(ns: Any, name: str) -> str:
        function, args = build(ns, case)[name]
        return printed(ns.make_jaxpr(function)(*args))

    with x64_mode("32"), settings.use_direct_linearize(True):
        return [name for name in derivatives(case) if text(minijax, name) != text(oracle, name)]


@pytest.mark.parametrize("name", TABLE)
def test_derivatives_are_printed_as_jax_prints_them(name: str) -> None:
    assert set(differing(TABLE[name])) == set(DIFFERENT.get(name, ((), ""))[0])


def test_nineteen_of_twenty_are_equal() -> None:
    every = [f"{name} {t}" for name, case in TABLE.items() for t in derivatives(case)]
    excused = [f"{name} {t}" for name, (transformations, _) in DIFFERENT.items() for t in transformations]
    assert len(every) > 450 and set(excused) <= set(every) and len(excused) <= 0.05 * len(every)
