"""Recordings that come with minijax: %gallery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.step import MOST
from minijax.tools.documents.document import Code, Table, document, text
from minijax.tools.recording.log import log_document
from minijax.tools.session.result import NOTHING, Result, Step
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def run_gallery(session: Session, args: Arguments) -> Result:
    # imported late: only this command needs it
    from minijax.tools import gallery

    page = args["page"]
    if args["most"] < 1:
        raise UsageError(f"%gallery --most needs a number from 1, not {args['most']}")
    if not page:
        rows = [(("level", name), ("", about.replace("``", ""))) for name, about in gallery.PAGES.items()]
        usage = "%gallery mlp steps through the page mlp, %gallery mlp --program shows its text."
        return Result(document(Table(("page", ""), tuple(rows)), text(usage, role="muted")))
    if page not in gallery.PAGES:
        hint = did_you_mean(page, gallery.PAGES, "%gallery ")
        raise UsageError(f"the gallery has no page {page!r}.{hint} %gallery lists them")
    recording = gallery.recording(page)
    if args["program"]:
        return Result(document(Code(gallery.program(recording), "python", 1)))
    note = f"one step of the training of {recording.source}, recorded without jit"
    shown = document(text(note, role="muted")) + log_document(recording, args["most"])
    step = None if args["text"] else Step(recording, note=note)
    return Result(shown, NOTHING, recording, step)


COMMANDS = (
    Command(
        "gallery",
        (
            Param("page", "text", "a page such as mlp; without a page, all pages are listed"),
            Param("text", "flag", "list the steps as an indented log instead of opening the stepper"),
            MOST,
            Param("program", "flag", "show the program of the page instead of its steps"),
        ),
        "Step through a training step of a whole program, which was recorded before: nothing is run.\n"
        "There are networks, filters, samplers, equations and graphs, each on a page of Python as one writes it for "
        "JAX. The recordings come with minijax; the pages are in tests/programs of its repository.",
        "%gallery\n%gallery kalman --program\n%gallery kalman",
        run_gallery,
        group="watch",
    ),
)
