"""Commands that write files: %export."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from minijax.tools import files
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import document, line, text
from minijax.tools.documents.words import plural
from minijax.tools.recording.records import Recording
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError
from minijax.version import __version__

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

_SUFFIXES = (".html", ".htm", ".json", ".rec")


def run_export(session: Session, args: Arguments) -> Result:
    path = _path(args["file"])
    if args["recording"] and args["session"]:
        raise UsageError("%export writes the session or the last recording: give --session or --recording, not both")
    if os.path.exists(path) and not args["force"]:
        raise UsageError(f"%export: {path} exists; --force writes over it")
    suffix = os.path.splitext(path)[1].lower()
    recording = _last_full(session) if args["recording"] or suffix == ".rec" else None
    if recording is None and not session.log:
        raise UsageError("%export has nothing to write yet: run something first")
    # imported late: only an export needs these
    from minijax.tools.pages import export
    from minijax.tools.recording import storage
    from minijax.tools.stepper.devices import with_devices

    if recording is not None:
        what = f"the recording of {recording.source.strip()}" if recording.source.strip() else "the last recording"
    else:
        what = plural(len(session.log), "input")
    made: str | bytes
    if suffix == ".rec":
        assert recording is not None
        made = storage.as_bytes(with_devices(recording), path)
    elif suffix != ".json":
        colours, about = session.highlight, f"minijax {__version__} · {time.strftime('%Y-%m-%d %H:%M')}"
        if recording is not None:
            made = export.recording_page(recording, colours, about)
        else:
            made = export.session_page(session.log, colours, about)
        if session.renamed_places is not None:
            made = session.renamed_places(made)
    else:
        data = export.session_json(session.log) if recording is None else storage.to_json(with_devices(recording))
        made = export.as_text(data)
    try:
        written = files.write(path, made, args["force"])
    except OSError as error:
        raise UsageError(f"%export cannot write {path}: {error.strerror or error}") from None
    size = f"{written / 1000:,.0f} kB"
    message = line(("good", "wrote "), what, " to ", ("place", path), ("muted", f"  {size}"))
    return Result(document(text(message)))


def _path(given: str) -> str:
    """The path of the file; UsageError if its suffix names no known format."""
    name = given.strip()
    if name[:1] == name[-1:] and name[:1] in "\"'":
        name = name[1:-1]
    path = os.path.expanduser(name)
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES or "\0" in path:
        raise UsageError(
            "%export writes a page (FILE.html), data (FILE.json) or a recording (FILE.rec), but the file name is "
            f"{given!r}"
        )
    if os.path.isdir(path):
        raise UsageError(f"%export: {path} is a folder")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"%export: there is no folder {folder}")
    return path


def _last_full(session: Session) -> Recording:
    """The last full recording; UsageError if there is none."""
    for recording in reversed(session.recordings):
        if recording.tree:
            return recording
    raise UsageError("%export --recording: nothing has been recorded in full yet; %step or %log of a call does that")


COMMANDS: tuple[Command, ...] = (
    Command(
        "export",
        (
            Param(
                "file",
                "text",
                "a file whose name ends in .html (a page), .json (data) or .rec (a recording)",
                required=True,
            ),
            Param("session", "flag", "export the inputs of this session and their outputs (the default)"),
            Param("recording", "flag", "export only the last full recording, made by %step or %log"),
            Param("force", "flag", "overwrite an existing file"),
        ),
        "Write the session, or the last full recording, as one HTML page or as JSON.\n\n"
        "The page has every input with its output and panels, and a stepper for every full recording. It needs no "
        "other file and no network, and can be read without scripts. %step --file FILE.rec steps through a saved "
        "recording of any length, because only the parts that are shown are loaded. FILE.json is for other "
        "programs, and is loaded as a whole.",
        "%export /tmp/session.html --force",
        run_export,
        group="session",
    ),
)
