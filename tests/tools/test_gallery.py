"""The recordings that minijax ships load and show without the programs and their libraries."""

from pathlib import Path

import pytest

from minijax.repl import batch
from minijax.tools import gallery
from minijax.tools.commands.step import start
from minijax.tools.documents.document import plain
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import place_parts


@pytest.mark.parametrize("page", gallery.PAGES)
def test_a_page_is_opened_at_its_lines(page):
    recording = gallery.recording(page)
    assert recording.level == "full" and not recording.truncated and not recording.errors
    text = gallery.program(recording)
    assert text.startswith(f'"""{gallery.PAGES[page]}\n') and "def step(" in text
    line = 1 + text[: text.index("def loss")].count("\n")
    cursor = Cursor(recording)
    while cursor.into():
        pass
    places = {place_parts(moment.node.place)[:2] for moment in cursor.moments if getattr(moment.node, "place", "")}
    assert not {file for file, _ in places if Path(file).is_absolute()}
    lines = {number for file, number in places if file == recording.source}
    assert len(lines) > 3 and max(lines) > line
    assert start(recording, at=str(min(lines)))[0] > 0


def test_a_page_is_stepped_through():
    outcome = batch.new_session({}).run_line("%gallery kalman")
    assert outcome.step is not None and outcome.step.recording.source == "tests/programs/kalman.py"
    assert "one step of the training of tests/programs/kalman.py" in plain(outcome.shown, 100)
