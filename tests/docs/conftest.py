"""One of the worker processes builds the site, once for all tests."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.page import Browser, browser
from tests.docs.pages import built

RECORDINGS = ("graph_network", "adam")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "commands.html").exists():  # this file is written last
            built(folder, *RECORDINGS)
    return folder


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened
