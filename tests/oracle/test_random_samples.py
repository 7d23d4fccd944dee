"""Every 457th combination of ``random_samples``: drawn in every way, with JAX's bits."""

from __future__ import annotations

from collections import Counter

import pytest

from .random_samples import ROWS, Combination, combinations, compare, native


def test_every_function_of_its_own_is_in_the_product() -> None:
    assert native() <= {name.split(",")[0] for name in ROWS}


@pytest.mark.parametrize("combination", list(combinations())[11::457], ids=str)
@pytest.mark.usefixtures("compiled_quickly")
def test_the_same_bits(combination: Combination) -> None:
    assert list(compare(combination, Counter())) == []
