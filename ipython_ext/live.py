"""The stepper where a kernel answers: an anywidget whose messages go to a ``LivePage``.

Only what finds the script on the page is in the widget's state, which a notebook may save with each output; script and
style come by message, once for a page, and of a recording what the reader comes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget

from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.live import LivePage
from minijax.tools.pages.page import loader
from minijax.tools.session.result import Step

# What a view is shown as where there is a kernel; beside it the bundle has what is shown elsewhere.
MIME = "application/vnd.jupyter.widget-view+json"

_GONE = "the kernel has let this recording go, many were stepped through since: run the cell again"


class LiveStepper(anywidget.AnyWidget):  # type: ignore[misc]
    """Steps through ``step``. ``ended`` is called when code of the user's was run."""

    _esm = loader()

    def __init__(self, step: Step, rename: Callable[[str], str] = str, ended: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.page: LivePage | None = LivePage(step, highlight, rename, ended)
        self.on_msg(self.answer)

    def answer(self, _: Any, asked: dict[str, Any], buffers: Any = None) -> None:
        """Send what the script asked for."""
        page = self.page
        told = {"kind": "failed", "said": _GONE} if page is None else page.answer(asked)
        self.send({**told, "view": asked.get("view")})

    def let_go(self) -> None:
        """Answer no more: what was recorded is not kept for it any longer."""
        self.page = None

    @property
    def view(self) -> dict[str, Any]:
        """What the bundle says of it."""
        return {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
