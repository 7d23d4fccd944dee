"""Mutable array references: ``new_ref`` makes one, indexing reads and writes it, ``freeze`` ends it.

Few programs use references, so tracers get the operators, and calls the checks, when the first one is made.
Source: https://docs.jax.dev/en/latest/array_refs.html
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.api.autodiff import VJP
from minijax.core import dtypes
from minijax.core.array import as_array, get_aval, is_array_like
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.refs import AbstractRef, Index, Ref, Slice, is_ref
from minijax.core.trace import Tracer, check_alive, state
from minijax.errors import NonConcreteBooleanIndexError
from minijax.ops.convert import convert
from minijax.ops.refs.discharge import CALLS, bind_call
from minijax.ops.refs.primitives import addupdate_p, free_ref_p, freeze_p, get_p, new_ref_at, swap_p
from minijax.ops.shape import broadcast_in_dim
from minijax.pytree import register_pytree_node, tree_flatten, tree_unflatten

__all__ = ["AbstractRef", "Ref", "Slice", "addupdate", "ds", "free_ref", "freeze", "get", "new_ref", "set", "swap"]


def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Any:
    """Make a mutable reference ``r`` that holds the array ``init_val``.

    ``r[i]``, ``r[i] = x`` and ``r[i] += x`` also work inside transformed functions. A function may take a reference as
    an argument or close over it, but not return it. TypeError unless ``init_val`` is an array; NotImplementedError for
    a ``memory_space`` or ``kind``.
    """
    if memory_space is not None or kind is not None:
        asked = f"memory_space={memory_space!r}" if memory_space is not None else f"kind={kind!r}"
        raise NotImplementedError(f"new_ref: minijax has one memory and one kind of references, got {asked}.")
    if is_ref(init_val):
        raise TypeError(f"new_ref takes an array, got a reference of type {get_aval(init_val)}: pass r[...].")
    if not is_array_like(init_val):
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic value is of type "
            f"{type(init_val)} and was passed to new_ref at position 0. Make one reference for each array of a tree, "
            "tree.map(new_ref, tree)."
        )
    value = check_alive(init_val) if isinstance(init_val, AnyArray) else as_array(init_val)
    return new_ref_at(value, len(state.stack) - 1, {})


def freeze(ref: Any) -> Any:
    """Return the array in ``ref``, which must not be used afterwards."""
    return freeze_p.bind(_checked("freeze", ref))


def free_ref(ref: Any) -> None:
    """Free ``ref`` without reading it. It must not be used afterwards."""
    free_ref_p.bind(_checked("free_ref", ref))


def get(ref: Any, idx: Any = None) -> Any:
    """Read ``ref[idx]``. ``idx``: an int, slice, integer array, ``...`` or a tuple of these.

    ValueError if a constant index is out of bounds, TypeError for an index of another type.
    """
    index, operands = _indexed(_checked("ref_get", ref), idx)
    return get_p.bind(ref, *operands, index=index)


def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Write ``value`` to ``ref[idx]`` and return the old value. ValueError if its shape or dtype does not fit."""
    return _swap("ref_swap", ref, idx, value)


def set(ref: Any, idx: Any, value: Any) -> None:  # noqa: A001  (JAX's name)
    """Write ``value`` to ``ref[idx]``: see ``swap``."""
    _swap("ref_set", ref, idx, value)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add ``x`` to ``ref[idx]``. An element that an integer array selects twice gets both additions."""
    index, operands = _indexed(_checked("ref_addupdate", ref), idx)
    addupdate_p.bind(ref, x, *operands, index=index)


def ds(start: Any, size: int | None = None, stride: int = 1) -> Slice | _DynamicSlice:
    """A slice of ``size`` elements from ``start``, which may be traced; ``ds(size)`` begins at 0."""
    if size is None:
        return Slice(0, operator.index(start), stride)
    if isinstance(start, int):
        return Slice(start, size, stride)
    return _DynamicSlice(start, size, stride)


class _DynamicSlice:
    """A slice that begins at a traced scalar."""

    __slots__ = ("start", "size", "stride")

    def __init__(self, start: Any, size: int, stride: int) -> None:
        self.start, self.size, self.stride = start, size, stride


def _checked(name: str, ref: Any) -> Any:
    if not is_ref(ref):
        raise ValueError(f"Can only call `{name}` on a `Ref`: {ref}. Make a reference of an array with new_ref(x).")
    return check_alive(ref)


def _swap(name: str, ref: Any, idx: Any, value: Any) -> Any:
    index, operands = _indexed(_checked(name, ref), idx)
    return swap_p.bind(ref, _cast(value, get_aval(ref)), *operands, index=index)


def _cast(value: Any, ref: Any) -> Any:
    """Convert ``value`` to the reference's dtype, as JAX does: weakly typed floats to floats, integers to integers."""
    aval = get_aval(value)
    if type(aval) is not ShapedArray:
        return value
    floats = aval.weak_type and dtypes.kind(aval.dtype) == dtypes.kind(ref.dtype) == "f"
    if floats or (dtypes.is_integer(aval.dtype) and dtypes.is_integer(ref.dtype)):
        return convert(value, ref.dtype)
    return value


class _Marker:
    """A placeholder for a cotangent in the arguments or results of ``VJP.with_refs``: a pytree without leaves."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __init_subclass__(cls) -> None:
        register_pytree_node(cls, lambda x: ((), None), lambda _, __: cls())


class GradValue(_Marker):
    """Request: return this argument's cotangent as a value."""


class DontWant(_Marker):
    """Request: do not return this argument's cotangent."""


class GradRef(_Marker):
    """Result: this argument's cotangent was added to a reference."""


class DidntWant(_Marker):
    """Result: this argument's cotangent was not requested."""


def with_refs(self: VJP, *maybe_ct_refs: Any) -> Callable[[Any], Any]:
    """A pullback that adds cotangents to references instead of returning them.

    ``maybe_ct_refs``: a tree with the structure of the arguments. Its leaves are references, ``ad.GradValue()`` (return
    the cotangent) or ``ad.DontWant()``. ValueError for other leaves. The pullback returns a tree with ``ad.GradRef()``
    for references, cotangents for ``GradValue`` and ``ad.DidntWant()`` for ``DontWant``.
    """

    def is_wish(x: Any) -> bool:
        return isinstance(x, _Marker) or is_ref(x)

    wishes, tree = tree_flatten((maybe_ct_refs, {}), is_leaf=is_wish)
    if tree != self.in_tree or not all(map(is_wish, wishes)):
        raise ValueError(
            f"with_refs takes a tree like the arguments, {self.in_tree}, of references, ad.GradValue() and "
            f"ad.DontWant(); got {maybe_ct_refs}."
        )

    def pull_back(cotangent: Any) -> Any:
        found = tree_flatten((self(cotangent), {}))[0]
        outs: list[Any] = []
        for wish, ct in zip(wishes, found, strict=True):
            if is_ref(wish):
                addupdate(wish, ..., ct)
            outs.append(GradRef() if is_ref(wish) else ct if type(wish) is GradValue else DidntWant())
        return tree_unflatten(tree, outs)[0]

    return pull_back


VJP.with_refs = with_refs  # type: ignore[attr-defined]
ad = types.SimpleNamespace(GradValue=GradValue, DontWant=DontWant, GradRef=GradRef, DidntWant=DidntWant)


def _indexed(ref: Any, idx: Any) -> tuple[Index, list[Any]]:
    """Split the user's index into its static part and its operands, which may be traced."""
    if idx is None or idx is Ellipsis:
        return None, []
    shape = get_aval(ref).shape
    several = isinstance(idx, tuple) and not isinstance(idx, Slice)  # a named tuple is a tuple too
    entries = _all_dimensions(idx if several else (idx,), shape)
    if not entries and not isinstance(idx, list):
        return None, []
    integers = [get_aval(_integers(x)).shape for x in entries if not isinstance(x, (slice, Slice, _DynamicSlice))]
    try:
        common = np.broadcast_shapes(*integers)
    except ValueError:
        raise ValueError(f"Cannot broadcast shapes for indexing: {integers}") from None
    index: list[Slice | None] = []
    operands: list[Any] = []
    for x, size in zip(entries, shape, strict=True):
        if isinstance(x, slice):
            index.append(_slice(x, size))
        elif isinstance(x, Slice):
            _check_slice(x, size)
            index.append(x)
        elif isinstance(x, _DynamicSlice):
            index.append(Slice(None, x.size, x.stride))
            operands.append(x.start)
        else:
            if isinstance(x, (int, np.integer)) and x >= size:
                raise ValueError(
                    f"Out of bound indexer: idx={x}, dim={size}. A static integer must be below the dimension's size."
                )
            index.append(None)
            operands.append(_spread(_integers(x), common))
    return tuple(index), operands


def _all_dimensions(entries: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Extend ``entries`` to one entry for each dimension."""
    places = [i for i, x in enumerate(entries) if x is Ellipsis]
    if len(places) > 1:
        raise ValueError("Only one ellipsis is supported: write : for the other dimensions.")
    if places:
        missing = len(shape) - len(entries) + 1
        entries = (*entries[: places[0]], *[slice(None)] * missing, *entries[places[0] + 1 :])
    if len(entries) > len(shape):
        raise ValueError(
            f"`indices` must not be longer than `shape`: indices={entries}, {shape=}. A reference is indexed by at "
            "most one entry for each dimension, and None cannot add an axis."
        )
    return (*entries, *[slice(None)] * (len(shape) - len(entries)))


def _slice(x: slice, size: int) -> Slice:
    start, stop, step = x.indices(size) if x.step is None or operator.index(x.step) > 0 else (0, 0, x.step)
    if step < 1:
        raise ValueError(f"slice must have a step >= 1 (found: {step}). Reverse the array that you read: r[...][::-1].")
    return Slice(start, max(-(-(stop - start) // step), 0), step)


def _check_slice(x: Slice, size: int) -> None:
    start = x.start or 0
    if start >= size > 0 or start + (x.size - 1) * x.stride >= size > 0:
        raise ValueError(f"Out of bound slice: start={start}, size={x.size}, stride={x.stride}, dim={size}.")


def _integers(x: Any) -> Any:
    if isinstance(x, (list, np.ndarray)):
        x = as_array(np.asarray(x))
    aval = get_aval(x)
    if aval.dtype == np.bool_:
        raise NonConcreteBooleanIndexError(x)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"a reference is indexed by integers and slices, got {aval.str_short()}")
    return x


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    ours = get_aval(x).shape
    if ours == shape:
        return x
    return broadcast_in_dim(x, shape, range(len(shape) - len(ours), len(shape)))


def _tracer_getitem(self: Any, idx: Any) -> Any:
    return get(self, idx) if type(self.aval) is AbstractRef else _array_getitem(self, idx)


def _tracer_setitem(self: Any, idx: Any, value: Any) -> None:
    if type(self.aval) is AbstractRef:
        set(self, idx, value)
    else:
        _array_setitem(self, idx, value)


def _tracer_iter(self: Any) -> Any:
    if type(self.aval) is AbstractRef:
        return _ref_iter(self)
    return _array_iter(self)


def _ref_iter(self: Any) -> Any:
    return (get(self, i) for i in range(len(self.aval)))


_operators: Any = AnyArray
_array_getitem = _operators.__getitem__
_array_setitem = _operators.__setitem__
_array_iter = _operators.__iter__


def install() -> None:
    """Give tracers the operators of references, and program calls the checks, before the first reference exists."""
    for name, function in _TRACER_METHODS.items():
        setattr(Tracer, name, function)
    for primitive in CALLS:
        primitive.takes_refs = True
        primitive.bind = functools.partial(bind_call, primitive)  # type: ignore[method-assign]


_TRACER_METHODS = {
    "__getitem__": _tracer_getitem,
    "__setitem__": _tracer_setitem,
    "__iter__": _tracer_iter,
    "addupdate": addupdate,
}
for _name, _function in {"__getitem__": get, "__setitem__": set, "__iter__": _ref_iter, "addupdate": addupdate}.items():
    setattr(Ref, _name, _function)
