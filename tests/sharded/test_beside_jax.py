"""Run each command of this folder on some of its programs, in processes with eight devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.on_devices import printed
from tests.sharded import pages
from tests.sharded.matrix import KNOWN, MODES, sliced
from tests.sharded.matrix_programs import PROGRAMS


def test_programs_of_sharded_arrays_are_converted_and_parsed() -> None:
    found = printed("-m", "tests.sharded.carried", quickly=True)
    assert found
    for differing in found.values():
        differing.pop("text", None)  # this test compares conversions; the test of the matrix compares texts
    assert {name: differing for name, differing in found.items() if differing} == {}


def test_results_and_shardings_match_jax() -> None:
    """Each program runs in one mode on one mesh. In explicit mode the texts of all programs are compared too."""
    found = printed("-m", "tests.sharded.matrix", "--slice", "--json")
    assert found == {"cells": len(sliced(MODES)), "differing": {}}
    assert all(name in PROGRAMS and mode in MODES for name, mode, _ in KNOWN)


def test_reasons_of_collectives_match_jax() -> None:
    """The test runs only programs with an underscore in their names, because these use collectives."""
    found = printed("-m", "tests.sharded.reasons", "--json", "--mode", "mapped", "-k", "_")
    assert found["collectives"] >= 8 and found["differing"] == {}


def test_cells_of_a_page_match_jax(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).with_name("sharded.md")
    count = page.read_text().count("{code-cell}")
    assert pages.main([str(page)]) == 0, capsys.readouterr().out
    text = capsys.readouterr().out
    assert f"{count} of {count} cells are equal" in text and "JAX itself refuses 0" in text
