"""Small operations on matrices, the last two dimensions, of which rules of decompositions are made.

Each binds the equations that JAX's counterpart does, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.avals import division_along
from minijax.core.structural import full
from minijax.core.varying import varying_like
from minijax.interpreters.vmap import AxisData, batch
from minijax.ops.convert import convert
from minijax.ops.dot import Precision, dot_general_p
from minijax.ops.dynamic import wrap_negative
from minijax.ops.elementwise import add_p, conj, const, div_p, eq_p, ge_p, or_p
from minijax.ops.index import GatherDimensionNumbers, gather
from minijax.ops.select import select
from minijax.ops.shape import broadcast_in_dim, broadcasted_iota, expand_dims, iota, shape_of, squeeze, transpose
from minijax.ops.slicing import concatenate

INT32 = np.dtype(np.int32)
HIGHEST = (Precision.HIGHEST, Precision.HIGHEST)


def dtype_of(x: Any) -> np.dtype:
    dtype: np.dtype = get_aval(x).dtype
    return dtype


def _from_diagonal(shape: tuple[int, int], k: int, compare: Any, dtype: np.dtype) -> Any:
    """For each element of a matrix, how its row plus ``k`` compares with its column, numbers of ``dtype``."""
    rows = add_p.bind(broadcasted_iota(dtype, shape, 0), dtype.type(k))
    return compare.bind(rows, broadcasted_iota(dtype, shape, 1))


def _below(x: Any, k: int) -> tuple[Any, Any]:
    shape = shape_of(x)
    mask = _from_diagonal((shape[-2], shape[-1]), k, ge_p, dtypes.default_dtype("i", x64_enabled()))
    if len(shape) > 2:
        mask = broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))
    return mask, varying_like(full(shape, 0, dtype_of(x), get_aval(x).weak_type), x)


def tril(x: Any, k: int = 0) -> Any:
    """``x`` with zeros above its ``k``-th diagonal."""
    mask, zero = _below(x, k)
    return select(mask, x, zero)


def triu(x: Any, k: int = 0) -> Any:
    """``x`` with zeros below its ``k``-th diagonal."""
    mask, zero = _below(x, k - 1)
    return select(mask, zero, x)


def eye(n: int, dtype: np.dtype) -> Any:
    """The identity matrix."""
    return convert(_from_diagonal((n, n), 0, eq_p, INT32), dtype)


def swapped(x: Any) -> Any:
    """The transposed matrices."""
    rank = len(shape_of(x))
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Any) -> Any:
    """The transposed matrices, conjugated."""
    turned = swapped(x)
    return conj(turned) if dtypes.is_complex(dtype_of(turned)) else turned


def symmetrized(x: Any) -> Any:
    """The mean of matrices and their adjoints."""
    dtype = dtype_of(x)
    # half of a truth value is weakly typed too: the 2 alone makes it a number
    weak = get_aval(x).weak_type or dtypes.is_bool(dtype)
    total = (or_p if dtypes.is_bool(dtype) else add_p).bind(x, adjoint(x))
    if not dtypes.is_inexact(dtype):
        total = convert(total, dtypes.to_inexact_dtype(dtype), weak)
    return div_p.bind(total, convert(2.0, dtype_of(total), True) if weak else const(total, 2))


def matmul(x: Any, y: Any, precision: Any = HIGHEST, typed: bool = False) -> Any:
    """Products of matrices; ``typed``: as ``numpy`` writes them, with the result's type and without batches of one."""
    ones = tuple(i for i, n in enumerate(shape_of(x)[:-2]) if n == 1)
    if typed and ones:
        return expand_dims(matmul(squeeze(x, ones), squeeze(y, ones), precision, typed), ones)
    rank = len(shape_of(x))
    lead = tuple(range(rank - 2))
    preferred = dtype_of(x) if typed else None
    numbers = (((rank - 1,), (rank - 2,)), (lead, lead))
    return dot_general_p.bind(
        x, y, dimension_numbers=numbers, precision=precision, preferred_element_type=preferred, out_sharding=None
    )


def to_rank(x: Any, rank: int) -> Any:
    """``x`` with dimensions of size 1 in front."""
    return expand_dims(x, tuple(range(rank - len(shape_of(x)))))


def as_row(x: Any) -> Any:
    """The vectors ``x`` as matrices of one row."""
    return expand_dims(x, (len(shape_of(x)) - 1,))


def as_column(x: Any) -> Any:
    """The vectors ``x`` as matrices of one column."""
    return expand_dims(x, (len(shape_of(x)),))


def diagonal_places(n: int, i: Any) -> Any:
    """The indices of a diagonal: ``[[0, 0], [1, 1], ...]``, made as NumPy's indexing makes them of ``i``, its rows."""
    wrapped = [wrap_negative(i, n) for _ in range(2)]
    return concatenate([expand_dims(each, (1,)) for each in wrapped], 1)


def taken(x: Any, places: Any, numbers: GatherDimensionNumbers, sizes: tuple[int, ...]) -> Any:
    """What ``gather`` gives, but where that is nothing no equation: so indexing is written."""
    batch = iter(shape_of(places)[:-1])
    slices = iter(n for i, n in enumerate(sizes) if i not in numbers.collapsed_slice_dims)
    rank = len(shape_of(places)) - 1 + len(numbers.offset_dims)
    shape = tuple(next(slices if i in numbers.offset_dims else batch) for i in range(rank))
    return gather(x, places, numbers, sizes) if 0 not in shape else full(shape, 0, dtype_of(x))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    shape = shape_of(x)
    rank = len(shape)
    lead, last = tuple(range(rank - 2)), (rank - 2, rank - 1)
    numbers = GatherDimensionNumbers(lead, last, last)
    return taken(x, diagonal_places(shape[-1], iota(INT32, shape[-1])), numbers, (*shape[:-2], 1, 1))


def over_batch(fun: Callable[..., Sequence[Any]], values: Sequence[Any], ranks: Sequence[int]) -> list[Any]:
    """``fun``, of values of these ranks, mapped over the dimensions that ``values`` have in front of that."""
    shape = shape_of(values[0])
    if len(shape) == ranks[0]:
        return list(fun(*values))
    axis = AxisData(None, shape[0], division=division_along(get_aval(values[0]), 0))
    outs, dims = batch(lambda *xs: over_batch(fun, xs, ranks), axis, values, [0] * len(values))
    assert set(dims) == {0}
    return outs
