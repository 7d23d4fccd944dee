"""One-line summary of a value: type, range, mean, norm, non-finite elements, and a picture of eight characters."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.array import as_array
from minijax.core.records import Frozen
from minijax.tools.documents.words import decimal
from minijax.tools.recording.preview import MOST_ELEMENTS, aval_text, value_text
from minijax.tools.trees.numbers import MOST_SCANNED, Budget, Numbers, fetched, numbers
from minijax.tools.values.examples import Unknown

LEVELS = "▁▂▃▄▅▆▇█"
# Drawn for each part without a finite element.
NOTHING = "·"
BINS = 8


class ValueSummary(Frozen):
    """The summary of an array.

    Attributes:
      type: ``f32[8,3]``.
      shape, dtype: the shape and the dtype of the array.
      numbers: statistics of the elements that were read (all, or a sample). None if there were no numbers to read.
      mean: the mean of the finite elements seen (of absolute values if complex); None if there are none.
      spark: a picture of up to eight characters; '' if there is none.
      course: whether ``spark`` draws the values of a vector or small array in order, as means of successive stretches.
              Otherwise it is a histogram of the range in eight parts.
      value: all elements as text, for a small array; otherwise ''.
      said: why the value is not shown, if ``numbers`` is None and ``value`` is ''; else ''.
    """

    type: str
    shape: tuple[int, ...]
    dtype: Any
    numbers: Numbers | None = None
    mean: float | None = None
    spark: str = ""
    course: bool = False
    value: str = ""
    said: str = ""

    @property
    def finite(self) -> int:
        """The number of finite elements among the elements that were read."""
        return 0 if self.numbers is None else self.numbers.seen - self.numbers.nans - self.numbers.infs

    @property
    def text(self) -> str:
        """``-1.25 … 2  mean 0.417  norm 2.41  ▅▁█``; for a small array its values."""
        if self.value or self.numbers is None:
            return self.value or self.said
        return "  ".join(filter(None, (*self._range(), self._odd(), self._sampled(), self.spark)))

    def _range(self) -> list[str]:
        n = self.numbers
        assert n is not None
        if n.kind == "b":
            return [f"{n.high:,} of {n.seen:,} true"]
        if n.low is None:
            return ["nothing finite"]
        assert self.mean is not None
        found = [f"{'|…| ' if n.kind == 'c' else ''}{n.between()}", f"mean {decimal(self.mean)}"]
        if n.kind != "i" and not (n.nans or n.infs):
            found.append(f"norm {'≈' if n.sampled else ''}{decimal(n.norm)}")
        return found

    def _odd(self) -> str:
        n = self.numbers
        assert n is not None
        return ", ".join(f"{count:,} {what}" for count, what in ((n.nans, "nan"), (n.infs, "inf")) if count)

    def _sampled(self) -> str:
        n = self.numbers
        assert n is not None
        return f"from a sample of {n.seen:,}" if n.sampled else ""


def summary(value: Any, most: int = MOST_SCANNED) -> ValueSummary:
    """The summary of ``value``: an array, a number, or an Unknown.

    An array of more than ``most`` elements is sampled. Then ``numbers.sampled`` is true, and the text mentions it.
    """
    if isinstance(value, Unknown):
        return ValueSummary("", (), None, said=str(value))
    array = as_array(value)
    aval = array.aval
    kind = aval_text(aval)
    held, why_not = fetched(array)
    if held is None:
        return ValueSummary(kind, aval.shape, aval.dtype, said=why_not)
    small = value_text(array, fetch=True) if aval.size <= MOST_ELEMENTS else ""
    if not aval.size:
        return ValueSummary(kind, aval.shape, aval.dtype, said="empty")
    found = numbers(held, Budget(most))
    if found is None:
        return ValueSummary(kind, aval.shape, aval.dtype, value=small)
    seen = _real(held if not found.sampled else _evenly(held, found.seen))
    finite = seen[np.isfinite(seen)]
    mean = _mean(finite)
    course = held.ndim <= 1 or held.size <= BINS
    spark = _course(seen.reshape(-1)) if course else _histogram(finite)
    return ValueSummary(kind, aval.shape, aval.dtype, found, mean, spark if held.size > 1 else "", course, small)


def _real(x: np.ndarray) -> np.ndarray:
    return np.abs(x).astype(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)


def _mean(finite: np.ndarray) -> float | None:
    """The mean. The elements are divided before they are added, because their sum may overflow."""
    return float((finite / finite.size).sum()) if finite.size else None


def _evenly(x: np.ndarray, count: int) -> np.ndarray:
    """``count`` elements at equal distances: the same sample that ``numbers`` uses."""
    places = np.linspace(0, x.size - 1, count).astype(np.int64)
    return x[np.unravel_index(places, x.shape)]


def _course(x: np.ndarray) -> str:
    """The values in order: each character is the mean of the finite elements in one of up to eight stretches."""
    stretches = np.array_split(x, min(BINS, x.size))
    means = [part[np.isfinite(part)] for part in stretches]
    return _drawn([_mean(part) for part in means], None)


def _histogram(finite: np.ndarray) -> str:
    """A histogram: the number of elements in each eighth of the range."""
    if not finite.size:
        return NOTHING * BINS
    halves = finite / 2  # so that the difference of two large numbers does not overflow
    low, high = halves.min(), halves.max()
    counts, _ = np.histogram(halves, BINS, (low, high if high > low else low + 1))
    return _drawn([float(n) if n else None for n in counts], 0.0)


def _drawn(heights: list[float | None], low: float | None) -> str:
    known = [h for h in heights if h is not None]
    if not known:
        return NOTHING * len(heights)
    low = min(known) if low is None else low
    reach = max(known) / 2 - low / 2
    return "".join(
        NOTHING if h is None else LEVELS[3 if not reach else round((h / 2 - low / 2) / reach * (len(LEVELS) - 1))]
        for h in heights
    )
