"""Writes operations that contain a region of code: reductions, windows, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.lists import safe_zip
from minijax.core.rules import Ints, Names
from minijax.lowering.text import array_text, scalar_type


def block_text(ctx: Any, types: Names, build: Callable[..., Names], out_types: Names) -> str:
    """``{...}``: a block with arguments of ``types``. ``build(ctx, *names)`` writes it and returns result names."""
    inner = ctx.region()
    start = ctx.counter[0]
    ctx.counter[0] = start + len(types)
    names = [f"%{start + i}" for i in range(len(types))]
    outs = build(inner, *names)
    arguments = ", ".join(f"{n}: {t}" for n, t in safe_zip(names, types))
    results = f" {', '.join(outs)} : {', '.join(out_types)}" if outs else ""
    label = f"^bb0({arguments}):" if types else "^bb0:"
    lines = [f"{ctx.indent}{label}", *inner.lines, f"{inner.indent}stablehlo.return{results}"]
    return "{\n" + "\n".join(lines) + f"\n{ctx.indent}}}"


def region_text(ctx: Any, types: Names, build: Callable[..., Names], out_types: Names) -> str:
    """``({...})``: the region of an operation that has one region; see ``block_text``."""
    return f"({block_text(ctx, types, build, out_types)})"


def monoid_region(ctx: Any, op: str, dtype: Any) -> str:
    """The region that combines two scalars by the operation ``op`` of StableHLO."""
    scalar = scalar_type(dtype)
    return region_text(
        ctx, [scalar, scalar], lambda inner, a, b: [inner.emit(f"stablehlo.{op} {a}, {b} : {scalar}")], [scalar]
    )


def pads_text(padding: Sequence[Ints]) -> str:
    """The attribute ``padding`` of operations on windows."""
    pairs = [list(pair) for pair in padding]
    return f"padding = dense<{pairs if pairs else ''}> : tensor<{len(pairs)}x2xi64>"


def window_text(
    *,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Sequence[Ints],
    base_dilation: Ints,
    window_dilation: Ints,
) -> str:
    """The attributes of ``stablehlo.reduce_window``."""
    return (
        f"base_dilations = {array_text(base_dilation)}, {pads_text(padding)}, "
        f"window_dilations = {array_text(window_dilation)}, window_dimensions = {array_text(window_dimensions)}, "
        f"window_strides = {array_text(window_strides)}"
    )
