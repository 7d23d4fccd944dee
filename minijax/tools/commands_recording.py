"""Commands that show what was recorded: %stack %tracers %log %why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minijax.core.trace import state
from minijax.tools import targets, views
from minijax.tools.arguments import Arguments, Param, UsageError
from minijax.tools.command import NOTHING, Command, Result
from minijax.tools.commands_transform import EXPR
from minijax.tools.document import Block, Document, Row, Text, document, line, text
from minijax.tools.recorder import Recorder
from minijax.tools.recording import Recording

if TYPE_CHECKING:
    from minijax.tools.session import Session


def last_recording(session: Session) -> Recording:
    """The last recording; UsageError if there is none."""
    if session.recording is None:
        raise UsageError("nothing has been recorded yet: run something first, such as grad(f)(3.0)")
    return session.recording


def run_stack(session: Session, args: Arguments) -> Result:
    live = views.stack_line(repr(main) for main in state.stack)
    blocks: list[Block] = [Row("now", (live,))]
    recording = session.recording
    if recording is not None and recording.scopes:
        _, *others = views.stack_rows(recording, everything=True)
        when = line(("muted", "in the last line that traced"))
        blocks.append(Row("deepest", (views.stack_line(recording.stack),), when))
        blocks += others
    return Result(Document(tuple(blocks)))


def run_tracers(session: Session, args: Arguments) -> Result:
    recording = last_recording(session)
    if not recording.tracers:
        return Result(document(text("the last line made no tracers", role="muted")))
    return Result(Document(tuple(views.tracer_rows(recording, everything=True))))


def run_log(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    target = targets.from_expression(session, "log", args["expr"]).concrete("log")
    recorder = Recorder("full", args["expr"])
    with recorder:
        value = target.call()
    shown = views.log_document(recorder.recording, args["most"])
    return Result(shown, NOTHING if value is None else value, recorder.recording)


def run_why(session: Session, args: Arguments) -> Result:
    recording = last_recording(session)
    rows = tuple(views.cache_rows(recording, everything=True))
    if not rows:
        return Result(document(text("the last line asked no cache: it called no jitted function", role="muted")))
    return Result(Document((*rows, *views.time_rows(recording))))


def run_panels(session: Session, args: Arguments) -> Result:
    if args["all"]:
        shown = views.summary(last_recording(session), everything=True, style=session.settings.style)
        return Result(shown or document(text("the last line traced nothing", role="muted")))
    words = args["names"].replace(",", " ").split()
    unknown = [word for word in words if word not in (*views.PANELS, "on", "off")]
    if unknown:
        raise UsageError(f"%panels knows {', '.join(views.PANELS)}, on and off, not {unknown[0]!r}")
    if words:
        if "on" in words:
            session.settings.panels = views.PANELS
        elif "off" in words:
            session.settings.panels = ()
        else:
            session.settings.panels = tuple(name for name in views.PANELS if name in words)
    parts = [("good" if name in session.settings.panels else "drop", name) for name in views.PANELS]
    marked = [(role, f"{name}{'' if role == 'good' else ' (off)'}  ") for role, name in parts]
    return Result(document(Text((tuple(marked),))))


COMMANDS = (
    Command(
        "stack",
        (),
        "The interpreter stack now, and the deepest one that the last line reached.",
        "%stack",
        run_stack,
        group="watch",
    ),
    Command(
        "tracers",
        (),
        "The tracers of the last line, with what they held.",
        "%tracers",
        run_tracers,
        group="watch",
    ),
    Command(
        "log",
        (EXPR, Param("most", "int", "how many records to show at most", default=200)),
        "Run a call and show everything the engine did, as an indented log.",
        "%log grad(f)(3.0)",
        run_log,
        group="watch",
    ),
    Command(
        "why",
        (),
        "Why the last line was traced or compiled again: each cache it asked, hit or miss, and the reason.",
        "%why",
        run_why,
        group="watch",
    ),
    Command(
        "panels",
        (
            Param(
                "names",
                "text",
                "the panels to show after each line: on, off, or some of " + ", ".join(views.PANELS),
            ),
            Param("all", "flag", "show everything recorded of the last line, cut nowhere", default=False),
        ),
        "Choose what is shown after each line, or show all there is about the last one.",
        "%panels stack jaxpr\n%panels --all",
        run_panels,
        group="watch",
    ),
)
