"""The stepper with a kernel: an anywidget that exchanges messages with a ``LivePage``.

A notebook may save the widget's state with each output, so the state contains only code that finds the script in the
page. Script and style come by message, once per page. Parts of a recording come when the reader reaches them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget

from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.live import LivePage
from minijax.tools.pages.page import loader
from minijax.tools.session.result import Step

# The MIME type of a widget view.
MIME = "application/vnd.jupyter.widget-view+json"

_GONE = "the kernel has dropped this recording to save memory: run the cell again"


class LiveStepper(anywidget.AnyWidget):  # type: ignore[misc]
    """Steps through ``step``. It calls ``ended`` after user code has run."""

    _esm = loader()

    def __init__(self, step: Step, rename: Callable[[str], str] = str, ended: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.page: LivePage | None = LivePage(step, highlight, rename, ended)
        self.on_msg(self.answer)

    def answer(self, _: Any, asked: dict[str, Any], buffers: Any = None) -> None:
        page = self.page
        found = {"kind": "failed", "said": _GONE} if page is None else page.answer(asked)
        self.send({**found, "view": asked.get("view")})

    def let_go(self) -> None:
        """Drop the recording and answer no more requests."""
        self.page = None

    @property
    def bundle(self) -> dict[str, Any]:
        """The output that shows the widget. Without a kernel it is empty. The static version is a separate output,
        since JupyterLab shows an error for a view without a model, even if the bundle has other formats.
        """
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        return {"text/plain": "", "text/html": '<div class="minijax"></div>', MIME: view}
