"""Names cells as users know them: ``Cell In[3], line 2`` for a line in IPython's file for a cell."""

from __future__ import annotations

import ast
import itertools
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from minijax.tools.recording.sources import as_typed

# Keep the text of at most this many cells.
_MOST_TYPED = 100
# IPython's file names for cells (``<ipython-input-3-0123>``) and ipykernel's (``/tmp/ipykernel_9/123.py``, also without
# the folder), in plain text, in HTML, and in JSON within HTML. The line follows, and sometimes the column.
_FILE = re.compile(
    r"(?:(?:<|&lt;|\\u003c)ipython-input-[\w-]+(?:>|&gt;|\\u003e)"
    r"|(?<![\w/.~+-])(?:[\w/.~+-]*/ipykernel_\d+/)?\d+\.py)"
    r"(?::(\d+)(?::\d+)?)?"
)
# A session's file names for the lines of magics; they end with the text that ``origin`` returns. IPython puts the word
# "File" before them.
_MAGIC = re.compile(
    r"(?:File ((?:\x1b\[[\d;]*m)*))?(?:<|&lt;|\\u003c)minijax-cell-\d+-of-(\d+)-at-(\d+)(?:>|&gt;|\\u003e)"
    r"(?::(\d+)(?::\d+)?)?"
)
# The folder of ipykernel's cell files, printed after the name of a cell.
_FOLDER = re.compile(r"(?<=\S)  [\w/.~+-]*/ipykernel_\d+/(?!\d+\.py)")
_ESCAPES = {"&lt;": "<", "&gt;": ">", "\\u003c": "<", "\\u003e": ">"}


def renamer(shell: Any) -> Callable[[str], str]:
    """A function that replaces cell files in text, HTML or JSON by the cell names that IPython's tracebacks show."""
    folder = os.path.dirname(shell.compile.get_code_name("", "", 0))

    def rename(match: re.Match[str]) -> str:
        file = match[0] if match[1] is None else match[0][: match.start(1) - match.start() - 1]
        for escaped, character in _ESCAPES.items():
            file = file.replace(escaped, character)
        known = shell.compile.format_code_name(file) or shell.compile.format_code_name(os.path.join(folder, file))
        if known is None:
            return match[0]
        cell = " ".join(known)
        return cell if match[1] is None else f"{cell}, line {match[1]}"

    return lambda text: _FOLDER.sub("", _FILE.sub(rename, _MAGIC.sub(_magic, text)))


def _magic(match: re.Match[str]) -> str:
    """The cell and line for a line of a magic."""
    colour, cell, first, line = match.groups()
    return f"{colour or ''}Cell In[{cell}]" + (f", line {int(first) + int(line) - 1}" if line else "")


def origin(shell: Any) -> str:
    """``-of-3-at-2``: the running magic is in line 2 of cell 3; '' if no cell of ``shell`` runs it."""
    frame = _cell_frame(shell)
    if frame is None:
        return ""
    _, cell = shell.compile.format_code_name(frame.f_code.co_filename)
    return f"-of-{cell.strip('In[]')}-at-{frame.f_lineno}"


def keep_typed(shell: Any) -> None:
    """Show the running cell in recordings as typed, with its magics, if the executed code has the same lines."""
    frame = _cell_frame(shell)
    if frame is None:
        return
    file = frame.f_code.co_filename
    run = linecache.getlines(file)
    typed = shell.history_manager.input_hist_raw[-1].splitlines(keepends=True)
    alike = (a.rstrip() == b.rstrip() or "get_ipython()" in b for a, b in zip(typed, run, strict=False))
    if len(typed) == len(run) and all(alike):
        as_typed[file] = typed
        if len(as_typed) > _MOST_TYPED:
            del as_typed[next(iter(as_typed))]


def shows_itself(shell: Any) -> bool:
    """Whether the running magic must display its result itself: in a loop or a function, before the cell's last line,
    or in an assignment. IPython displays the result of a magic that is the whole last line. If no cell runs the magic,
    its caller has the result.
    """
    frame = _cell_frame(shell)
    if frame is None:
        return False
    if frame.f_code.co_name != "<module>" or _timed(frame):
        return True
    tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    shown = tree.body if shell.ast_node_interactivity == "all" else tree.body[-1:]
    return not any(
        each.lineno <= frame.f_lineno <= (each.end_lineno or each.lineno)
        and isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Attribute)
        and each.value.func.attr in ("run_line_magic", "run_cell_magic")
        for each in shown
    )


def _timed(cell: FrameType) -> bool:
    """Whether ``%%time`` runs this code separately from the cell's last line, whose value ``%%time`` returns."""
    frames = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
    inner = itertools.takewhile(lambda frame: frame is not cell, frames)
    return any(frame.f_code.co_filename == "<timed exec>" for frame in inner)


def _cell_frame(shell: Any) -> FrameType | None:
    """The innermost frame of a cell's code. None if no cell is running."""
    frames = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
    return next((each for each in frames if shell.compile.format_code_name(each.f_code.co_filename)), None)
