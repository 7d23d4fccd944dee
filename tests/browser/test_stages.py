"""The page of a call's compilation stages in a real browser: its lines and links equal those computed in Python."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.tools.documents.html import shown
from minijax.tools.documents.lexer import highlight
from minijax.tools.xla import pipeline, stages_page
from minijax.tools.xla.stages import Stage, StageLine, Stages, stages
from minijax.tools.xla.stages_page import stages_html
from tests.browser.page import Browser
from tests.browser.programs import HOSTILE, names
from tests.tools.xla.test_passes import PROGRAMS, V

# For each row of a pane: its mark, number, title, text, sign in a diff, and whether it is highlighted.
ROWS = """
const rows = (pane) => [...document.querySelectorAll(pane + ' .mjw-line[role=option]')].map((row) => [
  row.querySelector('.mjw-mark').textContent, row.querySelector('.mjw-number').textContent.trim(), row.title,
  [...row.children].filter((each) => !/mjw-/.test(each.className)).slice(row.dataset.sign ? 1 : 0)
    .map((each) => each.textContent).join(''),
  row.dataset.sign || '', row.classList.contains('mjw-now')]);
"""


@functools.cache
def made(name: str) -> Stages:
    if name == "hostile":
        evil = names()["evil"]
        evil.__name__ = evil.__qualname__ = HOSTILE
        lowered = minijax.jit(evil).lower(V)
    elif name == "two files":
        lowered = minijax.jit(calls(names()["f"])).lower(V)
    else:
        fun, args = PROGRAMS[name]
        lowered = minijax.jit(fun).lower(*args)
    return stages(pipeline.descent(lowered))


def calls(f: Any) -> Any:
    def outer(x: Any) -> Any:
        return f(x) * jnp.cos(x[0])

    return outer


def choices(found: Stages) -> list[Stage]:
    """The stages in the page's list, without the buffer assignment, which only the page has."""
    return [each for each in found.all if each.kind != "python"]


def show(window: Browser, found: Stages, stage: Stage) -> None:
    """Choose a stage in the page's list."""
    at = choices(found).index(stage)
    kinds = [each.kind for each in choices(found)]
    at += at > kinds.index("final")  # skip the buffer assignment, which follows the final stage
    window.run("document.querySelectorAll('.mjw-stages .mjw-link')[arguments[0]].click()", at)


def held(found: Stages, stage: Stage) -> list[str]:
    """The names that the page shows after fused instructions."""
    return [f"  = {found.names(each, 40)}" for each in stage.lines if each.holds]


def row(found: Stages, each: StageLine) -> list[Any]:
    return [shown(piece) for piece in (found.mark(each), str(each.number), found.told(each), each.text)]


@pytest.mark.parametrize("name", ["JAX: attention", "two files"])
def test_every_line_has_the_links_that_python_computes(name, window):
    found = made(name)
    assert len(found.spots) > 1
    window.show(stages_html(found, highlight))
    window.run("document.querySelector('[data-way=after]').click()")
    yours = [each for stage in found.all if stage.kind == "python" for each in stage.lines]
    assert [each[:4] for each in window.run(ROWS + "return rows('.mjw-yours')")] == [row(found, each) for each in yours]
    linked = [i for i, each in enumerate(yours) if each.places]
    marked = 0
    for stage in choices(found):
        show(window, found, stage)
        assert [each[:4] for each in window.run(ROWS + "return rows('.mjw-view')")] == [
            row(found, each) for each in stage.lines
        ], stage.title
        shown_held = "return [...document.querySelectorAll('.mjw-view .mjw-holds')].map((each) => each.textContent)"
        assert window.run(shown_held) == held(found, stage)
        # click the user's lines one after another
        script = (
            "const yours = document.querySelectorAll('.mjw-yours .mjw-line[role=option]');"
            "return arguments[0].map((i) => { yours[i].click(); return ['.mjw-yours', '.mjw-view'].map("
            "(pane) => rows(pane).flatMap((row, k) => row[5] ? [k] : [])); })"
        )
        for i, (own, there) in zip(linked, window.run(ROWS + script, linked), strict=True):
            wanted = yours[i].places
            assert there == [*found.belonging(stage, wanted)], (stage.title, i)
            assert own == [k for k, each in enumerate(yours) if not set(wanted).isdisjoint(each.places)]
            marked += len(there)
    assert marked > 50 and any(held(found, stage) for stage in found.all) and window.console() == []
    # the mark of a stage tells whether the stage changed the line clicked last, only contains it, or does neither
    dots = window.run("return [...document.querySelectorAll('.mjw-stages .mjw-link')].map((e) => e.textContent[0])")
    del dots[[each.kind for each in choices(found)].index("final") + 1]  # the buffer assignment
    for stage, dot in zip(choices(found), dots, strict=True):
        wanted = set(yours[linked[-1]].places)
        has = bool(found.belonging(stage, wanted))
        changed = not wanted.isdisjoint(found.touched(stage)) or (has and stage.kind != "pass")
        assert dot == ("●" if changed else "○" if has else " "), stage.title


def test_a_pass_is_shown_as_a_diff(window):
    found = made("network")
    window.show(stages_html(found, highlight))
    passes = [stage for stage in found.all if stage.previous >= 0]
    assert len(passes) > 5
    for stage in passes:
        show(window, found, stage)
        rows = window.run(ROWS + "return rows('.mjw-view')")
        before, after = found.all[stage.previous].lines, stage.lines
        assert [each[3] for each in rows if each[4] != "+"] == [each.text for each in before]
        assert [each[3] for each in rows if each[4] != "-"] == [each.text for each in after]
        assert any(each[4] in "+-" for each in rows) and len(rows) < len(before) + len(after)
        # unchanged lines are folded, and a click unfolds them
        more = window.run("return [...document.querySelectorAll('.mjw-more')].map((each) => each.textContent)")
        hidden = "return document.querySelectorAll('.mjw-view .mjw-line[hidden]').length"
        assert window.run(hidden) == sum(int(each.split()[1]) for each in more)
        window.run("document.querySelectorAll('.mjw-more').forEach((each) => each.click())")
        assert window.run(hidden) == 0
        window.run("document.querySelector('[data-way=before]').click()")
        assert [each[3] for each in window.run(ROWS + "return rows('.mjw-view')")] == [each.text for each in before]
        window.run("document.querySelector('[data-way=changes]').click()")


def test_cut_lines_are_not_compared(window, monkeypatch):
    monkeypatch.setattr(stages_page, "MOST_LINES", 12)
    found = made("network")
    window.show(stages_html(found, highlight))
    window.run("document.querySelectorAll('.mjw-yours .mjw-link')[1].click()")
    assert " here, in at least " in window.run("return document.querySelector('.mjw-status').textContent")
    cut = 0
    for stage in (stage for stage in found.all if stage.previous >= 0):
        before, after = found.all[stage.previous].lines, stage.lines
        show(window, found, stage)
        rows = window.run(ROWS + "return rows('.mjw-view')")
        kept = [each for each in rows if each[4] != "-"], [each for each in rows if each[4] != "+"]
        if len(before) > 12 or len(after) > 12:
            assert not rows or rows[-1][4] not in "+-"
        text = window.one(".mjw-view").get_attribute("textContent")
        missing = len(before[:12]) + len(after[:12]) - sum(map(len, kept))
        assert (f"{missing} line" in text and "not compared" in text) == (missing > 0), stage.title
        cut += missing
    assert cut > 0


def test_differences_are_minimal(window):
    """The diff is minimal: it keeps as many lines as the longest common subsequence."""
    window.show()
    script = (Path(pipeline.__file__).parents[1] / "pages" / "stages.js").read_text("utf-8")
    window.run(script.partition("// `1–3, 8`")[0] + "window.changes = changes")
    random = np.random.default_rng(0)
    for _ in range(40):
        a, b = (random.integers(0, 4, random.integers(0, 12)).tolist() for _ in range(2))
        found = window.run("return changes(arguments[0], arguments[1])", a, b)
        assert [a[i] for sign, i, _ in found if sign != "+"] == a and [b[j] for sign, _, j in found if sign != "-"] == b
        assert all(a[i] == b[j] for sign, i, j in found if sign == " ")
        common = np.zeros((len(a) + 1, len(b) + 1), int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                common[i + 1, j + 1] = common[i, j] + 1 if x == y else max(common[i, j + 1], common[i + 1, j])
        assert sum(sign == " " for sign, _, _ in found) == common[-1, -1]


def test_keys_move_between_lines_and_stages(window):
    found = made("network")
    window.show(stages_html(found, highlight))
    titles = "return document.querySelector('.mjw-stages [aria-selected=true]').title"
    status = "return document.querySelector('.mjw-status').textContent"
    down = chr(0xE015)
    assert window.run(titles).startswith("optimised HLO") and "choose a line" in window.run(status)
    window.one(".mjw-yours .mjw-scroll").send_keys(down)
    first = next(stage for stage in found.all if stage.kind == "python")
    own = [each for each in first.lines if each.places]
    assert found.told(own[0]) in window.run(status) and f"of {len(found.all) + 1} stages" in window.run(status)
    window.one(".mjw-yours .mjw-scroll").send_keys(down)
    assert found.told(own[1]) in window.run(status)
    window.one(".mjw-view .mjw-scroll").send_keys("[")
    assert not window.run(titles).startswith("optimised HLO")
    window.one(".mjw-stages .mjw-scroll").send_keys(down)
    assert window.run(titles).startswith("optimised HLO")
    window.one(".mjw-view .mjw-scroll").send_keys(chr(0xE00C))
    assert "choose a line" in window.run(status) and not window.all(".mjw-yours .mjw-now")
    # the instructions of the line under the pointer are highlighted
    from selenium.webdriver.common.action_chains import ActionChains

    lit = window.all(".mjw-yours .mjw-line[role=option]")[[*first.lines].index(own[0])]
    ActionChains(window.driver).move_to_element(lit).perform()
    rows = window.all(".mjw-view .mjw-line")
    touched = [i for i, each in enumerate(rows) if "mjw-touch" in each.get_attribute("class")]
    final = next(stage for stage in found.all if stage.kind == "final")
    assert touched == [*found.belonging(final, own[0].places)]


def test_hostile_names_are_shown_as_text(window):
    found = made("hostile")
    window.show(stages_html(found, highlight, HOSTILE))
    assert len(window.all(".mjw-stage")) == 1 and not window.all("img")
    assert shown(HOSTILE)[:30] in window.one(".mjw-stage > .mjw-bar").text and window.console() == []
    assert any("</script>" in each[3] for each in window.run(ROWS + "return rows('.mjw-yours')"))
