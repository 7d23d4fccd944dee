"""A value on one line of limited width: small arrays in full, larger ones as type, range, mean, distribution and the
number of non-finite elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.records import Frozen
from minijax.tools.documents.document import Line, Segment
from minijax.tools.documents.words import decimal, shortened
from minijax.tools.trees.numbers import MOST_SCANNED, Budget, Numbers, fetched, numbers

LEVELS = "▁▂▃▄▅▆▇█"
# Drawn for each part without a finite element.
NOTHING = "·"
BINS = 8


class ValueSummary(Frozen):
    """The figures of an array.

    Attributes:
      numbers: statistics of the elements that were read (all, or a sample). None if there were no numbers to read.
      mean: the mean of the finite elements seen (of absolute values if complex); None if there are none.
      spark: a picture of up to eight characters; '' if there is none. It draws the values of a vector or small array
        in order, as means of successive stretches; otherwise it is a histogram of the range in eight parts.
      said: why there are no numbers; else ''.
    """

    numbers: Numbers | None = None
    mean: float | None = None
    spark: str = ""
    said: str = ""


def summary(array: Array, most: int = MOST_SCANNED) -> ValueSummary:
    """The figures of ``array``. Of an array with more than ``most`` elements, a sample is read."""
    held, why_not = fetched(array)
    if held is None or not array.aval.size:
        return ValueSummary(said=why_not if held is None else "empty")
    found = numbers(held, Budget(most))
    if found is None:
        return ValueSummary()
    seen = _real(held if not found.sampled else _evenly(held, found.seen))
    finite = seen[np.isfinite(seen)]
    in_order = held.ndim <= 1 or held.size <= BINS
    spark = "" if held.size == 1 else _course(seen.reshape(-1)) if in_order else _histogram(finite)
    return ValueSummary(found, _mean(finite), spark)


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


# --- on one line
# ---------------------------------------------------------------------------------------------------------

# Arrays with up to this many elements are shown in full if there is room.
MOST_ELEMENTS = 8


def numpy_of(array: Array) -> np.ndarray:
    """The value as a NumPy array; types that NumPy lacks become 32-bit types."""
    value = np.asarray(array._value())
    if value.dtype.kind == "V" and not value.dtype.names and not is_key(array.aval.dtype):
        return value.astype(np.float32)
    return value


def number_text(item: Any, digits: int = 4) -> str:
    """A number with ``digits`` digits; an integer in full."""
    if isinstance(item, (bool, np.bool_)):
        return str(bool(item))
    if isinstance(item, (complex, np.complexfloating)):
        sign = "-" if item.imag < 0 or (item.imag == 0 and np.signbit(item.imag)) else "+"
        return f"{number_text(item.real, digits)}{sign}{number_text(abs(item.imag), digits)}j"
    if isinstance(item, (float, np.floating)):
        return decimal(float(item), digits)
    return str(item)


def elements(value: np.ndarray, digits: int = 4) -> str:
    """All elements, written as a Python list."""
    if value.ndim == 0:
        return number_text(value[()], digits)
    return "[" + ", ".join(elements(each, digits) for each in value) + "]"


def brief(
    array: Array,
    room: int,
    axes: int = 0,
    typed: bool = True,
    summed: Callable[[Array], ValueSummary] = summary,
) -> Line:
    """The array on one line of at most ``room`` characters; its first ``axes`` axes count examples.

    ``typed`` adds the type. ``summed`` returns the summary, which it may cache.
    """
    kind = type_of(array, axes)
    if is_key(array.aval.dtype):
        return (("type", shortened(kind, room)),) if typed else ()
    value = numpy_of(array)
    if value.size <= MOST_ELEMENTS:
        many = examples_text(array, axes)
        for digits in (7, 4):
            text = elements(value, digits)
            if len(many) + len(text) <= room:
                return (("type", many), ("value", text)) if many else (("value", text),)
    return _fitted(kind if typed else "", summed(array), room)


def type_of(array: Array, axes: int = 0) -> str:
    """``f32[4]``, or ``8× f32[4]`` for eight examples."""
    aval = array.aval
    return examples_text(array, axes) + aval.update(shape=aval.shape[axes:]).str_short()


def examples_text(array: Array, axes: int) -> str:
    """``8× `` as prefix for eight examples."""
    return "×".join(map(str, array.aval.shape[:axes])) + "× " if axes else ""


def _fitted(kind: str, found: ValueSummary, room: int) -> Line:
    """Type, range, mean, picture (``spark``) and counts. The least important are left out if ``room`` is too small.

    Figures from a sample have a sign in front: ``≈`` before a range or mean, ``≥`` before a count of non-finite
    elements.
    """
    parts: dict[str, Segment] = {"type": ("type", kind)}
    n = found.numbers
    about, least = ("≈ ", "≥ ") if n is not None and n.sampled else ("", "")
    if n is None:
        parts["said"] = ("muted", found.said)
    elif n.kind == "b":
        share = f"{about}{n.high / n.seen:.1%} true" if n.sampled else f"{n.high:,} of {n.seen:,} true"
        parts["range"] = ("value", share)
    elif n.low is not None:
        parts["range"] = ("value", about + n.range())
        if n.low != n.high:
            parts["mean"] = ("muted", f"mean {about}{number_text(found.mean, 3)}")
            parts["picture"] = ("param-name", found.spark)
    if n is not None:
        for what, count in (("nan", n.nans), ("inf", n.infs)):
            if count:
                parts[what] = ("error", f"{what} {least}{count:,}")
        if n.sampled:
            parts["sampled"] = ("muted", "from a sample")
    for dropped in ("", "mean", "picture", "sampled", "type", "range"):
        parts.pop(dropped, None)
        if sum(len(text) + 1 for _, text in parts.values()) - 1 <= room:
            break
    order = ("type", "range", "mean", "picture", "nan", "inf", "sampled", "said")
    out: list[Segment] = []
    for segment in [parts[key] for key in order if key in parts and parts[key][1]]:
        out += [("", " "), segment] if out else [segment]
    return tuple(out) if out or not kind else (("type", shortened(kind, room)),)
