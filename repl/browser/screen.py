"""The screen of the browser of stages as lines of text with roles, for any size; needs no terminal.

From 110 columns on, the Python pane and the list of stages are to the left of the stage's text. On narrower screens
they are above it. A small screen shows one pane.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from minijax.repl import drawing
from minijax.repl.batch import highlighted
from minijax.repl.browser.model import ShownLine, StageBrowser
from minijax.repl.drawing import bar, beside, cut, fitted, message_lines, padded, ruled, shown_text
from minijax.repl.fullscreen import Console, FullScreen
from minijax.repl.screen_model import framed
from minijax.tools.documents.document import LINK, MARK, Line, Segment, length, split_lines
from minijax.tools.documents.theme import line_role
from minijax.tools.documents.words import plural
from minijax.tools.session.result import Browse
from minijax.tools.xla.stages import Stage
from minijax.tools.xla.views import line_mark

# The least (columns, lines) for panes beside each other, and for panes above one another.
_WIDE, _STACKED = (110, 12), (60, 14)
# Languages in which a token can span several lines.
_SPANNING = ("python", "jaxpr")
_BAR = "▌"
_SHORT = {"given": "HLO, given", "final": "optimised HLO", "llvm": "LLVM", "machine": "code"}


def browse(step: Browse, console: Console, rename: Callable[[str], str] | None = None) -> None:
    """Browse the stages of a call until the user leaves; ``rename`` applies the front end's names for places."""
    browser = StageBrowser(step.stages, step.title, step.chosen, rename)
    if step.note:
        browser.say(step.note, "muted")
    FullScreen(browser, compose, console).run()


def compose(browser: StageBrowser, columns: int, rows: int) -> list[Line]:
    descent = browser.stages.descent
    passes = len(descent.passes)
    said = f"{passes} {'pass' if passes == 1 else 'passes'} · {plural(len(descent.kernels), 'kernel')} "
    title: Line = (("heading", " passes "), ("", " ".join(browser.title.split())))
    return framed(browser, columns, rows, drawing.ends(title, (("muted", said),), columns), _body, _foot)


def _foot(browser: StageBrowser, columns: int, most: int) -> list[Line]:
    """The part of the program that the cursor's line belongs to; below, the message or the highlighted Python lines."""
    line = browser.current()
    said = "" if line is None else browser.stages.told(line) or browser.stages.mark(line)
    first: Line = (("muted", "nothing of your program"),)
    if said:
        first = (("current", f"{MARK} "), ("", browser.rename(said)))
    role, words = browser.message
    return [first, *(message_lines(role, words, columns - 1, most) if words else [_source(browser)])]


def _source(browser: StageBrowser) -> Line:
    """The highlighted lines of Python: their numbers, and the text of the first."""
    text = next((f"  {row.text.strip()}" for row in browser.python if browser.linked(row)), "")
    return (*line_mark(browser.stages, browser.chosen), ("muted", text))


def _body(browser: StageBrowser, columns: int, rows: int) -> list[Line]:
    if browser.zoomed or columns < _STACKED[0] or rows < _STACKED[1]:
        return _pane(browser, browser.focus, columns, rows)
    if columns >= _WIDE[0] and rows >= _WIDE[1]:
        left = min(columns * 2 // 5, 64)
        upper = min(max(len(browser.python) + 1, rows // 4), rows // 2)
        side = _pane(browser, "python", left, upper) + _pane(browser, "stages", left, rows - upper)
        return beside(side, left, _pane(browser, "stage", columns - left - 1, rows))
    upper = max(min(rows * 2 // 5, len(browser.python) + 1), 6)
    left = (columns - 1) * 9 // 16
    above = beside(_pane(browser, "python", left, upper), left, _pane(browser, "stages", columns - left - 1, upper))
    return above + _pane(browser, "stage", columns, rows - upper)


def _pane(browser: StageBrowser, name: str, columns: int, rows: int) -> list[Line]:
    focused = browser.focus == name
    title = ruled(f"{browser.panes.index(name) + 1} {_title(browser) if name == 'stage' else name}", columns, focused)
    draw = _stage_rows if name == "stages" else _text_rows
    top, shown = draw(browser, name, columns, rows - 1)
    if focused:
        browser.page = rows - 1
    return padded(drawing.pane(name, title, shown, itertools.count(top)), rows)


def _title(browser: StageBrowser) -> str:
    stage = browser.stage
    said = f"{browser.at + 1}/{len(browser.programs)} {_name(stage)}"
    what = "what changed" if browser.diff and stage.previous >= 0 else ""
    return " · ".join(filter(None, (said, what, stage.detail)))


def _name(stage: Stage) -> str:
    if stage.kind in ("llvm", "machine"):
        return f"{'LLVM IR' if stage.kind == 'llvm' else 'machine code'} of {stage.title}"
    return stage.title


def _text_rows(browser: StageBrowser, name: str, columns: int, rows: int) -> tuple[int, list[Line]]:
    """The visible rows of Python or of a stage: a bar in the source line's colour, the text, and the source line."""
    shown = browser.shown(name)
    top = browser.top(name, browser.rows[name], len(shown), rows)
    right = browser.scrolled[name][1]
    language = "python" if name == "python" else browser.stage.language
    # highlight all of Python and of jaxprs, where tokens span lines; elsewhere only the visible rows
    whole = _coloured(tuple(row.text for row in shown), language) if language in _SPANNING else ()
    digits = len(str(max((row.line.number for row in shown if row.line is not None), default=0)))
    out = []
    for i in range(top, min(top + rows, len(shown))):
        row = shown[i]
        here = i == browser.rows[name]
        linked = browser.linked(row)
        mark: Segment = ("current", MARK) if here else ("linked", LINK if linked else " ")
        places = () if row.line is None else row.line.places
        role = line_role(browser.stages.colours[places[0]]) if places else ""
        if row.line is None or linked:
            text: Line = ((role if linked else "muted", row.text),)
        else:
            text = whole[i] if whole else _coloured((row.text[: right + columns + 1],), language)[0]
        begin: list[Segment] = [mark, (role, _BAR if places else " ")]
        if row.mark != " ":
            begin.append(("error" if row.mark == "-" else "good", row.mark + " "))
        if name == "python":
            begin.append(("muted", f"{row.line.number:>{digits}} " if row.line is not None else " " * (digits + 1)))
        end = () if name == "python" or row.line is None else _end(browser, row, columns)
        room = columns - length(begin) - length(end) - (1 if end else 0)
        each = (*begin, *fitted(cut(text, right), max(room, 0), fill=True), *((("", " "), *end) if end else ()))
        out.append(bar(each, columns) if here and browser.focus == name else each)
    return top, out


def _end(browser: StageBrowser, row: ShownLine, columns: int) -> Line:
    """The note after a row: its source lines; for a fusion, also its equations: ``tanh, mul L4``."""
    assert row.line is not None
    return line_mark(browser.stages, row.line.places, row.line, columns // 4)


def _stage_rows(browser: StageBrowser, name: str, columns: int, rows: int) -> tuple[int, list[Line]]:
    """The list of stages; for a pass, with the number of instructions before and after."""
    top = browser.top(name, browser.at, len(browser.programs), rows)
    shorts = [_short(each) for each in browser.programs]
    digits = len(str(len(shorts)))
    room = min(max(map(len, shorts)), max((columns - digits - 3) * 3 // 5, 8))
    out = []
    for i in range(top, min(top + rows, len(browser.programs))):
        stage = browser.programs[i]
        here = i == browser.at
        mark: Segment = ("current", MARK) if here else ("linked", LINK if browser.touched(stage) else " ")
        role = "" if stage.kind == "pass" else "heading"
        name_ = fitted(((role, shorts[i]),), room, fill=True)
        each = (mark, ("muted", f"{i + 1:>{digits}} "), *name_, ("muted", f"  {stage.detail}"))
        each = fitted(each, columns)
        out.append(bar(each, columns) if here and browser.focus == name else each)
    return top, out


def _short(stage: Stage) -> str:
    if stage.kind == "pass":
        return stage.title.rpartition(" · ")[2]
    said = _SHORT.get(stage.kind, stage.title)
    return f"{said} {stage.title}" if stage.kind in ("llvm", "machine") else said


@functools.lru_cache(maxsize=512)
def _coloured(texts: Sequence[str], language: str) -> list[Line]:
    """The lines of a program, highlighted; without colours if the language is unknown."""
    lines = list(split_lines(highlighted("\n".join(texts), language))) if language else []
    if len(lines) != len(texts):  # an unknown language
        return [(("", shown_text(each)),) for each in texts]
    return lines
