"""Every expression has JAX's value, dtype, weak type and jaxpr."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import jax
import pytest

import minijax

from ..oracle.normalise import normalise, printed
from ..oracle.subject import MODES, QUICKLY, assert_same, x64_mode
from .expressions import evaluate, expressions, names_in, operands

importlib.import_module("minijax.nn")

# XLA's older emitter compiles faster, but cannot fuse operations on complex numbers.
OPTIONS = {**QUICKLY, "xla_cpu_use_fusion_emitters": True}
COMPLEX = {e for e in expressions() if "c" in names_in(e) or any(word in e for word in ("complex", "fft", "1j"))}


@cache
def expected(mode: str) -> dict[str, Any]:
    """JAX's values of all expressions, from only two programs, because compiling takes most of the time."""
    answers: dict[str, Any] = {}
    with x64_mode(mode):
        for chosen, options in ((set(expressions()) - COMPLEX, QUICKLY), (COMPLEX, OPTIONS)):
            program = lambda arrays: {e: evaluate(e, jax, arrays) for e in sorted(chosen)}  # noqa: B023, E731
            answers |= jax.jit(program, compiler_options=options)(operands())
    return answers


@cache
def arguments(mode: str) -> dict[str, Any]:
    """The operands as arrays of the mode's types."""
    return {name: minijax.numpy.asarray(array) for name, array in operands().items()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's warning outside a function's domain
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("expression", expressions())
def test_values_match_jax(expression: str, mode: str) -> None:
    """The evaluated result has JAX's value, dtype and weak type."""
    with x64_mode(mode):
        assert_same(evaluate(expression, minijax, arguments(mode)), expected(mode)[expression])


# JAX's programs for these expressions have unused equations, or equations in another order.
OTHER_TEXTS = ("x ** i", "x.clip(-1.0, 1.0)", "jnp.isinf(c)", "jnp.power(x, i[0])")
BRANCH_FOR_TPU = ("jnp.diag(k)",)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("expression", [e for e in expressions() if e not in BRANCH_FOR_TPU])
def test_jaxprs_match_jax(expression: str, mode: str) -> None:
    """The jaxpr prints as JAX's; in ``OTHER_TEXTS``, it has the same live equations if JAX's jits are inlined."""
    arrays = {name: operands()[name] for name in names_in(expression)}
    with x64_mode(mode):
        ours, theirs = (
            library.make_jaxpr(lambda given: evaluate(expression, library, given))(arrays)  # noqa: B023
            for library in (minijax, jax)
        )
    if expression in OTHER_TEXTS:
        assert normalise(ours).graph() == normalise(theirs).graph()
    else:
        assert printed(ours) == printed(theirs)


@pytest.mark.parametrize("trim", ["fb", "F", "b", ""])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_trim_zeros_matches_jax(trim: str, axis: Any) -> None:
    """The shape of the result depends on the value of x, so the table, which stages programs, has no row for this."""

    def trimmed(library: Any, x: Any) -> Any:
        return library.value_and_grad(lambda x: (library.numpy.trim_zeros(x, trim, axis) ** 2).sum())(x)

    for x in (operands()["k"].clip(0), operands()["m"] * 0):
        assert_same(trimmed(minijax, x), trimmed(jax, x))


def test_trim_zeros_refuses_an_axis_that_is_named_twice() -> None:
    for library in (minijax, jax):
        with pytest.raises(ValueError, match=r"repeated axis: \(1, 1\)"):
            library.numpy.trim_zeros(operands()["m"], axis=(1, -1))
