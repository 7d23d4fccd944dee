"""The notebook's parts in JupyterLab: ``python -m pytest tests/jupyterlab``, with the extra ``test-jupyterlab``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.browser.page import CONTRASTS
from tests.jupyterlab.lab import DARK, LIGHT, Page, until

LOAD = (
    "%load_ext minijax\nimport minijax.numpy as jnp\nfrom minijax import grad, jit, vmap\n"
    "def f(x): return jnp.sin(x) * 2.0 - x"
)
PAGE = f"{LOAD}\n%config MinijaxMagics.stepper = 'page'"
CELLS = (LOAD, "%step grad(f)(3.0)", "'the last cell'")
STAGE = ".jp-OutputArea-output .mjw-stage"
# How many steppers are laid out in columns, and how many stand at the end.
STYLED = (
    "return [...document.querySelectorAll('.mjw-grid')]"
    ".filter((e) => getComputedStyle(e).display === 'grid').length"
)
LAST = (
    "return [...document.querySelectorAll('.mjw-status')].filter((e) => {"
    "const [at, last] = e.textContent.split(' ')[0].split('/'); return at === last;}).length"
)
STATUS = "return document.querySelector('.mjw-status').textContent"


@pytest.fixture
def opened(lab: Page) -> Iterator[Callable[..., None]]:
    """Opens a notebook of these cells and runs it; it is closed at the end."""
    numbers = itertools.count()
    open_now = []

    def open_cells(*sources: str, run: bool = True) -> str:
        name = f"{os.environ['PYTEST_CURRENT_TEST'].partition('::test_')[2].partition(' ')[0]}_{next(numbers)}.ipynb"
        lab.server.write(name, sources)
        lab.open(name)
        open_now.append(name)
        if run:
            lab.run_all()
        return name

    yield open_cells
    if open_now:
        lab.close()


def ready(lab: Page, count: int = 1) -> None:
    """Until so many steppers are on the page."""
    until(lambda: len(lab.browser.all(STAGE)) == count, 30, lambda: str(lab.shown("error")))


def test_keys_in_the_stepper_step_and_leave_the_notebook_alone(lab: Page, opened: Callable[..., str]):
    opened(*CELLS)
    ready(lab)
    cells = lab.cells()
    # a live stepper has a second output, for where no kernel is
    assert [each[3] for each in cells] == [0, 2, 1]
    lab.browser.one(".mjw [data-pane=stack]").click()
    stepping = {"n": None, "b": None, "i": None, chr(0xE014): None, chr(0xE015): None, chr(0xE011): None}
    for key in stepping:
        before = lab.browser.run(STATUS)
        lab.driver.switch_to.active_element.send_keys(key)
        assert lab.browser.run(STATUS) != before, key
    for place in ("[data-pane=tree]", "[data-pane=rule]", "[data-move=into]", ".mjw-search", "[data-pane=values]"):
        lab.browser.one(f".mjw {place}").click()
        lab.driver.switch_to.active_element.send_keys("ddxazmyrjk n0011cv" + chr(0xE013) + chr(0xE015))
        assert lab.browser.run("return document.querySelector('.mjw').contains(document.activeElement)"), place
        assert lab.cells() == cells, place
    # the same keys outside of it are the notebook's
    lab.activate(2)
    lab.execute("notebook:enter-command-mode")
    lab.waited("app.shell.currentWidget.content.activate();")
    lab.driver.switch_to.active_element.send_keys("dd")
    until(lambda: len(lab.cells()) == 2, 20)


def test_other_pages_of_a_notebook_keep_their_keys_too(lab: Page, opened: Callable[..., str]):
    opened(LOAD, "%passes f(3.0)", "%hlo f(3.0) --stage optimized --links", "%minijax_time f(3.0)")
    until(lambda: len(lab.browser.all(".mjw-stage, .mjw-scroll")) > 3, 30, lambda: str(lab.shown("error")))
    cells = lab.cells()
    places = lab.browser.run(
        "return [...document.querySelectorAll('.mjw *')].filter((e) => e.tabIndex >= 0 && e.checkVisibility())"
    )
    assert len(places) > 5
    for place in places:
        lab.browser.run("arguments[0].focus()", place)
        lab.driver.switch_to.active_element.send_keys("ddxaz0")
        assert lab.cells() == cells, place.get_attribute("outerHTML")[:200]


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_text_can_be_read_in_both_themes(theme: str, lab: Page, opened: Callable[..., str]):
    lab.theme(theme)
    opened(LOAD, "%step grad(f)(3.0)", "%grad f(3.0) --check", "%hlo f(f32[8]) --stage optimized", "%tree {'a': 1.0}")
    ready(lab)
    lab.browser.one("[data-move=over]").click()
    found = lab.browser.run(CONTRASTS)
    assert len(found) > 100
    assert not {(text, ratio) for text, ratio, _ in found if ratio < 4.5}
    assert all((brightness < 0.2) == (theme == DARK) for _, _, brightness in found)


def test_nothing_is_asked_of_others_and_the_console_has_no_error(lab: Page, opened: Callable[..., str]):
    lab.errors()
    opened(*CELLS)
    ready(lab)
    for move in ("into", "over", "last", "back", "first"):
        lab.browser.one(f"[data-move={move}]").click()
    assert lab.asked_elsewhere() == []
    assert lab.shown("error") == []
    assert lab.errors() == []


@pytest.mark.parametrize("load", [LOAD, PAGE], ids=["live", "page"])
def test_a_hundred_steppers_are_in_a_file_under_two_megabytes(load: str, lab: Page, opened: Callable[..., str]):
    name = opened(load, *(f"%step grad(f)({i}.0)" for i in range(100)), run=load == PAGE)
    if load == LOAD:
        # one after the other: anywidget leaves out a widget that has not begun within 2 s, as of 100 at once some may
        for cell in range(101):
            lab.activate(cell)
            lab.execute("notebook:run-cell")
            ready(lab, cell)
        lab.save()
    ready(lab, 100)
    assert lab.shown("error") == []
    size = (lab.server.folder / name).stat().st_size
    print(f"100 steppers: {size:,} bytes")
    assert size < 2_000_000
    # each has the style, whichever brought it, and steps
    assert lab.browser.run(STYLED) == 100
    lab.browser.run("for (const each of document.querySelectorAll('[data-move=last]')) each.click();")
    assert lab.browser.run(LAST) == 100
    # the cell that brought it runs again, and then is deleted
    lab.activate(1)
    lab.execute("notebook:run-cell")
    until(lambda: lab.browser.run(STYLED) == 100, 20)
    lab.execute("notebook:delete-cell")
    until(lambda: len(lab.browser.all(STAGE)) == 99, 20)
    assert lab.browser.run(STYLED) == 99


def test_steppers_whose_style_was_deleted_with_its_cell_are_logs_until_one_runs_again(
    lab: Page, opened: Callable[..., str]
):
    lab.errors()
    name = opened(PAGE, "%step grad(f)(3.0)", "%step f(3.0)", "%step jit(f)(3.0)")
    ready(lab, 3)
    lab.activate(1)
    lab.execute("notebook:delete-cell")
    lab.close()
    lab.start()  # a page that has never seen the style
    lab.open(name)
    logs = until(lambda: lab.browser.all(".mjw-static"), 30)
    assert [each.text.partition("\n")[0] for each in logs] == [
        "The log of this recording; run its cell again for a stepper."
    ] * 2
    assert not lab.browser.all(STAGE)
    for cell in (0, 2):
        lab.activate(cell)
        lab.execute("notebook:run-cell")
    ready(lab, 2)
    assert lab.browser.run(STYLED) == 2 and lab.errors() == []


def test_a_narrow_window_has_nothing_beside_it(lab: Page, opened: Callable[..., str]):
    opened(*CELLS)
    ready(lab)
    wide = lab.driver.get_window_size()
    try:
        for width in (1200, 700, 500):
            lab.driver.set_window_size(width, 900)
            lab.browser.one("[data-move=over]").click()
            assert lab.browser.run(
                "const out = document.querySelector('.mjw').closest('.jp-OutputArea-output');"
                "const stage = document.querySelector('.mjw-stage');"
                "return out.scrollWidth <= out.clientWidth + 1 && stage.scrollWidth <= stage.clientWidth + 1"
            ), width
    finally:
        lab.driver.set_window_size(wide["width"], wide["height"])


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "somebody else's"])
def test_a_saved_file_shows_everything_without_a_kernel(trusted: bool, lab: Page, opened: Callable[..., str]):
    cells = (PAGE, "%step grad(f)(3.0)", "%grad f(3.0)", "%graph f(3.0)", "%hlo f(2.0)", "%tree {'a': jnp.ones(3)}")
    name = opened(*cells)
    ready(lab)
    lab.close()
    if not trusted:  # what was not run here has no signature of this server's
        path = lab.server.folder / name
        path.write_text(path.read_text().replace("minijax.numpy as jnp", "minijax.numpy as  jnp"))
    lab.errors()
    lab.open(name, kernel=False)
    assert lab.kernels() == 0
    if trusted:
        ready(lab)
        lab.browser.one("[data-move=last]").click()
        assert "end" in lab.browser.run(STATUS)
    else:
        until(lambda: lab.browser.all(".mjw-static"), 30)
        assert not lab.browser.all(STAGE)
        assert "sin(x) = 0.14112" in lab.browser.one(".mjw-static").text
    text = lab.browser.one(".jp-Notebook").text
    assert "-2.979985" in text and "stablehlo.sine" in text and "1 array, 3 elements" in text
    assert "Error" not in text and lab.errors() == []


# The words of the outputs that are seen.
SEEN = (
    "return [...document.querySelectorAll('.jp-OutputArea-child')].filter((e) => e.checkVisibility())"
    ".map((e) => e.innerText).join('\\n')"
)
SLIDE = (
    "const range = document.querySelector('.mjw-argument input[type=range]'); range.value = arguments[0];"
    "range.dispatchEvent(new Event('input'));"
)


def test_moving_an_argument_of_a_live_stepper_records_the_call_again(lab: Page, opened: Callable[..., str]):
    lab.errors()
    opened(*CELLS)
    ready(lab)
    lab.browser.one("[data-move=over]").click()
    status = lab.browser.run(STATUS)
    assert "sin(x) = 0.14112" in status
    lab.browser.run(SLIDE, -2)
    until(lambda: lab.browser.run(STATUS) != status, 20)
    assert lab.browser.run(STATUS) == status.replace("0.14112", "-0.9092974")
    assert "the log of this recording" not in lab.browser.run(SEEN).lower()
    assert lab.asked_elsewhere() == [] and lab.errors() == []


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "somebody else's"])
def test_a_saved_live_stepper_is_its_log_where_no_kernel_is(trusted: bool, lab: Page, opened: Callable[..., str]):
    name = opened(*CELLS)
    ready(lab)
    lab.close()
    if not trusted:
        path = lab.server.folder / name
        path.write_text(path.read_text().replace("minijax.numpy as jnp", "minijax.numpy as  jnp"))
    lab.open(name, kernel=False)
    until(lambda: lab.browser.all(".mjw-static"), 30)
    said = until(lambda: lab.browser.run(SEEN), 20)
    assert "values at the first moment" in said and "sin(x) = 0.14112" in said and "'the last cell'" in said
    assert "Loading widget" not in said and "Error" not in said and lab.kernels() == 0
