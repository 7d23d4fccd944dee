"""Titles and helpers for evaluating scan, ``while`` and ``cond`` step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array, as_array
from minijax.ir.jaxpr import JaxprEqn

# Primitives that run one program once on their operands -> the parameter with that program.
CALLED = {"jit": "jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


def called(eqn: JaxprEqn) -> tuple[str, str]:
    """The parameter with the program that ``eqn`` runs once on its operands ('' if there is none); and a title."""
    name = eqn.primitive.name
    title = f"jit {eqn.params['name']}" if name == "jit" else {"remat2": "checkpoint"}.get(name, name)
    return CALLED.get(name, ""), title


def scan_title(index: int, length: int) -> str:
    """The title of iteration ``index`` of a scan, counted along the scanned arrays."""
    return f"scan, iteration {index} of {length}"


def while_title(turn: int) -> str:
    """The title of an iteration of a ``while``."""
    return f"while, turn {turn}"


def branch_title(index: int, count: int) -> str:
    """The title of a branch."""
    return f"cond, branch {index}" + ({0: " (false)", 1: " (true)"}[index] if count == 2 else "")


def branch_of(index: Any, count: int) -> int:
    """The branch that ``cond`` takes for ``index``, which is clamped to 0 … ``count`` - 1."""
    return min(max(int(np.asarray(as_array(index))), 0), count - 1)


def kept(goes: np.ndarray, new: Any, old: Any) -> Array:
    """``new`` where a batched loop continues, ``old`` where it has ended."""
    new, old = as_array(new), as_array(old)
    mask = goes.reshape(goes.shape + (1,) * (old.ndim - goes.ndim))
    return Array(np.where(mask, new._value(), old._value()), new.aval)


def element(x: Array, at: int) -> Array:
    """Element ``at`` along the first axis."""
    return Array(x._value()[at], x.aval.update(shape=x.aval.shape[1:]))


def operands(args: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Split ``args`` into groups of ``counts`` elements; the last group has the rest."""
    parts, at = [], 0
    for n in counts:
        parts.append(list(args[at : at + n]))
        at += n
    return [*parts, list(args[at:])]
