"""The part of a reference that is read or written: NumPy's basic and integer indexing.

An *index* is a static parameter. It is None for the whole reference, else a tuple with an entry for each dimension: a
``Slice``, or None for an integer operand. Operands are scalars, or arrays of one shape, in the order of the
dimensions. If the ``start`` of a slice is None, an operand is its start. In the part, the dimensions of the integer
operands take the place of the first dimension that they index, or are in front if a slice separates the integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.lists import safe_zip
from minijax.core.records import NamedTuple
from minijax.core.refs import Index, Slice
from minijax.core.rules import Dims, Rule, Shape, Values
from minijax.ops.convert import convert
from minijax.ops.dynamic import dynamic_slice, dynamic_update_slice, wrap_negative
from minijax.ops.elementwise import add_p, mul_p
from minijax.ops.index import GatherDimensionNumbers, gather
from minijax.ops.scatter import ScatterDimensionNumbers, scatter, scatter_add
from minijax.ops.shape import (
    broadcast_in_dim,
    expand_dims,
    full,
    inverse_permutation,
    iota,
    reshape,
    squeeze,
    transpose,
)
from minijax.ops.slicing import slice as static_slice
from minijax.ops.slicing import stack

INT = np.dtype(np.int32)


class Label(NamedTuple):
    """The origin of a dimension of an indexed part: a dimension of the reference, or of the integer operands."""

    integer: bool
    number: int


def layout(index: tuple[Slice | None, ...], integer_rank: int) -> list[Label]:
    """The origin of each dimension of the part; ``integer_rank``: the rank of the integer operands."""
    integers = [d for d, entry in enumerate(index) if entry is None]
    slices = [Label(False, d) for d, entry in enumerate(index) if entry is not None]
    of_integers = [Label(True, k) for k in range(integer_rank)]
    if not integers:
        return slices
    contiguous = integers[-1] - integers[0] + 1 == len(integers)
    before = integers[0] if contiguous else 0
    return slices[:before] + of_integers + slices[before:]


def integer_shape(index: tuple[Slice | None, ...], shapes: Sequence[Shape]) -> Shape:
    """The common shape of integer operands. ValueError for different shapes, or slice starts that are not scalars."""
    found: Shape | None = None
    given = iter(shapes)
    for entry in index:
        if entry is None:
            shape = next(given)
            if found is not None and shape != found:
                raise ValueError(f"integers that index a reference must be of one shape, got {found} and {shape}")
            found = shape
        elif entry.start is None and next(given) != ():
            raise ValueError("the start of a slice of a reference must be a scalar")
    return found or ()


def part_shape(shape: Shape, index: Index, operand_shapes: Sequence[Shape]) -> Shape:
    """The shape of the indexed part of an array of ``shape``. ValueError if the index does not fit."""
    if index is None:
        if operand_shapes:
            raise ValueError("an index of the whole reference takes no operands")
        return shape
    needed = sum(entry is None or entry.start is None for entry in index)
    if len(index) != len(shape) or needed != len(operand_shapes):
        raise ValueError(
            f"an index of {len(index)} dimensions with {needed} operands does not fit a reference of shape {shape} "
            f"and {len(operand_shapes)} operands"
        )
    integers = integer_shape(index, operand_shapes)
    return tuple(
        integers[label.number] if label.integer else index[label.number].size  # type: ignore[union-attr]
        for label in layout(index, len(integers))
    )


class _Block(NamedTuple):
    """A contiguous block. ``fixed``: the dimensions that integers index. ``traced``: which starts may be negative."""

    starts: list[Any]
    sizes: list[int]
    fixed: list[int]
    traced: list[bool]


def _block(shape: Shape, index: tuple[Slice | None, ...], operands: Values) -> _Block | None:
    """The index as a contiguous block, or None if it is not one."""
    given = iter(operands)
    starts: list[Any] = []
    for entry in index:
        start = next(given) if entry is None or entry.start is None else entry.start
        if get_aval(start).shape or (entry is not None and entry.stride != 1):
            return None
        starts.append(start)
    types = [get_aval(x).dtype for x in starts if not isinstance(x, int)]
    wanted = np.result_type(*types) if types else INT
    return _Block(
        [
            _converted(x, wanted) if not isinstance(x, int) else wanted.type(max(x + size, 0) if x < 0 else x)
            for x, size in safe_zip(starts, shape)
        ],
        [1 if entry is None else entry.size for entry in index],
        [d for d, entry in enumerate(index) if entry is None],
        [not isinstance(x, int) for x in starts],
    )


def _converted(x: Any, dtype: np.dtype) -> Any:
    return x if get_aval(x).dtype == dtype else convert(x, dtype)


def _is_whole(shape: Shape, index: Index) -> bool:
    return index is None or all(
        entry is not None and entry == Slice(0, size, 1) for entry, size in safe_zip(index, shape)
    )


def _positions(shape: Shape, index: tuple[Slice | None, ...], operands: Values) -> Any:
    """For each element of the indexed part, its coordinates in the array, along one more dimension at the end."""
    integers = integer_shape(index, [get_aval(x).shape for x in operands])
    labels = layout(index, len(integers))
    out = part_shape(shape, index, [get_aval(x).shape for x in operands])
    given = iter(operands)
    coordinates = []
    for d, (entry, size) in enumerate(safe_zip(index, shape)):
        if entry is None:
            x = wrap_negative(_converted(next(given), INT), size)
            dims = [labels.index(Label(True, k)) for k in range(len(integers))]
        else:
            x = iota(INT, entry.size)
            if entry.stride != 1:
                x = mul_p.bind(x, full((entry.size,), entry.stride, INT))
            start = next(given) if entry.start is None else entry.start
            if not isinstance(start, int):
                x = add_p.bind(x, broadcast_in_dim(_converted(start, INT), (entry.size,), ()))
            elif start:
                x = add_p.bind(x, full((entry.size,), start, INT))
            dims = [labels.index(Label(False, d))]
        coordinates.append(broadcast_in_dim(x, out, dims))
    return stack(coordinates, len(out))


def read(x: Any, index: Index, operands: Values) -> Any:
    """The indexed part of the array ``x``. Integers out of bounds are moved inside, as in JAX."""
    shape = get_aval(x).shape
    if index is None or _is_whole(shape, index):
        return x
    slices = [(e.start, e.size, e.stride) for e in index if e is not None and e.start is not None]
    if len(slices) == len(index):
        limits = [start + (size - 1) * stride + 1 if size else start for start, size, stride in slices]
        return static_slice(x, [start for start, _, _ in slices], limits, [stride for _, _, stride in slices])
    block = _block(shape, index, operands)
    if block is not None:
        part = dynamic_slice(x, block.starts, block.sizes, allow_negative_indices=block.traced)
        return squeeze(part, block.fixed)
    dims = tuple(range(len(shape)))
    return gather(
        x,
        _positions(shape, index, operands),
        GatherDimensionNumbers((), dims, dims),
        (1,) * len(shape),
        mode="promise_in_bounds",
    )


def write(x: Any, index: Index, operands: Values, value: Any) -> Any:
    """The array ``x`` with ``value`` as its indexed part. If a contiguous block is partly out of bounds, it is moved
    inside. Otherwise the elements out of bounds are dropped."""
    shape = get_aval(x).shape
    if index is None or _is_whole(shape, index):
        return value
    block = _block(shape, index, operands)
    if block is not None:
        part = expand_dims(value, block.fixed)
        return dynamic_update_slice(x, part, block.starts, allow_negative_indices=block.traced)
    # the index is marked as unique, as in JAX: then the cotangent of each value is the cotangent at its index
    return _scattered(scatter, x, index, operands, value, unique_indices=True)


def accumulate(x: Any, index: Index, operands: Values, value: Any, add: Any = add_p) -> Any:
    """The array ``x`` with ``value`` added to its indexed part. Values at repeated indices add up. For indices out of
    bounds see ``write``."""
    shape = get_aval(x).shape
    if index is None or _is_whole(shape, index):
        return add.bind(x, value)
    block = _block(shape, index, operands)
    if block is not None:
        old = dynamic_slice(x, block.starts, block.sizes, allow_negative_indices=block.traced)
        new = add.bind(old, expand_dims(value, block.fixed))
        return dynamic_update_slice(x, new, block.starts, allow_negative_indices=block.traced)
    return _scattered(scatter_add, x, index, operands, value)


def _scattered(scatter_with: Rule, x: Any, index: Any, operands: Values, value: Any, **flags: bool) -> Any:
    dims = tuple(range(get_aval(x).ndim))
    numbers = ScatterDimensionNumbers((), dims, dims)
    return scatter_with(x, _positions(get_aval(x).shape, index, operands), value, numbers, mode="drop", **flags)


class BatchedIndex(NamedTuple):
    """An index whose reference or integer operands are batched.

    Attributes:
      entries, operands: the index of the physical reference.
      order: the permutation of the physical part that puts the batch axis in front.
    """

    entries: Index
    operands: list[Any]
    order: list[int]

    def to_front(self, part: Any) -> Any:
        """The physical ``part``, transposed so that its batch axis is in front."""
        return part if self.order == sorted(self.order) else transpose(part, self.order)

    def from_front(self, part: Any) -> Any:
        return part if self.order == sorted(self.order) else transpose(part, inverse_permutation(self.order))


def batched_index(
    ndim: int, index: Index, operands: Values, ref_dim: int | None, operand_dims: Dims, size: int
) -> BatchedIndex:
    """The index of a physical reference with batch axis ``ref_dim``, and with rank ``ndim`` without that axis. Batched
    integers have their batch axis in front. NotImplementedError for slices with batched starts."""
    if index is None:  # the whole reference, whose batch axis is in front
        return BatchedIndex(None, [], list(range(ndim + 1)))
    entries: list[Slice | None] = list(index)
    given = iter(safe_zip(operands, operand_dims))
    by_integers = any(d is not None for d in operand_dims)
    new_operands: list[list[Any]] = []
    shape: Shape = ()
    for entry in entries:
        if entry is not None and entry.start is not None:
            new_operands.append([])
            continue
        x, d = next(given)
        if entry is not None:
            if d is not None:
                raise NotImplementedError(
                    "vmap of a slice of a reference is not supported if elements have different starts. Index by an "
                    "array of integers instead."
                )
            new_operands.append([x])
            continue
        shape = get_aval(x).shape[1:] if d is not None else get_aval(x).shape
        if by_integers and d is None:
            x = broadcast_in_dim(x, (size, *shape), range(1, len(shape) + 1))
        new_operands.append([x])
    batch = Label(True, 0)
    if ref_dim is not None and by_integers:
        along = reshape(iota(INT, size), (size, *[1] * len(shape)))
        new_operands.insert(ref_dim, [broadcast_in_dim(along, (size, *shape), range(len(shape) + 1))])
    elif ref_dim is not None:
        new_operands.insert(ref_dim, [])
        batch = Label(False, ref_dim)
    old_labels = layout(tuple(entries), len(shape))
    if ref_dim is not None:
        entries.insert(ref_dim, None if by_integers else Slice(0, size, 1))
    labels = layout(tuple(entries), len(shape) + by_integers)
    renamed = [
        Label(True, k.number + by_integers)
        if k.integer
        else Label(False, k.number + (ref_dim is not None and k.number >= ref_dim))
        for k in old_labels
    ]
    order = [labels.index(k) for k in [batch, *renamed]]
    return BatchedIndex(tuple(entries), [x for group in new_operands for x in group], order)
