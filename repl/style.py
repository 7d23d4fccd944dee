"""Turns roles into prompt_toolkit styles and documents into formatted text, and colours typed code."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from prompt_toolkit.document import Document as Typed
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from minijax.repl.batch import highlighted
from minijax.tools.documents.document import Document, Segment, folded, lay_out, split_lines
from minijax.tools.documents.theme import STYLES, shown_line, terminal_style
from minijax.tools.session.source import is_command

# The roles of prompt_toolkit's own elements: suggestions, validation errors and completions.
_PARTS = {
    "auto-suggestion": "muted",
    "validation-toolbar": "error",
    "completion-menu.meta.completion": "muted",
}


@functools.cache
def style_for(theme: str) -> Style:
    """The styles of a theme from ``theme.resolved``: 'terminal', 'light', 'dark' or 'none'."""
    known = {f"mj-{role}": terminal_style(style, theme) for role, style in STYLES.items()}
    known["bottom-toolbar"] = "noreverse"
    known |= {part: terminal_style(STYLES[role], theme) for part, role in _PARTS.items()}
    return Style.from_dict({name: style for name, style in known.items() if style})


STYLE = style_for("terminal")


def styled(each: Iterable[Segment]) -> StyleAndTextTuples:
    """A line in prompt_toolkit's form."""
    return [(f"class:mj-{role}" if role else "", piece) for role, piece in each]


def fragments(doc: Document, columns: int) -> StyleAndTextTuples:
    """``doc`` laid out for prompt_toolkit; every line ends with a newline, and none is wider than the terminal."""
    out: StyleAndTextTuples = []
    for each in lay_out(doc, columns, highlighted):
        for line in folded(shown_line(each), columns):
            out += [*styled(line), ("", "\n")]
    return out


class InputLexer(Lexer):
    """Highlights Python while it is typed. Pygments is imported at the first character."""

    def lex_document(self, document: Typed) -> Callable[[int], StyleAndTextTuples]:
        text = document.text
        if not text.strip():
            return lambda number: [("", document.lines[number])] if number < len(document.lines) else []
        command = re.match(r"\s*\S+", text) if is_command(text) else None
        pieces = [("keyword", command[0])] if command else []
        pieces += highlighted(text[command.end() :] if command else text, "python")
        lines = [styled(each) for each in split_lines(pieces)]
        return lambda number: list(lines[number]) if number < len(lines) else []
