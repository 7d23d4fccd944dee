"""Values, dtypes, weak types and derivatives of the tables' programs match JAX's under every transformation.

JAX runs under ``jit``; the tests do not compare JAX's evaluation with its compiled programs.
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
def test_values_of_functions_match_jax(name: str, mode: str) -> None:
    check_values(CASES[name], mode)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_control_flow_match_jax(name: str) -> None:
    """Only 32-bit mode is tested: XLA needs a second to compile each of these programs."""
    check_values(PROGRAMS[name], scale=4)
