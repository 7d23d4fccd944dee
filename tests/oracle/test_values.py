"""Values, dtypes, weak types and derivatives of every program of the tables, under every transformation, against JAX.

JAX is asked under ``jit``: that it agrees with itself is not what is tested here.
"""

from __future__ import annotations

import pytest

from .checks import check_values
from .control_flow import PROGRAMS
from .functions import CASES
from .subject import MODES

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_functions(name: str, mode: str) -> None:
    check_values(CASES[name], mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow(name: str) -> None:
    """With 32 bits: each of these programs costs XLA a second."""
    check_values(PROGRAMS[name], scale=4)
