"""Exported pages, linked programs, and notebook outputs that share a style and a script, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from minijax.repl import batch
from minijax.repl.batch import new_session
from minijax.tools.documents.document import Code, Row, Table, document, line, plain, text
from minijax.tools.documents.html import to_html, uncoloured
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.links import programs_html
from minijax.tools.pages.page import lent
from minijax.tools.pages.widget import widget_html
from minijax.tools.programs.links import LinkedPrograms
from minijax.tools.recording.cursor import Cursor
from minijax.tools.stepper.programs import at_moment
from tests.browser.page import CONTRASTS
from tests.browser.programs import HOSTILE, recording
from tests.browser.test_widget import INSERT, READ


def programs() -> LinkedPrograms:
    found = [each.programs for each in recording("jit").executables]
    assert isinstance(found[-1], LinkedPrograms)
    return found[-1]


# For each pane of linked programs, the indices of its marked lines.
MARKED = """
return [...document.querySelectorAll('.mjw-columns .mjw-scroll')].map(
  (pane) => [...pane.children].flatMap((line, i) => line.classList.contains('mjw-now') ? [i] : []));
"""


def test_choosing_a_line_marks_its_linked_lines(window):
    linked = programs()
    window.show(programs_html(linked, highlight))
    panes = window.all(".mjw-columns .mjw-scroll")
    assert len(panes) == len(linked.panes)
    chosen = 0
    for pane, shown in zip(linked.panes, panes, strict=True):
        lines = shown.find_elements("css selector", ".mjw-line")
        assert len(lines) == len(pane.lines)
        for index, each in enumerate(lines):
            if pane.links[index]:
                window.run("arguments[0].click()", each)
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
    for each in lines:
        session.run_line(each)
    assert "wrote" in plain(session.run_line(f"%export {path}").shown)
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_exported_session_is_complete_and_readable_and_loads_nothing(dark, exported, window):
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
    """The content policy blocks a script even if some text is not escaped."""
    broken = tmp_path / "broken.html"
    text = exported.read_text("utf-8")
    broken.write_text(text.replace("</body>", "<script>window.ran = 1</script><img src=x onerror='ran = 1'></body>"))
    window.open(broken)
    assert window.run("return window.ran") is None and len(window.all(".mjw-stage")) == 3
    assert any("Content Security Policy" in message for message in window.console())


SHOWN = document(
    Row("gradient", (line(("literal", "-2.98")),)),
    Code("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }", "jaxpr"),
    Table(("name", "value"), ((("var", "x"), ("value", "3.0")),)),
    text("word " * 60),
)
STYLE = "const all = getComputedStyle(document.querySelectorAll(arguments[0])[arguments[1]]); return all[arguments[2]];"


def test_a_stepper_without_a_script_uses_the_script_of_an_earlier_output(window):
    window.show()
    window.run(INSERT, widget_html(recording("jit"), highlight))
    borders = window.run(STYLE, ".mjw-stage", 0, "borderTopWidth")
    # clearing the outputs of the first cell removes its style
    window.run("for (const each of document.querySelectorAll('body > *')) each.remove()")
    window.run(INSERT, lent(widget_html(recording("error"), highlight)))
    assert len(window.all(".mjw-stage")) == 2 and borders == "1px"
    assert window.run(STYLE, ".mjw-stage", 0, "borderTopWidth") == borders
    window.all("[data-move=last]")[1].click()
    assert "/" in window.all(".mjw-status")[1].text and window.console() == []
    assert len(window.all("head .mjw-style")) == 1


def test_a_stepper_without_any_script_is_shown_as_its_log(window):
    window.show(lent(widget_html(recording("vmap of grad"), highlight)))
    assert not window.all(".mjw-stage") and window.console() == []
    output = window.one(".mjw-static").text
    assert "run this cell again for the stepper." in output and "vmap:1 begins for f" in output


@pytest.mark.parametrize("dark", [False, True])
def test_a_document_without_style_is_laid_out_and_readable(window, dark):
    """The document is laid out like a document with a style. Its colours are those of the page."""
    own = "<style>:root{color-scheme:light dark}body{background:Canvas;color:CanvasText}</style>"
    boxes = (
        "return [...document.querySelectorAll('pre,td,th')].map((each) => { const box = each.getBoundingClientRect();"
        "return [box.x, box.y, box.width, box.height].map(Math.round); })"
    )
    found = []
    for made in (to_html(SHOWN, highlight), uncoloured(to_html(SHOWN, highlight))):
        window.show(own, made, dark=dark)
        found.append(window.run(boxes))
    assert found[0] == found[1] and len(found[0]) > 6
    assert min(contrast for _, contrast, _ in window.run(CONTRASTS)) > 7
    assert len({window.run(STYLE, ".mj-literal", 0, "color"), window.run(STYLE, "body", 0, "color")}) == 1


def test_everything_fits_480_pixels(window):
    stepper = widget_html(recording("vmap of grad"), highlight)
    session = batch.new_session({})
    session.run_line("def f(x): y = jnp.sin(x) * x; z = jnp.tanh(y + 1.0); return jnp.sum(z * y)")
    values = session.run_line("%values jvp(grad(f), (jnp.arange(9.0),), (jnp.ones(9),))")
    size = {"width": 480, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    window.show(stepper, lent(stepper), to_html(SHOWN, highlight))
    window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        window.run(READ + "for (let i = 0; i < 30; i += 1) press('into')")
        assert window.run("return [document.documentElement.scrollWidth, innerWidth]") == [480, 480]
        assert all(each.is_displayed() for each in window.all("[data-move=last]"))
        # a row of values wraps, so that its cotangent is in sight
        pane = "const pane = document.querySelector('[data-pane=values]'); return "
        assert "cotangent" in window.run(pane + "pane.textContent")
        assert window.run(pane + "pane.scrollWidth - pane.clientWidth") == 0
        window.show(to_html(values.shown, highlight))
        sticking = "return [...document.querySelectorAll('pre')].map((each) => each.scrollWidth - each.clientWidth)"
        assert "cotangent" in window.run("return document.body.textContent") and set(window.run(sticking)) == {0}
    finally:
        window.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize(
    ("host", "dark"),
    [
        ("document.body.className = 'vscode-dark'; document.body.dataset.vscodeThemeKind = 'vscode-dark'", True),
        ("document.body.className = 'vscode-high-contrast'", True),
        ("document.body.className = 'vscode-high-contrast vscode-high-contrast-light'", False),
        ("document.body.className = 'vscode-light'", False),
        ("document.documentElement.setAttribute('theme', 'dark')", True),  # Colab
    ],
)
def test_vscode_and_colab_set_the_colour_scheme(host, dark, window):
    """The page is marked as VS Code or Colab marks it, while the system prefers the opposite colour scheme."""
    window.show(to_html(SHOWN, highlight), widget_html(recording("jit"), highlight), dark=not dark)
    colour = "#1e1e1e" if dark else "#ffffff"
    window.run(f"document.body.style.background = '{colour}'; {host}")
    assert window.readable(dark) > 40
