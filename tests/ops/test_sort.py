"""The derivatives of sort, and top_k, against JAX: jaxprs, values, errors. Sorting itself is in ``test_rules``."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.ir.typecheck import typecheck_jaxpr

from ..oracle.normalise import normalise
from ..oracle.subject import assert_same
from .table import Row, bfloat16, transformations, values

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SPECIAL = np.array([3.0, np.nan, -0.0, 0.0, np.inf, 3.0, -np.nan, -np.inf], np.float32)


def rows() -> dict[str, Row]:
    """Sorting distinct and equal values, and top_k of every kind of dtype."""
    made = [
        Row("sort", lambda ns, x: ns.lax.sort(x, 0), (values(3, 4),)),
        Row("sort last", lambda ns, x: ns.lax.sort(x), (values(2, 3, 4),)),
        Row("sort ties", lambda ns, x: ns.lax.sort(x), (values(9) // 1,)),
        Row("sort by keys", lambda ns, x, y: ns.lax.sort((x, y), num_keys=1), (values(7) // 1, values(7)[::-1].copy())),
        Row("sort by two keys", lambda ns, x, y: ns.lax.sort((x, y), 0, num_keys=2), (values(7) // 1, values(7))),
        Row("sort_key_val", lambda ns, x, i: ns.lax.sort_key_val(i, x)[1], (values(5), values(5, dtype=np.int32))),
        Row("argument", lambda ns, x: ns.lax.sort_key_val(x, ns.lax.iota(np.int32, 6)), (values(6),), derivative=False),
        Row("top_k 0", lambda ns, x: ns.lax.top_k(x, 2, axis=0)[0], (values(4, 3),)),
        Row("top_k ties", lambda ns, x: ns.lax.top_k(x, 4)[0], (values(9) // 1,)),
        Row("top_k none", lambda ns, x: ns.lax.top_k(x, 0), (values(3),), derivative=False),
        Row("top_k special", lambda ns, x: ns.lax.top_k(x, 8), (SPECIAL,), derivative=False, vmap=False),
    ]
    for dtype in (np.int8, np.uint8, bool, np.float16, bfloat16):
        row = Row(
            f"top_k {np.dtype(dtype)}", lambda ns, x: ns.lax.top_k(x, 3), (values(2, 5, dtype=dtype),), derivative=False
        )
        made.append(row)
    return {row.name: row for row in made}


ROWS = rows()


@pytest.mark.parametrize("name", ROWS)
def test_same_jaxprs(name: str) -> None:
    """The same equations in the same order, and all well typed."""
    theirs = transformations(jax, ROWS[name])
    for kind, (function, args) in transformations(minijax, ROWS[name]).items():
        jaxpr = minijax.make_jaxpr(function)(*args)
        typecheck_jaxpr(jaxpr)
        wanted = normalise(jax.make_jaxpr(theirs[kind][0])(*theirs[kind][1]))
        assert normalise(jaxpr).lines == wanted.lines, kind


@pytest.mark.parametrize("name", ROWS)
def test_same_values(name: str) -> None:
    """Evaluated by NumPy and compiled by XLA, the values, dtypes and weak types of JAX."""
    theirs = transformations(jax, ROWS[name])
    for kind, (function, args) in transformations(minijax, ROWS[name]).items():
        wanted = jax.jit(theirs[kind][0])(*args)
        assert_same(function(*args), wanted)
        assert_same(minijax.jit(function)(*args), wanted)


MISTAKES: dict[str, Any] = {
    "of complex numbers": lambda ns: ns.lax.top_k(np.ones(3, np.complex64), 1),
    "of a scalar": lambda ns: ns.lax.top_k(np.float32(1), 1),
    "negative": lambda ns: ns.lax.top_k(np.ones(3), -1),
    "too many": lambda ns: ns.lax.top_k(np.ones(3), 4),
    "no axis": lambda ns: ns.lax.top_k(np.ones(3), 1, axis=1),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_same_errors(name: str) -> None:
    """An error of the type JAX raises, with a text that begins alike."""
    with pytest.raises(Exception) as theirs:
        MISTAKES[name](jax)
    with pytest.raises(type(theirs.value)) as ours:
        MISTAKES[name](minijax)
    assert str(ours.value)[:20] == str(theirs.value)[:20]
