"""Transformations with options: auxiliary outputs, argument numbers, axes, static arguments, trees."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .refusals import lines_of
from .subject import MODES, assert_same, oracle, subject, x64_mode

pytestmark = pytest.mark.usefixtures("compiled_quickly")

VECTOR = np.array([0.5, -1.25, 2.0])
MATRIX = np.arange(6.0).reshape(2, 3) / 4 - 0.5
POINT = collections.namedtuple("point", "x y")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("expression", lines_of(Path(__file__).parent / "derived.txt"))
def test_each_expression_matches_jax(expression: str, mode: str) -> None:
    """The expression gives the same arrays, or the same text, in both libraries."""

    def answer(ns: Any) -> Any:
        names = {"ns": ns, "jnp": ns.numpy, "lax": ns.lax, "np": np, "point": POINT, "collections": collections}
        return eval(expression, {**names, "v": ns.numpy.asarray(VECTOR), "m": ns.numpy.asarray(MATRIX)})

    with x64_mode(mode):
        ours, theirs = answer(subject), answer(oracle)
        if isinstance(theirs, str):
            assert ours == theirs
        else:
            assert_same(ours, theirs)
