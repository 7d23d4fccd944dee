"""The recorded trees of thirteen programs, against golden texts; stepping through them and back; storing them; and the
names that the operations of two dozen programs have, beside their lines."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import minijax.random  # noqa: F401  # it takes the place of rules of comparison, and no recording is to show that
from minijax import make_jaxpr
from minijax.core.trace import stack_depth
from minijax.extend.core import parse_jaxpr
from minijax.ir.pretty import format_jaxpr
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import BEGIN, END, Cursor
from minijax.tools.recording.naming import Naming, naming_of
from minijax.tools.recording.records import BindRecord
from minijax.tools.recording.variables import names_within, recorded_names
from tests.tools.programs.named import PROGRAMS as NAMED
from tests.tools.programs.named import STAGED, named_operations
from tests.tools.recorded_programs import FAILING, PROGRAMS, as_text
from tests.tools.recording.made import recording_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_tree(name: str, golden: Callable[[str, str], None]):
    golden(f"recordings/{name}.txt", as_text(recording_of(name)))
    assert stack_depth() == 0


@pytest.mark.parametrize("name", NAMED)
def test_names_of_operations(name: str, golden: Callable[[str, str], None]):
    golden(f"names/{name}.txt", named_operations(NAMED[name]))


@pytest.mark.parametrize("name", STAGED)
def test_variables_of_programs_have_the_users_names(name: str, golden: Callable[[str, str], None]):
    function, args = STAGED[name]
    closed, known = recorded_names(lambda: make_jaxpr(function)(*args))
    names = names_within(closed, known)
    assert len(set(names.values())) == len(names) > 0
    printed = format_jaxpr(closed, names=names)
    golden(f"names/jaxpr_{name.replace(' ', '_')}.txt", printed)
    # names are in nobody's way: without them the letters are as ever, and with them it is the same program
    assert format_jaxpr(closed) == str(closed) and str(parse_jaxpr(printed)) == str(closed.jaxpr)


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_are_of_a_file_too(name: str):
    """A recording that was loaded has the same names; they are made once for a recording."""
    recording = recording_of(name)
    naming, loaded = naming_of(recording), Naming(storage.from_json(storage.to_json(recording)))
    assert naming_of(recording) is naming
    for life in recording.lives:
        assert naming.name(life.tracer.id) == loaded.name(life.tracer.id)
        if life.name:
            assert naming.variable(life.tracer.id) == life.name


@pytest.mark.parametrize("name", PROGRAMS)
def test_to_the_end_and_back_visits_the_same_states_in_reverse(name: str):
    cursor = Cursor(recording_of(name))
    forwards = [cursor.state()]
    while cursor.into():
        forwards.append(cursor.state())
    assert forwards[0].moment.kind == BEGIN and forwards[-1].moment.kind == END
    # another cursor, so that nothing is remembered
    cursor = Cursor(recording_of(name))
    cursor.last()
    backwards = [cursor.state()]
    while cursor.back():
        backwards.append(cursor.state())
    assert len(forwards) == len(backwards) == len(cursor.moments)
    for there, back in zip(forwards, reversed(backwards), strict=True):
        assert (there.stack, there.tracers, there.programs, there.place) == (
            back.stack,
            back.tracers,
            back.programs,
            back.place,
        )
        assert there.moment is not back.moment and there.moment.node is back.moment.node
        assert list(map(id, there.path)) == list(map(id, back.path)) and there.rule is back.rule


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_loaded_shows_the_same(name: str):
    recording = recording_of(name)
    data = storage.to_json(recording)
    loaded = storage.from_json(json.loads(json.dumps(data)))
    assert as_text(loaded) == as_text(recording)
    assert storage.to_json(loaded) == data
    for mine, other in zip(recording.jaxprs, loaded.jaxprs, strict=True):
        assert mine.program is not None and other.program is None
        for style in ("jax", "tutorial"):
            assert str(mine.document(style)) == str(other.document(style))
    for field in ("stack", "base", "binds", "tracers", "caches", "phases", "modules", "executables", "errors", "lives"):
        assert getattr(loaded, field) == getattr(recording, field), field
    there, back = Cursor(recording), Cursor(loaded)
    while there.into() and back.into():
        assert there.state().tracers == back.state().tracers
        assert there.state().programs == back.state().programs
        assert there.state().place == back.state().place
    assert back.position == there.position


@pytest.mark.parametrize("name", PROGRAMS)
def test_events_are_in_order_and_nested(name: str):
    cursor = Cursor(recording_of(name))
    ats = [moment.at for moment in cursor.moments]
    assert ats == sorted(ats)
    for number, moment in enumerate(cursor.moments):
        assert cursor.moments[moment.other].other == number
        if moment.parent >= 0:
            assert moment.parent < number <= cursor.moments[moment.parent].other
    assert sum(m.kind == "enter" for m in cursor.moments) == sum(m.kind == "leave" for m in cursor.moments)


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_are_alive_where_they_are_used(name: str):
    """The numbers of a bind's operands are those of tracers that the state there shows as alive, and of arrays."""
    cursor = Cursor(recording_of(name))
    arrays = {life.tracer.id: life for life in recording_of(name).lives if life.tracer.level == "eval"}
    checked = 0
    while cursor.into():
        node = cursor.moment.node
        if cursor.moment.kind == "enter" and isinstance(node, BindRecord):
            alive = {life.tracer.id for level in cursor.state().tracers for life in level}
            numbers = {number for number in node.operands if number}
            assert numbers - arrays.keys() <= alive, node
            for life in map(arrays.__getitem__, numbers & arrays.keys()):
                assert life.born <= node.at and not 0 <= life.died <= node.at, (life, node)
            checked += 1
    assert checked == recording_of(name).bind_count + (name in FAILING) * sum(
        bool(n.error) for _, n in recording_of(name).walk() if isinstance(n, BindRecord)
    )
