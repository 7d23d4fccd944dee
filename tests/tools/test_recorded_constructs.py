"""Every construct of the jaxpr language in a recording: it prints as the jaxpr does, is saved, loaded and shown."""

from __future__ import annotations

import pytest

import minijax
from minijax.tools.documents.document import Printout, document, plain
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.panels import summary
from minijax.tools.recording.recorder import record
from minijax.tools.stepper.panes import program_pane
from tests.ir.constructs import programs

PROGRAMS = programs(minijax)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recorded_construct(name: str) -> None:
    fun, args = PROGRAMS[name]
    for level in ("summary", "full"):
        closed, recording = record(minijax.make_jaxpr(fun), *args, level=level)
        shown = [plain(document(Printout(doc)), 80) for r in recording.jaxprs if (doc := r.document()) is not None]
        assert "\n".join(each.rstrip() for each in str(closed).split("\n")) in shown
        assert summary(recording)
    loaded = storage.from_json(storage.to_json(recording))
    assert [plain(document(Printout(r.document())), 80) for r in loaded.jaxprs] == shown
    cursor = Cursor(loaded)
    cursor.last()
    assert plain(program_pane(cursor))
