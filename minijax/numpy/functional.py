"""NumPy's functions that take a Python function. They apply ``vmap`` to this function, so it may be traced."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from minijax.api.batching import vmap
from minijax.core.borrowing import borrow
from minijax.numpy import creation, manipulation
from minijax.numpy.promotion import check_array_like
from minijax.pytree import tree_map

__all__ = ["frompyfunc", "vectorize"]

# The names of the core dimensions of a function's arguments, or of its results.
CoreDims = list[tuple[str, ...]]

_GROUP = r"\([^()]*\)"
_SIGNATURE = rf"^\s*({_GROUP}(?:\s*,\s*{_GROUP})*)?\s*->\s*({_GROUP}(?:\s*,\s*{_GROUP})*)\s*$"


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """Map ``pyfunc``, written for single elements, over arrays that broadcast against each other.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that pass unchanged.
      signature: the shapes of single arguments and results, if they are not scalars: ``"(m,n),(n)->(m)"``.

    Raises:
      TypeError, ValueError: ``excluded`` or ``signature`` is invalid, or the arguments of a call do not fit them.
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
        # as in JAX, only excluded keyword arguments are passed on, and none are mapped
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
    """Map ``fun`` over all axes before the core dimensions of the operands; the operands' mapped axes broadcast."""
    in_core: CoreDims = [()] * len(operands) if core is None else core[0]
    if len(in_core) != len(operands):
        raise TypeError(f"wrong number of positional arguments: expected {len(in_core)}, got {len(operands)} {context}")
    sizes = _core_sizes([x.shape for x in operands], in_core, context)
    outer = [x.shape[: x.ndim - len(dims)] for x, dims in zip(operands, in_core, strict=True)]
    shape = manipulation.broadcast_shapes(*outer)
    # an axis broadcasts if it is missing or has size 1: it is not mapped
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
    """``fun`` for one element, with a check of its results against the signature."""

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


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> Any:
    """Make ``func`` a ``ufunc`` with ``nin`` inputs and ``nout`` outputs. ``identity`` is the empty reduction."""
    return borrow("minijax.numpy", "ufunc")(func, nin, nout, identity=identity)
