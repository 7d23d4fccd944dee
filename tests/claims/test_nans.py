"""What ``%nan`` prints about programs with and without NaNs is what happened on JAX (see ``nans``)."""

from __future__ import annotations

import pytest

from tests.claims import nans


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, nans.COUNT, 20))
def test_the_verdict_and_the_lines_of_each_nan_are_right(start):
    assert not [claim for number in range(start, start + 20) for claim in nans.wrong(number)]


def test_the_programs_have_all_kinds_of_results():
    truths = [true for n in range(0, nans.COUNT, 3) if n % 8 != 7 and (true := nans.truth(nans.program(n)))]
    kinds = {(true.finite, bool(true.first), min(len(true.reaching), 2), bool(true.given)) for true in truths}
    for kind in ((True, False, 0), (True, True, 0), (False, True, 1), (False, True, 2)):
        assert (*kind, False) in kinds
    assert any(given for *_, given in kinds)
