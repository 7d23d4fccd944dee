"""``einsum``: sums of products in Einstein's notation, as a sequence of ``dot_general``s of two operands."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minijax import lax
from minijax.core import dtypes, late
from minijax.numpy.linear import output_type
from minijax.numpy.promotion import check_array_like, convert, ensure, result_dtype, typed_scalar
from minijax.ops.shape import meant_sharding

__all__ = ["einsum", "einsum_path"]

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

    The form with alternating operands and lists of axis numbers is accepted as well. ``optimize`` is an order, as pairs
    of positions, or opt_einsum's name of a way to find one; False takes the first two each time, results going to the
    end. ``_dot_general``, which libraries of layers pass, is called for each product in ``lax.dot_general``'s place.
    ``out_sharding`` is the sharding of the result over a mesh with explicit axes. Of several products, the compiler
    shards the intermediate ones; with one operand it is the sharding of the sums, before axes are permuted. Raises
    ValueError for subscripts that do not fit the operands.
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
        return late.public("minijax.api.explicit", "left_to_compiler")("einsum", sharding, run, None, *arrays)
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
    """The products along ``path``, one after the other; ``sharding`` is that of the result if there is one product."""
    terms, arrays = list(inputs), list(operands)
    for pair in path:
        # the later operand is the left one, as in the planner that JAX uses
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


# ------------------------------------------------------------------------------------ notation


def _from_lists(arguments: list[Any]) -> tuple[str, tuple[Any, ...]]:
    """``einsum(x, [0, 1], y, [1, 2], [0, 2])`` in letters."""

    def letters(axes: Sequence[Any]) -> str:
        return "".join("..." if a is Ellipsis else _LETTERS[a] for a in axes)

    output = f"->{letters(arguments.pop())}" if len(arguments) % 2 else ""
    return ",".join(map(letters, arguments[1::2])) + output, tuple(arguments[0::2])


def _parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The names of each operand's axes and of the result's; an ellipsis becomes letters that are free."""
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
                    f"Size of label '{name}' for operand {list(inputs).index(term)} ({known}) does not "
                    "match previous terms "
                    f"({size})."
                )
    return sizes


def _kept(names: Sequence[str], rest: Iterable[str]) -> str:
    """The axes of a contraction's result: those still needed, in order of appearance."""
    needed = set("".join(rest))
    return "".join(dict.fromkeys(n for n in "".join(names) if n in needed))


# ------------------------------------------------------------------------------------ order of contractions


def _path(inputs: Sequence[str], output: str, sizes: dict[str, int], optimize: Any) -> list[tuple[int, ...]]:
    """Which operands are contracted in each step, by their positions; results go to the end."""
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
    """The order that opt_einsum, JAX's planner, finds, and its description."""
    # few programs have products of three operands, and importing it costs 15 ms
    import opt_einsum

    return opt_einsum.contract_path(subscripts, *shapes, shapes=True, optimize=optimize)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[tuple[int, ...]], Any]:
    """The order in which ``einsum`` contracts its operands, as pairs of positions, and a text about what it costs."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists([subscripts, *operands])
    shapes = [ensure("einsum_path", x).aval.shape for x in operands]
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else [tuple(range(len(shapes)))]
    return _planned(subscripts, shapes, optimize)


# ------------------------------------------------------------------------------------ one contraction


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
    """``x`` summed over the axes that no other operand has and the result does not need."""
    if not alone:
        return x, names
    return _summed(x, [names.index(n) for n in alone], dtype, sharding), _without(names, alone)


def _sum_repeated(x: Any, names: str, keep: str, dtype: np.dtype, sharding: Any = None) -> tuple[Any, str]:
    """``x`` with axes of one name reduced to their diagonal, or its sum if the name is not to be kept."""
    for name, count in Counter(names).items():
        if count == 1:
            continue
        axes = [i for i, n in enumerate(names) if n == name]
        late.public("minijax.core.explicit", "check_unsharded")("einsum", x.aval, range(len(names)))
        x = lax.select(_diagonal_mask(x.aval.shape, axes), x, lax.full_like(x, 0))
        if name in keep:
            x = _summed(x, axes[:-1], dtype, sharding)
            names = names.replace(name, "", count - 1)
        else:
            x = _summed(x, axes, dtype, sharding)
            names = names.replace(name, "")
    return x, names


def _diagonal_mask(shape: tuple[int, ...], axes: Sequence[int]) -> Any:
    """Where all indices of ``axes`` are equal, as booleans of ``shape``."""
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
    """``x`` without the axes of size 1 that the other operand has in full size: they repeat."""
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
    if sharding is not None:  # the result's axes, in the product's order
        parts_of = dict(zip(result, [*sharding.spec, *[None] * (len(result) - len(sharding.spec))], strict=True))
        options["out_sharding"] = sharding.with_spec(sharding.spec.update([parts_of[n] for n in names]))
    return dot_general(x, y, (contract, batch), precision, preferred_element_type=dtype, **options), names
