"""Shared test set-up: golden files, deterministic property tests.

Skips always print their reason (``-rs`` in pyproject.toml). Golden files live in ``tests/golden``; run
``pytest --update-golden`` to rewrite them, and read the diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

GOLDEN = Path(__file__).parent / "golden"

# Derandomised: a property test that passes here passes everywhere. No deadline: the first example of a
# jitted property pays for an XLA compilation.
hypothesis.settings.register_profile("minijax", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("minijax")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden with what the code prints now",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: fail unless ``text`` is exactly the content of ``tests/golden/<name>``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists():
            pytest.fail(f"no golden file {name}; make it with pytest --update-golden and read it")
        else:
            assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return check
