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

# What shows a view where there is a kernel.
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
    def bundle(self) -> dict[str, Any]:
        """An output that shows it; nothing where there are no widgets. What is read without a kernel is an output of
        its own: JupyterLab has a message for a view without its model, whatever else the bundle has.
        """
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"text/plain": "", "text/html": '<div class="minijax"></div>', MIME: view}
