"""What each pass takes, as XLA's profiler tells of a compilation that writes nothing down."""

import numpy as np

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.backend import profiling
from minijax.repl.batch import new_session
from minijax.tools.documents.document import Document, plain
from minijax.tools.metal import pipeline, views
from tests.tools.metal.events import Event, at_work

V = np.linspace(0.1, 0.9, 8, dtype=np.float32)


@minijax.grad
def loop(x):
    return lax.scan(lambda c, x: (jnp.sin(c) * x, c), np.float32(0.5), x)[1].sum()


def test_another_profiler_leaves_the_times_unknown():
    lowered = minijax.jit(lambda x: jnp.sin(x) * 2).lower(V)
    session = new_session({})
    with at_work():
        found = pipeline.descent(lowered)
        assert "end that first" in str(session.run_line("%roofline jnp.sin(jnp.ones(3))").error)
    assert found.passes and not any(each.runs or each.seconds for each in found.passes)
    assert "µs" not in plain(Document(tuple(views.overview(found))), 120).partition("memory")[0]


def test_a_pass_belongs_to_the_innermost_pipeline(monkeypatch):
    said = {"_src": "external/xla/xla/hlo/pass/hlo_pass_pipeline.cc", "module": "jit_f"}
    events = [
        Event("outer (jit_f)", 0, 100, **said),
        Event("cse", 10, 20),
        Event("inner", 20, 60),
        Event("inner (jit_f)", 21, 59, **said),
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
