"""Gather, the scatters and the dynamic slices against JAX: jaxprs of the transformations, values, errors."""

from __future__ import annotations

import difflib
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

from ..oracle.normalise import normalise
from ..oracle.subject import assert_same
from .index_rows import rows
from .table import Row, transformations

pytestmark = pytest.mark.usefixtures("compiled_quickly", "tracebacks_whole")

ROWS = {row.name: row for row in rows()}


def built(ns: Any, row: Row) -> dict[str, Any]:
    """The transformations of ``row``, and the vjp mapped over everything."""
    made = transformations(ns, row)
    if "vjp" in made and row.vmap:
        vjp, args = made["vjp"]
        stacked = jax.tree.map(lambda x: np.stack([x, x[::-1] if np.ndim(x) else x]), args)
        made["vmap of vjp"] = (ns.vmap(vjp), stacked)
    return made


@pytest.mark.parametrize("name", ROWS)
def test_same_jaxprs(name: str) -> None:
    """The same equations in the same order, and all well typed."""
    ours, theirs = built(minijax, ROWS[name]), built(jax, ROWS[name])
    assert list(ours) == list(theirs)
    for kind, (function, args) in ours.items():
        jaxpr = minijax.make_jaxpr(function)(*args)
        typecheck_jaxpr(jaxpr)
        their_function, their_args = theirs[kind]
        mine, wanted = normalise(jaxpr), normalise(jax.make_jaxpr(their_function)(*their_args))
        diff = "\n".join(difflib.unified_diff(wanted.lines, mine.lines, "JAX", "ours", lineterm="", n=30))
        assert mine.lines == wanted.lines, f"{name}, {kind}:\n{diff}"


@pytest.mark.parametrize("name", ROWS)
def test_same_values(name: str) -> None:
    """Evaluated by NumPy and compiled by XLA, the values, dtypes and weak types of JAX."""
    ours, theirs = (some(built(ns, ROWS[name])) for ns in (minijax, jax))
    wanted, found = everything(jax, theirs), everything(minijax, ours)
    for kind, (function, args) in ours.items():
        assert_same(function(*args), wanted[kind])
        assert_same(found[kind], wanted[kind])


def some(made: dict[str, Any]) -> dict[str, Any]:
    """All of ``made`` but for the vmaps along other axes: compiling everything takes minutes."""
    first = next((kind for kind in made if kind.startswith("vmap (")), "")
    return {kind: m for kind, m in made.items() if kind == first or not kind.startswith("vmap (")}


def everything(ns: Any, made: dict[str, Any]) -> Any:
    """All transformations of a row, compiled as one program."""
    functions = {kind: function for kind, (function, _) in made.items()}
    program = ns.jit(lambda given: {kind: f(*given[kind]) for kind, f in functions.items()})
    return program({kind: args for kind, (_, args) in made.items()})


def gather(*fields: Any, sizes: Any = (1, 3), shape: Any = (2, 1), dtype: Any = np.int32) -> Any:
    """A gather from a 4 by 3 array with these dimension numbers."""

    def run(ns: Any) -> Any:
        dims = ns.lax.GatherDimensionNumbers(*fields)
        return ns.lax.gather(np.ones((4, 3), np.float32), np.zeros(shape, dtype), dims, sizes)

    return run


def scatter(*fields: Any, updates: Any = (2, 3), shape: Any = (2, 1), dtype: Any = np.float32) -> Any:
    """A scatter into a 4 by 3 array with these dimension numbers."""

    def run(ns: Any) -> Any:
        dims = ns.lax.ScatterDimensionNumbers(*fields)
        x, i = np.ones((4, 3), np.float32), np.zeros(shape, np.int32)
        return ns.lax.scatter(x, i, np.ones(updates, dtype), dims)

    return run


MISTAKES = {
    "indices of floats": gather((1,), (0,), (0,), dtype=np.float32),
    "unsorted offset_dims": gather((1, 0), (), (0,)),
    "repeated offset_dims": gather((1, 1), (), (0,)),
    "start_index_map too long": gather((1,), (0,), (0, 1)),
    "start_index_map out of range": gather((1,), (0,), (2,)),
    "collapsed_slice_dims out of range": gather((1,), (2,), (0,)),
    "batching and collapsed": gather((), (0,), (1,), (0,), (0,)),
    "index vector batching": gather((1,), (), (0,), (0,), (1,)),
    "batching of different numbers": gather((1,), (), (1,), (0,), ()),
    "batching of different sizes": gather((), (1,), (1,), (0,), (0,), sizes=(1, 1)),
    "slice_sizes of another rank": gather((1,), (0,), (0,), sizes=(1,)),
    "a dimension left over": gather((), (0,), (0,)),
    "slice too large": gather((1,), (0,), (0,), sizes=(1, 4)),
    "collapsed slice too wide": gather((1,), (0,), (0,), sizes=(2, 3)),
    "scalar indices": gather((1,), (0,), (0,), shape=()),
    "updates of another rank": scatter((1,), (0,), (0,), updates=(2,)),
    "updates of another dtype": scatter((1,), (0,), (0,), dtype=np.int32),
    "updates too wide": scatter((1,), (0,), (0,), updates=(2, 4)),
    "updates of another size": scatter((1,), (0,), (0,), updates=(3, 3)),
    "window of another rank": scatter((1,), (), (0,)),
    "scatter dims out of range": scatter((1,), (0,), (5,)),
    "adding booleans": lambda ns: ns.lax.scatter_add(
        np.ones(3, bool), np.zeros((1, 1), np.int32), np.ones(1, bool), ns.lax.ScatterDimensionNumbers((), (0,), (0,))
    ),
    "too few starts": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), (0,), (1, 1)),
    "starts of a matrix": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), np.zeros((2, 2), int), (1, 1)),
    "slice larger than the array": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), (0, 0), (1, 3)),
    "negative slice": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), (0, 0), (1, -1)),
    "starts of floats": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), (np.float32(0), np.float32(0)), (1, 1)),
    "starts of two dtypes": lambda ns: ns.lax.dynamic_slice(np.ones((2, 2)), (np.int8(0), np.int32(0)), (1, 1)),
    "negative start": lambda ns: ns.lax.dynamic_slice(np.ones(2), (-1,), (1,), allow_negative_indices=False),
    "update of another rank": lambda ns: ns.lax.dynamic_update_slice(np.ones((2, 2)), np.ones(2), (0, 0)),
    "update too large": lambda ns: ns.lax.dynamic_update_slice(np.ones(2), np.ones(3), (0,)),
    "update of another dtype": lambda ns: ns.lax.dynamic_update_slice(np.ones(2), np.ones(1, int), (0,)),
    "unknown mode": lambda ns: ns.lax.GatherScatterMode.from_any("nearest"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_same_errors(name: str) -> None:
    """An error of the type JAX raises, with a text that begins alike."""
    with pytest.raises(Exception) as theirs:
        MISTAKES[name](jax)
    with pytest.raises(type(theirs.value)) as ours:
        MISTAKES[name](minijax)
    assert str(ours.value)[:20] == str(theirs.value)[:20]
