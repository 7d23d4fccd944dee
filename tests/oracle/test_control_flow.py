"""Values, derivatives, batching and jaxprs of programs with control flow and custom rules, against JAX.

32-bit mode: the other tests of this folder hold dtypes, and each of these programs costs XLA a second.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from .control_flow import PROGRAMS
from .meaning import meaning
from .subject import assert_same, oracle, subject, x64_mode
from .test_jaxprs import check_same_equations, jaxpr_of
from .test_values import run_jitted
from .transforms import SECOND, build, names

pytestmark = pytest.mark.usefixtures("compiled_quickly")

# Programs that differentiate before they are transformed: their gradients are second derivatives.
DIFFERENTIATE = {"grad_inside_scan", "grad_of_scan_closing_over_tracers", "jit_of_grad_of_checkpoint_of_scan"}
ROWS = [(case.name, t) for case in PROGRAMS.values() for t in names(case)]


def is_second(name: str, transformation: str) -> bool:
    """Whether the row takes a second derivative in reverse mode."""
    return transformation in SECOND or (name in DIFFERENTIATE and "grad" in transformation)


@cache
def expected(name: str) -> dict[str, Any]:
    """What JAX answers, by transformation."""
    return run_jitted(oracle, build(oracle, PROGRAMS[name]))


@cache
def compiled(name: str) -> dict[str, Any]:
    """What the subject answers under one ``jit``; nothing if that fails, to find out which transformation it is."""
    try:
        return run_jitted(subject, build(subject, PROGRAMS[name]))
    except Exception:
        return {}


def check(answer: Any, name: str, transformation: str) -> None:
    case = PROGRAMS[name]
    assert_same(answer, expected(name)[transformation], scale=4 * case.scale)


@pytest.mark.parametrize(("name", "transformation"), ROWS)
def test_eager(name: str, transformation: str) -> None:
    with x64_mode("32"):
        function, args = build(subject, PROGRAMS[name])[transformation]
        args = oracle.tree_util.tree_map(
            lambda leaf: subject.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, args
        )
        check(function(*args), name, transformation)


@pytest.mark.parametrize(("name", "transformation"), ROWS)
def test_jit(name: str, transformation: str) -> None:
    with x64_mode("32"):
        answers = compiled(name)
        if transformation in answers:
            answer = answers[transformation]
        else:
            function, args = build(subject, PROGRAMS[name])[transformation]
            answer = subject.jit(function)(*args)
        check(answer, name, transformation)


@pytest.mark.parametrize(("name", "transformation"), [row for row in ROWS if not is_second(*row)])
def test_same_equations(name: str, transformation: str) -> None:
    with x64_mode("32"):
        check_same_equations(PROGRAMS[name], transformation)


@pytest.mark.parametrize(("name", "transformation"), [row for row in ROWS if is_second(*row)])
def test_second_derivatives_compute_the_same(name: str, transformation: str) -> None:
    """Equation by equation, but for the order of residuals: see ``meaning``."""
    with x64_mode("32"):
        ours, theirs = (meaning(jaxpr_of(ns, PROGRAMS[name], transformation)) for ns in (subject, oracle))
        if ours != theirs:
            check_same_equations(PROGRAMS[name], transformation)
