"""Every rule of every structural primitive against JAX: jaxprs of the transformations, and values."""

from __future__ import annotations

import difflib
import warnings
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

from ..oracle.normalise import normalise
from ..oracle.subject import assert_same
from .table import ROWS, transformations

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("name", ROWS)
def test_same_jaxprs(name: str) -> None:
    """The same equations in the same order, and all well typed."""
    ours, theirs = transformations(minijax, ROWS[name]), transformations(jax, ROWS[name])
    assert list(ours) == list(theirs)
    for kind, (function, args) in ours.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            jaxpr = minijax.make_jaxpr(function)(*args)
            their_function, their_args = theirs[kind]
            their_jaxpr = jax.make_jaxpr(their_function)(*their_args)
        typecheck_jaxpr(jaxpr)
        mine, wanted = normalise(jaxpr).lines, normalise(their_jaxpr).lines
        diff = "\n".join(difflib.unified_diff(wanted, mine, "JAX", "ours", lineterm="", n=30))
        assert mine == wanted, f"{name}, {kind}:\n{diff}"


@pytest.mark.parametrize("name", ROWS)
def test_same_values(name: str) -> None:
    """Evaluated by NumPy and compiled by XLA, the values, dtypes and weak types of JAX.

    One vmap is enough here: that all have JAX's equations is shown above, and compiling is what takes time.
    """
    ours, theirs = transformations(minijax, ROWS[name]), transformations(jax, ROWS[name])
    for built in (ours, theirs):
        for kind in [kind for kind in built if kind.startswith("vmap")][1:]:
            del built[kind]
    wanted = _compiled(jax, theirs)
    compiled = _compiled(minijax, ours)
    for kind, (function, args) in ours.items():
        assert_same(function(*args), wanted[kind])
        assert_same(compiled[kind], wanted[kind])


def _compiled(ns: Any, built: Any) -> Any:
    """All transformations of a row, compiled as one program."""
    functions = {kind: function for kind, (function, _) in built.items()}

    def everything(arguments: Any) -> Any:
        return {kind: function(*arguments[kind]) for kind, function in functions.items()}

    return ns.jit(everything)({kind: args for kind, (_, args) in built.items()})
