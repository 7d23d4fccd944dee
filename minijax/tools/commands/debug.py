"""The command that shows the variables at the last failure: %debug."""

from __future__ import annotations

import linecache
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from minijax import errors
from minijax.tools.commands.arguments import Arguments
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Block, Document, Line, Table, document, line, text
from minijax.tools.recording.edited import EDITED, is_edited
from minijax.tools.recording.preview import type_text, value_text
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.session.tracebacks import without_engine
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# The most variables and the most frames to list if there is no debugger.
MOST_VARIABLES, MOST_FRAMES = 30, 12


def run_debug(session: Session, args: Arguments) -> Result:
    error = session.error
    if error is None:
        return Result(document(text("nothing has failed in this session", role="muted")))
    tb, _ = without_engine(error.__traceback__)
    if tb is None:
        raise UsageError(f"%debug: no line of yours is in the traceback of {type(error).__name__}")
    return Result(_frames(error, tb), NOTHING, debug=tb)


def _frames(error: BaseException, tb: TracebackType) -> Document:
    """The user's frames, and the variables of the innermost frame."""
    frames: list[tuple[FrameType, int]] = []
    at: TracebackType | None = tb
    while at is not None:
        if errors.is_user_file(at.tb_frame.f_code.co_filename):
            frames.append((at.tb_frame, at.tb_lineno))
        at = at.tb_next
    message = str(error).strip().partition("\n")[0]
    lines: list[Line] = [line(("error", type(error).__name__), f": {message}" if message else "")]
    if len(frames) > MOST_FRAMES:
        lines.append(line(("muted", f"  ({len(frames) - MOST_FRAMES} frames further out)")))
    for frame, number in frames[-MOST_FRAMES:]:
        code = frame.f_code
        lines.append(line(("place", f"  {code.co_filename}:{number}"), ("muted", f" in {code.co_name}")))
        lines.append(line(f"    {EDITED if is_edited(code) else linecache.getline(code.co_filename, number).strip()}"))
    blocks: list[Block] = [text(*lines, wrap=False)]
    names = _variables(frames[-1][0]) if frames else []
    if names:
        rows = [(("var", name), ("type", type_text(x)), ("value", value_text(x))) for name, x in names[:MOST_VARIABLES]]
        blocks.append(Table(("variable", "type", "value"), tuple(rows)))
    if len(names) > MOST_VARIABLES:
        blocks.append(text(f"... {len(names) - MOST_VARIABLES} more variables", role="muted"))
    return Document(tuple(blocks))


def _variables(frame: FrameType) -> list[tuple[str, object]]:
    """The variables of a function's frame; [] for a frame of the prompt's input, whose variables are the session's."""
    if frame.f_code.co_name == "<module>":
        return []
    return list(frame.f_locals.items())


COMMANDS = (
    Command(
        "debug",
        (),
        "Look at the variables of the last failure, at the line of yours that raised the error.\n"
        "At a terminal this opens Python's debugger there (up, down, p NAME, q leaves), with your frames only; "
        "elsewhere it lists the frames, and the variables of the innermost.",
        "%debug",
        run_debug,
        group="watch",
    ),
)
