"""The backward pass as it is recorded and shown: cotangents by name, at every moment."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import minijax
from minijax.tools.recording import storage
from minijax.tools.recording.backward import listed
from minijax.tools.recording.naming import Naming
from minijax.tools.recording.recorder import record
from minijax.tools.recording.records import BackwardRecord, CotangentRecord, Recording
from tests.tools.backward.programs import PROGRAMS, oracle


@functools.cache
def recorded(name: str) -> tuple[Any, Recording]:
    fun, args = PROGRAMS[name]
    return record(minijax.grad(fun, tuple(range(len(args)))), *args)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=2e-5, atol=1e-6)


def outermost(recording: Recording) -> BackwardRecord:
    found = next(each for each in recording.backward if each.name.startswith(tuple(PROGRAMS)))
    return listed(found, recording)


@pytest.mark.parametrize("name", PROGRAMS)
def test_cotangents_are_what_jax_finds(name: str) -> None:
    """Of each variable of the program by what is added to it there; and of the arguments."""
    fun, args = PROGRAMS[name]
    gradient, recording = recorded(name)
    wanted, of_arguments = oracle(fun, args)
    backward, naming = outermost(recording), Naming(recording)
    sums: dict[int, CotangentRecord] = {each.variable: each for each in backward.seeds if each.number}
    for step in backward.steps:
        for part, total in zip(step.found, step.sums, strict=True):
            array = recording.kept.array
            before = sums.get(part.variable)
            if before is None:
                assert total.number == part.number
            else:  # what has arrived so far, and what arrives now
                close(array(total.number), np.asarray(array(before.number)) + np.asarray(array(part.number)))
            sums[total.variable] = total
    called = {naming.variable(backward.primals[variable]): variable for variable in sums}
    missing = [each for each in wanted if each not in called and np.any(wanted[each])]
    assert not missing, called
    for each, expected in wanted.items():
        if each in called:
            close(recording.kept.array(sums[called[each]].number), expected)
    for i, (ours, theirs) in enumerate(zip(gradient, of_arguments, strict=True)):
        close(ours, theirs)
        close(ours, recording.kept.array(sums[backward.constants + i].number))


@pytest.mark.parametrize("name", ["mlp", "branches", "nested"])
def test_it_is_the_same_when_loaded(name: str) -> None:
    _, recording = recorded(name)
    loaded = storage.from_json(storage.to_json(recording))
    assert loaded.backward == tuple([listed(each, recording) for each in recording.backward])
    assert len(loaded.backward) >= 1 and all(each.equations for each in loaded.backward)
