"""What is asked of ``minijax.scipy`` and of ``jax.scipy`` alike: the expressions of ``expressions.txt``.

``sp`` is either library's ``scipy``, ``jnp`` its ``numpy``, ``key`` a random key of it. The other names are arrays.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

# An expression after which this stands is differentiated too, with respect to what it reads of floats.
DIFFERENTIATED = " ; d"


def operands() -> dict[str, np.ndarray]:
    """The arrays that expressions use, by name."""
    return {
        "x": np.array([0.3, -0.75, 2.5, 0.0], np.float32),
        "y": np.array([0.5, 2.0, 0.0, 1.5], np.float32),
        "p": np.array([0.25, 0.7, 0.95], np.float32),
        "q": np.array([0.5, 2.5, 12.0], np.float32),
        "r": np.array([3.5, 1.25, 9.0], np.float32),
        "edge": np.array([0.0, 1.0, 0.01, 0.5], np.float32),
        "far": np.array([-30.0, -6.0, 7.0, 0.5], np.float32),
        "s": np.array(0.75, np.float32),
        "i": np.array([3, 0, 2], np.int32),
        "m": np.array([[2.0, 0.5, 0.25], [0.5, 3.0, -0.5], [0.25, -0.5, 1.5]], np.float32),
        "t": np.array([[0.5, 1.0, -2.0], [2.0, 0.0, 1.5]], np.float32),
        "seg": np.array([0, 2, 2, -1], np.int32),
        "heads": (np.arange(48, dtype=np.float32).reshape(2, 4, 2, 3) * 7 % 5 - 2) / 4,
        "lengths": np.array([1, 3], np.int32),
        "words": np.array([1, 2], np.uint32),
        "c": np.array([1 + 2j, -0.5 - 1j], np.complex64),
    }


def lines() -> list[str]:
    """Every expression of ``expressions.txt``, with its mark if it is to be differentiated."""
    text = (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8")
    found = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(set(found)) == len(found)
    return found


def expressions() -> list[str]:
    """Every expression."""
    return [line.removesuffix(DIFFERENTIATED) for line in lines()]


def differentiated() -> list[str]:
    """Those whose derivatives are compared."""
    return [line.removesuffix(DIFFERENTIATED) for line in lines() if line.endswith(DIFFERENTIATED)]


def evaluate(expression: str, library: Any, arrays: dict[str, Any]) -> Any:
    """The value of ``expression`` with ``library`` and the arrays."""
    known = {name: getattr(library, name) for name in ("image", "nn", "ops")}
    known |= {"jnp": library.numpy, "sp": library.scipy, "np": np}
    if re.search(r"\bkey\b", expression):
        known["key"] = library.random.wrap_key_data(arrays["words"])
    return eval(expression, {**known, **arrays})


def reads(expression: str) -> dict[str, np.ndarray]:
    """The arrays that ``expression`` uses."""
    named = re.sub(r"\bkey\b", "words", expression)
    return {name: array for name, array in operands().items() if re.search(rf"(?<![\w.]){name}\b(?!=)", named)}


def derivative(expression: str, library: Any, arrays: dict[str, Any]) -> Any:
    """The derivatives of the sum of what ``expression`` gives, by what it reads of floats."""
    floats = {name: arrays[name] for name, array in reads(expression).items() if array.dtype.kind == "f"}

    def total(given: dict[str, Any]) -> Any:
        leaves = library.tree_util.tree_leaves(evaluate(expression, library, {**arrays, **given}))
        return sum(leaf.sum() for leaf in leaves)

    return library.grad(total)(floats)
