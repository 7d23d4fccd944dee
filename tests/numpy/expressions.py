"""Inputs for both ``minijax.numpy`` and ``jax.numpy``: the expressions of ``expressions.txt``, and a call of each
function in ``minijax.numpy.ufuncs``.

``jnp`` is the ``numpy`` module of either library, ``nn`` is its ``nn`` module, ``np`` is NumPy. The others are arrays:
see ``operands``.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from minijax.numpy import ufuncs


def operands() -> dict[str, np.ndarray]:
    """The arrays that expressions use, by name."""
    x = np.array([0.25, -1.5, 2.0], np.float32)
    return {
        "x": x,
        "y": np.array([1.5, 0.5, -0.75], np.float32),
        "p": np.array([0.3, 0.7, 0.9], np.float32),
        "q": np.array([1.5, 2.5, 3.0], np.float32),
        "s": np.array(0.75, np.float32),
        "w": np.array([0.25, -1.5, 2.0, 0.75, -0.5, 0.0], np.float32),
        "m": np.arange(6, dtype=np.float32).reshape(2, 3) * 0.5 - 1,
        "k": np.arange(9, dtype=np.float32).reshape(3, 3) * 0.25 - 1,
        "g": np.arange(12, dtype=np.float32).reshape(3, 4) % 5 - 2.25,
        "ia": np.array([0, -1], np.int32),
        "ja": np.array([3, 1], np.int32),
        "ka": np.array(-2, np.int32),
        "t": np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 0.125 - 1,
        "col": np.array([[1.0], [2.0], [-1.0]], np.float32),
        "d": np.array([0.5, -2.5, 1.25]),
        "h": np.array([0.5, -2.5, 1.25], ml_dtypes.bfloat16),
        "h16": np.array([0.5, -2.5, 1.25], np.float16),
        "i": np.array([3, -4, 7], np.int32),
        "j": np.array([2, 3, -2], np.int32),
        "i8": np.array([3, -4, 7], np.int8),
        "u": np.array([3, 4, 200], np.uint8),
        "u32": np.array([3, 4, 7], np.uint32),
        "i64": np.array([3, -4, 7]),
        "im": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": np.array([True, False, True]),
        "b2": np.array([False, False, True]),
        "bm": np.array([[True, False, True], [False, False, False]]),
        "c": np.array([1 + 2j, -0.5 - 1j, 0.25j], np.complex64),
        "odd": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32),
    }


# Arrays that index expressions use. They stay NumPy arrays, so a program has them as constants.
MASK = np.array([True, False, True])
CONSTANTS = {"np": np, "MASK": MASK, "MASKS": np.arange(12).reshape(3, 4) % 3 == 0, "TWO": np.int32([[0, 2], [1, -3]])}


def expressions() -> list[str]:
    """The expressions of ``expressions.txt``, separated by `` | `` (a bitwise or has no spaces), and ``calls()``."""
    lines = (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8").splitlines()
    found = [part.strip() for line in lines if not line.startswith("#") for part in line.split(" | ")]
    found += calls()
    assert len(set(found)) == len(found), [e for e in found if found.count(e) > 1]
    return found


def calls() -> list[str]:
    """A call of each function of ``minijax.numpy.ufuncs``. Bitwise functions get integers."""
    found = []
    for name in ufuncs.__all__:
        bits = "bitwise" in name or "shift" in name or name == "invert"
        count = len(inspect.signature(getattr(ufuncs, name)).parameters)
        found.append(f"jnp.{name}({('i' if bits else 'w') if count == 1 else ('i, 2' if bits else 'x, y')})")
    return found


def evaluate(expression: str, library: Any, arrays: dict[str, Any]) -> Any:
    """The value of ``expression`` for ``library``'s ``numpy`` and ``nn`` and these ``arrays``."""
    return eval(expression, {"jnp": library.numpy, "nn": library.nn, **CONSTANTS, **arrays})


def names_in(expression: str) -> list[str]:
    """The names of the arrays that ``expression`` uses."""
    return [name for name in operands() if re.search(rf"(?<![\w.]){name}\b", expression)]
