"""Values, dtypes, weak types and gradients of every function of the table, under every transformation, against JAX.

The subject is asked three ways: evaluated eagerly, with ``jit`` outermost, and with ``jit`` innermost. JAX is asked
once, under ``jit``: that it agrees with itself is not what is tested here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from .functions import CASES
from .subject import MODES, assert_same, oracle, subject, x64_mode
from .transforms import SECOND, build, names, rows

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def run_jitted(ns: Any, built: dict[str, Any], **options: Any) -> dict[str, Any]:
    """All transformations in one program: compiling dominates these tests."""
    functions = {name: function for name, (function, _) in built.items()}

    def everything(args: dict[str, Any]) -> dict[str, Any]:
        return {name: functions[name](*args[name]) for name in functions}

    return ns.jit(everything, **options)({name: args for name, (_, args) in built.items()})


@cache
def expected(name: str, mode: str) -> dict[str, Any]:
    """What JAX answers, by transformation. (The mode is that of the caller; here it is only a key.)"""
    return run_jitted(oracle, build(oracle, CASES[name]))


def jitted_transformations(name: str, mode: str) -> list[str]:
    """What is asked under ``jit``. XLA's time is the limit: second derivatives in 32-bit mode only."""
    return [t for case, t in rows() if case == name and (mode == "32" or t not in SECOND)]


@cache
def staged(name: str, mode: str) -> dict[str, Any]:
    """What the subject answers under one ``jit``; nothing if that fails, to find out which transformation it is."""
    built = build(subject, CASES[name])
    try:
        return run_jitted(subject, {t: built[t] for t in jitted_transformations(name, mode)})
    except Exception:
        return {}


def check(answer: Any, name: str, transformation: str, mode: str) -> None:
    """``answer`` is JAX's."""
    case = CASES[name]
    assert_same(answer, expected(name, mode)[transformation], scale=case.scale, coarse=case.coarse)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "transformation"), rows())
def test_eager(name: str, transformation: str, mode: str) -> None:
    """Evaluated without ``jit``, on the subject's arrays: NumPy's own operators are not under test."""
    with x64_mode(mode):
        function, args = build(subject, CASES[name])[transformation]
        args = oracle.tree_util.tree_map(
            lambda leaf: subject.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, args
        )
        check(function(*args), name, transformation, mode)


@pytest.mark.parametrize(
    ("name", "transformation", "mode"),
    [(name, t, mode) for name in CASES for mode in MODES for t in jitted_transformations(name, mode)],
)
def test_jit_outermost(name: str, transformation: str, mode: str) -> None:
    """``jit`` of each transformation."""
    with x64_mode(mode):
        answers = staged(name, mode)
        if transformation in answers:
            answer = answers[transformation]
        else:
            function, args = build(subject, CASES[name])[transformation]
            answer = subject.jit(function)(*args)
        check(answer, name, transformation, mode)


def inner_rows() -> list[tuple[str, str]]:
    """A transformation of each function in turn, and all of functions that are made of jits.

    What the transformations do is shown above; here, that a ``jit`` between takes part in each of them.
    """
    chosen = []
    for number, case in enumerate(CASES.values()):
        offered = [t for t in names(case) if t in ("jvp", "grad", "vmap")]
        turn = offered if "jit" in case.name else offered[number % len(offered) :][:1] if offered else []
        chosen += [(case.name, t) for t in turn]
    return chosen


@pytest.mark.parametrize(
    ("name", "transformation", "mode"),
    [(*row, "32") for row in inner_rows()]
    + [(*row, mode) for row in rows(("grad_of_vmap", "grad_of_grad")) for mode in MODES if "jit" in row[0]],
)
def test_jit_innermost(name: str, transformation: str, mode: str) -> None:
    """Each transformation of a jitted function; the compound ones only where the function is made of jits."""
    with x64_mode(mode):
        function, args = build(subject, CASES[name], inner_jit=True)[transformation]
        check(function(*args), name, transformation, mode)
