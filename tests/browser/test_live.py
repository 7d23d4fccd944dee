"""The live stepper in a real browser: ``LivePage`` answers the page's requests, as a kernel would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import minijax.numpy as jnp
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages import widget
from minijax.tools.pages.live import LivePage
from minijax.tools.pages.page import loader
from minijax.tools.pages.widget import widget_html
from minijax.tools.recording.cursor import Cursor
from minijax.tools.session.result import Step
from tests.browser.page import Browser
from tests.browser.programs import names, recorded, recording
from tests.browser.test_widget import END, HOME, READ, RIGHT, expected, shown

# A model and its views that work like anywidget's. Messages to the kernel are collected in `sent`.
MODEL = """
window.sent = [];
window.heard = [];
window.model = {
  send: (message) => window.sent.push(message),
  on: (kind, does) => window.heard.push(does),
  off: (kind, does) => { window.heard = window.heard.filter((each) => each !== does); },
};
window.view = () => {
  const el = document.createElement('div');
  document.body.append(el);
  return window.render({ model: window.model, el });
};
"""

SLIDE = """
const range = document.querySelector('.mjw-argument input[type=range]');
range.value = arguments[0];
range.dispatchEvent(new Event('input'));
"""


class Page:
    """A page with live steppers. ``asked`` lists the kinds of requests that the page made."""

    def __init__(self, window: Browser, step: Step, *markup: str) -> None:
        self.window = window
        self.live = LivePage(step, highlight)
        self.asked: list[str] = []
        window.show(*markup)
        window.run(MODEL + loader().replace("export default { render };", "window.render = render;"))

    def show(self) -> None:
        self.window.run("window.end = window.view()")
        self.answer()

    def answer(self) -> None:
        """Answer the page's requests until none is left."""
        while asked := self.window.run("return window.sent.splice(0)"):
            for each in asked:
                self.asked.append(each["kind"])
                answer = {**self.live.answer(each), "view": each["view"]}
                self.window.run("for (const each of [...window.heard]) each(arguments[0])", answer)

    def read(self) -> dict[str, Any]:
        return shown(self.window.run(READ + "return read()"))

    def status(self) -> str:
        return self.window.one(".mjw-status").text


def stepping(name: str, given: dict[str, Any]) -> Step:
    """A recorded call of one of the programs, which can be recorded again with other arguments."""
    fun: Callable[..., Any] = names()[name]

    def again(leaves: Any) -> Any:
        made = recorded(lambda: fun(*leaves))
        return made, None

    return Step(recorded(lambda: fun(*given.values())), given=tuple(given.items()), again=again)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widget, "MOMENTS_IN_PART", 25)


def test_parts_are_requested_on_demand(window, small_parts):
    made = Page(window, Step(recording("rnn")))
    made.show()
    assert made.asked == ["script", "page"] and not window.one(".mjw-arguments").is_displayed()
    cursor = Cursor(recording("rnn"))
    last = len(cursor.moments) - 1
    stage = window.one(".mjw-stage")
    stage.send_keys(END)
    assert made.status() == f"{last}/{last} the kernel is asked for this step"
    assert made.read() | {"status": []} == expected(cursor) | {"status": []}  # still the old step
    stage.send_keys(HOME)  # this step needs no request; the page shows it immediately
    made.answer()
    assert made.read() == expected(cursor) and made.asked[2:] == ["part"]
    chosen = set()
    for position in range(0, last + 1, 12):
        cursor.go(position)
        assert made.read() == expected(cursor), position
        stage.send_keys("]")
        chosen |= {each.text for each in window.all(".mjw-chosen")}
        stage.send_keys("[", *[RIGHT] * 12)
        made.answer()
    assert len(made.asked) == 2 + len(made.live.page.parts) - 1 > 4
    assert {"iteration 1 of 3"} <= chosen and window.console() == []


def test_a_search_requests_further_parts(window, small_parts):
    made = Page(window, Step(recording("loop")))
    made.show()
    cursor = Cursor(recording("loop"))
    window.one(".mjw-search").send_keys("transpose", chr(0xE007))
    made.answer()
    found = int(made.status().split("/")[0])
    cursor.go(found)
    assert found > 25 and made.read() == expected(cursor) and made.asked.count("part") == found // 25


def test_moving_an_argument_records_again(window):
    made = Page(window, stepping("f", {"x": jnp.array([[0.5, 1.0], [2.0, 3.0]])}))
    made.show()
    window.one(".mjw-stage").send_keys(RIGHT, RIGHT)
    chosen = window.one(".mjw-argument select")
    chosen.send_keys("[1, 0]")
    assert window.one(".mjw-exact").get_attribute("value") == "2"
    for value in (-4, -3):
        window.run(SLIDE, value)
    assert window.one(".mjw-said").text == "recording ..."
    made.answer()
    # while a call is being recorded, the page keeps only the slider's latest value, and stays at its step
    assert made.asked == ["script", "page", "again", "again"]
    assert window.one(".mjw-exact").get_attribute("value") == "-3"
    assert made.live.leaves[0].tolist() == [[0.5, 1.0], [-3.0, 3.0]]
    cursor = Cursor(made.live.recording)
    cursor.go(2)
    assert made.read() == expected(cursor) and "-3.0" in " ".join(made.read()["values"])
    assert window.one(".mjw-said").text == "" and window.console() == []


def test_a_failed_recording_is_reported_and_the_page_stays(window):
    step = stepping("f", {"x": 3.0})

    def fails(leaves: Any) -> Any:
        raise ValueError("<b>negative</b>")

    made = Page(window, Step(step.recording, given=step.given, again=fails))
    made.show()
    before = made.read()
    exact = window.one(".mjw-exact")
    exact.clear()
    exact.send_keys("-1", chr(0xE007))
    made.answer()
    assert window.one(".mjw-said").text == "ValueError: <b>negative</b>" and made.read() == before
    # the input shows the argument of the current recording again
    assert made.live.leaves == [3.0] and exact.get_attribute("value") == "3"


def test_a_page_and_two_views_of_a_stepper_share_the_script(window):
    made = Page(window, Step(recording("jit")), widget_html(recording("error")))
    made.show()
    made.show()
    assert made.asked == ["page", "page"]
    assert len(window.all(".mjw-stage")) == 3 and len(window.all("head .mjw-style")) == 1
    window.all(".mjw-stage")[2].send_keys(END)
    positions = [each.text.split("/")[0] for each in window.all(".mjw-status") if "/" in each.text]
    assert positions[0] == positions[1] == "0" and positions[2] != "0"
    window.run("window.end()")
    assert window.run("return window.heard.length") == 1 and window.console() == []
