"""The moments of a recording, told from signs: against a walk over its tree, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minijax.tools.recording.cursor import BEGIN, END, ENTER, EVENT, LEAVE, Cursor, moments
from minijax.tools.recording.records import (
    BindRecord,
    EquationRecord,
    ErrorRecord,
    JaxprRecord,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
)
from minijax.tools.recording.timeline import Indices, Picked, Timeline, timeline
from minijax.tools.recording.values import Values
from minijax.tools.session import session
from tests.tools.recorded_programs import PROGRAMS
from tests.tools.recording.made import recording_of


def walked(recording: Recording) -> list[list[Any]]:
    """Kind, record, depth, parent, other and event of each moment, and the rule applied there without a bind."""
    out: list[list[Any]] = [[BEGIN, None, 0, -1, 0, 0, None]]

    def visit(nodes: Any, depth: int, parent: int) -> None:
        rule = None
        for node in nodes:
            rule = node if isinstance(node, RuleRecord) else rule
            if isinstance(node, (PhaseRecord, JaxprRecord)):
                rule = None
            index = len(out)
            opened = isinstance(node, (BindRecord, ScopeRecord))
            out.append([ENTER if opened else EVENT, node, depth, parent, index, node.at, rule])
            if opened:
                visit(node.children, depth + 1, index)
                out[index][4] = len(out)
                out.append([LEAVE, node, depth, parent, index, node.end, rule])

    visit(recording.tree, 0, -1)
    out.append([END, None, 0, -1, len(out), recording.events + 1, None])
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_recorder_notes_is_what_its_tree_tells(name: str) -> None:
    noted = recording_of(name)
    for recording in (noted, noted.replace(source="told from the tree")):
        known, wanted = timeline(recording), walked(recording)
        found = [[*moment, known.loose_rule(i)] for i, moment in enumerate(known)]
        assert len(found) == len(wanted) and found == wanted
        assert all(mine[1] is other[1] for mine, other in zip(found, wanted, strict=True))
        starts = [i for i, moment in enumerate(wanted) if moment[0] in (ENTER, EVENT)]
        assert [known.start(number) for number in range(len(starts))] == starts
        assert [known.number(i) for i in starts] == list(range(len(starts)))
    assert timeline(noted).signs == timeline(noted.replace(source="again")).signs


@pytest.mark.parametrize("name", PROGRAMS)
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


def test_indices_by_scope() -> None:
    indices = Indices([5, 3, 5, -1, 3, 5], order=[3, 2, 1, 1, 2, 2])
    assert [indices.of(scope).tolist() for scope in (-1, 0, 3, 5)] == [[3], [], [1, 4], [2, 5, 0]]
    some = Picked("abcdef".__getitem__, np.array([0, 2, 5]))
    assert (list(some), some[-2:], [some.up_to(i) for i in range(6)]) == (list("acf"), ("c", "f"), [1, 1, 2, 2, 2, 3])


def test_moments_are_asked_for_as_items_of_a_tuple() -> None:
    known = moments(recording_of("gradient"))
    assert known[-1] == known[len(known) - 1] and known[-1].kind == END
    assert known[:3] == tuple(known)[:3] and known[::-7] == tuple(known)[::-7]
    with pytest.raises(IndexError):
        known[len(known)]


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
