"""The scanner that reads text from left to right for ``ir.parse``, and the error for text that is no jaxpr."""

from __future__ import annotations

import re
from typing import NoReturn


class JaxprSyntaxError(ValueError):
    """Text that is not a jaxpr. ``line`` and ``column`` count from 1 and give the place of the error."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_FOUND = re.compile(r"\w+|\S")
# An error message shows up to this many characters of the line before and after the error.
_SNIPPET = 60


class Scanner:
    """A text and a position in it. White space and comments (from ``#`` to the end of the line) are skipped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        # whether only white space and comments precede this position on its line
        self.fresh_line = True
        self.skip()

    def skip(self) -> None:
        """Pass over white space and comments."""
        blank = _BLANK.match(self.text, self.at)
        self.fresh_line = blank is not None and "\n" in blank[0]
        if blank is not None:
            self.at = blank.end()

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of ``pattern`` here, without moving."""
        return pattern.match(self.text, self.at)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The match of ``pattern`` here, or None. Moves past the match and the white space after it."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            self.skip()
        return found

    def take_text(self, text: str) -> bool:
        """Whether ``text`` is here; if so, the scanner moves past it and the white space after it."""
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        self.skip()
        return True

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """The match of ``pattern``. If there is none, the error says that ``what`` was expected."""
        found = self.take(pattern)
        if found is None:
            self.fail_expecting(what)
        return found

    def expect_text(self, text: str, why: str = "") -> None:
        """Pass over ``text``, or raise the error that it was expected; ``why`` is added in parentheses."""
        if not self.take_text(text):
            self.fail_expecting(f"'{text}'{f' ({why})' if why else ''}")

    @property
    def at_end(self) -> bool:
        """Whether the scanner is at the end of the text."""
        return self.at >= len(self.text)

    def column_of(self, at: int) -> int:
        """The column of position ``at``, counted from 0."""
        return at - self.text.rfind("\n", 0, at) - 1

    def fail_expecting(self, what: str) -> NoReturn:
        """Raise the error that ``what`` was expected here; the error names the text found instead."""
        found = self.peek(_FOUND)
        self.fail(f"expected {what}, found {'the end of the text' if found is None else repr(found[0])}")

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise ``JaxprSyntaxError`` with ``message``, the line and column of ``at`` and a caret under it."""
        at = min(self.at if at is None else at, len(self.text))
        line = self.text.count("\n", 0, at) + 1
        column = self.column_of(at)
        start = at - column
        end = self.text.find("\n", at)
        shown = self.text[start : len(self.text) if end < 0 else end]
        indent = column
        if column > _SNIPPET:
            shown, indent = "..." + shown[column - _SNIPPET :], _SNIPPET + 3
        if len(shown) > indent + _SNIPPET:
            shown = shown[: indent + _SNIPPET] + "..."
        text = f"line {line}, column {column + 1}: {message}\n  {shown}\n  {' ' * indent}^"
        raise JaxprSyntaxError(text, line, column + 1)
