"""Each program of the matrix once, and every text in explicit mode; ``python -m tests.sharded.matrix`` runs all."""

from __future__ import annotations

from tests.on_devices import printed
from tests.sharded.matrix import KNOWN, MODES, sliced
from tests.sharded.matrix_programs import PROGRAMS


def test_programs_give_what_jax_gives_where_jax_gives_it() -> None:
    found = printed("-m", "tests.sharded.matrix", "--slice", "--json")
    assert found == {"cells": len(sliced(MODES)), "differing": {}}


def test_known_differences_name_programs_of_the_table() -> None:
    assert all(name in PROGRAMS and mode in MODES for name, mode, _ in KNOWN)
