"""The recorder keeps few objects alive, has bounds beyond which it only counts, and marks cached traces."""

import gc
import threading
import types
import weakref

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import grad, jvp, lax, make_jaxpr, vmap
from minijax.config import use_direct_linearize
from minijax.core import observe
from minijax.repl import batch
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import plain
from minijax.tools.explain.caches import why_document
from minijax.tools.recording import lives, naming, panels, summary, values
from minijax.tools.recording import summary as recorder_summary
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.forcing import forced_by
from minijax.tools.recording.panel_data import panel_data
from minijax.tools.recording.recorder import Recorder, record
from minijax.tools.recording.records import BindRecord, EquationRecord, ScopeRecord
from minijax.tools.recording.storage import from_json, to_json
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


@pytest.mark.parametrize("level", ["summary", "full"])
def test_tracing_takes_more_than_the_recorders_own_time(level):
    for _ in range(2):  # the first time, the recorder may import modules
        recording = watched(lambda: minijax.jit(lambda x: sum(jnp.sin(x * i) for i in range(30))).trace(1.0), level)
    assert [record.seconds > 0 for record in recording.phases if record.phase == "trace"] == [True]


@pytest.mark.parametrize("level", ["summary", "full"])
def test_user_objects_are_not_kept_alive(level):
    """A recording keeps no tracers, arrays or functions alive, except that full ones keep the constants of programs."""
    seen = []

    def run():
        big = jnp.ones(1000) * 3.0
        host = np.ones(7)

        def g(x):
            seen.append(weakref.ref(x))
            y = jnp.sin(x) * big + host.sum()
            seen.append(weakref.ref(y))
            return jnp.sum(y)

        def h(x):
            return minijax.jit(g)(x) + minijax.vmap(jnp.cos)(x).sum()

        if level == "summary":
            seen.append(weakref.ref(big))
        seen.append(weakref.ref(g))
        minijax.grad(h)(big)
        minijax.make_jaxpr(minijax.vmap(h))(jnp.ones((2, 1000)))

    recording = watched(run, level)
    gc.collect()
    assert len(seen) >= 3
    assert [ref() for ref in seen if ref() is not None] == []
    assert len(recording.jaxprs) > 3


def test_events_past_the_bound_are_only_counted(monkeypatch):
    monkeypatch.setattr(summary, "MOST_EVENTS", 40)

    def long(x):
        for _ in range(100):
            x = jnp.sin(x)
        return x

    recording = watched(lambda: minijax.make_jaxpr(long)(1.0), "full")
    assert recording.truncated and recording.events > 100
    assert dict(recording.binds)["make_jaxpr:1"] == 100
    assert sum(1 for _ in recording.walk()) < 60


def test_counts_are_complete_beyond_the_bound_of_details(monkeypatch):
    for bound, most in {
        "MOST_JAXPRS": 3,
        "MOST_PROGRAMS": 4,
        "MOST_MISSES": 5,
        "MOST_NAMES": 2,
        "MOST_TEXT": 200,
        "MOST_TEXT_IN_ALL": 700,
        "MOST_TRACERS": 4,
    }.items():
        monkeypatch.setattr(summary, bound, most)
    functions = [minijax.jit(types.FunctionType((lambda x: x * 2.0).__code__, globals(), f"f{i}")) for i in range(9)]
    rules = [minijax.custom_jvp(jnp.sin) for _ in range(3)]
    for i, each in enumerate(rules):
        rule = lambda primals, tangents: (primals[0], tangents[0])  # noqa: E731
        rule.__name__ = f"rule{i}"
        each.defjvp(rule)

    def run():
        for _ in range(3):
            for each in functions:
                each(1.0)
        for each in rules * 2:
            minijax.jvp(each, (1.0,), (1.0,))

    recording = watched(run)
    assert [record.name for record in recording.caches if not record.hit] == [f"f{i}" for i in range(5)]
    assert recording.executions == 27
    runs = [record for record in recording.phases if record.phase == "run"]
    assert sum(record.times for record in runs) == 27 and runs[-1].name == summary.OTHERS
    assert len(recording.modules) == len(recording.executables) == 4 and len(recording.jaxprs) == 3
    assert "more characters were not kept" in recording.modules[0].text
    shown = plain(panels.summary(recording, everything=True), 400)
    for expected in ("5 lowered programs", "4 cache misses", "14 cache hits", "2 rules written by hand"):
        assert expected in shown
    cut = dict(recording.cut)
    assert f"{cut['tracers']} of them not described" in shown and f"+{cut['jaxprs']} more not kept" in shown
    assert "and 4 more misses, which were counted and not kept" in plain(why_document(recording), 200)
    assert panel_data(recording)["truncated"] and from_json(to_json(recording)).cut == recording.cut


def test_other_threads_are_counted_not_mixed_in():
    def elsewhere():
        minijax.grad(f)(1.0)

    def run():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        minijax.jvp(f, (1.0,), (1.0,))

    recording = watched(run)
    assert recording.stack == ("eval", "jvp:1")
    assert recording.elsewhere > 5


def binds(recording):
    return [node for _, node in recording.walk() if isinstance(node, BindRecord)]


def cached_and_not(recording):
    """(the functions whose trace came from a cache, the number of jaxprs that were staged)."""
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
    assert cached_and_not(recorder.recording) == (["g"], 1)  # the second call uses the trace of the first
    miss, hit = recorder.recording.caches
    assert not miss.hit and miss.reason == "traced again for the recording" and hit.hit
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
def test_cached_loop_bodies_are_marked_too(call, names):
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
    """The outer operations began before the bound. Inner operations that come after the bound do not close them."""
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


def test_a_recording_started_inside_interpreters_has_them():
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


def test_commands_report_dropped_names(monkeypatch):
    session = batch.new_session({})
    session.run_line("ws = [jnp.ones(1) + i for i in range(10)]")
    session.run_line("def g(ws): s = ws[0] * 2.0; return s + ws[9] * (s - 1.0)")
    commands = ("%values g(ws)", "%log g(ws)", "%origin g(ws)", "%find s > 0 in g(ws)")
    for line in commands:
        assert "have no names" not in plain(session.run_line(line).shown) and not session.recording.cut
    monkeypatch.setattr(naming, "MOST_PASSED", 5)
    expressions = "expressions have no names in a recording of more than 5 events"
    for line in commands:
        assert expressions in " ".join(plain(session.run_line(line).shown).split()), line
    monkeypatch.setattr(lives, "MOST_NAMED", 4)
    kept = "4 or more names past event 0 were not kept; " + expressions
    for line in (commands[0], commands[1], commands[3]):  # not %origin, which numbers the arguments first
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
    """The comparison must not look at all pairs of values: that would take half a minute."""

    def shifted(x):
        y = x * 3.0
        for _ in range(1000):
            x = x - 1.0
        return x * x + y

    known = ledger(record(minijax.grad(shifted), 2.0)[1])
    rows = rows_at(known, known.recording.events, -1).shown
    assert len(rows) == MOST_ROWS and {row.shared for row in rows if row.named.name == "x"} == {"x"}
    first = named_values(known)[0].number
    # the first value has one more use than the others, so it does not share their cotangent
    assert len(known.naming.sharing(first)) == 1001 and shared_with(known, first) == ""


class Forced(observe.Observer):
    """Records for each operation its primitive's name and the result of ``forced_by``."""

    def __init__(self):
        self.seen = []

    def bind_enter(self, primitive, trace, args, params):
        self.seen.append((primitive.name, *forced_by(trace, args)))


def product(y):
    return vmap(lambda x: lax.mul(x, y))(jnp.ones(3))


CASES = {
    "evaluation": (lambda: lax.sin(1.0), ("sin", -1, "evaluation: no argument is traced")),
    "jvp": (lambda: jvp(lambda x: lax.mul(2.0, x), (1.0,), (1.0,)), ("mul", 1, "argument 1 is a jvp:1 tracer")),
    "the higher of two": (
        lambda: jvp(product, (1.0,), (1.0,)),
        ("mul", 0, "argument 0 is a vmap:2 tracer, a higher level than jvp:1"),
    ),
    "staging": (lambda: make_jaxpr(lax.sin)(1.0), ("sin", 0, "argument 0 is a make_jaxpr:1 tracer")),
    "staging of constants": (
        lambda: make_jaxpr(lambda x: x + lax.sin(2.0))(1.0),
        ("sin", -1, "make_jaxpr:1 stages every operation, also on constants"),
    ),
    "a mapped axis": (
        lambda: vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(jnp.arange(3)),
        ("axis_index", -1, "the mapped axis 'i' belongs to vmap:1"),
    ),
    "a tangent in grad": (lambda: grad(lambda x: lax.exp(x))(1.0), ("mul", 0, "argument 0 is a linearize:1 tangent")),
    "grad, the tutorial's way": (
        lambda: use_direct_linearize(False)(grad(lambda x: lax.exp(x)))(1.0),
        ("exp", 0, "argument 0 is a jvp:2 tracer"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_forced_by_names_the_argument_that_decides(name):
    call, expected = CASES[name]
    with observe.watching(Forced()) as watch:
        call()
    assert expected in watch.seen
