"""Calls of jnp, nn and random beside JAX: the text of their programs."""

from __future__ import annotations

import pytest

from .subject import oracle, subject
from .texts import DIFFERENT, calls, differing, text

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")

SECTIONS = calls()


@pytest.mark.parametrize("section", SECTIONS)
def test_programs_are_printed_as_jax_prints_them(section: str) -> None:
    assert [call for call, _, _ in differing(SECTIONS[section]) if call not in DIFFERENT] == []


def test_nineteen_of_twenty_texts_are_equal() -> None:
    every = [call for section in SECTIONS.values() for call in section]
    assert len(set(every)) == len(every) > 180
    assert set(DIFFERENT) <= set(every) and len(DIFFERENT) <= 0.05 * len(every)


def test_what_differs_is_found() -> None:
    (found,) = differing(["jnp.power(x,i[0])"])
    assert found[1] != found[2] and "pow" in found[1]
    assert text(subject, "jnp.unique(x)") == text(oracle, "jnp.unique(x)") == "refused: it needs values"
