"""Commands that step through a recording, or list its operations: %step %log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minijax.pytree import tree_flatten, tree_leaves, tree_unflatten
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import document, text
from minijax.tools.documents.words import shortened
from minijax.tools.recording.log import log_document
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import CALL, Recording
from minijax.tools.session import targets
from minijax.tools.session.result import NOTHING, Result, Step
from minijax.tools.session.source import is_call
from minijax.tools.session.tracebacks import last_user_place
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.programs.links import LinkedPrograms
    from minijax.tools.session.session import FailedInput, Session

MOST = Param("most", "int", "how many records to list at most", default=200)


# The hint after a shortened line of a log.
_WHOLE = "--verbose lists each"
VERBOSE = Param("verbose", "flag", "show places, parameters and rules too")


def run_log(session: Session, args: Arguments) -> Result:
    target = targets.typed(session, "log", args["expr"], args.cell, everything=True).concrete("log")
    expression = args["expr"] if args.cell is None else target.title
    value, error, recording = recorded(target.call, expression, args["retrace"])
    refuse_empty("log", expression, recording, error)
    shown = log_document(recording, args["most"], verbose=args["verbose"], whole=_WHOLE)
    if note := interrupted_note(error):
        shown = document(text(note, role="warning")) + shown
    return Result(shown, NOTHING if value is None else value, recording, error=error)


def run_step(session: Session, args: Arguments) -> Result:
    if args["file"] is not None:
        return _opened(args, Step(_load(args)), NOTHING)
    if not args["expr"] and args.cell is None:
        return _last(session, args)
    # report invalid options before running user code
    target = targets.typed(session, "step", args["expr"], args.cell, everything=True).concrete("step")
    expression = args["expr"] if args.cell is None else target.title
    value, error, recording = recorded(target.call, expression, args["retrace"])
    refuse_empty("step", expression, recording, error)
    # imported late: only the values of a recording need it
    from minijax.tools.values.moment import ledger

    ledger(recording).arguments = given_values(target)

    def programs() -> LinkedPrograms:
        # imported late: only the stepper's view of programs needs it
        from minijax.tools.programs.links import linked_programs

        return linked_programs(target.fun, *target.args, **target.kwargs)

    leaves, tree = tree_flatten((target.args, target.kwargs))

    def again(given: Sequence[Any]) -> tuple[Recording, BaseException | None]:
        own_args, own_kwargs = tree_unflatten(tree, given)
        other = targets.Target(target.fun, own_args, own_kwargs, target.names, target.title, target.loose)
        _, failed, made = recorded(other.call, expression, args["retrace"])
        ledger(made).arguments = given_values(other)
        return made, failed

    def stages() -> Any:
        # imported late: only the view of XLA's stages needs them
        from minijax.tools.xla import pipeline
        from minijax.tools.xla.stages import stages as made

        lowered = targets.jitted(target).lower(*target.args, **target.kwargs)
        return made(pipeline.descent(lowered, targets.input_names(target)))

    retraced = _retraced(target.call, expression)
    given = tuple(zip(targets.leaf_names(target), leaves, strict=True))
    step = Step(recording, 0, retraced, programs, interrupted_note(error), stages, given, again=again)
    return _opened(args, step, NOTHING if value is None else value, error)


def _last(session: Session, args: Arguments) -> Result:
    """Step through the last line. If it failed, run it again; otherwise open the last full recording."""
    failed = session.failed
    if failed is None or not failed.replays:
        recording = _last_full(session, failed)
        # the failed input ran no operation that could be shown
        note = "" if failed is None else f"{_nothing_done(failed)}; this is an earlier recording"
        return _opened(args, Step(recording, note=note), NOTHING, ended=_ended_in_error(recording))

    def call() -> Any:
        return session.run_again(failed)

    code = failed.source.strip()
    value, error, recording = recorded(call, code, args["retrace"])
    note = f"input {failed.number} was run again to record it" + ("" if error else "; this time it did not fail")
    step = Step(recording, 0, _retraced(call, code), note=interrupted_note(error) or note)
    return _opened(args, step, NOTHING if value is None else value, error)


def _nothing_done(failed: FailedInput) -> str:
    return f"input {failed.number} failed before the engine did anything ({failed.error})"


def interrupted_note(error: BaseException | None) -> str:
    """A note that Ctrl-C ended the recording; '' if it did not."""
    if not isinstance(error, KeyboardInterrupt):
        return ""
    place = last_user_place(error).rpartition("/")[2]
    return f"interrupted{f' at {place}' if place else ''}; recorded until then"


def _retraced(call: Callable[[], Any], expression: str) -> Callable[[], tuple[Recording, BaseException | None]]:
    """A function that records ``call`` again, ignoring cached traces. Ctrl-C raises KeyboardInterrupt."""

    def retrace() -> tuple[Recording, BaseException | None]:
        _, failed, again = recorded(call, expression, True)
        if isinstance(failed, KeyboardInterrupt):
            raise failed
        return again, failed

    return retrace


def _ended_in_error(recording: Recording) -> bool:
    return bool(recording.errors) and recording.errors[-1].where == CALL


def recorded(
    call: Callable[[], Any], source: str, retrace: bool = False
) -> tuple[Any, BaseException | None, Recording]:
    """Record a call. Returns its value (NOTHING if it failed), the exception that ended it, and the full recording.

    If Ctrl-C ends the call, this exception is KeyboardInterrupt, and the recording holds everything up to then.
    """
    recorder = Recorder("full", source, retrace)
    try:
        with recorder:
            value = call()
    except (Exception, KeyboardInterrupt) as error:
        return NOTHING, error, recorder.recording
    return value, None, recorder.recording


def given_values(target: targets.Target) -> list[Any]:
    """The arguments of a call that are values. With them, the tools can run programs that were only traced."""
    return [x for x in tree_leaves((target.args, target.kwargs)) if targets.is_value(x)]


def refuse_empty(command: str, expression: str, recording: Recording, error: BaseException | None) -> None:
    """If the recording is empty, raise ``error``, which ended the call, or else a UsageError."""
    if not recording.blank:
        return
    if error is not None:
        raise error
    raise without_arrays(command, expression)


def without_arrays(command: str, expression: str) -> UsageError:
    """The error for a call in which no operation had an array, because Python computes with Python's numbers."""
    title = shortened(expression.strip())
    return UsageError(
        f"%{command}: {title} ran, and computed nothing with arrays: pass an array, as in f(jnp.asarray(3.0))"
    )


def _opened(args: Arguments, step: Step, value: Any, error: BaseException | None = None, ended: bool = False) -> Result:
    """Open the stepper on ``step`` at the moment that the arguments choose, or show the log.

    ``error`` is shown too. ``ended``: the recording ended in an error that was shown before.
    """
    recording = step.recording
    position, event = start(recording, args["into"] or "", args["at"] or "", ended or error is not None)
    shown = log_document(recording, args["most"], event, args["verbose"], _WHOLE)
    if step.note:
        shown = document(text(step.note, role="muted")) + shown
    opened = None if args["text"] else step.replace(position=position)
    return Result(shown, value, recording, opened, error)


def start(recording: Recording, into: str = "", at: str = "", failed: bool = False) -> tuple[int, int]:
    """Find where to begin: at the entry of the function ``into``, at the first operation of the line ``at``, at the
    error that ended the recording (``failed``), or at the first operation.

    Returns the moment, and the event at which a log begins. UsageError if there is no such moment.
    """
    # imported late, to keep the start of a prompt fast
    from minijax.tools.recording.cursor import Cursor
    from minijax.tools.stepper.panes import to_failure, to_function

    cursor = Cursor(recording)
    if into and not to_function(cursor, into):
        raise UsageError(f"%step --into {into}: nothing called {into} was traced by {recording.source or 'this'}")
    if at and not cursor.to_bind(place=at):
        raise UsageError(f"%step --at {at}: no operation of that line was recorded; --at takes LINE or FILE:LINE")
    if into or at:
        return cursor.position, cursor.moment.at
    if failed:
        to_failure(cursor)
    else:
        cursor.to_bind()
    return cursor.position, 0


def _last_full(session: Session, failed: FailedInput | None) -> Recording:
    """The last full recording. If there is none, UsageError with the reason why ``failed`` has no recording."""
    for recording in reversed(session.recordings):
        if recording.level == "full":
            return recording
    if failed is not None:
        debug = f"%{session.command_name('debug')} looks at its variables"
        raise UsageError(f"{_nothing_done(failed)}: there is nothing to step through; {debug}")
    example = session.recording.source.strip() if session.recording is not None else ""
    hint = f"; %step {example} records that line again" if is_call(example) else ", as in %step grad(f)(3.0)"
    raise UsageError(f"nothing has been recorded in full yet: give %step an expression{hint}")


def _load(args: Arguments) -> Recording:
    # imported late: only this option needs it
    from minijax.tools.recording import storage

    if args["expr"]:
        raise UsageError("%step takes an expression or --file, not both")
    path = os.path.expanduser(args["file"].strip("\"'"))
    try:
        recording = storage.load(path)
    except OSError as error:
        raise UsageError(f"%step cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"%step cannot use {path}: {error}") from None
    if not recording.tree:
        raise UsageError(f"%step cannot step through {path}: it is a summary, without the tree of operations")
    return recording


COMMANDS = (
    Command(
        "step",
        (
            Param(
                "expr",
                "text",
                "a call such as grad(f)(3.0); by default the line that failed last, which is run again, or the "
                "last full recording",
            ),
            Param("text", "flag", "list the steps as an indented log instead of opening the stepper"),
            MOST,
            VERBOSE,
            Param("into", "word", "begin where this function is first traced or called"),
            Param("at", "word", "begin at the first operation of this line: LINE or FILE:LINE"),
            Param("retrace", "flag", "trace again, ignoring the caches of traces"),
            Param("file", "word", "step through a recording that was saved to this file"),
        ),
        "Record one run of a call, and step through what the engine did: into, over, out and back.\n"
        "In a terminal this opens a full-screen stepper (? lists its keys); elsewhere it lists the steps. After an "
        "exception the stepper opens at the operation that raised it, and you step back from there.",
        "%step grad(f)(3.0) --text",
        run_step,
        cell=True,
        group="watch",
    ),
    Command(
        "log",
        (
            Param("expr", "text", "a call such as grad(f)(3.0)", required=True),
            MOST,
            VERBOSE,
            Param("retrace", "flag", "trace again, ignoring the caches of traces"),
        ),
        "Run a call and show everything the engine did, as an indented log.",
        "%log grad(f)(3.0)",
        run_log,
        cell=True,
        group="watch",
    ),
)
