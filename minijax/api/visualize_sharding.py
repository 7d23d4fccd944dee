"""``debug.visualize_sharding`` and ``visualize_array_sharding``: draw the devices of each part of an array."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax.core.shardings import Sharding
from minijax.core.trace import Tracer

# The maximum width of a picture, and the minimum width of a part.
WIDTH = 80
_NARROWEST = 9


def grid(shape: Sequence[int], sharding: Sharding) -> list[list[str]]:
    """The devices of each part, row by row: ``CPU 0,1``. ValueError for over two dimensions or an uneven sharding."""
    if len(shape) > 2:
        raise ValueError(
            f"visualize_sharding only supports shapes with 1 or 2 dimensions, got {tuple(shape)}. For "
            "other arrays, %shards lists the parts."
        )
    sharding.shard_shape(shape)
    tiles = sharding.tiles(len(shape))
    tiles = tiles.reshape(*(1,) * (3 - tiles.ndim), *tiles.shape)
    return [[_devices_text([sharding.assignment[i] for i in part]) for part in row] for row in tiles]


def _devices_text(devices: Sequence[Any]) -> str:
    kinds = {device.platform.upper() for device in devices}
    return f"{'/'.join(sorted(kinds))} {ranges(sorted(device.id for device in devices))}"


def ranges(numbers: Sequence[int]) -> str:
    """``0,2,4-7``: three or more consecutive numbers become a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


def drawing(shape: Sequence[int], sharding: Sharding, width: int = WIDTH) -> list[str]:
    """Draw each part as a box; return the lines. Raises the errors of ``grid``."""
    cells = grid(shape, sharding)
    wide = max(_NARROWEST, *[len(cell) + 2 for row in cells for cell in row])
    if wide * len(cells[0]) + len(cells[0]) + 1 > width:
        wide = max(1, (width - len(cells[0]) - 1) // len(cells[0]))
    rule = "─" * wide

    def row(left: str, between: str, right: str, parts: Sequence[str]) -> str:
        return f"{left}{between.join(parts)}{right}"

    n = len(cells[0])
    lines = [row("┌", "┬", "┐", [rule] * n)]
    for i, each in enumerate(cells):
        if i:
            lines.append(row("├", "┼", "┤", [rule] * n))
        lines.append(row("│", "│", "│", [f"{_fitted(cell, wide):^{wide}}" for cell in each]))
    return [*lines, row("└", "┴", "┘", [rule] * n)]


def _fitted(cell: str, wide: int) -> str:
    """Fit ``cell`` into ``wide`` columns: drop the platform's name, then truncate."""
    if len(cell) <= wide:
        return cell
    bare = cell.partition(" ")[2]
    return bare if len(bare) <= wide else f"{bare[: wide - 1]}…"


def visualize_sharding(
    shape: Sequence[int], sharding: Sharding, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
    max_width: int = WIDTH, color_map: Any = None,
) -> None:  # fmt: skip
    """Print the devices of each part of an array of ``shape``, in ``max_width`` columns, without colours."""
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"visualize_sharding needs a sharding of minijax, and got {sharding!r}. For a sharding of "
            "JAX, call jax.debug.visualize_sharding, or type %shards at the prompt."
        )
    sys.stdout.write("\n".join(drawing(shape, sharding, max_width)) + "\n")


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print the devices of each part of ``arr``. TypeError for a tracer, ValueError for over two dimensions."""
    if isinstance(arr, Tracer):
        raise TypeError(
            f"visualize_array_sharding needs an array, and got the tracer {arr}: a traced value is on no device "
            "yet. Call it on the result, or see %hlo --partitioned."
        )
    visualize_sharding(np.shape(arr), arr.sharding, **kwargs)
