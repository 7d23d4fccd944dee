"""The parts of a call's time sum to the whole, agree with plain timing, and belong to the lines that ran."""

import contextlib
import importlib
import statistics
import time
import xml.dom.minidom

import jax
import jax.numpy as real
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.api import block_until_ready
from minijax.backend import profiling
from minijax.backend.profiling import InstructionRun, Interval, TracedCall
from minijax.interop import from_jax
from minijax.repl import batch
from minijax.repl.batch import new_session
from minijax.tools.documents.document import Document, Picture, plain
from minijax.tools.documents.html import to_html
from minijax.tools.xla import pipeline, step_time, step_time_view, views
from minijax.tools.xla.step_time import StepRow, Stretch, stretches

LARGE = np.linspace(-1, 1, 90_000, dtype=np.float32).reshape(300, 300)


def layers(np_, repeat):
    def run(x):
        y = repeat(0, 4, lambda i, c: c @ x / 300, x)
        return np_.sin(y) + 1

    return run


def seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def step_of(fun, *args, about=1e-3):
    """The timed parts of a call, and the time in seconds of each profiled call by Python's clock."""
    jitted = minijax.jit(fun)
    took = []

    def call():
        took.append(seconds(lambda: block_until_ready(jitted(*args))))

    call()
    took.clear()
    return step_time.timed_step(jitted.lower(*args), call, about), took


def whole(step):
    """Check that the stretches of a call are contiguous from its start to its end."""
    at = 0.0
    for each in step.stretches:
        assert each.begin == pytest.approx(at, abs=1e-9) and each.end > each.begin
        at = each.end
    assert at == pytest.approx(step.seconds) == sum(step.parts.values())


@pytest.mark.parametrize(
    "run", [layers(jnp, lax.fori_loop), from_jax(layers(real, jax.lax.fori_loop))], ids=["ours", "JAX's"]
)
def test_parts_sum_to_the_time_of_plain_timing(run):
    ratios = []
    for _ in range(3):
        step, took = step_of(run, LARGE, about=2e-3)
        whole(step)
        assert len(took) == step.calls
        ratios.append(step.seconds / min(took))
    # both clocks time the same calls, so load affects both; XLA's clock starts before Python's and stops after it
    assert 0.98 < statistics.median(ratios) < 1.3
    assert step.calls == 25 and step.parts["compute"] > 0.3 * step.seconds
    assert step.parts["dispatch"] > 0 and step.parts["transfer"] > 0
    loop = next(each for each in step.rows if each.rounds)
    inside = [each for each in step.rows if each.depth == 1]
    assert loop.rounds == 4 and inside and {len(each.when) for each in inside} == {4}
    around = loop.when[0]
    assert all(around.begin <= when.begin and when.end <= around.end for each in inside for when in each.when)


def traced(instructions, transfers=(), executions=()):
    runs = [InstructionRun(name, 1000.0 + begin, float(end - begin), 0) for name, begin, end in instructions]
    moved = [[Interval(1000.0 + a, 1000.0 + b) for a, b in each] for each in (transfers, executions)]
    return TracedCall(Interval(1000.0, 2000.0), runs, *moved)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (traced([]), {"python": 1000}),
        (traced([], [(100, 300)], [(400, 700)]), {"python": 200, "transfer": 200, "runtime": 300, "after": 300}),
        (
            # here a transfer overlaps an instruction, two instructions overlap, and one ends after the call
            traced([("a", 200, 400), ("b", 300, 500), ("c", 600, 1200)], [(100, 250)], [(50, 150)]),
            {"python": 50, "runtime": 50, "transfer": 100, "compute": 700, "between": 100},
        ),
        (traced([("a", 0, 400)], [(500, 600)]), {"compute": 400, "transfer": 100, "after": 500}),
    ],
)
def test_each_moment_belongs_to_one_part(call, expected):
    since = step_time._since(1000.0)
    rows = [
        StepRow(one.instruction, (since(Interval(one.begin, one.begin + one.nanoseconds)),), 0.0)
        for one in call.instructions
    ]
    found = {}
    parts = [*stretches(call, rows)]
    for each in parts:
        found[each.kind] = found.get(each.kind, 0) + round((each.end - each.begin) * 1e9)
    assert found == expected and sum(found.values()) == 1000
    assert all(a.end == pytest.approx(b.begin) for a, b in zip(parts, parts[1:], strict=False))


def test_an_instruction_ends_at_its_end_event_or_at_the_next_start():
    stats = {"hlo_module": "jit_f", "program_id": 1, "run_id": 2, "device_ordinal": 0}
    events = [
        [Event("sin", 0, 10, hlo_op="sin", _p=7, **stats), Event("end: cos", 95, 96, _c=8)],
        [Event("cos", 30, 40, hlo_op="cos", _p=8, **stats), Event("add", 60, 61, hlo_op="add", _p=9, **stats)],
        [Event("end: sin", 20, 21, _c=7), Event("of another", 0, 99, hlo_op="sin", hlo_module="jit_g")],
    ]
    found = {each.instruction: (each.begin, each.nanoseconds) for each in profiling._instructions(events, "jit_f")}
    assert found == {"sin": (0, 20), "cos": (30, 30), "add": (60, 1)}


def test_a_copy_includes_its_work_on_another_thread():
    handed, begun, ended = profiling._HANDED, profiling._BEGUN, profiling._ENDED
    events = [
        [Event("DevicePut", 0, 10), Event(handed, 5, 5, _p=3), Event(handed, 15, 15, _p=4)],
        [Event(begun, 20, 20, _c=3), Event(ended, 50, 50), Event(begun, 60, 60, _c=4), Event(ended, 90, 90)],
    ]
    assert profiling._transfers(events) == [(0, 10), (20, 50)]


def test_a_lane_is_filled_by_busy_time():
    assert step_time_view.lane([(0.0, 1.0)], 4.0, 8) == "██      "
    assert step_time_view.lane([(1.0, 1.5), (1.5, 2.25), (3.99, 4.0)], 4.0, 4) == " █▎▏"
    assert step_time_view.lane([], 1.0, 3) == "   "


def test_a_timeline_fits_and_is_drawn_small():
    many = tuple(Interval(2e-6 * i, 2e-6 * i + 1e-6) for i in range(10_000))
    step, _ = step_of(lambda x: jnp.sin(x), LARGE[0])
    rows = (StepRow("<while>", many[:1], 0.0, 10_000), StepRow("a" * 50, many, 1e-2, depth=1))
    drawn = step.replace(seconds=2e-2, rows=rows, stretches=(Stretch("compute", 0.0, 2e-2),))
    blocks = tuple(step_time_view.timeline(drawn, 20))
    assert "2 more instructions: --most 2" in plain(Document(tuple(step_time_view.timeline(drawn, 0))))
    for width in (40, 80):
        lines = plain(Document(blocks), width).split("\n")
        assert max(map(len, lines)) <= width and any("×10000" in each and "▌▌▌" in each for each in lines)
        assert any("10000 rounds" in each for each in lines)
    markup = next(each for each in blocks if isinstance(each, Picture)).markup
    assert len(markup) < 10_000 and "&lt;while&gt;" in markup and "<while>" not in markup
    xml.dom.minidom.parseString(markup)
    assert "script" not in to_html(Document(blocks))


def test_the_command_gives_a_reason_if_it_has_no_times():
    session = batch.new_session({})
    session.run_line("def f(x): return jnp.sin(x) * 2")
    outcome = session.run_line("%time f(jnp.ones(3)) --alone --lines --timeline")
    assert {"dispatch", "transfer", "compute", "not attributed"} <= set(outcome.value)
    shown = plain(outcome.shown)
    assert "dispatch: Python" in shown and "of compute" in shown and "--lines" not in shown
    with at_work():
        outcome = session.run_line("%time f(jnp.ones(3)) --alone")
    assert "where a call's time goes is not known" in plain(outcome.shown, 200) and "jit" in outcome.value
    assert "an argument is only a type" in str(session.run_line("%time f(f32[3]) --alone --lines").error)


V = np.linspace(0.1, 0.9, 8, dtype=np.float32)


def test_another_profiler_leaves_the_times_unknown():
    lowered = minijax.jit(lambda x: jnp.sin(x) * 2).lower(V)
    session = new_session({})
    with at_work():
        found = pipeline.descent(lowered)
        assert "stop that profile first" in str(session.run_line("%roofline jnp.sin(jnp.ones(3))").error)
    assert found.passes and not any(each.runs or each.seconds for each in found.passes)
    assert "µs" not in plain(Document(tuple(views.overview(found))), 120).partition("memory")[0]


def test_a_pass_belongs_to_the_innermost_pipeline(monkeypatch):
    stats = {"_src": "external/xla/xla/hlo/pass/hlo_pass_pipeline.cc", "module": "jit_f"}
    events = [
        Event("outer (jit_f)", 0, 100, **stats),
        Event("cse", 10, 20),
        Event("inner", 20, 60),
        Event("inner (jit_f)", 21, 59, **stats),
        Event("dce", 22, 30),
        Event("its own work", 23, 25),
        Event("dce", 60, 80),
        Event("elsewhere", 110, 120),
    ]
    monkeypatch.setattr(profiling, "_events", lambda run: [events[::-1], []])
    assert profiling.compiled_passes(lambda: None) == [
        ("jit_f", "outer", "cse", 10),
        ("jit_f", "outer", "inner", 40),
        ("jit_f", "inner", "dce", 8),
        ("jit_f", "outer", "dce", 20),
    ]


class Event:
    def __init__(self, name, begin, end, **stats):
        self.name, self.start_ns, self.duration_ns, self.stats = name, begin, end - begin, [*stats.items()]


@contextlib.contextmanager
def at_work():
    """Keep another profiler session running. Only one can be active."""
    session = importlib.import_module("jaxlib._profiler").ProfilerSession()
    try:
        yield
    finally:
        session.stop()
