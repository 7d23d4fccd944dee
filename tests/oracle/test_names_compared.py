"""Every public name is in a comparison with JAX's, and those of ``names.CALLS`` are compared on drawn arguments."""

from __future__ import annotations

import pytest

from .names import CALLS, REASONS, difference, every

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def test_no_name_is_without_comparison() -> None:
    found = list(every())
    assert [f"{module}.{name}" for module, name, comparison in found if not comparison] == []
    assert len(found) > 1400


@pytest.mark.parametrize("name", list(CALLS)[::3])
def test_drawn_calls_agree(name: str) -> None:
    assert name in REASONS or difference(name, 1) == ""
