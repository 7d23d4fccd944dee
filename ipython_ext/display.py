"""What magics return, and how jaxprs are displayed: text for terminals, HTML for notebooks."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.command import NOTHING, Result
from minijax.tools.document import Document, Program, document
from minijax.tools.html import to_html
from minijax.tools.lexer import highlight
from minijax.tools.theme import to_text

# Notebooks have no width that the kernel knows.
_PAGE = 100
# Jaxprs with more equations than this are displayed cut; str(jaxpr) is never cut.
MOST_EQUATIONS = 500


def in_terminal(shell: Any) -> bool:
    """Whether this shell writes to a terminal in colour."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    colours = getattr(shell, "colors", "nocolor").lower()
    is_terminal = type(shell).__name__ == "TerminalInteractiveShell" and sys.stdout.isatty()
    return is_terminal and colours != "nocolor"


class Shown:
    """What a magic gives: it displays itself; ``value`` is what the command computed (None if nothing).

    ``recording`` is what the engine did meanwhile, for the functions of ``minijax.tools``.
    """

    def __init__(self, shell: Any, result: Result) -> None:
        self._shell = shell
        self._document = result.document
        self.value = None if result.value is NOTHING else result.value
        self.recording = result.recording

    def __repr__(self) -> str:
        return to_text(self._document, page())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return bundle(self._shell, self._document)


def page() -> int:
    """The columns of a page of text."""
    return shutil.get_terminal_size((_PAGE, 24)).columns if sys.stdout.isatty() else _PAGE


def bundle(shell: Any, doc: Document) -> dict[str, str]:
    """``doc`` for every kind of front end: plain text always, HTML where no terminal shows it."""
    if in_terminal(shell):
        return {"text/plain": to_text(doc, page(), True, highlight)}
    return {"text/plain": to_text(doc, page()), "text/html": to_html(doc, highlight)}


def jaxpr_page(jaxpr: ClosedJaxpr | Jaxpr) -> Document:
    """A jaxpr as a document, cut where it would flood the page."""
    return document(Program(jaxpr_document(jaxpr, max_eqns=MOST_EQUATIONS)))


def jaxpr_html(jaxpr: ClosedJaxpr | Jaxpr) -> str:
    """The HTML formatter of jaxprs."""
    return to_html(jaxpr_page(jaxpr))


def jaxpr_text(shell: Any) -> Any:
    """The text formatter of jaxprs for ``shell``, in IPython's calling convention."""

    def show(jaxpr: ClosedJaxpr | Jaxpr, printer: Any, cycle: bool) -> None:
        # inside a container colour codes would spoil IPython's counting of columns
        outermost = len(printer.stack) <= 1
        text = to_text(jaxpr_page(jaxpr), page(), True) if outermost and in_terminal(shell) else str(jaxpr)
        for i, each in enumerate(text.split("\n")):
            if i:
                printer.break_()
            printer.text(each)

    return show
