"""Every 24th program of ``beside_jax``, lowered: its jaxpr and its operations are JAX's, or the table says why not."""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest

import minijax
from minijax.lowering import bindings

from . import beside_jax
from .beside_jax import (
    Compiler,
    Explanation,
    Program,
    all_programs,
    compare,
    idle,
    instructions,
    operations,
    unexplained,
)

SOME = list(all_programs())[::24]
X = np.ones(3, np.float32)


@pytest.mark.parametrize("program", SOME, ids=lambda program: program.name.replace(" ", "-"))
def test_the_same_operations(program: Program) -> None:
    assert unexplained(compare([program], None)) == []


@pytest.mark.parametrize("name", ["numpy_constants value", "cond_with_constants_of_each_branch value"])
def test_constants_are_in_the_program_and_xla_computes_with_them(name: str) -> None:
    (program,) = [each for each in all_programs() if each.name == name]
    assert compare([program], Compiler(bindings.make_context(), each=False)) == []


def test_the_programs_are_many_and_have_different_names() -> None:
    names = [program.name for program in all_programs()]
    assert len(set(names)) == len(names) >= 1_200 and len(SOME) >= 50


def test_what_is_different_is_found_and_has_to_be_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(x):
        return minijax.numpy.sin(x) + x

    def theirs(x):
        return jax.numpy.cos(x) * jax.numpy.sin(x) + x

    program = Program("different", (ours, (X,)), (theirs, (X,)))
    found = compare([program], Compiler(bindings.make_context(), each=False))
    assert [each.column for each in found] == list(beside_jax.COLUMNS)
    (operations_,) = [each for each in found if each.column == "StableHLO"]
    assert str(operations_) == "stablehlo.cosine -1, stablehlo.multiply -1"
    # a printed jaxpr of which nothing can be taken away until it is equal is explained by no row
    assert unexplained(found) == found and str(found[0]) == "differs"
    cosine = Explanation("StableHLO", "stablehlo.cosine", "JAX", "a cosine")
    product = Explanation("StableHLO", "stablehlo.multiply", "", "a product")
    monkeypatch.setattr(beside_jax, "EXPLANATIONS", (cosine, product))
    assert operations_ not in unexplained(found) and len(unexplained(found)) == len(found) - 1
    assert idle(found) == [] and idle([]) == [cosine, product]
    for other in (
        None,
        Explanation("StableHLO", "stablehlo.multiply", "we", "the wrong one of the two"),
        Explanation("StableHLO", "stablehlo.sine", "JAX", "what does not differ"),
        Explanation("flops", "stablehlo.multiply", "JAX", "another column"),
    ):
        monkeypatch.setattr(beside_jax, "EXPLANATIONS", (cosine, other) if other else (cosine,))
        assert operations_ in unexplained(found)


def test_a_module_is_compiled_once_whatever_its_names() -> None:
    def lowered(ns, name):
        def inner(x):
            return ns.numpy.sin(x)

        inner.__name__ = name
        return ns.jit(lambda x: ns.jit(inner)(ns.jit(inner)(x)) * 2.0 + 2.0).lower(X)

    compiler = Compiler(bindings.make_context(), each=False)
    x, y = lowered(minijax, "one"), lowered(jax, "another")
    assert compiler(x) == compiler(y) and (compiler.asked, compiler.ran) == (2, 1)
    compiler.each = True
    assert compiler(x) == compiler(y) and (compiler.asked, compiler.ran) == (4, 3)


def test_a_function_counts_as_often_as_it_is_called_and_a_fusion_with_what_is_in_it() -> None:
    inner = minijax.jit(lambda x: minijax.numpy.sin(x) + 1.0)
    lowered = minijax.jit(lambda x: inner(inner(x)) * inner(x)).lower(X)
    with bindings.make_context() as context:
        counts = operations(bindings.ir().Module.parse(lowered.as_text(), context))
    assert counts == {"stablehlo.sine": 3, "stablehlo.broadcast_in_dim": 3, "stablehlo.add": 3, "stablehlo.multiply": 1}
    found = instructions(lowered.compile().raw_text())
    assert found["sine"] == 2 and "parameter" not in found and found == Counter(found)
