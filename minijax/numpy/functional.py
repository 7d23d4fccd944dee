"""NumPy's functions that take a Python function: it is mapped over arrays with ``vmap``, so it may be traced."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.api.batching import vmap
from minijax.numpy import creation, manipulation
from minijax.numpy.promotion import canonical_axis, check_array_like, ensure
from minijax.numpy.reductions import argmax, cumsum
from minijax.pytree import tree_map

__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "piecewise", "vectorize"]

# The names of the core dimensions of each argument, or result, of a function.
CoreDims = list[tuple[str, ...]]

_GROUP = r"\([^()]*\)"
_SIGNATURE = rf"^\s*({_GROUP}(?:\s*,\s*{_GROUP})*)?\s*->\s*({_GROUP}(?:\s*,\s*{_GROUP})*)\s*$"


# ------------------------------------------------------------------------------------------------ vectorize


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """``pyfunc``, written for single elements, mapped over arrays that broadcast against each other.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are given to it as they are.
      signature: what single arguments and results are, if no scalars: ``"(m,n),(n)->(m)"``.

    Raises:
      TypeError, ValueError: ``excluded`` or ``signature`` are no such; when called, arguments that do not fit them.
    """
    if any(not isinstance(which, (str, int)) for which in excluded):
        raise TypeError(f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={excluded!r}")
    if any(isinstance(which, int) and which < 0 for which in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    core = None if signature is None else _parsed(signature)
    context = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        mapped = [i for i in range(len(args)) if i not in excluded]
        # arguments by name are never mapped, and only those excluded are handed on: so it is in JAX
        named = {name: x for name, x in kwargs.items() if name in excluded}

        def of_mapped(*values: Any) -> Any:
            full = list(args)
            for i, x in zip(mapped, values, strict=True):
                full[i] = x
            return pyfunc(*full, **named)

        check_array_like("vectorize", *[args[i] for i in mapped])
        return _mapped(of_mapped, [creation.asarray(args[i]) for i in mapped], core, context)

    return vectorized


def _parsed(signature: str) -> tuple[CoreDims, CoreDims]:
    match = re.match(_SIGNATURE, signature)
    sides = [re.findall(_GROUP, side or "") for side in match.groups()] if match is not None else []
    parsed = [[tuple(filter(None, map(str.strip, group[1:-1].split(",")))) for group in side] for side in sides]
    if not parsed or not all(re.fullmatch(r"\w+", dim) for side in parsed for dims in side for dim in dims):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    return parsed[0], parsed[1]


def _mapped(fun: Callable[..., Any], operands: list[Any], core: tuple[CoreDims, CoreDims] | None, context: str) -> Any:
    """``fun`` over all axes of the operands in front of their core dimensions, which are broadcast."""
    in_core: CoreDims = [()] * len(operands) if core is None else core[0]
    if len(in_core) != len(operands):
        raise TypeError(f"wrong number of positional arguments: expected {len(in_core)}, got {len(operands)} {context}")
    sizes = _core_sizes([x.shape for x in operands], in_core, context)
    outer = [x.shape[: x.ndim - len(dims)] for x, dims in zip(operands, in_core, strict=True)]
    shape = manipulation.broadcast_shapes(*outer)
    # an axis of size 1, or a missing one, is the same for all: it is not mapped
    squeezed = [
        manipulation.squeeze(x, tuple([i for i, size in enumerate(dims) if size == 1]))
        for x, dims in zip(operands, outer, strict=True)
    ]
    has_axis = [_padded(dims, len(shape)) for dims in outer]
    mapped = _checking(fun, core, sizes, context)
    moved = []
    for i in reversed(range(len(shape))):
        in_axes = [0 if sizes_of[i] != 1 else None for sizes_of in has_axis]
        if any(axis == 0 for axis in in_axes):
            mapped = vmap(mapped, in_axes=tuple(in_axes))
        else:
            moved.append(i)
    out = mapped(*squeezed)
    if not moved:
        return out
    return tree_map(lambda x: manipulation.expand_dims(x, tuple(sorted(moved))), out)


def _padded(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(dims)) + tuple(dims)


def _core_sizes(shapes: Sequence[tuple[int, ...]], in_core: CoreDims, context: str) -> dict[str, int]:
    """The size that each named core dimension has."""
    sizes: dict[str, int] = {}
    for shape, dims in zip(shapes, in_core, strict=True):
        if len(shape) < len(dims):
            raise ValueError(
                f"input with shape {shape} does not have enough dimensions for all core dimensions {dims} {context}"
            )
        _agree(shape[len(shape) - len(dims) :], dims, sizes, context)
    return sizes


def _agree(shape: Sequence[int], dims: Sequence[str], sizes: dict[str, int], context: str) -> None:
    for dim, size in zip(dims, shape, strict=True):
        known = sizes.setdefault(dim, size)
        if size != known:
            raise ValueError(f"inconsistent size for core dimension {dim!r}: {size} vs {known} {context}")


def _checking(fun: Callable[..., Any], core: Any, sizes: dict[str, int], context: str) -> Callable[..., Any]:
    """``fun`` on single elements, its results held against the signature."""

    if core is None:
        return fun

    def checked(*args: Any) -> Any:
        out = fun(*args)
        outs = list(map(creation.asarray, out if isinstance(out, tuple) else (out,)))
        if len(outs) != len(core[1]):
            raise TypeError(f"wrong number of output arguments: expected {len(core[1])}, got {len(outs)} {context}")
        for x, dims in zip(outs, core[1], strict=True):
            if x.ndim != len(dims):
                raise ValueError(f"output shape {x.shape} does not match core dimensions {dims} {context}")
            _agree(x.shape, dims, sizes, context)
        return tuple(outs) if isinstance(out, tuple) else outs[0]

    return checked


# ------------------------------------------------------------------------------------------------ along axes


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """``func1d(vector, *args, **kwargs)`` for each vector of ``arr`` along ``axis``, the results in its place."""
    arr = ensure("apply_along_axis", arr)
    axis = canonical_axis(axis, arr.ndim)

    def of_vector(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    mapped = of_vector
    for i in range(1, arr.ndim - axis):
        mapped = vmap(mapped, in_axes=i, out_axes=-1)
    for _ in range(axis):
        mapped = vmap(mapped, in_axes=0, out_axes=0)
    return mapped(arr)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Sequence[int]) -> Any:
    """``func(a, axis)`` for one axis after the other; a result that lacks the axis gets it back with size 1."""
    check_array_like("apply_over_axes", a)
    out = ensure("apply_over_axes", a)
    for axis in axes:
        found = func(out, axis)
        if found.ndim == out.ndim - 1:
            found = manipulation.expand_dims(found, axis)
        if found.ndim != out.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        out = found
    return out


# ------------------------------------------------------------------------------------------------ by position, by case


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """``function(i, j, ..., **kwargs)`` at each position of an array of ``shape``; the indices are of ``dtype``."""
    shape = tuple(shape) if np.ndim(shape) else (int(shape),)
    mapped: Callable[..., Any] = functools.partial(function, **kwargs)
    for i in reversed(range(len(shape))):
        mapped = vmap(mapped, in_axes=tuple([0 if j == i else None for j in range(len(shape))]))
    return mapped(*[creation.arange(size, dtype=dtype) for size in shape])


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """``funclist[k](x, *args, **kw)``, or ``funclist[k]`` if it is a number, where ``condlist[k]`` is true.

    The last true condition counts. One function more than conditions serves where none is true, otherwise it is 0.
    """
    check_array_like("piecewise", x)
    x = ensure("piecewise", x)
    conditions = creation.asarray(condlist, dtype=bool)
    if conditions.ndim == 0:
        conditions = manipulation.expand_dims(conditions, 0)
    n = len(conditions)
    if len(funclist) == n:
        funclist = [0, *funclist]
    elif len(funclist) == n + 1:
        funclist = [funclist[-1], *funclist[:-1]]
    else:
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected; got {len(funclist)}")
    none = creation.zeros_like(conditions[:1])
    chosen = argmax(cumsum(manipulation.concatenate([none, conditions], 0), 0), 0)

    def branch(f: Any) -> Callable[[Any], Any]:
        if callable(f):
            return lambda v: creation.asarray(f(v, *args, **kw), dtype=x.dtype)
        return lambda v: creation.asarray(f, dtype=x.dtype)

    branches = [branch(f) for f in funclist]
    return vectorize(lambda k, v: lax.switch(k, branches, v))(chosen, x)
