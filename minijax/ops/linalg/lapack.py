"""What primitives have in common that LAPACK computes: how they are called, evaluated and batched.

On the CPU each is a custom call of the routine that JAX calls too (https://netlib.org/lapack/explore-html); where the
routine says that it failed, its results are nan. On other platforms the lowering is borrowed from JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.backend.custom_calls import register_lapack
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.lacking import borrowed_primitive
from minijax.core.primitive import Primitive
from minijax.core.structural import moveaxis
from minijax.interpreters.jvp import jvp_rules
from minijax.interpreters.transpose import transpose_rules
from minijax.interpreters.vmap import batching_rules
from minijax.lowering.lower import lowering_rules
from minijax.lowering.text import dims_text, mlir_type
from minijax.ops.call import compiled_impl
from minijax.ops.declare import Rule
from minijax.ops.nary import INEXACT, check_kinds

INT32 = np.dtype(np.int32)

_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


# -------------------------------------------------------------------------------- declaration


def declare_lapack(
    p: Primitive, *, abstract: Rule, lower: Rule, jvp: Rule | None = None, transpose: Rule | None = None
) -> Primitive:
    """A primitive that LAPACK computes, with its rules: see ``ops.declare.declare``.

    It is evaluated by a compiled program. ``lower`` is the rule for the CPU. Every operand has the same number of batch
    dimensions, which come first, and so has every result.
    """
    p.def_abstract_eval(_as_weak_as_operands(abstract))
    p.refuses_keys = True
    p.def_impl(compiled_impl(p))
    lowering_rules[p] = on_cpu(p, lower)
    batching_rules[p] = batch_in_front(p)
    if jvp is None:
        jvp_rules.holes[p] = "JAX has no derivative of it either"
    else:
        jvp_rules[p] = jvp
    if transpose is None:
        transpose_rules.holes[p] = "not linear"
    else:
        transpose_rules[p] = transpose
    return p


def _as_weak_as_operands(abstract: Rule) -> Rule:
    """``abstract`` with all results, the integers too, weakly typed if all operands are."""

    @functools.wraps(abstract)
    def weak_abstract(*avals: ShapedArray, **params: Any) -> Any:
        out = abstract(*avals, **params)
        if not all(aval.weak_type for aval in avals):
            return out
        if isinstance(out, ShapedArray):
            return ShapedArray(out.shape, out.dtype, True)
        return [ShapedArray(aval.shape, aval.dtype, True) for aval in out]

    return weak_abstract


def on_cpu(p: Primitive, lower: Rule) -> Rule:
    """The lowering of ``p``: ``lower`` on the CPU, JAX's anywhere else."""

    def lapack_lower(ctx: Any, avals: Any, out_avals: Any, *names: str, **params: Any) -> Any:
        if ctx.module.platform() not in ("cpu", "unknown"):
            return lowering_rules[borrowed_primitive(p)](ctx, avals, out_avals, *names, **params)
        return lower(ctx, avals, out_avals, *names, **params)

    return lapack_lower


def batch_in_front(p: Primitive) -> Rule:
    """The batching rule of a primitive that takes any number of dimensions in front."""

    def front_batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        (x,), (dim,) = args, dims
        assert dim is not None
        out = p.bind(moveaxis(x, dim, 0), **params)
        return out, [0] * len(out) if p.multiple_results else 0

    return front_batch


# -------------------------------------------------------------------------------- types


def check_ranks(name: str, *avals: ShapedArray) -> None:
    """TypeError, in JAX's words, unless each operand has at least two dimensions."""
    for i, aval in enumerate(avals):
        if aval.ndim < 2:
            raise TypeError(f"Input {i} to {name} must have rank at least 2, but got shape={aval.shape}")


def check_matrices(name: str, *avals: ShapedArray, square: bool = False) -> None:
    """TypeError or ValueError, in JAX's words, unless each operand holds inexact matrices (square ones)."""
    check_ranks(name, *avals)
    for aval in avals:
        if square and aval.shape[-1] != aval.shape[-2]:
            raise ValueError(f"The input to {name} must be square matrices, got shape {aval.shape}")
    check_kinds(name, [INEXACT] * len(avals), avals)


# -------------------------------------------------------------------------------- text


def lapack_call(
    ctx: Any,
    routine: str,
    dtype: np.dtype,
    operands: Sequence[tuple[str, ShapedArray]],
    results: Sequence[ShapedArray],
    batch: int,
    options: str = "",
    reuses: dict[int, int] | None = None,
) -> list[str]:
    """Write the call of LAPACK's ``routine`` for ``dtype`` ('potrf' is 'spotrf' for float32); the results' names.

    Args:
      operands: names and types.
      results: types.
      batch: how many dimensions come first in all of them; what follows is stored by columns.
      options: ``uplo = 76 : ui8``, the letters and numbers that the routine takes.
      reuses: which results are written where an operand is: result -> operand.
    """
    letter = _LETTERS.get(dtype_name(dtype))
    if letter is None:
        raise NotImplementedError(
            f"Unsupported dtype {dtype_name(dtype)}: LAPACK computes in float32, float64, complex64 and complex128. "
            "Convert the operand first."
        )
    if ctx.module.platform() == "cpu":  # a program that is only read needs none
        register_lapack()
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if len(results) > 1 else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for out, operand in (reuses or {}).items()
    )
    attributes = [
        "api_version = 4 : i32",
        f"backend_config = {{{options}}}",
        *(_by_batch([a for _, a in operands], results, batch) if ctx.module.divided else []),
        f"operand_layouts = [{', '.join(_by_columns(a, batch) for _, a in operands)}]",
        *([f"output_operand_aliases = [{aliases}]"] if aliases else []),
        f"result_layouts = [{', '.join(_by_columns(a, batch) for a in results)}]",
    ]
    ins, outs = (", ".join(map(mlir_type, avals)) for avals in ([a for _, a in operands], results))
    found: list[str] = ctx.emit_many(
        f"stablehlo.custom_call @lapack_{letter}{routine}_ffi({', '.join(name for name, _ in operands)}) "
        f"{{{', '.join(attributes)}}} : ({ins}) -> ({outs})",
        len(results),
    )
    return found


def _by_batch(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], batch: int) -> list[str]:
    """The attributes by which devices divide a call: along the batch only, which all operands and results share."""
    sizes: list[int] = [*operands[0].shape[:batch]]
    factors: list[list[list[int]]] = []
    for avals in (operands, results):
        factors.append([])
        for aval in avals:
            own = range(len(sizes), len(sizes) + aval.ndim - batch)
            factors[-1].append([*range(batch), *own])
            sizes += aval.shape[batch:]
    # Shardy's names of factors: i to z, then z_1, z_2, ...
    names = [chr(ord("i") + i) if i < 18 else f"z_{i - 17}" for i in range(len(sizes))]
    ins, outs = (", ".join(f"[{', '.join(names[i] for i in one)}]" for one in each) for each in factors)
    named = ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))
    return [
        f'mhlo.frontend_attributes = {{num_batch_dims = "{batch}"}}',
        f"sdy.sharding_rule = #sdy.op_sharding_rule<({ins})->({outs}) {{{named}}}, custom>",
    ]


def _by_columns(aval: ShapedArray, batch: int) -> str:
    """The order of the dimensions in memory, the nearest first."""
    order = [*range(batch, aval.ndim), *reversed(range(batch))]
    return f"dense<{dims_text(order) if order else ''}> : tensor<{aval.ndim}xindex>"


def is_supported(dtype: np.dtype) -> bool:
    """Whether LAPACK has routines for ``dtype``."""
    return dtype_name(dtype) in _LETTERS


def letter(character: str) -> str:
    """A letter as LAPACK's options have it."""
    return f"{ord(character)} : ui8"


def succeeded(ctx: Any, info: str, shape: Sequence[int], at_least: bool = False) -> str:
    """Whether a routine's ``info``, integers of ``shape``, is 0 (or not below)."""
    aval = ShapedArray(tuple(shape), INT32)
    zero, ty = ctx.full(0, aval, scalars=True), mlir_type(aval)
    flags = mlir_type(aval.update(dtype=np.dtype(bool)))
    return str(
        ctx.emit(f"stablehlo.compare {'GE' if at_least else 'EQ'}, {info}, {zero}, SIGNED : ({ty}, {ty}) -> {flags}")
    )


def or_nan(ctx: Any, ok: str, x: str, aval: ShapedArray, batch: int) -> str:
    """``x``, of type ``aval``, where ``ok`` (one flag for each of the batch) holds; nan elsewhere."""
    flag = np.dtype(bool)
    flags = ShapedArray(aval.shape[:batch], flag)
    wide = ShapedArray((*flags.shape, *[1] * (aval.ndim - batch)), flag)
    ok = ctx.broadcast(ok, flags, wide.shape, range(batch))
    nans = ctx.full(complex(np.nan, np.nan) if aval.dtype.kind == "c" else np.nan, aval)
    ok = ctx.broadcast(ok, wide, aval.shape, range(aval.ndim))
    ty = mlir_type(aval)
    return str(ctx.emit(f"stablehlo.select {ok}, {x}, {nans} : {mlir_type(aval.update(dtype=flag))}, {ty}"))
