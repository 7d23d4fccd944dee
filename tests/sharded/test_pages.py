"""The cells of a page about sharded arrays do the same with both libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sharded import pages

PAGE = Path(__file__).with_name("sharded.md")


def test_the_page_does_the_same_with_both(capsys: pytest.CaptureFixture[str]) -> None:
    count = PAGE.read_text().count("{code-cell}")
    assert pages.main([str(PAGE)]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert f"{count} of {count} cells are equal" in told and "JAX itself refuses 0" in told
