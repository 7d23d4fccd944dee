"""Every rule of every structural primitive gives JAX's jaxprs and values."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

from ..oracle.normalise import normalise
from ..oracle.subject import assert_same
from .table import ROWS, transformations

pytestmark = pytest.mark.usefixtures("compiled_quickly", "tracebacks_whole")


@pytest.fixture(autouse=True)
def complex_numbers_may_lose_their_imaginary_parts() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        yield


@pytest.mark.parametrize("name", ROWS)
def test_jaxprs_match_jax(name: str) -> None:
    """Each transformation has JAX's equations in JAX's order, and its program is well typed."""
    ours, theirs = transformations(minijax, ROWS[name]), transformations(jax, ROWS[name])
    assert list(ours) == list(theirs)
    for kind, (function, args) in ours.items():
        jaxpr = minijax.make_jaxpr(function)(*args)
        typecheck_jaxpr(jaxpr)
        mine, wanted = normalise(jaxpr), normalise(jax.make_jaxpr(theirs[kind][0])(*theirs[kind][1]))
        if not wanted.calls or mine.graph() != wanted.graph():
            diff = "\n".join(difflib.unified_diff(wanted.lines, mine.lines, "JAX", "ours", lineterm="", n=30))
            assert mine.lines == wanted.lines, f"{kind}:\n{diff}"


@pytest.mark.parametrize("name", ROWS)
def test_values_match_jax(name: str) -> None:
    """Evaluated by NumPy and compiled by XLA, each row has JAX's values, dtypes and weak types.

    Only the first vmap runs: the test above compares the equations of all vmaps, and compiling takes most of the time.
    """
    ours, theirs = (some(transformations(ns, ROWS[name])) for ns in (minijax, jax))
    wanted, compiled = everything(jax, theirs), everything(minijax, ours)
    for kind, (function, args) in ours.items():
        assert_same(function(*args), wanted[kind])
        assert_same(compiled[kind], wanted[kind])


def some(made: dict[str, Any]) -> dict[str, Any]:
    """The transformations in ``made``, with only the first of its vmaps."""
    later = [kind for kind in made if kind.startswith("vmap")][1:]
    return {kind: each for kind, each in made.items() if kind not in later}


def everything(ns: Any, made: dict[str, Any]) -> Any:
    """The results of all transformations of a row, compiled as one program."""
    program = ns.jit(lambda given: {kind: function(*given[kind]) for kind, (function, _) in made.items()})
    return program({kind: args for kind, (_, args) in made.items()})
