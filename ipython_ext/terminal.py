"""The full-screen stepper in a terminal IPython."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from minijax.tools.documents.document import Document
from minijax.tools.documents.theme import resolved
from minijax.tools.session.result import NOTHING, Result

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def has_screen(shell: Any) -> bool:
    """Whether this shell has a terminal for both keys and output."""
    if type(shell).__name__ != "TerminalInteractiveShell" or os.environ.get("TERM") in ("", "dumb", None):
        return False
    # users choose simple_prompt for terminals without cursor control
    return not shell.simple_prompt and sys.stdin.isatty() and sys.stdout.isatty()


def stepped(session: Session, result: Result) -> Result:
    """Open the stepper on ``result.step``, or the browser of stages; return the call's value or exception to show."""
    # imported here: only %step in a terminal needs the REPL's stepper
    from prompt_toolkit.output import ColorDepth

    from minijax.repl.fullscreen import Console
    from minijax.repl.stepper.app import opened
    from minijax.repl.style import style_for

    assert result.step is not None
    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
    console = Console(style_for(resolved(session.settings.theme, os.environ)), depth)
    recording, error = opened(session, result.step, console, session.renamed_places)
    if recording is None:
        return Result(Document())
    shown = Document() if result.value is NOTHING else session.value_document(result.value)
    return Result(shown, result.value, recording, None, error or result.error)
