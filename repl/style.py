"""Roles as prompt_toolkit styles, documents as formatted text, and colours for what is being typed."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.document import Document as Typed
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from minijax.repl.batch import highlighted
from minijax.tools.document import Document, lay_out, split_lines
from minijax.tools.source import is_command
from minijax.tools.theme import STYLES, visible

STYLE = Style.from_dict({f"mj-{role}": style.terminal for role, style in STYLES.items() if style.terminal})


def fragments(doc: Document, columns: int) -> StyleAndTextTuples:
    """``doc`` laid out, as prompt_toolkit prints it; every line is ended."""
    out: StyleAndTextTuples = []
    for each in lay_out(doc, columns, highlighted):
        out += [(f"class:mj-{role}" if role in STYLES else "", visible(piece)) for role, piece in each]
        out.append(("", "\n"))
    return out


class InputLexer(Lexer):
    """Colours Python as it is typed. Pygments is imported at the first character."""

    def lex_document(self, document: Typed) -> Callable[[int], StyleAndTextTuples]:
        text = document.text
        if not text.strip():
            return lambda number: [("", document.lines[number])] if number < len(document.lines) else []
        command = ""
        if is_command(text):
            end = len(text) - len(text.lstrip())
            while end < len(text) and not text[end].isspace():
                end += 1
            command, text = text[:end], text[end:]
        pieces = ([("keyword", command)] if command else []) + list(highlighted(text, "python"))
        lines = [
            [(f"class:mj-{role}" if role in STYLES else "", piece) for role, piece in each]
            for each in split_lines(pieces)
        ]
        return lambda number: list(lines[number]) if number < len(lines) else []
