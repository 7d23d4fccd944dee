"""The colour of every role, for terminals (ANSI's sixteen, so that the user's own palette counts) and for
HTML.

Each role is a row: terminal style, then the HTML colour on a light and on a dark page. Colours on both pages
have a contrast of at least 4.5 to 1 with white and with #1e1e1e.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minijax.tools.document import Document, Highlighter, Line, lay_out


class Style(NamedTuple):
    """How a role looks. ``ansi`` is the SGR parameter, ``terminal`` the same in prompt_toolkit's words."""

    ansi: str
    terminal: str
    light: str
    dark: str
    bold: bool = False


STYLES: dict[str, Style] = {
    # jaxprs and programs
    "keyword": Style("35", "ansimagenta", "#8b1a8b", "#d58fd5"),
    "var": Style("", "", "#1f2328", "#e6e6e6"),
    "type": Style("36", "ansicyan", "#0b6372", "#6cc7d8"),
    "primitive": Style("34;1", "ansiblue bold", "#0a49b0", "#82aaff", True),
    "literal": Style("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "param-name": Style("33", "ansiyellow", "#7a5200", "#e0b060"),
    "param-value": Style("", "", "#444c56", "#c8c8c8"),
    "punctuation": Style("90", "ansibrightblack", "#5a6370", "#a0a8b0"),
    "comment": Style("90", "ansibrightblack", "#5a6370", "#a0a8b0"),
    "drop": Style("90", "ansibrightblack", "#5a6370", "#a0a8b0"),
    "string": Style("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "function": Style("33", "ansiyellow", "#7a5200", "#e0b060"),
    # what the microscope says
    "label": Style("1", "bold", "#1f2328", "#e6e6e6", True),
    "heading": Style("1", "bold", "#1f2328", "#e6e6e6", True),
    "muted": Style("90", "ansibrightblack", "#5a6370", "#a0a8b0"),
    "level": Style("35", "ansimagenta", "#8b1a8b", "#d58fd5"),
    "value": Style("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "time": Style("36", "ansicyan", "#0b6372", "#6cc7d8"),
    "good": Style("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "warning": Style("33", "ansiyellow", "#7a5200", "#e0b060"),
    "error": Style("31;1", "ansired bold", "#b3261e", "#ff8a80", True),
    "place": Style("36", "ansicyan", "#0b6372", "#6cc7d8"),
    "prompt-in": Style("32", "ansigreen", "#1a6b22", "#8fd18f"),
    "prompt-out": Style("31", "ansired", "#b3261e", "#ff8a80"),
}


def coloured(segments: Iterable[tuple[str, str]]) -> str:
    """Segments as text with ANSI codes. Control characters in the text are made visible."""
    out = []
    for role, piece in segments:
        style = STYLES.get(role)
        shown = visible(piece)
        out.append(f"\x1b[{style.ansi}m{shown}\x1b[0m" if style is not None and style.ansi and piece.strip() else shown)
    return "".join(out)


def visible(string: str) -> str:
    """``string`` with control characters written out, so that no text can command the terminal."""
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() or c in "\t\n" else c.encode("unicode_escape").decode() for c in string)


def to_text(doc: Document, width: int = 80, colour: bool = False, highlight: Highlighter | None = None) -> str:
    """``doc`` as text for a terminal or file, in colour or not, without a last line break."""
    return "\n".join(_line_text(each, colour) for each in lay_out(doc, width, highlight if colour else None))


def _line_text(each: Line, colour: bool) -> str:
    return coloured(each).rstrip() if colour else visible("".join(piece for _, piece in each).rstrip())
