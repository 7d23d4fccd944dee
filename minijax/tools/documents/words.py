"""Numbers, times and long texts as the tools write them."""

from __future__ import annotations

import functools
import re

LONGEST = 60
# Bars that fill no, one, ... seven eighths of a column.
EIGHTHS = " ▏▎▍▌▋▊▉"


# A float is written with at most this many significant digits. Whole numbers up to 2**24 are written in full.
MOST_DIGITS = 7
MOST_WHOLE = 2**24


def decimal(x: float, digits: int = 4) -> str:
    """``x`` with ``digits`` significant digits, or up to seven if more give ``x`` exactly or show a fraction (1234.5).

    A whole number ends in ``.0``. The sign ``≈`` marks a number that is not whole and rounds to a whole one: ``≈1.0``.
    """
    if abs(x) <= MOST_WHOLE and x == int(x):
        return f"{x:.1f}"
    texts = [f"{x:.{n}g}" for n in range(digits, max(digits, MOST_DIGITS) + 1)]
    exact = next((text for text in texts if float(text) == x), None)
    text = exact or next((text for text in texts if "." in text and "e+0" not in text), texts[-1])
    if not text.lstrip("-").isdigit():
        return text
    return f"{text}.0" if exact else f"≈{text}.0"


def interval(low: float, high: float, digits: int = 4) -> str:
    """``low … high``, with enough digits that different bounds are written differently."""
    enough = (n for n in range(digits, 18) if decimal(low, n) != decimal(high, n))
    digits = digits if low == high else next(enough, digits)
    return f"{decimal(low, digits)} … {decimal(high, digits)}"


def plural(count: int, singular: str) -> str:
    """``1 fusion``, ``2 fusions``, ``2 copies``."""
    if count == 1:
        return f"1 {singular}"
    return f"{count} {singular[:-1]}ies" if singular.endswith(("py", "ry")) else f"{count} {singular}s"


def bytes_text(count: float) -> str:
    """``12 B``, ``3.4 kB``, ``1.2 MB``"""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("the last unit returns")


def seconds_text(seconds: float) -> str:
    """``9 µs``, ``0.8 ms``, ``12.4 ms``, ``1.25 s``"""
    if seconds < 0.0000995:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.0995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def brief_seconds(seconds: float) -> str:
    """Like ``seconds_text``, but more precise below ten microseconds: ``640 ns``, ``5.9 µs``"""
    if seconds >= 9.95e-6:
        return seconds_text(seconds)
    return f"{seconds * 1e9:.0f} ns" if seconds < 0.9995e-6 else f"{seconds * 1e6:.1f} µs"


def shortened(string: str, limit: int = LONGEST) -> str:
    """``string`` on one line, with ``...`` if it is longer than ``limit``."""
    if "\n" in string:
        string = " ".join(string.split())
    return string if len(string) <= limit else string[: limit - 3] + "..."


# Names of containers that hold a model's parameters by module; the paths into them are clear without these names.
_PARAMETERS = ("params", "variables")
_STEP = re.compile(r"\.(\w+)|\['([A-Za-z_]\w*)'\]|(\[\d+\])")


@functools.lru_cache(maxsize=4096)
def short_path(path: str) -> str:
    """``Dense_0.kernel`` for ``params['params']['Dense_0']['kernel']``, ``grads.Dense_0.kernel`` for the same part of
    ``grads``. Other paths, such as ``params['w']``, do not change.
    """
    root = path[: re.match(r"\w*", path).end()]  # type: ignore[union-attr]
    steps, place = [root], len(root)
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            return path
        steps.append(step[1] or step[2] or step[3])
        place = step.end()
    last = max((i for i, step in enumerate(steps) if step in _PARAMETERS), default=-1)
    rest = steps[last + 1 :]
    if last < 0 or sum(not step.startswith("[") for step in rest) < 2:
        return path
    # ``state.params``, as of ``params``; other containers of parameters, such as gradients, keep their name
    around = [step for step in steps[:last] if step not in _PARAMETERS and step not in ("self", "state")]
    return ".".join([*around, *rest]).replace(".[", "[")


def bar(part: float, columns: int) -> str:
    """A bar that fills ``part`` of ``columns`` columns, in eighths of a column. Only for 0 it is empty."""
    eighths = min(max(round(part * columns * 8), part > 0), columns * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
