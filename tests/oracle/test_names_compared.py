"""A comparison with JAX covers every public name, and the calls of ``names.txt`` give the same results."""

from __future__ import annotations

import pytest

from .names import CALLS, evaluated, every
from .subject import assert_same, oracle, subject

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def test_every_name_has_a_comparison() -> None:
    found = list(every())
    assert [f"{module}.{name}" for module, name, comparison in found if not comparison] == []
    assert len(found) > 1400


@pytest.mark.parametrize("expression", CALLS)
def test_calls_agree(expression: str) -> None:
    ours, theirs = (evaluated(ns, expression) for ns in (subject, oracle))
    if isinstance(theirs, (str, tuple, type(None))):
        assert repr(ours) == repr(theirs)
    else:
        assert_same(ours, theirs, scale=10)
