"""Where values come from: the slices of recordings beside a dependence analysis of the staged jaxpr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import minijax
import minijax.numpy as jnp
from minijax.pytree import tree_leaves
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.values import slices
from minijax.tools.values.origins import Origins, Ran
from minijax.tools.values.replay import replay
from tests.tools.values import dependence
from tests.tools.values.origin_programs import DISCHARGED, PROGRAMS


def recorded(fun: Callable[..., Any], args: list[Any]) -> tuple[Recording, list[int], list[int]]:
    """The recording, and the numbers of the arguments and of the results."""
    recorder = Recorder("full")
    with recorder:
        given = recorder.numbers(args)
        results = recorder.numbers(tree_leaves(fun(*args)))
    return recorder.recording, given, results


def innermost(found: Any) -> Counter[tuple[str, str]]:
    """The operations of a slice: how often each primitive of each line."""
    out: Counter[tuple[str, str]] = Counter()
    for use in found.uses:
        for each in use.innermost():
            if isinstance(each, BindRecord):
                out[each.primitive, each.place.rpartition("/")[2]] += 1
            else:
                out[each.primitive.name, dependence.line_of(each) or use.step.bind.place.rpartition("/")[2]] += 1
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_recordings_are_what_the_jaxpr_says(name: str) -> None:
    fun, staged, args = PROGRAMS[name]
    args = [jnp.asarray(x) for x in args]
    expected = dependence.dependence(minijax.make_jaxpr(staged)(*args), args)
    recording, given, results = recorded(fun, args)
    origins = Origins(recording)
    assert len(expected) == len(results)
    for number, depends in zip(results, expected, strict=True):
        found = origins.slice([number])
        inputs, operations = dependence.counted(depends)
        assert not found.unknown
        assert {given.index(n) for n in found.inputs if n in given} == inputs
        if name not in DISCHARGED:
            assert innermost(found) == operations
            assert found.operations == operations.total() <= found.total


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_of_a_program_are_what_it_depends_on(name: str) -> None:
    _, staged, args = PROGRAMS[name]
    args = [jnp.asarray(x) for x in args]
    closed = minijax.make_jaxpr(staged)(*args)
    known = Ran(replay(closed, args))
    for i, depends in enumerate(dependence.dependence(closed, args)):
        inputs, operations = dependence.counted(depends)
        uses, wanted = slices.slice_program(closed.jaxpr, frozenset({i}), known)
        assert {closed.jaxpr.invars.index(var) for var in wanted if var in closed.jaxpr.invars} == inputs
        eqns = [eqn for use in uses for eqn in (slices.innermost(use.parts) if use.parts else [use.eqn])]
        assert Counter(eqn.primitive.name for eqn in eqns) == sum_by_primitive(operations)


def sum_by_primitive(operations: Counter[tuple[str, str]]) -> Counter[str]:
    """How often each primitive occurs."""
    out: Counter[str] = Counter()
    for (primitive, _), count in operations.items():
        out[primitive] += count
    return out
