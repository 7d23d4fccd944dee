"""The memory of reverse mode through a scan: what the residuals need, no more; less with ``checkpoint``.

Asserted from the jaxprs (what the forward loop stacks) and from XLA's memory plan, never from time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax

WIDTH = 256
ROW = WIDTH * 4  # bytes of one float32 carry


def loss(ns: Any, wrap: Callable[[Any], Any], depth: int) -> Callable[..., Any]:
    """A recurrence whose cell applies ``depth`` sines: without ``checkpoint``, a residual for each."""

    def cell(c: Any, _: Any) -> tuple[Any, None]:
        for _ in range(depth):
            c = ns.numpy.sin(c)
        return c, None

    def of_carry(c: Any, length: int) -> Any:
        return ns.numpy.sum(ns.lax.scan(wrap(cell), c, None, length=length)[0])

    return of_carry


CELLS: dict[str, tuple[Callable[[Any], Callable[[Any], Any]], int, int]] = {
    # how the cell is wrapped, its depth, and how many rows each step must keep for the way back
    "one sine": (lambda ns: lambda cell: cell, 1, 1),
    "four sines": (lambda ns: lambda cell: cell, 4, 4),
    "four sines, checkpointed": (lambda ns: lambda cell: ns.checkpoint(cell), 4, 1),
}


def gradient(ns: Any, name: str, length: int) -> Callable[[Any], Any]:
    wrap, depth, _ = CELLS[name]
    of_carry = loss(ns, wrap(ns), depth)
    return ns.grad(lambda c: of_carry(c, length))


def stacked_bytes(name: str, length: int) -> int:
    """What the forward scan of the gradient's jaxpr returns with a leading axis of ``length``."""
    closed = minijax.make_jaxpr(gradient(minijax, name, length))(np.zeros(WIDTH, np.float32))
    forward = next(e for e in closed.eqns if e.primitive.name == "scan" and not e.params["reverse"])
    avals = [v.aval for v in forward.outvars[forward.params["num_carry"] :]]
    assert all(a.shape[0] == length for a in avals)
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)


@pytest.mark.parametrize("name", CELLS)
def test_a_step_stacks_its_residuals_and_nothing_else(name: str) -> None:
    rows = CELLS[name][2]
    for length in (10, 1_000):
        assert stacked_bytes(name, length) == rows * ROW * length


def test_residuals_that_do_not_change_are_not_stacked() -> None:
    """The product with a matrix from outside the loop needs the matrix on the way back: once, not once per step."""
    w = np.ones((WIDTH, WIDTH), np.float32)

    def of(w: Any, c: Any) -> Any:
        return minijax.numpy.sum(minijax.lax.scan(lambda c, _: (minijax.numpy.exp(w) @ c, None), c, None, length=50)[0])

    closed = minijax.make_jaxpr(minijax.grad(of, (0, 1)))(w, w[0])
    largest = max(v.aval.size for e in closed.eqns for v in e.outvars)
    assert largest == WIDTH * WIDTH
