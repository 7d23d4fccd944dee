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
# Runs an operation on values: its results, and its side result.
Run = Callable[[Operation, Sequence[Any]], tuple[list[Any], Any]]


def applied(primitive: Primitive, params: dict[str, Any]) -> Function:
    """The primitive as a function from arrays to a list of arrays."""

    def function(*values: Any) -> Sequence[Any]:
        out = primitive.bind(*values, **params)
        return out if primitive.multiple_results else [out]

    return function


def pushed(run: Run, function: Function, values: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The results of ``function`` and their tangents; None for a zero tangent."""
    moving, n = [t is not None for t in tangents], len(values)

    def operation(*given: Any) -> tuple[Sequence[Any], tuple[bool, ...]]:
        if not any(moving):
            outs = function(*given)
            return outs, (False,) * len(outs)
        rest = iter(given[n:])
        dots = [next(rest) if nz else zero_of(get_aval(x)) for x, nz in zip(given, moving, strict=False)]
        outs, found = jvp(function, given[:n], dots)
        flags = tuple(type(t) is not Zero for t in found)
        return [*outs, *[t for t in found if type(t) is not Zero]], flags

    outs, flags = run(operation, [*values, *[t for t in tangents if t is not None]])
    return outs[: len(flags)], spread(outs[len(flags) :], flags)


def pulled(run: Run, function: Function, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of the operands of ``function``, given those of its results; None for zero."""
    arriving, n = [ct is not None for ct in cotangents], len(values)

    def operation(*given: Any) -> tuple[Sequence[Any], tuple[bool, ...]]:
        primals, rest = given[:n], iter(given[n:])
        outs, tape = linearize(function, primals, [True] * n, lines=False)
        seeds = [next(rest) if nz else zero_of(get_aval(x)) for x, nz in zip(outs, arriving, strict=True)]
        found = iter(tape.transpose(seeds))
        cts = [next(found) if dtypes.is_inexact(get_aval(x).dtype) else None for x in primals]
        flags = tuple(ct is not None and type(ct) is not Zero for ct in cts)
        return [ct for ct, flag in zip(cts, flags, strict=True) if flag], flags

    return spread(*run(operation, [*values, *[ct for ct in cotangents if ct is not None]]))


def sum_operation(a: Any, b: Any) -> tuple[Sequence[Any], None]:
    """The sum of two cotangents."""
    return [add_tangents(a, b)], None


def spread(found: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The elements of ``found`` where ``flags`` are true, None elsewhere."""
    each = iter(found)
    return [next(each) if flag else None for flag in flags]
