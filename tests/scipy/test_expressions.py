"""Every expression in both libraries: value, dtype, weak type, derivative, and the jaxpr's text."""

from __future__ import annotations

import difflib
import importlib
import re
from functools import cache
from typing import Any

import jax
import jax.image
import jax.ops
import jax.scipy.optimize
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
import jax.scipy.special
import pytest

import minijax

from ..oracle.subject import QUICKLY, assert_same
from .table import derivative, differentiated, evaluate, expressions, operands, reads

for module in ("image", "nn.initializers", "ops", "random", "scipy"):
    importlib.import_module(f"minijax.{module}")

# Where the jaxpr's text is not JAX's, and why.
DIAGONAL = "JAX takes a diagonal in one of two ways, and a param says which platforms take which"
DIFFERENT: dict[str, str] = {
    e: DIAGONAL
    for e in expressions()
    if any(name in e for name in ("orthogonal", "funm", "multivariate_normal", "_kde")) and "resample" not in e
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What JAX answers to all expressions, and their derivatives: in few programs, and none that takes long to compile.
    """
    asked = [(e, e, evaluate) for e in expressions()]
    asked += [(f"derivative of {e}", e, derivative) for e in differentiated()]
    answers: dict[str, Any] = {}
    for first in range(0, len(asked), 20):
        some = asked[first : first + 20]

        def program(arrays: dict[str, Any], some: Any = some) -> dict[str, Any]:
            return {name: ask(e, jax, arrays) for name, e, ask in some}

        answers |= jax.jit(program, compiler_options=QUICKLY)(operands())
    return answers


@cache
def arguments() -> dict[str, Any]:
    """The operands as arrays of ours."""
    return {name: minijax.numpy.asarray(array) for name, array in operands().items()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, outside a function's domain
@pytest.mark.parametrize("expression", expressions())
def test_value(expression: str, expected: dict[str, Any]) -> None:
    """Evaluated, with JAX's dtypes and weak types."""
    # sums of logarithms lose digits that exp shows
    assert_same(evaluate(expression, minijax, arguments()), expected[expression], scale=8)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", differentiated())
def test_derivative(expression: str, expected: dict[str, Any]) -> None:
    """JAX's derivatives, in reverse mode."""
    assert_same(derivative(expression, minijax, arguments()), expected[f"derivative of {expression}"], scale=8)


def text(library: Any, expression: str) -> str:
    """The jaxpr of ``expression`` as it is printed, numbers of NumPy's as Python's."""
    made = str(library.make_jaxpr(lambda given: evaluate(expression, library, given))(reads(expression)))
    made = re.sub(r"np\.int64\((-?\d+)\)", r"\1", made)
    # where lines are broken depends on the numbers too
    return re.sub(r"\s+", " ", re.sub(r"\s*\]", "]", re.sub(r"\[\s+", "[", made)))


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(e, marks=pytest.mark.xfail(reason=DIFFERENT[e], strict=True) if e in DIFFERENT else ())
        for e in expressions()
    ],
)
def test_jaxpr(expression: str) -> None:
    """The same text, the names of inner calls included."""
    ours, theirs = text(minijax, expression), text(jax, expression)
    if ours != theirs:
        parts = [re.sub(r" (?=\w+:\w+(\[[\d,]*\])? )", "\n", program).split("\n") for program in (theirs, ours)]
        pytest.fail("jaxprs differ\n" + "\n".join(difflib.unified_diff(*parts, "JAX", "ours", n=3)), pytrace=False)
