"""The placement of an array: which part is on which device, as a picture and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minijax.api.visualize_sharding import drawing, grid, ranges
from minijax.core.array import get_aval
from minijax.core.shardings import NamedSharding, Sharding
from minijax.interop.values import sharding_of_jax
from minijax.tools.documents.document import Block, Row, Segment, Table, line, text
from minijax.tools.documents.words import bytes_text, plural
from minijax.tools.usage import UsageError

# The most rows of a table or picture, and the width of a picture in characters.
MOST_PARTS = 32
_WIDTH = 76


def blocks(name: str, value: Any) -> Iterator[Block]:
    """The placement of the array ``value``, which the user calls ``name``."""
    aval = get_aval(value)
    sharding = _sharding(name, value)
    shape = aval.shape
    tiles = sharding.tiles(len(shape))
    parts, copies = tiles.size // tiles.shape[-1], tiles.shape[-1]
    yield text(
        line(
            ("name", name),
            ("muted", " · "),
            ("type", aval.str_short()),
            ("muted", f" on {plural(sharding.num_devices, 'device')} · "),
            _division(parts, copies, _terms(sharding)),
        )
    )
    if isinstance(sharding, NamedSharding):
        axes = ", ".join(f"{axis}={size}" for axis, size in sharding.mesh.shape_tuple)
        yield Row("spec", (line(repr(sharding.spec), ("muted", f" over a mesh of {axes}")),))
    each = int(np.prod(sharding.shard_shape(shape), dtype=int)) * aval.dtype.itemsize
    whole = aval.size * aval.dtype.itemsize
    held = each * sharding.num_devices
    more = f", {held / whole:.3g} times the array" if whole and held > whole else ""
    yield Row("bytes", (line(f"{bytes_text(each)} on each device, {bytes_text(held)} in all{more}"),))
    if isinstance(sharding, NamedSharding) and sharding.spec.unreduced:
        along = ", ".join(str(axis) for axis in sharding.mesh.axis_names if axis in sharding.spec.unreduced)
        yield Row("sum", (line(f"of the values along {along}; sharding.reshard({name}, P(...)) computes it"),))
    if len(shape) <= 2 and _has_room(grid(shape, sharding)):
        yield text(*[line(("", each)) for each in drawing(shape, sharding, _WIDTH)], wrap=False)
        return
    yield from _table(name, shape, sharding, tiles)


def _sharding(name: str, value: Any) -> Sharding:
    """The sharding of ``value``, converted to minijax's class if it is one of real JAX's."""
    sharding = value.sharding
    found = sharding if isinstance(sharding, Sharding) else sharding_of_jax(sharding)
    if found is None:
        kind = type(sharding).__name__
        raise UsageError(f"%shards: minijax cannot show JAX's {kind}: {name}.addressable_shards has the parts")
    return found


def _has_room(cells: Sequence[Sequence[str]]) -> bool:
    """Whether a picture with this many parts has room for the device names."""
    narrowest = max(len(cell.partition(" ")[2]) for row in cells for cell in row)
    return len(cells) <= MOST_PARTS and len(cells[0]) * (narrowest + 1) + 1 <= _WIDTH


def _terms(sharding: Sharding) -> int:
    """The number of arrays whose sum is the value; the arrays are on different devices. 1 if no axis is unreduced."""
    if not isinstance(sharding, NamedSharding):
        return 1
    return math.prod(sharding.mesh.shape[axis] for axis in sharding.spec.unreduced)


def _division(parts: int, copies: int, terms: int) -> str:
    copies //= terms
    held = "" if copies == 1 else f", each on {copies}"
    if terms > 1:
        return (f"a sum of {terms} terms" if parts == 1 else f"{parts} parts, sums of {terms} terms") + held
    if parts == 1:
        return "all of it on each" if copies > 1 else "all of it on one"
    return f"{parts} parts{held}"


def _table(name: str, shape: Sequence[int], sharding: Sharding, tiles: np.ndarray) -> Iterator[Block]:
    sizes = sharding.shard_shape(shape)
    rows: list[tuple[Segment, ...]] = []
    for part in np.ndindex(tiles.shape[:-1]):
        if len(rows) == MOST_PARTS:
            break
        index = ", ".join(
            ":" if size == whole else f"{i * size}:{(i + 1) * size}"
            for i, size, whole in zip(part, sizes, shape, strict=True)
        )
        rows.append((("", f"[{index}]"), ("number", ranges(sorted(sharding.assignment[i].id for i in tiles[part])))))
    yield Table(("part", "devices"), tuple(rows))
    left = tiles.size // tiles.shape[-1] - len(rows)
    if left > 0:
        yield text(f"… {plural(left, 'more part')}: {name}.addressable_shards has them all", role="muted")


def table(leaves: Sequence[tuple[str, Any]]) -> Table:
    """The sharding of each array in a container, with its path."""
    rows = []
    for path, leaf in leaves:
        aval, sharding = get_aval(leaf), _sharding(path, leaf)
        each = int(np.prod(sharding.shard_shape(aval.shape), dtype=int)) * aval.dtype.itemsize
        tiles = sharding.tiles(aval.ndim)
        spec = repr(sharding.spec) if isinstance(sharding, NamedSharding) else ""
        rows.append(
            (
                ("name", path),
                ("type", aval.str_short()),
                ("", spec),
                ("number", str(sharding.num_devices)),
                ("", _division(tiles.size // tiles.shape[-1], tiles.shape[-1], _terms(sharding))),
                ("number", bytes_text(each)),
            )
        )
    return Table(("leaf", "type", "spec", "devices", "divided", "on each"), tuple(rows))
