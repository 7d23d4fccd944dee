"""What a full recording has besides: numbered tracers, sources, reasons, caches seen through, errors in their place."""

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.repl import batch
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import plain
from minijax.tools.recording import lives, naming, values
from minijax.tools.recording import summary as recorder_summary
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.recorder import Recorder, record
from minijax.tools.recording.records import BindRecord, EquationRecord, ScopeRecord
from minijax.tools.session.result import Step
from minijax.tools.values.moment import RUN_LEFT_OUT, ledger
from minijax.tools.values.sharing import shared_with
from minijax.tools.values.table import MOST_ROWS, named_values, rows_at


def f(x):
    return jnp.sin(x) * 2.0 - x


def watched(fun, level="summary"):
    recorder = Recorder(level)
    with recorder:
        fun()
    return recorder.recording


def binds(recording):
    return [node for _, node in recording.walk() if isinstance(node, BindRecord)]


def cached_and_not(recording):
    """The functions whose traces came from caches, and how many scopes of staging there were."""
    cached = [bind.cached for bind in binds(recording) if bind.cached]
    staged = sum(record.kind == "staged" for record in recording.jaxprs)
    return cached, staged


def test_a_cached_trace_is_marked_and_can_be_retraced():
    traced = []

    @minijax.jit
    def g(x):
        traced.append(1)
        return jnp.sin(x)

    assert cached_and_not(watched(lambda: g(1.0), "full")) == ([], 1)
    assert cached_and_not(watched(lambda: g(1.0), "full")) == (["g"], 0)
    recorder = Recorder("full", retrace=True)
    with recorder:
        g(1.0)
        g(1.0)
    assert len(traced) == 2
    assert cached_and_not(recorder.recording) == (["g"], 1)  # the second call in the block finds the first one's
    miss, hit = recorder.recording.caches
    assert not miss.hit and miss.reason == "traced anew for the recording" and hit.hit
    g(1.0)
    assert len(traced) == 2 and g._cache_size() == 1
    assert cached_and_not(watched(lambda: g(1.0), "full")) == (["g"], 0)


def cell(carry, x):
    return carry * x, carry


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: lax.scan(cell, 1.0, jnp.ones(2)), "cell"),
        (lambda: lax.while_loop(small, halved, 3.0), "small, halved"),
        (lambda: lax.cond(jnp.array(True), halved, small_float, 3.0), "halved, small_float"),
        (lambda: on_two(jnp.ones(2)), "halved"),
    ],
)
def test_bodies_from_caches_too(call, names):
    call()
    cached, staged = cached_and_not(watched(call, "full"))
    assert cached[0] == names and not staged
    recorder = Recorder("full", retrace=True)
    with recorder:
        call()
    cached, staged = cached_and_not(recorder.recording)
    assert cached == [] and staged >= 1
    assert cached_and_not(watched(call, "full"))[0][0] == names


def small(x):
    return x > 1.0


def small_float(x):
    return x + 1.0


def halved(x):
    return x * 0.5


on_two = minijax.pmap(halved)


def test_nesting_is_right_when_recording_stops_inside(monkeypatch):
    """Operations that begin after the bound, inside of ones that began before it, do not close those."""
    for most in (1, 2, 3, 5, 8, 13, 21, 34):
        monkeypatch.setattr(recorder_summary, "MOST_EVENTS", most)
        recording = watched(lambda: minijax.vmap(minijax.grad(minijax.grad(jnp.sin)))(jnp.ones(2)), "full")
        assert recording.truncated
        for _, node in recording.walk():
            if isinstance(node, (BindRecord, ScopeRecord)):
                assert node.at <= most
                assert not (isinstance(node, BindRecord) and node.error)
                for child in node.children:
                    assert node.at <= child.at <= getattr(child, "end", child.at) <= node.end


def test_a_recording_that_begins_inside_interpreters_knows_them():
    recordings = []

    def inside(x):
        recordings.append(watched(lambda: minijax.jvp(jnp.sin, (x,), (x,)), "full"))
        return x

    minijax.make_jaxpr(minijax.vmap(inside))(jnp.ones(2))
    (recording,) = recordings
    assert recording.base == ("eval", "make_jaxpr:1", "vmap:2")
    assert recording.stack == (*recording.base, "jvp:3")
    equations = [node for _, node in recording.walk() if isinstance(node, EquationRecord)]
    assert {each.scope for each in equations} == {-1} and {each.level for each in equations} == {"make_jaxpr:1"}
    assert {life.scope for life in recording.lives if life.tracer.level == "vmap:2"} == {-2}
    cursor = Cursor(recording)
    cursor.to_bind("sin", level="jvp")
    state = cursor.state()
    assert state.stack == recording.stack and [len(level) > 0 for level in state.tracers] == [False, True, True, True]
    cursor.last()
    assert len(cursor.state().programs[0].equations) == len(equations)


def test_commands_report_when_names_were_not_kept(monkeypatch):
    session = batch.new_session({})
    session.run_line("ws = [jnp.ones(1) + i for i in range(10)]")
    session.run_line("def g(ws): s = ws[0] * 2.0; return s + ws[9] * (s - 1.0)")
    commands = ("%values g(ws)", "%log g(ws)", "%origin g(ws)", "%find s > 0 in g(ws)")
    for line in commands:
        assert "have names" not in plain(session.run_line(line).shown) and not session.recording.cut
    monkeypatch.setattr(naming, "MOST_PASSED", 5)
    expressions = "of more than 5 events only variables have names, expressions have none"
    for line in commands:
        assert expressions in " ".join(plain(session.run_line(line).shown).split()), line
    monkeypatch.setattr(lives, "MOST_NAMED", 4)
    kept = "4 or more names past event 0 were not kept; " + expressions
    for line in (commands[0], commands[1], commands[3]):  # %origin numbers the arguments first
        assert kept in " ".join(plain(session.run_line(line).shown).split()), line
    assert Stepper(Step(session.recording)).message == ("warning", kept)


def test_constants_of_programs_count_once_and_have_a_bound(monkeypatch):
    big = jnp.arange(10_000.0)
    scaled = minijax.jit(lambda x: (x * big)[0])
    first = record(lambda: (scaled(2.0), scaled(3.0)))[1]
    assert 40_000 < first.kept.bytes < 50_000 and not first.kept.programs_left_out
    monkeypatch.setattr(values, "MOST_BYTES", 30_000)
    full = record(lambda: (scaled(2.0), scaled(3.0)), retrace=True)[1]
    assert full.kept.bytes < 30_000
    assert dict(full.cut)["programs and calls of programs"] == full.kept.programs_left_out > 1
    known = ledger(full)
    (x,) = [life.tracer.id for life in full.lives if life.name == "x"]
    assert known.primal(x) is RUN_LEFT_OUT


def test_a_thousand_values_sharing_a_tangent_are_compared_fast():
    """To compare each with each would take half a minute."""

    def shifted(x):
        y = x * 3.0
        for _ in range(1000):
            x = x - 1.0
        return x * x + y

    known = ledger(record(minijax.grad(shifted), 2.0)[1])
    rows = rows_at(known, known.recording.events, -1).shown
    assert len(rows) == MOST_ROWS and {row.shared for row in rows if row.named.name == "x"} == {"x"}
    first = named_values(known)[0].number
    # what arrives at any of the others arrives at the first, which is used once more
    assert len(known.naming.sharing(first)) == 1001 and shared_with(known, first) == ""
