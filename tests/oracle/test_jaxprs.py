"""Jaxprs of every function of the table, and of its transformations, against JAX's.

Where JAX's jaxpr contains no ``jit``, the normalised jaxprs (see ``normalise``) must be equal line by
line, dead code included. JAX's own library is full of internal ``jit``s, though, which minijax has no use
for, and which show after inlining: an equation that was unused within one is gone, cotangents meet in
another order, and a Python number that entered one has become an argument that is converted. There, the
same live equations with the same operands are asked for, in any order, of JAX's jaxpr either inlined or
traced under ``disable_jit``.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import pytest

from .case import Case
from .functions import CASES
from .normalise import Program, normalise
from .subject import MODES, oracle, subject, x64_mode
from .transforms import build, rows


def jaxpr_of(ns: Any, case: Case, transformation: str) -> Any:
    """The jaxpr of a transformation of a row; the subject's must be well typed."""
    function, args = build(ns, case)[transformation]
    closed = ns.make_jaxpr(function)(*args)
    if ns is not oracle:
        importlib.import_module(ns.__name__ + ".ir.typecheck").typecheck_jaxpr(closed)
    return closed


def program(ns: Any, case: Case, transformation: str) -> Program:
    """The same, normalised."""
    return normalise(jaxpr_of(ns, case, transformation))


def difference(ours: list[str], theirs: list[str]) -> str:
    """A readable diff: lines with ``-`` are JAX's, lines with ``+`` ours."""
    return "\n".join(difflib.unified_diff(theirs, ours, "JAX", "ours", lineterm="", n=30))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "transformation"), rows())
def test_same_equations(name: str, transformation: str, mode: str) -> None:
    """The same equations between the same arguments and results."""
    with x64_mode(mode):
        check_same_equations(CASES[name], transformation)


def check_same_equations(case: Case, transformation: str) -> None:
    """Fail, with a diff, unless both libraries stage the same equations."""
    ours, theirs = program(subject, case, transformation), program(oracle, case, transformation)
    if ours.lines == theirs.lines:
        return
    if theirs.calls and ours.arguments == theirs.arguments:
        if ours.graph() == theirs.graph():
            return
        with oracle.disable_jit():
            if ours.graph() == program(oracle, case, transformation).graph():
                return
    pytest.fail("jaxprs differ\n" + difference(ours.lines, theirs.lines), pytrace=False)


@pytest.mark.parametrize(
    ("transformation", "argnums"),
    [("jacfwd", 0), ("jacfwd", (0, 1, 2)), ("jacrev", 0), ("jacrev", (0, 1, 2)), ("hessian", 0), ("hessian", 1)],
)
def test_same_equations_of_jacobians(transformation: str, argnums: Any) -> None:
    """Of a function of leaves of three types, to leaves of two; the second derivatives of the first of these."""

    def lines(ns: Any) -> list[str]:
        jnp = ns.numpy

        def fun(a: Any, b: Any, c: Any) -> Any:
            first = jnp.sin(a).sum() * b * b
            return first if transformation == "hessian" else (first, c * a.astype(c.dtype))

        args = (jnp.ones(2), 3.0, jnp.ones((1, 2), jnp.bfloat16))
        return normalise(ns.make_jaxpr(getattr(ns, transformation)(fun, argnums))(*args)).lines

    ours, theirs = lines(subject), lines(oracle)
    assert ours == theirs, difference(ours, theirs)
