"""Linked programs as an interactive part of a page: choosing a line shows what it comes from and what it became."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from typing import Any

from minijax.tools.documents.document import Code, Highlighter, code_lines
from minijax.tools.documents.html import shown
from minijax.tools.pages.page import Texts, element
from minijax.tools.programs.links import LinkedPrograms, Pane


def programs_html(programs: LinkedPrograms, highlight: Highlighter | None = None, title: str = "") -> str:
    """The programs beside each other, linked; where scripts are off, one below the other with numbered lines."""
    texts = Texts()
    data = {"programs": [linked(texts, programs, highlight, title)], **texts.tables()}
    return element(data, "".join(_static(programs)))


def linked(texts: Texts, programs: LinkedPrograms, highlight: Highlighter | None, title: str = "") -> dict[str, Any]:
    """The programs as the script wants them, their lines kept in ``texts``."""
    inside = {
        each.number: sorted(programs.with_inner((each.number,)) - {each.number})
        for each in programs.equations
        if any(each.number in other.inside for other in programs.equations)
    }
    return {
        "title": shown(title or "the programs, line by line"),
        "inside": inside,
        "panes": [[shown(_title(pane)), list(_rows(texts, pane, highlight))] for pane in programs.panes],
    }


def _title(pane: Pane) -> str:
    title = os.path.basename(pane.title) if pane.language == "python" else pane.title
    return f"{title} · {pane.left_out} more lines left out" if pane.left_out else title


def _rows(texts: Texts, pane: Pane, highlight: Highlighter | None) -> Iterator[list[Any]]:
    """``[line, number, equations, note]``"""
    lines = code_lines(Code("\n".join(pane.lines), pane.language), highlight)
    notes = pane.notes or ("",) * len(pane.lines)
    for each, number, equations, note in zip(lines, pane.numbers, pane.links, notes, strict=False):
        yield [texts.line(each), number, list(dict.fromkeys(equations)), shown(note)]


def _static(programs: LinkedPrograms) -> Iterator[str]:
    for pane in programs.panes:
        numbered = "\n".join(f"{number:>4} {each}" for number, each in zip(pane.numbers, pane.lines, strict=False))
        yield (
            f"<details open><summary>{html.escape(shown(_title(pane)))}</summary>"
            f"<div><pre>{html.escape(shown(numbered))}</pre></div></details>"
        )
