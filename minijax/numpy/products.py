"""Products of vectors, matrices and tensors, ``einsum`` included. Sums of products become ``dot_general``."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.config import matmul_precision, promotes_strictly, x64_enabled
from minijax.core import dtypes, lazy
from minijax.numpy.promotion import (
    canonical_axis,
    check_array_like,
    convert,
    ensure,
    promote_dtypes,
    result_dtype,
    type_of,
    typed_scalar,
    user_dtype,
)
from minijax.numpy.ufuncs import multiply
from minijax.ops.dot import dot_general_p
from minijax.ops.shape import meant_sharding

Dims = tuple[tuple[int, ...], tuple[int, ...]]


def output_type(name: str, preferred: Any, *operands: Any) -> tuple[np.dtype, bool]:
    """The type of a product as ``(dtype, weak_type)``: ``preferred_element_type``, or the operands' common type."""
    if preferred is not None:
        return user_dtype(preferred, name), False
    return dtypes.result_type(*map(type_of, operands), x64=x64_enabled(), strict=promotes_strictly())


def _contract(a: Any, b: Any, contract: Dims, precision: Any, out: tuple[np.dtype, bool], out_sharding: Any) -> Any:
    found = lax.dot_general(
        a, b, (contract, ((), ())), precision=precision, preferred_element_type=out[0], out_sharding=out_sharding
    )
    return convert(found, *out)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """The sum of products over the last axis of ``a`` and the second last axis of ``b`` (the only axis of a vector).

    The result has the remaining axes of ``a``, then those of ``b``; its dtype is the promoted dtype, or
    ``preferred_element_type``. A product with a scalar is elementwise. ``out_sharding`` is the result's sharding over a
    mesh with explicit axes. TypeError for lists, and if the sizes of the two axes differ.

    >>> jnp.dot(jnp.ones((2, 3)), jnp.ones((4, 3, 5))).shape
    (2, 4, 5)
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

    Shapes (..., m, k) and (..., k, n) give (..., m, n). A vector is a row on the left and a column on the right; the
    result lacks the axis of size 1. The dtype is the promoted one, or ``preferred_element_type``.
    ``out_sharding`` is the product's sharding over a mesh with explicit axes. Raises ValueError for scalars and for
    batch axes that do not fit, TypeError for inner sizes that differ.

    >>> jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    try:
        aval, other = a.aval, b.aval
        plain = _PLAIN.get((aval.ndim, other.ndim))
        # fast path for vectors and matrices of one strong type
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
    """Plan a ``matmul`` as one ``dot_general``. Batch axes of size 1 are squeezed; batch axes that only one operand has
    become free axes.
    """

    def __init__(self, a: Any, b: Any) -> None:
        self.left_is_matrix, self.right_is_matrix = a.ndim > 1, b.ndim > 1
        left = a.shape[:-2] if self.left_is_matrix else ()
        right = b.shape[:-2] if self.right_is_matrix else ()
        rank = max(len(left), len(right))
        left = (None,) * (rank - len(left)) + left
        right = (None,) * (rank - len(right)) + right
        left_squeeze, right_squeeze, left_batch, right_batch, new_axes = [], [], [], [], []
        # the result's axes in dot_general's order: batch axes, free axes of a, free axes of b
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
    """The sum of products of all elements. The elements of ``a`` are conjugated."""
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
    """The sum of products over ``axes``: an int n means the last n axes of ``a`` and the first n of ``b``.

    ``axes`` may also be a pair: the axes of ``a``, and those of ``b``.

    ``out_sharding`` is for a mesh with explicit axes. TypeError for other ``axes``, or for sizes that do not fit.
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
    """The sum of products over the last axis of ``a`` and the last axis of ``b``."""
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


__all__ = ["dot", "einsum", "inner", "matmul", "outer", "tensordot", "vdot"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: Any = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = lax.dot_general,
    out_sharding: Any = None,
) -> Any:
    """The sum of products that ``subscripts`` ('ij,jk->ik') describes.

    Each operand has one letter per axis; ``...`` stands for axes that broadcast. Letters absent after ``->`` are summed
    over. Without ``->`` the result has the letters that occur once, in alphabetical order. Dtypes are promoted.
    The arguments may also be operands in turn with lists of axis numbers. ``optimize`` is the order of contraction, as
    pairs of positions: each product is appended to the remaining operands. It may also be the name of a search method
    of opt_einsum, or False to contract the first two operands each time.
    Layer libraries pass ``_dot_general``, which replaces ``lax.dot_general`` for each product. ``out_sharding``: the
    result's sharding over a mesh with explicit axes. If there are several products, the compiler shards the
    intermediate results. With one operand, ``out_sharding`` applies to the sums, before their axes are permuted.
    Raises ValueError for subscripts that do not fit the operands.

    >>> jnp.einsum("bij,jk->bik", jnp.ones((5, 2, 3)), jnp.ones((3, 4))).shape
    (5, 2, 4)
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.einsum is not supported.")
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists([subscripts, *operands])
    check_array_like("einsum", *operands)
    arrays = [ensure("einsum", x) for x in operands]
    inputs, output = _parse(subscripts, [x.aval.shape for x in arrays])
    sizes = _sizes(inputs, [x.aval.shape for x in arrays])
    wanted = output_type("einsum", preferred_element_type, *arrays)
    path = _path(inputs, output, sizes, optimize)
    sharding = None if out_sharding is None else meant_sharding(out_sharding, "einsum")
    run = functools.partial(_contracted, inputs, output, path, precision, wanted, _dot_general)
    if sharding is not None and len(path) > 1:
        return lazy.public("minijax.api.explicit", "left_to_compiler")("einsum", sharding, run, None, *arrays)
    return run(sharding, *arrays)


def _contracted(
    inputs: Sequence[str],
    output: str,
    path: Sequence[tuple[int, ...]],
    precision: Any,
    wanted: tuple[np.dtype, bool],
    dot_general: Callable[..., Any],
    sharding: Any,
    *operands: Any,
) -> Any:
    """Compute the products along ``path``, one by one. ``sharding`` is None unless there is only one product."""
    terms, arrays = list(inputs), list(operands)
    for pair in path:
        # as in JAX's planner, the operand with the later position is the left one
        picked = sorted(pair, reverse=True)
        names = [terms.pop(i) for i in picked]
        parts = [arrays.pop(i) for i in picked]
        result = output if not terms else _kept(names, [*terms, output])
        if len(parts) == 1:
            made, found = _single(parts[0], names[0], result, wanted[0], sharding)
        else:
            made, found = _pair(parts, names, result, precision, wanted[0], dot_general, sharding)
        if found != result:
            made = lax.transpose(made, tuple(found.index(n) for n in result))
        arrays.append(made)
        terms.append(result)
    return convert(arrays[0], *wanted)


def _from_lists(arguments: list[Any]) -> tuple[str, tuple[Any, ...]]:
    """Rewrite ``einsum(x, [0, 1], y, [1, 2], [0, 2])`` with letters."""

    def letters(axes: Sequence[Any]) -> str:
        return "".join("..." if a is Ellipsis else _LETTERS[a] for a in axes)

    output = f"->{letters(arguments.pop())}" if len(arguments) % 2 else ""
    return ",".join(map(letters, arguments[1::2])) + output, tuple(arguments[0::2])


def _parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The axis names of each operand and of the result. An ellipsis becomes letters that ``subscripts`` lacks."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise ValueError(f"einsum: '{subscripts}' has {len(inputs)} terms, but there are {len(shapes)} operands")
    free = [c for c in _LETTERS if c not in subscripts]
    hidden = [len(s) - len(t.replace("...", "")) if "..." in t else 0 for t, s in zip(inputs, shapes, strict=True)]
    rank = max(hidden)
    spread = "".join(free[:rank])
    named = [t.replace("...", spread[rank - h :] if h else "") for t, h in zip(inputs, hidden, strict=True)]
    for term, shape in zip(named, shapes, strict=True):
        if len(term) != len(shape):
            raise ValueError(f"einsum: term '{term}' of '{subscripts}' does not fit an operand of shape {shape}")
        if not term.isalpha() and term:
            raise ValueError(f"einsum: '{subscripts}' may contain only letters, commas, '...' and '->'")
    if arrow:
        output = output.replace("...", spread)
    else:
        counts = Counter("".join(named))
        output = spread + "".join(sorted(n for n, c in counts.items() if c == 1 and n not in spread))
    unknown = [n for n in output if n not in "".join(named)]
    if unknown or len(set(output)) != len(output):
        raise ValueError(f"einsum: the output '{output}' of '{subscripts}' must name axes of the operands, each once")
    return named, output


def _sizes(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(inputs, shapes, strict=True):
        for name, size in zip(term, shape, strict=True):
            known = sizes.setdefault(name, size)
            if known == 1:
                sizes[name] = size
            elif size not in (1, known):
                raise ValueError(
                    f"Size of label '{name}' for operand {list(inputs).index(term)} ({known}) does not match previous "
                    f"terms ({size})."
                )
    return sizes


def _kept(names: Sequence[str], rest: Iterable[str]) -> str:
    """The axes of a product that the other operands or the result (``rest``) still need, in order of appearance."""
    needed = set("".join(rest))
    return "".join(dict.fromkeys(n for n in "".join(names) if n in needed))


def _path(inputs: Sequence[str], output: str, sizes: dict[str, int], optimize: Any) -> list[tuple[int, ...]]:
    """For each step, the positions of the operands that it contracts; the product is appended to the operands."""
    if len(inputs) < 3:
        return [tuple(range(len(inputs)))]
    if optimize is False:
        return [(0, 1)] * (len(inputs) - 1)
    if isinstance(optimize, (list, tuple)):
        return [tuple(step) for step in optimize if not isinstance(step, str)]
    shapes = [tuple(sizes[n] for n in term) for term in inputs]
    path, _ = _planned(f"{','.join(inputs)}->{output}", shapes, "optimal" if optimize is True else optimize)
    return [tuple(step) for step in path]


def _planned(subscripts: str, shapes: Sequence[tuple[int, ...]], optimize: Any) -> tuple[Any, Any]:
    """The contraction order that opt_einsum (the planner that JAX uses) finds, and opt_einsum's description of it."""
    # imported here: few programs have products of three operands, and the import takes 15 ms
    import opt_einsum

    return opt_einsum.contract_path(subscripts, *shapes, shapes=True, optimize=optimize)


def _summed(x: Any, axes: Sequence[int], dtype: np.dtype, sharding: Any = None) -> Any:
    met, _ = result_dtype(x, typed_scalar(0, dtype))
    if met != x.aval.dtype:
        x = convert(x, dtype)
    if dtypes.is_bool(x.aval.dtype):
        return lax.reduce(x, np.False_, lax.bitwise_or, tuple(axes), sharding)
    return convert(lax.reduce_sum(x, tuple(axes), out_sharding=sharding), x.aval.dtype)


def _without(names: str, removed: Iterable[str]) -> str:
    return "".join(n for n in names if n not in removed)


def _sum_alone(x: Any, names: str, alone: Sequence[str], dtype: np.dtype, sharding: Any = None) -> tuple[Any, str]:
    """Sum ``x`` over the axes named in ``alone``, which only ``x`` has; also return the remaining names."""
    if not alone:
        return x, names
    return _summed(x, [names.index(n) for n in alone], dtype, sharding), _without(names, alone)


def _sum_repeated(x: Any, names: str, keep: str, dtype: np.dtype, sharding: Any = None) -> tuple[Any, str]:
    """Replace axes of ``x`` with the same name by their diagonal; sum the diagonal unless ``keep`` has the name."""
    for name, count in Counter(names).items():
        if count == 1:
            continue
        axes = [i for i, n in enumerate(names) if n == name]
        lazy.public("minijax.core.explicit", "check_unsharded")("einsum", x.aval, range(len(names)))
        x = lax.select(_diagonal_mask(x.aval.shape, axes), x, lax.full_like(x, 0))
        if name in keep:
            x = _summed(x, axes[:-1], dtype, sharding)
            names = names.replace(name, "", count - 1)
        else:
            x = _summed(x, axes, dtype, sharding)
            names = names.replace(name, "")
    return x, names


def _diagonal_mask(shape: tuple[int, ...], axes: Sequence[int]) -> Any:
    """An array of ``shape`` that is True where the indices along all ``axes`` are equal."""
    base = tuple(shape[a] for a in axes)
    numbers = [lax.broadcasted_iota(np.dtype(np.uint32), base, i) for i in range(len(base))]
    mask = lax.eq(numbers[0], numbers[1])
    for a, b in zip(numbers[1:], numbers[2:], strict=False):
        mask = lax.bitwise_and(mask, lax.eq(a, b))
    return lax.broadcast_in_dim(mask, shape, tuple(axes))


def _single(x: Any, names: str, result: str, dtype: np.dtype, sharding: Any) -> tuple[Any, str]:
    counts = Counter(names)
    alone = sorted(n for n in counts if counts[n] == 1 and n not in result)
    x, names = _sum_alone(x, names, alone, dtype, sharding)
    return _sum_repeated(x, names, result, dtype, sharding)


def _drop_ones(x: Any, names: str, other: Any, other_names: str) -> tuple[Any, str]:
    """Drop axes of ``x`` of size 1 that are longer in the other operand. ``dot_general`` then needs no broadcast."""
    shape, wide = x.aval.shape, other.aval.shape
    ones = [i for i, n in enumerate(names) if shape[i] == 1 and n in other_names and wide[other_names.index(n)] != 1]
    return lax.squeeze(x, tuple(ones)), "".join(n for i, n in enumerate(names) if i not in ones)


def _pair(
    parts: list[Any],
    terms: list[str],
    result: str,
    precision: Any,
    dtype: np.dtype,
    dot_general: Callable[..., Any],
    sharding: Any,
) -> tuple[Any, str]:
    (x, y), (left, right) = parts, terms
    contracted = sorted(set(left + right) - set(result))
    x, left = _drop_ones(x, left, y, right)
    y, right = _drop_ones(y, right, x, left)
    counts, other = Counter(left), Counter(right)
    x, left = _sum_alone(x, left, [n for n in contracted if counts[n] == 1 and not other[n]], dtype)
    y, right = _sum_alone(y, right, [n for n in contracted if other[n] == 1 and not counts[n]], dtype)
    x, left = _sum_repeated(x, left, result + right, dtype)
    y, right = _sum_repeated(y, right, result + left, dtype)
    contracted = [n for n in contracted if n in left and n in right]
    shared = [n for n in result if n in left and n in right]
    gone = [*shared, *contracted]
    free_left, free_right = _without(left, gone), _without(right, gone)
    names = "".join(shared)
    if names + free_right + free_left == result:
        x, y, left, right, free_left, free_right = y, x, right, left, free_right, free_left
    contract = (tuple(left.index(n) for n in contracted), tuple(right.index(n) for n in contracted))
    batch = (tuple(left.index(n) for n in shared), tuple(right.index(n) for n in shared))
    names += free_left + free_right
    options = {}
    if sharding is not None:  # the parts of the spec, in the order of the product's axes
        parts_of = dict(zip(result, [*sharding.spec, *[None] * (len(result) - len(sharding.spec))], strict=True))
        options["out_sharding"] = sharding.with_spec(sharding.spec.update([parts_of[n] for n in names]))
    return dot_general(x, y, (contract, batch), precision, preferred_element_type=dtype, **options), names
