"""What is raised for a mistake in using the tools, and the hint that goes with it."""

from __future__ import annotations

from collections.abc import Iterable


class UsageError(Exception):
    """A command was given arguments that it does not understand; the message says what it wants."""


def did_you_mean(word: str, words: Iterable[str], prefix: str = "", alike: float = 0.6) -> str:
    """`` Did you mean --check?`` for the nearest of ``words``, or nothing if none is ``alike`` enough (1: the same)."""
    import difflib  # 1 ms, and only mistakes need it

    known = list(words) if word else []
    close = [each for each in known if each.startswith(word)] or difflib.get_close_matches(word, known, 1, alike)
    return f" Did you mean {prefix}{close[0]}?" if close else ""
