"""Recorded programs match golden texts: their trees, their stored form, and the names of operations beside lines."""

import json

import pytest

import minijax
import minijax.random  # noqa: F401  # importing it changes comparison rules, which no recording must show
from minijax import make_jaxpr
from minijax.core.trace import stack_depth
from minijax.extend.core import parse_jaxpr
from minijax.ir.pretty import format_jaxpr
from minijax.tools.documents.document import Printout, document, plain
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.panels import summary
from minijax.tools.recording.recorder import record
from minijax.tools.recording.variables import names_within, recorded_names
from minijax.tools.stepper.panes import PANES, program_pane, status
from tests.ir.constructs import programs
from tests.tools.programs.named import PROGRAMS as NAMED
from tests.tools.programs.named import STAGED, named_operations
from tests.tools.recorded_programs import PROGRAMS, as_text, recording_of, without_places

GOLDEN = ("gradient", "jit_miss_then_hit", "error_inside_a_rule", "cond_under_vmap", "gradient_by_two_interpreters")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_recorded_tree_matches_its_golden_text(name, golden):
    golden(f"recordings/{name}.txt", as_text(recording_of(name)))
    assert stack_depth() == 0


def shown_at(cursor):
    """The texts of the panes, but only the marked line of the source pane."""
    source = [line for line in plain(PANES["source"](cursor), 100).split("\n") if line.startswith("▶")]
    rule = plain(PANES["rule"](cursor), 100).partition("\nminijax/")[0]
    return [plain(PANES[name](cursor), 100) for name in ("tree", "stack", "jaxpr", "values")] + [*source, rule]


@pytest.mark.parametrize("name", ["gradient", "cond_under_vmap"])
def test_panes_around_an_operation_match_golden_texts(name, golden):
    cursor = Cursor(recording_of(name))
    shown = []
    for primitive, level in (("sin", "eval"), ("mul", "linearize"), ("select_n", "vmap")):
        cursor.first()
        if cursor.to_bind(primitive, level=level):
            shown += [*shown_at(cursor), plain(status(cursor), 100)]
            cursor.over()
            shown += [*shown_at(cursor), plain(status(cursor), 100)]
    golden(f"stepper/panes_{name}.txt", without_places("\n".join(shown)))


@pytest.mark.parametrize("name", NAMED)
def test_names_of_operations_match_golden_texts(name, golden):
    golden(f"names/{name}.txt", named_operations(NAMED[name]))


@pytest.mark.parametrize("name", STAGED)
def test_variables_of_jaxprs_have_user_names(name, golden):
    function, args = STAGED[name]
    closed, known = recorded_names(lambda: make_jaxpr(function)(*args))
    names = names_within(closed, known)
    assert len(set(names.values())) == len(names) > 0
    printed = format_jaxpr(closed, names=names)
    golden(f"names/jaxpr_{name.replace(' ', '_')}.txt", printed)
    # without ``names``, variables are letters; with them, the text parses to the same program
    assert format_jaxpr(closed) == str(closed) and str(parse_jaxpr(printed)) == str(closed.jaxpr)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_recording_shows_the_same(name):
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
        assert [*map(tuple, there.state().tracers)] == [*map(tuple, back.state().tracers)]
        assert there.state().programs == back.state().programs
        assert there.state().place == back.state().place
    assert back.position == there.position


CONSTRUCTS = programs(minijax)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_recorded_construct_shows_the_same_jaxpr(name):
    fun, args = CONSTRUCTS[name]
    for level in ("summary", "full"):
        closed, recording = record(minijax.make_jaxpr(fun), *args, level=level)
        shown = [plain(document(Printout(doc)), 80) for r in recording.jaxprs if (doc := r.document()) is not None]
        assert "\n".join(each.rstrip() for each in str(closed).split("\n")) in shown
        assert summary(recording)
    loaded = storage.from_json(storage.to_json(recording))
    assert [plain(document(Printout(r.document())), 80) for r in loaded.jaxprs] == shown
    cursor = Cursor(loaded)
    cursor.last()
    assert plain(program_pane(cursor))
