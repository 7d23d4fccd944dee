"""Functions for the results, tangents and cotangents of a primitive with its parameters.

Each maps arrays to arrays, and also returns a side result that depends only on types: ``examples.Operation``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.primitive import Primitive
from minijax.core.structural import Zero, add_tangents, zero_of
from minijax.interpreters.jvp import jvp
from minijax.interpreters.linearize import linearize
from minijax.tools.values.examples import Operation

Function = Callable[..., Sequence[Any]]


def applied(primitive: Primitive, params: dict[str, Any]) -> Function:
    """The primitive as a function from arrays to a list of arrays."""

    def function(*values: Any) -> Sequence[Any]:
        out = primitive.bind(*values, **params)
        return out if primitive.multiple_results else [out]

    return function


def primal_operation(function: Function) -> Operation:
    """An operation that returns the results of ``function``, and no side result."""
    return lambda *values: (function(*values), None)


def tangent_operation(function: Function, nonzero: Sequence[bool], with_primals: bool = False) -> Operation:
    """A function from operands and their ``nonzero`` tangents to the nonzero tangents of the results.

    ``with_primals`` puts the results in front; the side result flags the nonzero tangents.
    """
    n = len(nonzero)

    def operation(*values: Any) -> tuple[Sequence[Any], tuple[bool, ...]]:
        given = iter(values[n:])
        tangents = [next(given) if nz else zero_of(get_aval(x)) for x, nz in zip(values[:n], nonzero, strict=True)]
        outs, found = jvp(function, values[:n], tangents)
        flags = tuple(type(t) is not Zero for t in found)
        moving = [t for t in found if type(t) is not Zero]
        return [*outs, *moving] if with_primals else moving, flags

    return operation


def cotangent_operation(function: Function, n: int, nonzero: Sequence[bool]) -> Operation:
    """A function from ``n`` operands and the ``nonzero`` cotangents of the results to the cotangents of the operands.

    The function returns only the nonzero cotangents; its side result flags them.
    """

    def operation(*values: Any) -> tuple[Sequence[Any], tuple[bool, ...]]:
        primals, given = values[:n], iter(values[n:])
        outs, tape = linearize(function, primals, [True] * n, lines=False)
        seeds = [next(given) if nz else zero_of(get_aval(x)) for x, nz in zip(outs, nonzero, strict=True)]
        found = iter(tape.transpose(seeds))
        cts = [next(found) if dtypes.is_inexact(get_aval(x).dtype) else None for x in primals]
        flags = tuple(ct is not None and type(ct) is not Zero for ct in cts)
        return [ct for ct, flag in zip(cts, flags, strict=True) if flag], flags

    return operation


def sum_operation(a: Any, b: Any) -> tuple[Sequence[Any], None]:
    """The sum of two cotangents."""
    return [add_tangents(a, b)], None


def spread(found: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The elements of ``found`` where ``flags`` are true, None elsewhere."""
    each = iter(found)
    return [next(each) if flag else None for flag in flags]
