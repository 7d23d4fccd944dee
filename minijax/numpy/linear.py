"""Products of vectors, matrices and tensors: all of them become ``dot_general``."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax import lax
from minijax.config import matmul_precision, promotes_strictly, x64_enabled
from minijax.core import dtypes
from minijax.numpy.promotion import (
    canonical_axis,
    convert,
    ensure,
    promote_dtypes,
    type_of,
    user_dtype,
)
from minijax.numpy.ufuncs import multiply
from minijax.ops.dot import dot_general_p

__all__ = [
    "dot",
    "inner",
    "matmul",
    "outer",
    "tensordot",
    "vdot",
]

Dims = tuple[tuple[int, ...], tuple[int, ...]]


def output_type(name: str, preferred: Any, *operands: Any) -> tuple[np.dtype, bool]:
    """The type of a product, as ``(dtype, weak_type)``: the preferred one, or where the operands' types meet."""
    if preferred is not None:
        return user_dtype(preferred, name), False
    return dtypes.result_type(*map(type_of, operands), x64=x64_enabled(), strict=promotes_strictly())


def _contract(a: Any, b: Any, contract: Dims, precision: Any, out: tuple[np.dtype, bool], out_sharding: Any) -> Any:
    found = lax.dot_general(
        a, b, (contract, ((), ())), precision=precision, preferred_element_type=out[0], out_sharding=out_sharding
    )
    return convert(found, *out)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """The sum of products over the last axis of ``a`` and the second last of ``b`` (the last of a vector).

    A product with a scalar is elementwise. ``out_sharding`` is the result's sharding over a mesh with explicit axes.
    TypeError if the sizes differ.
    """
    a, b = ensure("dot", a, b)
    out = output_type("dot", preferred_element_type, a, b)
    m, n = a.aval.ndim, b.aval.ndim
    if m == 0 or n == 0:
        contract: Dims = ((), ())
    else:
        contract = ((m - 1,), (0 if n == 1 else n - 2,))
    return _contract(a, b, contract, precision, out, out_sharding)


# The dimension numbers of products without batch axes, by the operands' ranks.
_PLAIN: dict[tuple[int, int], Any] = {(m, n): (((m - 1,), (0,)), ((), ())) for m in (1, 2) for n in (1, 2)}


def matmul(
    a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Any:
    """The matrix product ``a @ b``; axes before the last two are batch axes and broadcast.

    ``out_sharding`` is the product's sharding over a mesh with explicit axes. Raises ValueError for scalars and for
    batch axes that do not fit, TypeError for inner sizes that differ.
    """
    try:
        aval, other = a.aval, b.aval
        plain = _PLAIN.get((aval.ndim, other.ndim))
        # vectors and matrices of one strong type: at once
        if (
            plain
            and aval.dtype is other.dtype
            and not (aval.weak_type or other.weak_type or precision or matmul_precision())
        ):
            if preferred_element_type is None and out_sharding is None:
                return dot_general_p.bind(
                    a, b, dimension_numbers=plain, precision=None, preferred_element_type=aval.dtype, out_sharding=None
                )
    except AttributeError:
        pass
    a, b = ensure("matmul", a, b)
    for i, x in enumerate((a, b)):
        if not x.aval.ndim:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0; use * for scalars"
            )
    out = output_type("matmul", preferred_element_type, a, b)
    plan = _BatchPlan(a.aval, b.aval)
    left, right = lax.squeeze(a, plan.left_squeeze), lax.squeeze(b, plan.right_squeeze)
    contract = ((left.aval.ndim - 1,), (right.aval.ndim - (2 if plan.right_is_matrix else 1),))
    found = lax.dot_general(
        left,
        right,
        (contract, (plan.left_batch, plan.right_batch)),
        precision=precision,
        preferred_element_type=out[0],
        out_sharding=out_sharding,
    )
    found = lax.transpose(found, plan.permutation)
    if plan.new_axes:
        found = lax.expand_dims(found, plan.new_axes)
    return convert(found, *out)


class _BatchPlan:
    """How a ``matmul`` of operands with batch axes is one ``dot_general``.

    A batch axis of size 1 is squeezed away rather than repeated; one that only one operand has is a free axis.
    """

    def __init__(self, a: Any, b: Any) -> None:
        self.left_is_matrix, self.right_is_matrix = a.ndim > 1, b.ndim > 1
        left = a.shape[:-2] if self.left_is_matrix else ()
        right = b.shape[:-2] if self.right_is_matrix else ()
        rank = max(len(left), len(right))
        left = (None,) * (rank - len(left)) + left
        right = (None,) * (rank - len(right)) + right
        left_squeeze, right_squeeze, left_batch, right_batch, new_axes = [], [], [], [], []
        # the result's axes by where dot_general puts them: batch axes, free axes of a, free axes of b
        batch: list[int] = []
        left_free: list[int] = []
        right_free: list[int] = []
        for axis, (m, n) in enumerate(zip(left, right, strict=True)):
            left_at = axis - (rank - (a.ndim - 2)) if self.left_is_matrix else -1
            right_at = axis - (rank - (b.ndim - 2)) if self.right_is_matrix else -1
            if m is None:
                right_free.append(axis)
            elif n is None:
                left_free.append(axis)
            elif m == n == 1:
                left_squeeze.append(left_at)
                right_squeeze.append(right_at)
                new_axes.append(axis)
            elif m == 1:
                right_free.append(axis)
                left_squeeze.append(left_at)
            elif n == 1:
                left_free.append(axis)
                right_squeeze.append(right_at)
            elif m == n:
                left_batch.append(left_at - len(left_squeeze))
                right_batch.append(right_at - len(right_squeeze))
                batch.append(axis)
            else:
                raise ValueError(f"Incompatible types for matmul arguments: {a} and {b}")
        if self.left_is_matrix:
            left_free.append(rank)
        if self.right_is_matrix:
            right_free.append(rank + self.left_is_matrix)
        self.left_squeeze, self.right_squeeze = tuple(left_squeeze), tuple(right_squeeze)
        self.left_batch, self.right_batch = tuple(left_batch), tuple(right_batch)
        self.permutation = tuple(int(i) for i in np.argsort([*batch, *left_free, *right_free], kind="stable"))
        self.new_axes = tuple(new_axes)


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products of all elements, those of ``a`` conjugated."""
    a, b = ensure("vdot", a, b)
    a = lax.conj(a) if dtypes.is_complex(a.aval.dtype) else a
    flat = [lax.reshape(x, (x.aval.size,)) for x in (a, b)]
    return dot(*flat, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The sum of products over ``axes``: how many (the last of ``a``, the first of ``b``), or which of each.

    ``out_sharding`` is the result's sharding over a mesh with explicit axes.
    Raises TypeError for axes that are neither, or that do not fit.
    """
    a, b = ensure("tensordot", a, b)
    out = output_type("tensordot", preferred_element_type, a, b)
    m, n = a.aval.ndim, b.aval.ndim
    if type(axes) is int:
        if axes > min(m, n):
            raise TypeError(
                f"Number of tensordot axes (axes {axes}) exceeds input ranks ({a.aval.shape} and {b.aval.shape})"
            )
        contract: Dims = (tuple(range(m - axes, m)), tuple(range(axes)))
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        left, right = axes
        if isinstance(left, int) and isinstance(right, int):
            left, right = (left,), (right,)
        if not (isinstance(left, (tuple, list)) and isinstance(right, (tuple, list))):
            raise TypeError(
                f"tensordot requires both axes lists to be either ints, tuples or lists, got {left} and {right}"
            )
        if len(left) != len(right):
            raise TypeError(f"tensordot requires axes lists to have equal length, got {left} and {right}.")
        contract = (tuple(canonical_axis(i, m) for i in left), tuple(canonical_axis(i, n) for i in right))
    else:
        raise TypeError("tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints.")
    return _contract(a, b, contract, precision, out, out_sharding)


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sum of products over the last axes."""
    a, b = ensure("inner", a, b)
    if not a.aval.ndim or not b.aval.ndim:
        if preferred_element_type is not None:
            dtype = user_dtype(preferred_element_type, "inner")
            a, b = convert(a, dtype), convert(b, dtype)
        return multiply(a, b)
    return tensordot(a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """The products of all elements of ``a`` with all elements of ``b``, as a matrix."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.outer is not supported.")
    a, b = promote_dtypes(*ensure("outer", a, b))
    column = lax.expand_dims(lax.reshape(a, (a.aval.size,)), (1,))
    return multiply(column, lax.expand_dims(lax.reshape(b, (b.aval.size,)), (0,)))
