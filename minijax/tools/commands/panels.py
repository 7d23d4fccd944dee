"""The command that chooses the panels below a line: %panels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Text, document, text, unbroken
from minijax.tools.recording import panels
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def last_recording(session: Session) -> Recording:
    """The last recording; UsageError if there is none."""
    if session.recording is None:
        raise UsageError("nothing has been recorded yet: run something first, such as grad(f)(3.0)")
    return session.recording


def run_panels(session: Session, args: Arguments) -> Result:
    if args["all"]:
        shown = panels.summary(last_recording(session), everything=True, style=session.settings.style)
        return Result(shown or document(text("the last line traced nothing", role="muted")))
    words = args["names"]
    if words:
        if "on" in words:
            session.settings.panels = panels.PANELS
        elif "off" in words:
            session.settings.panels = ()
        else:
            session.settings.panels = tuple(name for name in panels.PANELS if name in words)
    parts = [("good" if name in session.settings.panels else "drop", name) for name in panels.PANELS]
    marked = [(role, unbroken(f"{name}{'' if role == 'good' else ' (off)'}") + "  ") for role, name in parts]
    return Result(document(Text((tuple(marked),))))


COMMANDS = (
    Command(
        "panels",
        (
            Param("names", "words", "the panels to show after each line", choices=(*panels.PANELS, "on", "off")),
            Param("all", "flag", "show everything recorded of the last line, uncut"),
        ),
        "Choose what is shown after each line, or show everything about the last line.",
        "%panels stack jaxpr\n%panels --all",
        run_panels,
        group="watch",
    ),
)
