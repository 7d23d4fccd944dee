"""The moments of a recording, told from signs: against a walk over its tree, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import (
    BindRecord,
    EquationRecord,
    ErrorRecord,
    Recording,
    ScopeRecord,
)
from minijax.tools.recording.timeline import Timeline
from minijax.tools.recording.values import Values
from minijax.tools.session import session
from tests.tools.recording.made import recording_of


@pytest.mark.parametrize("name", ["gradient_by_two_interpreters", "grad_of_vmap_of_scan", "error_inside_a_rule"])
def test_a_state_has_the_equations_and_the_lives_of_its_scopes(name: str) -> None:
    recording = recording_of(name)
    cursor = Cursor(recording)
    for position in range(len(cursor.moments)):
        cursor.go(position)
        state = cursor.state()
        scopes = [-level for level in range(len(recording.base))]
        for node in state.path:
            if isinstance(node, ScopeRecord):
                scopes = [*scopes[: node.depth], node.at]
        before = [m.node for m in cursor.moments[: position + 1] if isinstance(m.node, EquationRecord)]
        wanted = {scope: tuple(e for e in before if e.scope == scope) for scope in scopes}
        assert {each.scope: tuple(each.equations) for each in state.programs} == {s: e for s, e in wanted.items() if e}
        at = state.moment.at
        for scope, alive in zip(scopes, state.tracers, strict=True):
            lives = [life for life in recording.lives if life.scope == scope]
            lives = [life for life in lives if life.born <= at and (life.died < 0 or life.died > at)]
            lives = [life for life in lives if life.name or ":" in life.tracer.level]
            assert tuple(alive) == tuple(lives)


def _binds() -> Iterator[BindRecord]:
    for number, (error, nonfinite) in enumerate([("", False), ("E", False), ("", True), ("E", True), ("", False)]):
        yield BindRecord(
            2 * number, 2 * number + 1, "sin", "eval", 0, (), (), (), "", None, "", error, (), nonfinite=nonfinite
        )


def test_errors_and_nonfinite_results_are_found_by_signs() -> None:
    tree = (*_binds(), ErrorRecord(10, "f", "E", "no"))
    cursor = Cursor(Recording("full", tree=tree, events=10))

    def visited(move: Any) -> list[int]:
        cursor.first()
        forwards = []
        while move():
            forwards.append(cursor.position)
        cursor.last()
        backwards = []
        while move(backwards=True):
            backwards.append(cursor.position)
        assert backwards == forwards[::-1]
        return forwards

    assert visited(cursor.to_error) == [4, 8, 11]
    assert visited(cursor.to_nonfinite) == [6, 8]
    assert visited(lambda backwards=False: cursor.to_bind("sin", backwards=backwards)) == [1, 3, 5, 7, 9]
    assert visited(lambda backwards=False: cursor.to_bind("cos", backwards=backwards)) == []


@pytest.mark.parametrize(
    ("signs", "nodes"),
    [
        (b"\x10", 0),  # left and never entered
        (b"\x02", 1),  # entered and never left
        (b"\x02\x10\x10\x02", 2),
        (b"\x02\x00\x10", 2),  # there is one beginning
        (b"\x09", 1),
        (b"\xff", 0),
        (b"\x04", 2),
    ],
)
def test_signs_of_no_tree_are_refused(signs: bytes, nodes: int) -> None:
    with pytest.raises(ValueError, match=r"not those of a tree|as many records"):
        Timeline(signs, [None] * nodes, 1)


def test_a_session_remembers_long_recordings_within_a_bound() -> None:
    def long(events: int) -> Recording:
        return Recording("full", tree=tuple(_binds()), events=events)

    kept = session._forgotten
    assert kept([long(700_000)] * 3) == 2  # the newest is always there
    assert kept([long(2_000_000)]) == 0
    assert kept([long(400_000), None, long(400_000), long(400_000)]) == 1
    assert kept([Recording("summary", events=2_000_000)] * 60) == 10
    values = Values()
    values.bytes = session.MOST_BYTES // 3
    assert kept([long(5).holding(values) for _ in range(5)]) == 2
