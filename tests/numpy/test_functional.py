"""NumPy's functions that take functions, and ``ravel_pytree``, have JAX's values, programs and errors."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.flatten_util as theirs_flatten
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import flatten_util
from minijax import numpy as jnp

from ..oracle.refusals import lines_of

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
TREE = {"a": X, "b": np.ones(2, np.int32), "c": 1.0}


def outcome(text: str, mine: bool) -> tuple[str, str]:
    """(class name, message) of an expression's error, or ('', result). ``n`` is numpy, ``u`` is flatten_util."""
    scope = {"n": jnp if mine else rnp, "u": flatten_util if mine else theirs_flatten, "x": X, "tree": TREE, "np": np}
    try:
        found = eval(text, scope)
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)
    return "", str(found)


@pytest.mark.parametrize("text", lines_of(Path(__file__).parent / "functional.txt"))
def test_results_and_errors_match_jax(text: str) -> None:
    assert outcome(text, mine=True) == outcome(text, mine=False)


def test_programs_match_jax() -> None:
    ours = mj.make_jaxpr(lambda a, b: jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(a, b))(X, X[:1])
    theirs = jax.make_jaxpr(lambda a, b: rnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(a, b))(X, X[:1])
    assert str(ours) == str(theirs)


def test_the_function_may_close_over_a_differentiated_value() -> None:
    def loss(w: object, n: object) -> object:
        return n.vectorize(lambda a: a * w)(X).sum()  # type: ignore[attr-defined]

    assert mj.grad(loss)(2.0, jnp) == jax.grad(lambda w: loss(w, rnp))(2.0) == X.sum()
