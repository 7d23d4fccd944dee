"""Indices that are arrays, masks and traced scalars, and ``x.at``, against JAX: jaxprs, values, errors."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

from ..ops.table import Row, transformations, values
from ..oracle.normalise import normalise
from ..oracle.subject import assert_same, x64_mode

pytestmark = pytest.mark.usefixtures("compiled_quickly", "tracebacks_whole")

X = values(3, 4)
DEEP = values(2, 3, 4)
ROWS_AT, COLUMNS_AT = np.array([0, -1], np.int32), np.array([3, 1], np.int32)
TWO = np.array([[0, 2], [1, -3]], np.int32)
SCALAR = np.int32(-2)
MASK = X[:, 0] > 0
MASKS = X > 0.5

# what stands between the brackets, given integer arrays i and j and an integer scalar k
INDICES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "array": lambda i, j, k: i,
    "array and slice": lambda i, j, k: (i, slice(1, 3)),
    "slice and array": lambda i, j, k: (slice(None), i),
    "two arrays": lambda i, j, k: (i, j),
    "array and scalar": lambda i, j, k: (i, k),
    "array and negative integer": lambda i, j, k: (-1, i),
    "array and None": lambda i, j, k: (i, None),
    "array and steps back": lambda i, j, k: (i, slice(3, None, -2)),
    "steps back and array": lambda i, j, k: (slice(None, None, -1), i),
    "ellipsis, array": lambda i, j, k: (..., i),
    "broadcast arrays": lambda i, j, k: (i[:, None], j),
    "scalar": lambda i, j, k: k,
    "slice and scalar": lambda i, j, k: (slice(None, None, -1), k),
    "scalar and integer": lambda i, j, k: (1, k),
    "NumPy array": lambda i, j, k: np.array([0, 2, -1]),
    "unsigned": lambda i, j, k: np.array([0, 2], np.uint8),
    "mask": lambda i, j, k: MASK,
    "mask and array": lambda i, j, k: (MASK, j[:1]),
    "mask of everything": lambda i, j, k: MASKS,
    "slice and mask": lambda i, j, k: (slice(1, None), MASKS[0]),
    "true": lambda i, j, k: True,
    "true and slice": lambda i, j, k: (True, slice(1, 3)),
    "empty array": lambda i, j, k: np.zeros(0, np.int32),
    "outside": lambda i, j, k: i * 5,
}
DEEP_INDICES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "apart": lambda i, j, k: (i, slice(None), j),
    "apart, with None": lambda i, j, k: (i, None, j),
    "together behind": lambda i, j, k: (slice(None), i, j),
    "scalar apart": lambda i, j, k: (k, slice(None), j),
    "mask in front": lambda i, j, k: (DEEP[:, :, 0] > 0, slice(1, 3)),
    "mask and array apart": lambda i, j, k: (np.array([True, False]), slice(None), j[:1]),
    "two-dimensional": lambda i, j, k: (slice(None), TWO, slice(0, 2)),
    "true in the middle": lambda i, j, k: (slice(None), True, i),
}
UPDATES = ("set", "add", "multiply", "min")


def rows() -> dict[str, Row]:
    """Reading at every index, and updating at each by a few operations."""
    made = {}

    def enter(name: str, function: Any, *args: Any, **options: Any) -> None:
        def on_arrays(ns: Any, *given: Any) -> Any:
            return function(ns, *map(ns.numpy.asarray, given))

        made[name] = Row(name, on_arrays, args, **options)

    for array, indices in ((X, INDICES), (DEEP, DEEP_INDICES)):
        for name, index in indices.items():
            enter(
                name,
                lambda ns, x, i, j, k, f=index: x[f(i, j, k)],
                array,
                ROWS_AT,
                COLUMNS_AT,
                SCALAR,
                vmap="apart" in name,
            )
            for n, update in enumerate(UPDATES):
                if n < 2 or array is DEEP and update != "multiply":
                    enter(
                        f"{update} at {name}",
                        lambda ns, x, y, i, j, k, f=index, u=update: getattr(x.at[f(i, j, k)], u)(y),
                        array,
                        np.float32(2.5),
                        ROWS_AT,
                        COLUMNS_AT,
                        SCALAR,
                        vmap=array is DEEP,
                    )
    for update in ("set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max"):
        options = {"unique_indices": True} if update in ("multiply", "mul", "divide", "power") else {}
        enter(
            f"x.at.{update}",
            lambda ns, x, y, i, u=update, o=options: getattr(x.at[i], u)(y, **o),
            np.abs(X),
            np.abs(values(2, 4)),
            ROWS_AT,
        )
    for mode in ("clip", "fill", "drop", "promise_in_bounds", None):
        for name in ("array", "array and slice", "outside", "scalar", "slice and scalar"):
            f = INDICES[name]
            enter(
                f"get {mode} at {name}",
                lambda ns, x, i, k, f=f, m=mode: x.at[f(i, COLUMNS_AT, k)].get(mode=m),
                X,
                ROWS_AT,
                SCALAR,
            )
        enter(
            f"set {mode}",
            lambda ns, x, y, i, m=mode: x.at[i * 3].set(y, mode=m, indices_are_sorted=True),
            X,
            X[:2],
            ROWS_AT,
        )
    enter("get static, fill", lambda ns, x: x.at[1, ::2].get(mode="fill", fill_value=3), X)
    enter("get static, clip", lambda ns, x: x.at[7, 1:].get(mode="clip"), X)
    enter("get, filled", lambda ns, x, i: x.at[i * 9].get(mode="fill", fill_value=-1), X, ROWS_AT)
    enter("get, not wrapped", lambda ns, x, i: x.at[i].get(mode="fill", wrap_negative_indices=False), X, ROWS_AT)
    enter("set, not wrapped", lambda ns, x, i: x.at[i].set(1.0, wrap_negative_indices=False), X, ROWS_AT)
    enter("apply", lambda ns, x, i: x.at[i].apply(ns.numpy.exp), X, ROWS_AT, derivative=False)
    enter("set everything", lambda ns, x, y: x.at[...].set(y) + x.at[:].add(y[0]) + x.at[()].multiply(2.0), X, X)
    enter("set a new axis", lambda ns, x, y: x.at[None, 1].set(y), X, X[:1])
    enter(
        "integers",
        lambda ns, x, i: (x.at[i].set(7), x.at[i].add(-1), x.at[0, 1].max(i[0])),
        X.astype(np.int8),
        ROWS_AT,
    )
    enter("scalar into a vector", lambda ns, x, y: x.at[1].set(y), X[0], np.float32(2))
    enter("weak", lambda ns, x, y, i: x.at[i].set(y), X[0], 2.0, ROWS_AT, vmap=False, derivative=False)
    enter(
        "weak array",
        lambda ns, x, i: ns.numpy.full(3, x).at[i].add(1.0),
        2.0,
        ROWS_AT,
        vmap=False,
        derivative=False,
    )
    enter("iterated", lambda ns, x, i: sum(x[n] for n in i), X, ROWS_AT)
    for mode in (None, "fill", "clip", "wrap"):
        enter(f"take {mode}", lambda ns, x, i, m=mode: ns.numpy.take(x, i, axis=-1, mode=m), X, TWO * 2)
    enter("take one", lambda ns, x, i: ns.numpy.take(x, i, 1), X, SCALAR)
    enter("take none", lambda ns, x: ns.numpy.take(x, np.zeros((0, 2), np.int32), 1), X)
    enter("method take", lambda ns, x, i: x.take(i, 0), X, ROWS_AT)
    for axis, where in (
        (1, TWO[:, [0]]),
        (0, values(2, 4, dtype=np.int32) % 3),
        (-1, np.array([[1, -2, 9]])),
    ):
        array = X if axis == 0 else X[:2]
        enter(
            f"take_along_axis {axis} {where.shape}",
            lambda ns, x, i, a=axis: ns.numpy.take_along_axis(x, i, a),
            array,
            where.astype(np.int32),
            vmap=False,
        )
        enter(
            f"put_along_axis {axis} {where.shape}",
            lambda ns, x, i, a=axis: ns.numpy.put_along_axis(x, i, 3.0, a, inplace=False),
            array,
            where.astype(np.int32),
            vmap=False,
        )
    enter("take_along_axis, flat", lambda ns, x, i: ns.numpy.take_along_axis(x, i, None), X, ROWS_AT)
    enter("take_along_axis, one row", lambda ns, x, i: ns.numpy.take_along_axis(x, i, 1), X[:1], TWO)
    for down in (False, True):
        enter(f"argsort {down}", lambda ns, x, d=down: ns.numpy.argsort(x, 0, descending=d), X % 2, derivative=False)
    enter("methods", lambda ns, x: (x.argsort(0), x.sort()), X, derivative=False)
    return made


ROWS = rows()


@pytest.mark.parametrize("name", ROWS)
def test_same_jaxprs(name: str) -> None:
    """The same equations in the same order, and all well typed."""
    ours, theirs = transformations(minijax, ROWS[name]), transformations(jax, ROWS[name])
    for kind, (function, args) in ours.items():
        jaxpr = minijax.make_jaxpr(function)(*args)
        typecheck_jaxpr(jaxpr)
        wanted = normalise(jax.make_jaxpr(theirs[kind][0])(*theirs[kind][1]))
        mine = normalise(jaxpr)
        if wanted.calls and mine.graph() == wanted.graph():
            continue
        diff = "\n".join(difflib.unified_diff(wanted.lines, mine.lines, "JAX", "ours", lineterm="", n=30))
        assert mine.lines == wanted.lines, f"{name}, {kind}:\n{diff}"


@pytest.mark.parametrize("name", ROWS)
def test_same_values(name: str) -> None:
    """The value, dtype and weak type of JAX.

    Compiled and differentiated it is the same, since the jaxprs are JAX's and consist of primitives that
    ``tests/ops`` compiles and differentiates.
    """
    row = ROWS[name]
    assert_same(row.function(minijax, *row.args), jax.jit(lambda *args: row.function(jax, *args))(*row.args))


MISTAKES: dict[str, Callable[[Any, Any], Any]] = {
    "too many": lambda ns, x: x[np.array([0]), 0, 0],
    "float array": lambda ns, x: x[np.array([0.5])],
    "two ellipses": lambda ns, x: x[..., np.array([0]), ...],
    "list in at": lambda ns, x: x.at[[0, 1]].set(0.0),
    "mask of another shape": lambda ns, x: x[np.array([True, False])],
    "string": lambda ns, x: x.at["a"].get(),
    "traced mask": lambda ns, x: ns.jit(lambda m: x[m])(np.ones(3, bool)),
    "traced slice beside an array": lambda ns, x: ns.jit(lambda n: x[np.array([0]), :n])(2),
    "values that do not fit": lambda ns, x: x.at[np.array([0, 1])].set(np.ones((3, 4))),
    "unknown mode": lambda ns, x: x.at[np.array([0])].get(mode="nearest"),
    "take raising": lambda ns, x: ns.numpy.take(x, 0, mode="raise"),
    "index into nothing": lambda ns, x: x[:, :0][np.array([0]), 0],
    "fill by an array": lambda ns, x: x.at[np.array([9])].get(mode="fill", fill_value=np.ones(2)),
    "take_along_axis of floats": lambda ns, x: ns.numpy.take_along_axis(x, np.ones((3, 4)), 0),
    "put_along_axis in place": lambda ns, x: ns.numpy.put_along_axis(x, np.ones((3, 4), int), 0.0, 0),
    "gradient of repeated factors": lambda ns, x: ns.grad(lambda y: x.at[np.array([0, 0])].multiply(y).sum())(2.0),
    "sort by kind": lambda ns, x: ns.numpy.sort(x, kind="quicksort"),
    "axis of argsort": lambda ns, x: ns.numpy.argsort(x, axis=2),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_same_errors(name: str) -> None:
    """An error of the type JAX raises, with a text that begins alike."""
    with pytest.raises(Exception) as theirs:
        MISTAKES[name](jax, jax.numpy.asarray(X))
    with pytest.raises(Exception) as ours:
        MISTAKES[name](minijax, minijax.numpy.asarray(X))
    assert type(ours.value).__name__ == type(theirs.value).__name__
    mine, wanted = (str(e.value).split("\n")[0].split(";")[0] for e in (ours, theirs))
    assert mine[:24] == wanted[:24], f"{mine!r} against JAX's {wanted!r}"


def test_values_are_not_shared() -> None:
    """An update leaves the array it was made from as it was."""
    x = minijax.numpy.zeros(3)
    y = x.at[np.array([1])].set(5.0)
    z = minijax.lax.dynamic_update_slice(x, minijax.numpy.ones(2), (0,))
    assert x.tolist() == [0, 0, 0] and y.tolist() == [0, 5, 0] and z.tolist() == [1, 1, 0]


def test_repeated_updates() -> None:
    """Repeated indices add up; a function is applied as often as its index occurs."""
    x = minijax.numpy.ones(3)
    where = np.array([2, 0, 2, 2])
    assert x.at[where].add(1.0).tolist() == [2, 1, 4]
    assert x.at[where].apply(lambda v: v * 2).tolist() == [2, 1, 8]
    assert minijax.jit(lambda x: x.at[where].apply(lambda v: v * 2))(x).tolist() == [2, 1, 8]


@pytest.mark.parametrize("name", ["two arrays", "scalar", "mask", "NumPy array"])
def test_64_bits(name: str) -> None:
    """Indices of 64 bits."""
    index = INDICES[name]

    def read(ns: Any, x: Any, i: Any, k: Any) -> Any:
        x, i, k = map(ns.numpy.asarray, (x, i, k))
        return x[index(i, i, k)], x.at[index(i, i, k)].add(1)

    args = X.astype(np.float64), ROWS_AT.astype(np.int64), np.int64(-1)
    with x64_mode("64"):
        assert_same(read(minijax, *args), read(jax, *args))
        mine, wanted = (normalise(ns.make_jaxpr(lambda *a, ns=ns: read(ns, *a))(*args)) for ns in (minijax, jax))
        assert mine.lines == wanted.lines
