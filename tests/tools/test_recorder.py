"""What the recorder keeps, what it must not keep, and what it costs."""

import gc
import threading
import types
import weakref

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.tools.documents.document import plain
from minijax.tools.explain.caches import why_document
from minijax.tools.recording import panels, summary
from minijax.tools.recording.panel_data import panel_data
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.storage import from_json, to_json


def f(x):
    return jnp.sin(x) * 2.0 - x


def watched(fun, level="summary"):
    recorder = Recorder(level)
    with recorder:
        fun()
    return recorder.recording


@pytest.mark.parametrize("level", ["summary", "full"])
def test_user_objects_are_not_kept_alive(level):
    """Tracers, arrays and functions die as if nobody had watched, though the recording lives: but for the constants of
    programs, which a full one keeps."""
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


def test_past_the_bound_events_are_only_counted(monkeypatch):
    monkeypatch.setattr(summary, "MOST_EVENTS", 40)

    def long(x):
        for _ in range(100):
            x = jnp.sin(x)
        return x

    recording = watched(lambda: minijax.make_jaxpr(long)(1.0), "full")
    assert recording.truncated and recording.events > 100
    assert dict(recording.binds)["make_jaxpr:1"] == 100
    assert sum(1 for _ in recording.walk()) < 60


def test_all_is_counted_though_details_are_bounded(monkeypatch):
    """A program that passes every bound on what a summary keeps."""
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
    for said in ("5 lowered programs", "4 cache misses", "14 cache hits", "2 rules written by hand"):
        assert said in shown
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
