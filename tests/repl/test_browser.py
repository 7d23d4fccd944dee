"""The browser of stages has the right keys, a cursor in every stage, and a screen that fits at every size."""

from __future__ import annotations

import functools
import re

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import ColorDepth, DummyOutput

import minijax
import minijax.numpy as jnp
from minijax.repl.browser.model import StageBrowser
from minijax.repl.browser.screen import compose
from minijax.repl.drawing import target_at
from minijax.repl.fullscreen import Console, FullScreen
from minijax.repl.style import STYLE
from minijax.tools.commands import find
from minijax.tools.documents.document import length
from minijax.tools.documents.theme import line_role
from minijax.tools.session.session import Session
from minijax.tools.xla import pipeline, stages

PROGRAM = """\
def loss(w, x):
    h = jnp.tanh(w * x)
    y = h * 2.0 + jnp.sin(x)
    return (y ** 2).sum()
"""
ENTER, CTRL_C, TAB, DOWN = "\r", "\x03", "\t", "\x1b[B"
SIZES = [(80, 24), (120, 40), (200, 60), (60, 14), (40, 20), (20, 5), (3, 1)]


@functools.cache
def known() -> stages.Stages:
    session = Session(find)
    for line in ("import minijax; import minijax.numpy as jnp", PROGRAM):
        session.run_line(line)
    loss = session.namespace["loss"]
    x = jnp.arange(6.0) / 6
    lowered = minijax.jit(minijax.grad(loss)).lower(x, x)
    return stages.stages(pipeline.descent(lowered, ["w", "x"]))


@pytest.fixture
def browser() -> StageBrowser:
    return StageBrowser(known(), "grad(loss)(x, x)")


def press(browser: StageBrowser, *keys: str) -> StageBrowser:
    """Press keys, each by its name. '/words' searches for the words."""
    for key in keys:
        browser.press(key[:1] if key.startswith("/") else key)
        if key.startswith("/"):
            browser.answer(key[1:])
    return browser


def text(browser: StageBrowser, columns: int = 80, rows: int = 24) -> str:
    return "\n".join("".join(piece for _, piece in each).rstrip() for each in compose(browser, columns, rows))


@pytest.mark.parametrize("size", SIZES)
def test_the_screen_fits_every_terminal(browser, size):
    columns, rows = size
    for keys in ((), ("tab",), ("tab",), ("d", "p", "p", "p"), ("z",), ("z", "?"), ("?", "G", "n", "n")):
        press(browser, *keys)
        shown = compose(browser, columns, rows)
        assert len(shown) == rows and all(length(each) <= columns for each in shown)


def test_the_browser_opens_at_an_executed_instruction(browser):
    line = browser.current()
    assert browser.stage.kind == "final" and line is not None and line.places
    shown = text(browser)
    assert "optimised HLO" in shown and f"▶ {line.name} = " in shown
    # only the Python lines of the instruction are marked
    numbers = {number for _, number in line.places}
    rows = [row for row in shown.split("\n") if re.match(r"[▶•]▌\d", row)]
    assert {int(re.match(r"..(\d+)", row)[1]) for row in rows} == numbers  # type: ignore[index]


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_python_line_has_the_same_links_in_every_stage(browser, number):
    row = next(i for i, each in enumerate(browser.python) if each.line is not None and each.line.number == number)
    press(browser, "1", "g", *["down"] * row)
    ((file, chosen),) = browser.chosen
    assert chosen == number
    role = line_role(browser.stages.colours[file, number])
    for at in range(len(browser.programs)):
        browser.show(at)
        rows = browser.linked_rows("stage")
        # the highlighted rows are those that belong to the Python line
        assert rows == list(browser.stages.belonging(browser.stage, browser.chosen))
        for i in rows:
            line = browser.shown("stage")[i].line
            assert line is not None and (file, number) in line.places
            assert any(browser.stages.of_equation[each] == (file, number) for each in line.equations)
        if rows:
            # the cursor is at the first highlighted row, and choosing this row chooses the same Python line again
            assert browser.rows["stage"] == rows[0]
            drawn = compose(browser, 120, 40)
            assert any((role, "▌") in each or (role, "▌") in each[:6] for each in drawn)
            browser.focus = "stage"
            browser.choose()
            assert (file, number) in browser.chosen
            browser.chosen = ((file, number),)
    assert browser.linked_rows("python") == [row]


def test_enter_goes_down_to_machine_code_and_back_to_python(browser):
    press(browser, "1", "g", "down", "enter")
    assert browser.focus == "stage"
    kinds, steps = [], 0
    while browser.focus == "stage":
        kinds.append(browser.stage.kind)
        line = browser.current()
        assert line is not None and set(line.places) & set(browser.chosen)
        press(browser, "enter")
        steps += 1
    assert [kind for kind in stages.KINDS if kind in kinds] == list(dict.fromkeys(kinds))
    assert {"final", "llvm", "machine"} <= set(kinds)
    assert "the last stage" in browser.message[1]
    # at the last stage, Enter goes to the first row of the first stage
    assert press(browser, "enter").stage.kind == "jaxpr"
    press(browser, *["backspace"] * (steps + 2))
    assert browser.focus == "python" and browser.stage.kind == "final"
    assert "no link" in press(browser, "backspace").message[1]


def test_a_fusion_leads_to_its_own_kernel(browser):
    press(browser, "g", "/kind=kLoop")
    line = browser.current()
    assert line is not None and line.holds and line.name in {each.name for each in known().descent.kernels}
    # the line at the foot names all equations of the instruction; the instruction's row shortens this list
    equations = {known().linked.equation(number).primitive for number in line.equations}
    foot = known().told(line)
    assert foot.startswith(f"{line.name} = ") and all(name in foot for name in equations)
    assert re.search(r"\w+, \w+ \+\d+ ↳?L\d", text(browser, 120, 40))
    press(browser, "enter")
    assert (browser.stage.kind, browser.stage.title) == ("llvm", line.name)
    press(browser, "enter")
    assert (browser.stage.kind, browser.stage.title) == ("machine", line.name)


def test_a_diff_shows_the_lines_that_a_pass_changed(browser):
    press(browser, "d")
    assert "this stage is not a pass" in browser.message[1]
    for at, stage in enumerate(browser.programs):
        browser.show(at)
        rows = browser.shown("stage")
        if stage.previous < 0:
            assert [row.text for row in rows] == [each.text for each in stage.lines]
            continue
        before = known().all[stage.previous]
        gone = [row.text for row in rows if row.mark == "-"]
        new = [(row.index, row.text) for row in rows if row.mark == "+"]
        assert gone or new
        # all other lines are unchanged: without the removed lines and with the added ones, one text becomes the other
        kept = [each.text for each in before.lines]
        for one in gone:
            kept.remove(one)
        assert sorted([*kept, *(one for _, one in new)]) == sorted(each.text for each in stage.lines)
        assert all(stage.lines[i].text == one for i, one in new)
    assert press(browser, "d").diff is False


def test_keys_move_between_stages_and_passes(browser):
    at = browser.at
    assert press(browser, "p").at == at - 1 and press(browser, "n").at == at
    press(browser, *["n"] * 40)
    assert browser.at == len(browser.programs) - 1 and browser.message[1] == "this is the last stage"
    press(browser, "3", "g")
    assert browser.stage.kind == "jaxpr"
    # N and P go to each pass that changed the highlighted line
    press(browser, "1", "g", "down")
    found = []
    while press(browser, "N").message[1] == "":
        found.append(browser.at)
    assert found == [i for i, each in enumerate(browser.programs) if browser.touched(each)]
    while press(browser, "P").message[1] == "":
        pass
    assert browser.at == found[0] and "no pass before" in browser.message[1]


def test_keys_move_between_highlighted_rows(browser):
    press(browser, "1", "g", "down")
    chosen = browser.chosen
    press(browser, "2")
    rows = browser.linked_rows("stage")
    assert len(rows) > 2 and browser.rows["stage"] in rows
    browser.rows["stage"] = rows[0]
    assert press(browser, "]", "]").rows["stage"] == rows[2] and press(browser, "[").rows["stage"] == rows[1]
    press(browser, *["]"] * len(rows))
    assert browser.rows["stage"] == rows[-1] and "no more of L2" in browser.message[1]
    assert browser.chosen == chosen


def test_search_goes_on_in_other_stages(browser):
    assert "nothing has been searched" in press(browser, ".").message[1]
    press(browser, "/stablehlo.tanh")
    line = browser.current()
    assert browser.stage.kind == "stablehlo" and line is not None and "stablehlo.tanh" in line.text
    assert "found in StableHLO" in browser.message[1]
    before = browser.at, browser.rows["stage"]
    press(browser, "/sine(", ".")
    assert browser.at > before[0]
    press(browser, ",", ",")
    assert "no 'nowhere'" in press(browser, "/nowhere").message[1]


@pytest.mark.parametrize("diff", [False, True])
def test_a_search_stops_at_the_row_it_reports(browser, diff):
    """A search wraps around, and also works while passes are shown as diffs."""
    if diff:
        press(browser, "d")
    press(browser, "/multiply(")
    stood = []
    for key in "." * 120 + "," * 40:
        line = browser.current()
        assert line is not None and "multiply(" in line.text and browser.message[0] in ("", "muted")
        stood.append((browser.at, line.number))
        press(browser, key)
    there = {(at, each.number) for at, stage in enumerate(browser.programs) for each in stage.lines
             if "multiply(" in each.text}  # fmt: skip
    assert len(there) > 10 and ({*stood[:120]} == there or diff)


def test_the_mouse_goes_to_lines_and_stages(browser):
    for columns, rows in ((80, 24), (120, 40)):
        shown = compose(browser, columns, rows)
        lines = ["".join(piece for _, piece in each) for each in shown]
        row = next(i for i, each in enumerate(lines) if "h * 2.0" in each)
        pane, place = target_at(shown, 5, row)
        browser.click(pane, place)
        assert pane == "python" and {number for _, number in browser.chosen} == {3}
        at = next(i for i, each in enumerate(lines) if "optimised HLO" in each and "━" not in each and "─" not in each)
        column = lines[at].index("optimised HLO")
        browser.click(*target_at(shown, column, at))
        assert browser.focus == "stages" and browser.stage.kind == "final"
        before = dict(browser.rows)
        browser.wheel("stage", -3)
        assert text(browser, columns, rows) and browser.rows == before
        assert browser.scrolled["stage"][0] == (-3 if rows == 24 else 0)  # the larger screen shows all rows


def test_a_program_without_links_can_be_browsed():
    lowered = minijax.jit(lambda a: a).lower(1.0)
    empty = StageBrowser(stages.stages(pipeline.descent(lowered)), "f(1.)")
    for keys in ((), ("enter",), ("1",), ("down",), ("N",), ("]",), ("d",), ("tab",), ("/x",)):
        assert text(press(empty, *keys)).count("\n") == 23
    assert empty.stages.spots == ()


def pressed(*keys: str) -> StageBrowser:
    """A browser after these keys were sent through a pipe to its prompt_toolkit application."""
    browser = StageBrowser(known(), "loss")
    with create_pipe_input() as pipe:
        pipe.send_text("".join(keys))
        FullScreen(browser, compose, Console(STYLE, ColorDepth.DEPTH_1_BIT, pipe, DummyOutput())).run()
    return browser


def test_keys_from_a_pipe_reach_the_browser():
    assert pressed("p", "d", "1", DOWN, "q").focus == "python"
    searched = pressed("/tanh", ENTER, "/never", CTRL_C, "?", "j", "q", TAB, "?n", "q")
    assert searched.question is None and searched.result == "leave" and not searched.help
    assert searched.focus == "stages"


def hidden(screen: str) -> str:
    """The screen with ``#`` for each digit of the numbers that differ between processors."""
    return re.sub(r"\d+ (?=B\b|lines\b)", lambda found: "#" * (len(found[0]) - 1) + " ", screen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_screens_match_the_golden_file(browser, size, golden):
    screens = [text(browser, *size)]
    for keys in (("1", "g", "down"), ("3", "g"), ("n",), ("d", "N"), ("d", "2", "g", "/kind=kLoop"), ("?",)):
        screens.append(text(press(browser, *keys), *size))
    golden(f"screens/browser_{size[0]}.txt", hidden(f"\n{'=' * size[0]}\n".join(screens)))
