"""The browser of stages in a terminal."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import BaseStyle

from minijax.repl.browser.keys import KEYS
from minijax.repl.browser.model import StageBrowser
from minijax.repl.browser.screen import compose
from minijax.repl.fullscreen import FullScreen
from minijax.tools.documents.document import Line
from minijax.tools.session.result import Browse


class BrowserApp(FullScreen):
    """A browser of stages on a terminal; the arguments are those of ``FullScreen``."""

    def __init__(
        self,
        browser: StageBrowser,
        style: BaseStyle,
        depth: ColorDepth | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        def drawn(columns: int, rows: int) -> list[Line]:
            return compose(browser, columns, rows)

        super().__init__(browser, drawn, KEYS, style, depth, input, output)


def browse(
    step: Browse,
    style: BaseStyle,
    depth: ColorDepth | None = None,
    input: Input | None = None,
    output: Output | None = None,
    rename: Callable[[str], str] | None = None,
) -> None:
    """Browse the stages of a call until the user leaves; ``rename`` applies the front end's names for places."""
    browser = StageBrowser(step.stages, step.title, step.chosen, rename)
    if step.note:
        browser.say(step.note, "muted")
    BrowserApp(browser, style, depth, input, output).run()
