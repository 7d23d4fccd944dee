"""Where values come from: the slices of recordings beside a dependence analysis of the staged jaxpr."""

from __future__ import annotations

import pytest

import minijax.numpy as jnp
from tests.tools.values.origin_programs import DISCHARGED, PROGRAMS
from tests.tools.values.slicing import check_slices


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_recordings_are_what_the_jaxpr_says(name: str) -> None:
    fun, staged, args = PROGRAMS[name]
    assert check_slices(fun, staged, [jnp.asarray(x) for x in args], operations_too=name not in DISCHARGED)
