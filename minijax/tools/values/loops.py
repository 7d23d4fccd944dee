"""Titles and helpers for evaluating scan, ``while`` and ``cond`` step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array, as_array
from minijax.core.records import NamedTuple
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

# Primitives that run one program once on their operands -> the parameter with that program.
CALLED = {"jit": "jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}

# The same for programs on devices and other calls.
CALLS = {**CALLED, "shard_map": "jaxpr", "call": "call_jaxpr", "closed_call": "call_jaxpr"}


class InnerProgram(NamedTuple):
    """A program inside an operation: its parameter, its role, and for each input the operand that initializes it."""

    key: str
    title: str
    closed: Any
    operands: Sequence[int]

    @property
    def jaxpr(self) -> Jaxpr:
        """The program without its constants."""
        return self.closed.jaxpr if isinstance(self.closed, ClosedJaxpr) else self.closed


def programs_of(primitive: str, params: Mapping[str, Any], operands: int) -> tuple[list[InnerProgram], int, int]:
    """The programs that an operation runs, the index of the operand with the first carry, and the number of carries.

    Operand ``first + i`` and result ``i`` are the same carry.
    """
    if primitive in CALLS:
        key = CALLS[primitive]
        return [InnerProgram(key, "", params[key], range(operands))], 0, 0
    if primitive == "scan":
        return (
            [InnerProgram("jaxpr", "body", params["jaxpr"], range(operands))],
            params["num_consts"],
            params["num_carry"],
        )
    if primitive == "while":
        of_cond, first = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        of_condition = [*range(of_cond), *range(first, operands)]
        condition = InnerProgram("cond_jaxpr", "condition", params["cond_jaxpr"], of_condition)
        body = InnerProgram("body_jaxpr", "body", params["body_jaxpr"], range(of_cond, operands))
        return [condition, body], first, operands - first
    if primitive == "cond":
        rest = range(1, operands)
        branches = enumerate(params["branches"])
        return [InnerProgram("branches", f"branch {i}", each, rest) for i, each in branches], 0, 0
    if primitive == "custom_linear_solve":  # only the solver runs; the other functions are for derivatives
        lengths = params["const_lengths"]
        before = lengths.matvec + lengths.vecmat
        given = range(before + lengths.solve + lengths.transpose_solve, operands)
        own = [*range(before, before + lengths.solve), *given]
        return [InnerProgram("jaxprs", "solve", params["jaxprs"].solve, own)], 0, 0
    return [], 0, 0


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
