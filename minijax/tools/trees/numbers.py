"""Figures of an array: norm, range, count of finite elements; exact, or from a sample and marked as such."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.records import Frozen
from minijax.tools.documents.words import decimal, interval
from minijax.tools.recording.preview import host_value

# Budget of elements for one tree; arrays beyond it are sampled with ``SAMPLE`` elements.
MOST_SCANNED = 4_000_000
SAMPLE = 65_536
# Limit in bytes for fetching an array from an accelerator or from several devices.
MOST_FETCHED = 1_000_000


class Numbers(Frozen):
    """Figures of an array, from ``seen`` of its ``size`` elements. ``norm`` includes non-finite elements; ``low`` and
    ``high`` do not. For complex numbers all are of absolute values; for booleans ``high`` counts the true elements.
    """

    kind: str  # 'f', 'i', 'c' or 'b'
    size: int
    seen: int
    norm: float
    low: Any
    high: Any
    nans: int
    infs: int

    @property
    def sampled(self) -> bool:
        """Whether some elements were not inspected."""
        return self.seen < self.size

    @property
    def lowest(self) -> str:
        """``low`` as a text."""
        return str(self.low) if self.kind == "i" else decimal(float(self.low))

    def range(self) -> str:
        """``-1.25 … 2.0``, or ``all 2.0`` if all elements are equal; ``|…| all 2.0`` for absolute values."""
        alike = self.low == self.high and not (self.nans or self.infs or self.sampled)
        return ("|…| " if self.kind == "c" else "") + (f"all {self.lowest}" if alike else self.between())

    def between(self) -> str:
        """``low … high``."""
        if self.kind == "i":
            return f"{self.low} … {self.high}"
        return interval(float(self.low), float(self.high))


class Budget:
    """The number of elements that may still be inspected."""

    def __init__(self, most: int | None = MOST_SCANNED) -> None:
        self.left = most  # None: no limit

    def take(self, size: int) -> bool:
        """Whether ``size`` elements are left in the budget. If so, take them from it."""
        if self.left is None:
            return True
        if size > self.left:
            return False
        self.left -= size
        return True


def fetched(value: Any, all_of_it: bool = False) -> tuple[np.ndarray | None, str]:
    """The NumPy value of an array; or None and the reason. ``all_of_it`` fetches large arrays from accelerators too."""
    try:
        if isinstance(value, Array):
            if is_key(value.aval.dtype) or value.aval.dtype == dtypes.float0:
                return None, ""
            held = host_value(value, fetch=True)
            if held is not None:
                return np.asarray(held), ""
        elif isinstance(value, (np.ndarray, np.generic)):
            return np.asarray(value), ""
        platforms = {getattr(each, "platform", "") for each in value.devices()}
        if not all_of_it and platforms != {"cpu"} and value.nbytes > MOST_FETCHED:
            return None, f"on {', '.join(sorted(map(str, value.devices())))}"
        return np.asarray(value), ""
    except Exception as error:  # the array was deleted, its computation failed, or NumPy lacks its type
        return None, str(error).strip().partition("\n")[0] or type(error).__name__


def numbers(x: np.ndarray, budget: Budget) -> Numbers | None:
    """The figures of a nonempty array ``x``; None if its elements are no numbers."""
    kind = _kind(x.dtype)
    if not kind:
        return None
    seen = x if budget.take(x.size) else _sample(x)
    count = seen.size
    if kind == "b":
        return Numbers(kind, x.size, count, 0.0, 0, int(np.count_nonzero(seen)), 0, 0)
    if seen.dtype.kind not in "iufc" or seen.dtype.itemsize < 4:
        seen = seen.astype(np.int64 if kind == "i" else np.float32)
    if kind == "i":
        return Numbers(kind, x.size, count, 0.0, seen.min().item(), seen.max().item(), 0, 0)
    return _of_floats(np.abs(seen) if kind == "c" else seen, kind, x.size)


def _of_floats(seen: np.ndarray, kind: str, size: int) -> Numbers:
    count = seen.size
    finite = np.isfinite(seen)
    nans = infs = 0
    norm = 0.0
    if not finite.all():
        nans = int(np.count_nonzero(np.isnan(seen)))
        seen = seen[finite]
        infs = count - seen.size - nans
        norm = float("nan") if nans else float("inf")
    low: Any = seen.min() if seen.size else None
    high: Any = seen.max() if seen.size else None
    if not nans and not infs:  # so ``low`` is not None
        norm = _norm(seen, max(abs(float(low)), abs(float(high)))) * (size / count) ** 0.5
    return Numbers(kind, size, count, norm, low, high, nans, infs)


def _norm(x: np.ndarray, largest: float) -> float:
    """The Euclidean norm in 64 bits. Elements are scaled because their squares may overflow or underflow."""
    if not largest:
        return 0.0
    scaled = x.reshape(-1).astype(np.float64) / largest
    return largest * float(np.sqrt(np.dot(scaled, scaled)))


def _kind(dtype: np.dtype) -> str:
    if dtype.kind in "fiubc":
        return "i" if dtype.kind == "u" else dtype.kind
    if dtype.kind != "V" or dtype.names or dtype == dtypes.float0:
        return ""
    return "f" if dtypes.is_inexact(dtype) else "i"  # kind V: bfloat16, and types with fewer than 16 bits


def _sample(x: np.ndarray) -> np.ndarray:
    """Evenly spaced elements of ``x``."""
    places = np.linspace(0, x.size - 1, SAMPLE).astype(np.int64)
    return x[np.unravel_index(places, x.shape)]
