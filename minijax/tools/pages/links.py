"""Linked programs as an interactive part of a page, which marks the lines that a chosen line comes from or becomes."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator
from typing import Any

from minijax.tools.documents.document import Code, Highlighter, code_lines
from minijax.tools.documents.html import shown
from minijax.tools.documents.room import MOST_HTML
from minijax.tools.pages.page import Texts, element
from minijax.tools.programs.links import LinkedPrograms, Pane

# A program is not cut to fewer lines than this.
_FEWEST = 40


def programs_html(programs: LinkedPrograms, highlight: Highlighter | None = None, title: str = "") -> str:
    """The linked programs side by side. Without scripts, the programs are below each other, with line numbers.

    Long programs are cut, so that a notebook can keep them (``documents.room``).
    """
    longest = max((len(pane.lines) for pane in programs.panes), default=0)
    while True:
        texts = Texts()
        data = {"programs": [linked(texts, programs, highlight, title)], **texts.tables()}
        made = element(data, "".join(_static(programs)))
        if len(made) <= MOST_HTML or longest <= _FEWEST:
            return made
        # if all lines had one length, this number would fit; 10% less allows for longer lines
        longest = max(longest * MOST_HTML * 9 // (10 * len(made)), _FEWEST)
        programs = programs.shortened(longest)


def linked(texts: Texts, programs: LinkedPrograms, highlight: Highlighter | None, title: str = "") -> dict[str, Any]:
    """The programs as data for the script. The lines themselves are added to ``texts``."""
    around = {number for each in programs.equations for number in each.inside}
    inside = {
        each.number: sorted(programs.with_inner((each.number,)) - {each.number})
        for each in programs.equations
        if each.number in around
    }
    return {
        "title": shown(title or "the programs, line by line"),
        "inside": inside,
        "panes": [[shown(_title(pane)), list(_rows(texts, pane, highlight))] for pane in programs.panes],
    }


def _title(pane: Pane) -> str:
    title = os.path.basename(pane.title) if pane.language == "python" else pane.title
    note = f" · {pane.left_out} more lines left out (%hlo with --line or --eqn shows some of them)"
    return title + note if pane.left_out else title


def _rows(texts: Texts, pane: Pane, highlight: Highlighter | None) -> Iterator[list[Any]]:
    """For each line of a pane ``[line, number, equations, note]``."""
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
