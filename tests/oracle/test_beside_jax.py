"""Every 24th program of ``beside_jax``, lowered: its jaxpr and its operations are JAX's, or the table says why not."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest

import minijax
from minijax.lowering import bindings

from . import beside_jax
from .beside_jax import Explanation, Program, all_programs, compare, idle, instructions, operations, unexplained

SOME = list(all_programs())[::24]
X = np.ones(3, np.float32)


@pytest.mark.parametrize("program", SOME, ids=lambda program: program.name.replace(" ", "-"))
def test_the_same_operations(program: Program) -> None:
    assert unexplained(compare([program], compiled=False)) == []


def test_the_programs_are_many_and_have_different_names() -> None:
    names = [program.name for program in all_programs()]
    assert len(set(names)) == len(names) >= 1_200 and len(SOME) >= 50


def test_what_is_different_is_found_and_has_to_be_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(x):
        return minijax.numpy.sin(x) + x

    def theirs(x):
        return jax.numpy.cos(x) * jax.numpy.sin(x) + x

    program = Program("different", (ours, (X,)), (theirs, (X,)))
    found = compare([program], compiled=True)
    assert [each.column for each in found] == list(beside_jax.COLUMNS)
    (operations_,) = [each for each in found if each.column == "StableHLO"]
    assert str(operations_) == "stablehlo.cosine -1, stablehlo.multiply -1"
    assert unexplained(found) == found
    whole = frozenset({"stablehlo.cosine", "stablehlo.multiply"})
    row = Explanation("StableHLO", "stablehlo.cosine", "a cosine", whole)
    monkeypatch.setattr(beside_jax, "EXPLANATIONS", (row,))
    assert operations_ not in unexplained(found) and len(unexplained(found)) == len(found) - 1
    assert idle(found) == [] and idle([]) == [row]
    for other in (
        Explanation("StableHLO", "stablehlo.cosine", "a part of it", frozenset({"stablehlo.cosine"})),
        Explanation("StableHLO", "stablehlo.sine", "what does not differ", whole),
        Explanation("flops", "stablehlo.cosine", "another column", whole),
    ):
        monkeypatch.setattr(beside_jax, "EXPLANATIONS", (other,))
        assert operations_ in unexplained(found)


def test_a_function_counts_as_often_as_it_is_called_and_a_fusion_with_what_is_in_it() -> None:
    inner = minijax.jit(lambda x: minijax.numpy.sin(x) + 1.0)
    lowered = minijax.jit(lambda x: inner(inner(x)) * inner(x)).lower(X)
    with bindings.make_context() as context:
        counts = operations(bindings.ir().Module.parse(lowered.as_text(), context))
    assert counts == {"stablehlo.sine": 3, "stablehlo.broadcast_in_dim": 3, "stablehlo.add": 3, "stablehlo.multiply": 1}
    found = instructions(lowered.compile().raw_text())
    assert found["sine"] == 2 and "parameter" not in found and found == Counter(found)
