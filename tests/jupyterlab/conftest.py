"""One JupyterLab, and one page of it, for all the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.page import browser
from tests.jupyterlab.lab import Page, lacking, server


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if reason := lacking():
        pytest.skip(reason)
    with server(tmp_path_factory.mktemp("jupyterlab")) as found, browser() as window:
        page = Page(window, found)
        page.start()
        yield page
