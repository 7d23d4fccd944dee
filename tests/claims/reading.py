"""What a command printed, parsed: numbers, arrays, shortened arrays, and how they compare with an array."""

from __future__ import annotations

import ast
import functools
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMBER = r"[-≈]*(?:\d[\d,]*\.?\d*(?:e[-+]?\d+)?|inf|nan)"
SUMMARY = re.compile(
    rf"^(?:(?P<type>[a-z]+\d*\[[\d,]*\])\s*)?"
    rf"(?:all (?P<all>{NUMBER})|(?P<low>{NUMBER}) … (?P<high>{NUMBER})|(?P<true>\d+) of (?P<of>\d+) true)?"
    rf"(?:\s*mean (?P<mean>{NUMBER}))?(?:\s*norm (?P<norm>{NUMBER}))?\s*[▁▂▃▄▅▆▇█·]*"
    rf"(?:\s*nan (?P<nan>\d+))?(?:\s*inf (?P<inf>\d+))?(?:\s*(?P<odd>\d+) not finite)?$"
)
# The number of significant digits from which on a number says by its digits that it is rounded (means have one less).
SHORTENED = 4
# How far the same computation may be off in the other library: sums in another order and other approximations of
# elementary functions, some units in the last place, through programs of about 100 operations.
NOISE = {"float32": 2e-5, "float64": 1e-11}


@dataclass(frozen=True)
class Cell:
    """A printed value: ``items`` are the texts of its elements, nested as in the array; or ``summary``, or ``said``."""

    items: Any = None
    examples: int = 0
    summary: dict[str, str] | None = None
    said: str = ""


@functools.lru_cache(1 << 14)
def cell(text: str) -> Cell:
    """``2× [1.0, 2.0]``, ``f32[3,2] 0.0 … 6.764 mean 2.72``, ``True``, or a reason why there is no value."""
    text = text.strip()
    many = re.match(r"^(\d+)× ", text)
    examples, rest = (int(many[1]), text[many.end() :]) if many else (0, text)
    if re.fullmatch(rf"[\[\]\s,]*(?:(?:{NUMBER}|True|False)[\[\]\s,]*)+", rest):
        quoted = re.sub(rf"{NUMBER}|True|False", lambda found: repr(found[0]), rest)
        return Cell(ast.literal_eval(quoted), examples)
    found = SUMMARY.match(rest)
    if found and any(found.groupdict().values()):
        return Cell(None, examples, {key: said for key, said in found.groupdict().items() if said})
    return Cell(said=text)


def noise(array: np.ndarray) -> float:
    """How far a value may be off that was computed as this one was."""
    finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.zeros(0)
    return NOISE.get(array.dtype.name, 0.0) * (1.0 + float(finite.max(initial=0.0)))


def number_is(text: str, true: float, off: float, shortened: int = SHORTENED) -> bool:
    """Whether a printed number is ``true``, rounded to its digits; a number of few digits claims to be exact."""
    if text in ("True", "False"):
        return (text == "True") == bool(true)
    about, plain = text.startswith("≈"), text.lstrip("≈").replace(",", "")
    said = float(plain)
    if math.isnan(said) or math.isnan(true) or math.isinf(said) or math.isinf(true):
        return said == true or (math.isnan(said) and math.isnan(true))
    mantissa, _, exponent = plain.lstrip("-").partition("e")
    digits = len(mantissa.replace(".", "").lstrip("0"))
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    if mantissa.endswith(".0") and not about:
        digits = 1  # a whole number
    exact = digits < shortened and not about
    return abs(said - true) <= off + (0.0 if exact else 0.5001 * unit)


def elements_are(items: Any, array: np.ndarray, off: float) -> bool:
    if not isinstance(items, list):
        return array.ndim == 0 and number_is(items, array[()], off)
    return len(items) == (array.shape[0] if array.ndim else -1) and all(
        map(elements_are, items, array, [off] * len(items))
    )


def cell_is(said: Cell, array: np.ndarray, batched: bool = False) -> bool:
    """Whether a printed value is this array's."""
    off = noise(array)
    if batched and said.examples and said.examples != array.shape[0]:
        return False
    if said.summary is None:
        return elements_are(said.items, array, off)
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    facts = {
        "low": finite.min() if finite.size else math.nan, "high": finite.max() if finite.size else math.nan,
        "mean": finite.mean() if finite.size else math.nan, "norm": np.linalg.norm(finite.astype(float)),
        "true": array.sum() if array.dtype.kind == "b" else -1, "of": array.size,
        "nan": np.isnan(array).sum(), "inf": np.isinf(array).sum(), "odd": array.size - finite.size,
    }  # fmt: skip
    for key, text in said.summary.items():
        if key == "type":
            if text.split("[")[1][:-1] != ",".join(map(str, array.shape[bool(said.examples) :])):
                return False
        elif key == "all":
            if not (number_is(text, facts["low"], off) and number_is(text, facts["high"], off)):
                return False
        elif not number_is(text, float(facts[key]), off, SHORTENED - (key == "mean")):
            return False
    missed = {key for key in ("nan", "inf") if facts[key] and key not in said.summary}
    return not (missed and "odd" not in said.summary and array.dtype.kind == "f")


def normal(name: str) -> str:
    """An expression as ``ast.unparse`` writes it; other names as they are."""
    try:
        return ast.unparse(ast.parse(name, mode="eval"))
    except SyntaxError:
        return " ".join(name.split())


def called_alike(said: str, name: str) -> bool:
    """Whether a printed name, which may be cut by '…' or '...', is that name."""
    parts = re.split(r"…|\.\.\.(?!\.)", re.sub(r"(\d\.)(?![\d.])", r"\g<1>0", said))
    if len(parts) == 1:
        return normal(said) == name
    tight, first, last = (re.sub(r"[ ()]", "", text) for text in (name, parts[0], parts[-1]))
    return tight.startswith(first) and tight.endswith(last)
