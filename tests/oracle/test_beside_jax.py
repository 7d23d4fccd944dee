"""Every 13th program of ``beside_jax`` is lowered to the same operations as in JAX."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

import minijax
from minijax.lowering import bindings
from tests.extend import examples

from . import beside_jax
from .beside_jax import (
    Compiler,
    Program,
    all_programs,
    compare,
    instructions,
    operations,
)

ALL = list(all_programs())
SOME = ALL[::13]
X = np.ones(3, np.float32)


@pytest.mark.parametrize("program", SOME, ids=lambda program: program.name.replace(" ", "-"))
def test_programs_lower_to_the_operations_of_jax(program: Program) -> None:
    assert compare([program], None) == []


@pytest.mark.parametrize("name", ["numpy_constants value", "cond_with_constants_of_each_branch value"])
def test_constants_are_in_the_program_and_xla_folds_them(name: str) -> None:
    (program,) = [each for each in all_programs() if each.name == name]
    assert compare([program], Compiler(bindings.make_context(), each=False)) == []


def sharding_params(closed: Any) -> dict[str, set[str]]:
    """primitive -> the names of its sharding parameters in a jaxpr of either library."""
    found: dict[str, set[str]] = {}
    for each in (closed.jaxpr, *beside_jax.inner_jaxprs(closed)):
        for eqn in each.eqns:
            if eqn.primitive.name != "jit":  # minijax's jit has sharding parameters only if they are set
                found.setdefault(eqn.primitive.name, set()).update(key for key in eqn.params if "sharding" in key)
    return found


def test_primitives_have_the_sharding_parameters_of_jax() -> None:
    def convolved(ns):
        ones = ns.numpy.ones
        return lambda x: ns.lax.conv((x @ ones((3, 3))).reshape(1, 1, 3), ones((1, 1, 2)), (1,), "SAME").sum()

    def called(ns):
        io_callback = importlib.import_module(f"{ns.__name__}.experimental").io_callback
        return lambda x: io_callback(np.sin, ns.pure_callback(np.cos, x, x), ns.lax.iota("int32", 3) * x)

    # some of the compared programs, and two with primitives that these programs lack
    programs = SOME[::12] + [Program(f.__name__, (f(minijax), (X,)), (f(jax), (X,))) for f in (convolved, called)]
    ours: dict[str, set[str]] = {}
    theirs: dict[str, set[str]] = {}
    for program in programs:
        for found, ns, (f, args) in ((ours, minijax, program.ours), (theirs, jax, program.theirs)):
            for name, params in sharding_params(ns.make_jaxpr(f)(*args)).items():
                found.setdefault(name, set()).update(params)
    both = ours.keys() & theirs.keys()
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
    declared = {p.name: p.sharding_param for p in examples.ours() if p.sharding_param}
    assert declared.items() == {(name, param) for name in both for param in ours[name]} and len(declared) == 9


def test_the_programs_are_many_and_have_different_names() -> None:
    names = [program.name for program in ALL]
    assert len(set(names)) == len(names) >= 700 and len(SOME) >= 50


def test_differences_are_found() -> None:
    def ours(x):
        return minijax.numpy.sin(x) + x

    def theirs(x):
        return jax.numpy.cos(x) * jax.numpy.sin(x) + x

    program = Program("different", (ours, (X,)), (theirs, (X,)))
    found = compare([program], Compiler(bindings.make_context(), each=False))
    assert [each.column for each in found] == list(beside_jax.COLUMNS)
    assert str(found[0]) == "stablehlo.cosine -1, stablehlo.multiply -1"


def test_counts_include_calls_and_fusions() -> None:
    inner = minijax.jit(lambda x: minijax.numpy.sin(x) + 1.0)
    lowered = minijax.jit(lambda x: inner(inner(x)) * inner(x)).lower(X)
    with bindings.make_context() as context:
        counts = operations(bindings.ir().Module.parse(lowered.as_text(), context))
    assert counts == {"stablehlo.sine": 3, "stablehlo.broadcast_in_dim": 3, "stablehlo.add": 3, "stablehlo.multiply": 1}
    found = instructions(lowered.compile().raw_text())
    assert found["sine"] == 2 and "parameter" not in found and found == Counter(found)
