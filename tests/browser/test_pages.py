"""Exported pages, linked programs and a converted notebook, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from minijax.repl.batch import new_session
from minijax.tools.documents.document import plain
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.links import programs_html
from minijax.tools.pages.widget import widget_html
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording.cursor import Cursor
from minijax.tools.stepper.programs import at_moment
from tests.browser.programs import HOSTILE, recording


def programs() -> LinkedPrograms:
    found = [each.programs for each in recording("jit").executables]
    assert isinstance(found[-1], LinkedPrograms)
    return found[-1]


# For each pane of linked programs, the indices of the lines that are marked.
MARKED = """
return [...document.querySelectorAll('.mjw-columns .mjw-scroll')].map(
  (pane) => [...pane.children].flatMap((line, i) => line.classList.contains('mjw-now') ? [i] : []));
"""


def test_choosing_a_line_marks_what_python_says_is_linked(window):
    linked = programs()
    window.show(programs_html(linked, highlight))
    panes = window.all(".mjw-columns .mjw-scroll")
    assert len(panes) == len(linked.panes)
    chosen = 0
    for pane, shown in zip(linked.panes, panes, strict=True):
        lines = shown.find_elements("css selector", ".mjw-line")
        assert len(lines) == len(pane.lines)
        for index, line in enumerate(lines):
            if pane.links[index]:
                window.run("arguments[0].click()", line)
                assert window.run(MARKED) == [list(each) for each in linked.linked(pane, index)]
                chosen += 1
    assert chosen > 15 and window.console() == []


def test_the_programs_of_a_recording_follow_its_steps(window):
    window.show(widget_html(recording("jit"), highlight))
    window.one(".mjw-programs > summary").click()
    linked, cursor = programs(), Cursor(recording("jit"))
    marked = 0
    while True:
        selection = at_moment(linked, cursor)
        wanted = [list(pane.with_equations(selection.equations)) for pane in linked.panes]
        assert window.run(MARKED) == wanted, cursor.position
        marked += any(wanted)
        if not cursor.into():
            break
        window.run("document.querySelector('[data-move=into]').click()")
    assert marked > 3


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "session.html"
    session = new_session({})
    lines = (
        "def f(x): return sin(x) * 2. - x",
        "grad(f)(3.)",
        "%step grad(f)(3.)",
        "%diff f(3.) --by grad",
        "%graph f(3.)",
        "%rules sin",
        "%passes f(3.)",
        "%time f(3.) --alone --timeline",
        "%hlo f(3.) --stage optimized --links",
        "1 / 0",
        repr(HOSTILE),
    )
    for line in lines:
        session.run_line(line)
    assert "wrote" in plain(session.run_line(f"%export {path}").shown)
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_exported_session(dark, exported, window):
    window.open(exported, dark=dark)
    assert len(window.all(".mjx-entry")) == 11 and len(window.all(".mjw-stage")) == 3
    assert len(window.all(".mjw-yours .mjw-link")) == 1 and window.all(".mj-picture svg rect")
    window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    window.run("document.querySelector('[data-move=last]').click()")
    assert window.readable(dark) > 300
    assert window.addresses() == {exported.as_uri()} and window.console() == []
    for width in (500, 1200):
        window.driver.set_window_size(width, 900)
        assert window.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_no_other_script_can_run_in_an_exported_page(exported, tmp_path, window):
    """Were something ever not escaped: the page's policy stops it."""
    broken = tmp_path / "broken.html"
    text = exported.read_text("utf-8")
    broken.write_text(text.replace("</body>", "<script>window.ran = 1</script><img src=x onerror='ran = 1'></body>"))
    window.open(broken)
    assert window.run("return window.ran") is None and len(window.all(".mjw-stage")) == 3
    assert any("Content Security Policy" in message for message in window.console())
