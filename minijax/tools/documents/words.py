"""Numbers, times and long texts as the tools write them."""

from __future__ import annotations

LONGEST = 60


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
