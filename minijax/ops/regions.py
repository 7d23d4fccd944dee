"""Writing operations that carry a region of code: reductions, windows, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.lowering.text import mlir_type


def region_text(
    ctx: Any, types: Sequence[str], build: Callable[..., Sequence[str]], out_types: Sequence[str]
) -> str:
    """``({...})``: a block with arguments of ``types``, whose results ``build(ctx, *names)`` names."""
    inner = ctx.region()
    start = ctx.counter[0]
    ctx.counter[0] = start + len(types)
    names = [f"%{start + i}" for i in range(len(types))]
    outs = build(inner, *names)
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    lines = [f"{ctx.indent}^bb0({arguments}):", *inner.lines]
    lines.append(f"{inner.indent}stablehlo.return {', '.join(outs)} : {', '.join(out_types)}")
    return "({\n" + "\n".join(lines) + f"\n{ctx.indent}}})"


def monoid_region(ctx: Any, op: str, dtype: Any) -> str:
    """The region that combines two scalars by the StableHLO ``op``."""
    scalar = mlir_type(ShapedArray((), dtype))
    return region_text(
        ctx,
        [scalar, scalar],
        lambda inner, a, b: [inner.emit(f"stablehlo.{op} {a}, {b} : {scalar}")],
        [scalar],
    )
