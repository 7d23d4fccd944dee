"""Split lists by flags and merge them again: rules of primitives with jaxprs do this to their operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def partition(flags: Sequence[bool], items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """``(items whose flag is false, items whose flag is true)``, in order. ValueError if the lengths differ."""
    false: list[Any] = []
    true: list[Any] = []
    for flag, item in zip(flags, items, strict=True):
        (true if flag else false).append(item)
    return false, true


def chosen(flags: Sequence[bool], items: Sequence[Any]) -> list[Any]:
    """The items whose flag is true."""
    return partition(flags, items)[1]


def spread(flags: Sequence[bool], items: Iterable[Any]) -> list[Any]:
    """``items`` at the positions whose flag is true, None elsewhere."""
    given = iter(items)
    return [next(given) if flag else None for flag in flags]


def merge(flags: Sequence[bool], false: Iterable[Any], true: Iterable[Any]) -> list[Any]:
    """Merge the two lists of ``partition``."""
    f, t = iter(false), iter(true)
    return [next(t) if flag else next(f) for flag in flags]


def split_list(items: Sequence[Any], *sizes: int) -> list[list[Any]]:
    """Split ``items`` into consecutive parts with these ``sizes``, and the rest."""
    parts = []
    start = 0
    for size in sizes:
        parts.append(list(items[start : start + size]))
        start += size
    return [*parts, list(items[start:])]


def with_items(items: Iterable[Any], positions: Iterable[int], new: Iterable[Any]) -> list[Any]:
    """``items`` as a list, with the items at ``positions`` replaced by ``new``."""
    full = list(items)
    for i, x in zip(positions, new, strict=True):
        full[i] = x
    return full


def safe_zip(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """``zip`` as a list; ValueError if the lengths differ. Libraries written for JAX import it."""
    return list(zip(*lists, strict=True))


def safe_map(fun: Any, *lists: Iterable[Any]) -> list[Any]:
    """``map`` as a list; ValueError if the lengths differ. Libraries written for JAX import it."""
    return [fun(*items) for items in zip(*lists, strict=True)]
