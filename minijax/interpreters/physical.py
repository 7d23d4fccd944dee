"""Strips the vmap tracers off a value: the physical array below all vmaps, and its batch axes.

In: a value under any number of vmaps. Out: one NumPy value and its type, which is a ``BatchedAval`` if the value is
mapped. A program derived for such types computes all mapped instances in one run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.array import Array, CommittedArray, as_array, get_aval
from minijax.core.avals import ShapedArray
from minijax.core.trace import Tracer, state
from minijax.interpreters.stage import stage
from minijax.interpreters.vmap import AxisData, BatchTrace, BatchTracer, batch
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

_interned: weakref.WeakValueDictionary[Any, BatchedAval] = weakref.WeakValueDictionary()


class BatchedAval:
    """An interned type of a mapped value: ``physical`` is its NumPy type, ``aval`` the type without mapped axes.

    ``dims`` has an entry for each vmap, the outermost first: the axis that it maps, or None. Final Nones are dropped.
    """

    __slots__ = ("physical", "dims", "aval", "__weakref__")

    physical: ShapedArray
    dims: tuple[int | None, ...]
    aval: ShapedArray

    def __repr__(self) -> str:
        return f"BatchedAval({self.physical}, {self.dims})"


# The type of a physical value below all vmaps.
Type = ShapedArray | BatchedAval


def typed(physical: ShapedArray, dims: Sequence[int | None]) -> Type:
    """The type of a physical value whose axes ``dims`` are mapped by the vmaps, the outermost vmap first."""
    end = len(dims)
    while end and dims[end - 1] is None:
        end -= 1
    if not end:
        return physical
    key = physical, tuple(dims[:end])
    found = _interned.get(key)
    if found is None:
        found = object.__new__(BatchedAval)
        found.physical, found.dims = key
        shape = physical.shape
        for d in key[1]:
            if d is not None:
                shape = shape[:d] + shape[d + 1 :]
        found.aval = physical.update(shape=shape)
        found = _interned.setdefault(key, found)
    return found


def logical(type_: Type) -> ShapedArray:
    """The logical type: the type that operations see."""
    return type_.aval if type(type_) is BatchedAval else type_  # type: ignore[return-value]


def physical(type_: Type) -> ShapedArray:
    return type_.physical if type(type_) is BatchedAval else type_  # type: ignore[return-value]


class Bottom:
    """The level below the vmaps whose traces are ``axes``, the outermost first. Values there are physical."""

    __slots__ = ("axes",)

    def __init__(self, axes: tuple[BatchTrace, ...]) -> None:
        self.axes = axes

    def down(self, x: Any, fetch: bool = True) -> tuple[Any, Type] | None:
        """``(NumPy value, type)`` of ``x`` below the vmaps.

        None if ``x`` is a tracer of another interpreter, if it is committed to a device, or if it is no array. Also
        None if ``fetch`` is false and the value is on a device.
        """
        dims: list[int | None] | None = None
        if type(x) is BatchTracer:
            axes, at = self.axes, len(self.axes)
            dims = [None] * at
            while type(x) is BatchTracer:
                at -= 1
                while at >= 0 and axes[at] is not x._trace:
                    at -= 1
                if at < 0:
                    return None
                dims[at] = x.batch_dim
                x = x.val
        if type(x) is not Array:
            if isinstance(x, (Tracer, CommittedArray)):
                return None
            try:
                x = as_array(x)
            except (TypeError, ValueError, OverflowError):
                return None  # the rule raises the error
        try:
            value = x._np
        except AttributeError:  # the value is on the device
            if not fetch:
                return None
            value = x._value()
        return value, x.aval if dims is None else typed(x.aval, dims)

    def up(self, value: Any, type_: Type) -> Any:
        """The physical ``value`` as operations see it, inside the vmaps."""
        if type(type_) is not BatchedAval:
            return Array(value, type_)  # type: ignore[arg-type]
        x: Any = Array(value, type_.physical)
        for trace, d in zip(self.axes, type_.dims, strict=False):
            if d is not None:
                x = BatchTracer(trace, x, d)
        return x

    def carries(self, xs: Sequence[Any]) -> bool:
        """Whether ``down`` gives a value for each tracer among ``xs``."""
        for x in xs:
            if isinstance(x, Tracer) and self.down(x) is None:
                return False
        return True

    def within(self, other: Bottom | None) -> bool:
        """Whether these vmaps are the outermost vmaps of ``other``."""
        if other is None or other is self:
            return other is self
        return self.axes == other.axes[: len(self.axes)]


# the ``Bottom`` outside all vmaps
EVALUATION = Bottom(())


def bottom() -> Bottom | None:
    """The ``Bottom`` below the current vmaps; None while a function is staged."""
    if state.dynamic.level:
        return None
    axes: tuple[Any, ...] = ()
    for main in state.stack[1:]:
        if main.trace_type is BatchTrace:
            axes += (main.trace,)
    return Bottom(axes) if axes else EVALUATION


def staged_on(closed: ClosedJaxpr, types: Sequence[Type], name: str) -> tuple[ClosedJaxpr, Sequence[Type]]:
    """Rewrite ``closed``, a program on logical values, for physical values; also returns its results' types."""
    if not any([type(t) is BatchedAval for t in types]):
        return closed, closed.out_avals
    with observe.unobserved():
        return stage_on(lambda *values: eval_closed(closed, *values), types, name, "rule vmap")


def stage_on(
    fun: Callable[..., Sequence[Any]], types: Sequence[Type], name: str, kind: str
) -> tuple[ClosedJaxpr, list[Type]]:
    """Run ``fun`` under the vmaps and stage it on physical values of ``types``; also returns its results' types."""
    depth = max([len(t.dims) for t in types if type(t) is BatchedAval], default=0)
    if not depth:
        closed = stage(fun, types, name, kind)  # type: ignore[arg-type]
        return closed, [*closed.out_avals]
    dims_out: list[Sequence[int | None]] = [()] * depth

    def under_vmaps(level: int, values: Sequence[Any]) -> Sequence[Any]:
        if level == depth:
            return fun(*values)
        dims = [t.dims[level] if type(t) is BatchedAval and level < len(t.dims) else None for t in types]
        size = next((get_aval(x).shape[d] for x, d in zip(values, dims, strict=True) if d is not None), None)
        if size is None:
            outs = under_vmaps(level + 1, values)
            dims_out[level] = [None] * len(outs)
            return outs
        outs, dims_out[level] = batch(
            lambda *xs: under_vmaps(level + 1, xs), AxisData(None, size, (), None), values, dims
        )
        return outs

    closed = stage(lambda *xs: under_vmaps(0, xs), [*map(physical, types)], name, kind)
    return closed, [*map(typed, closed.out_avals, zip(*dims_out, strict=True))]
