"""``no_recompile``, ``explain_cache_miss`` and ``%why`` explain cache misses."""

import re
import threading

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import grad, jit, lax
from minijax.core import miss_log
from minijax.core.guards import guards
from minijax.core.trace import stack_depth
from minijax.errors import RecompilationError
from minijax.repl import batch
from minijax.tools import explain_cache_miss, explain_misses, no_recompile
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.explain.caches import kept_document, why_document
from minijax.tools.explain.recompiles import recompiles
from minijax.tools.recording.records import CacheRecord, JaxprRecord, PhaseRecord, Recording
from minijax.tools.session.session import Session
from tests.threads import at_once


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    yield
    assert not guards and stack_depth() == 0


def scaled(x, factor):
    return x * factor


F = jit(scaled)
X = np.ones(3, np.float32)
F(X, 2.0)


def test_the_first_compilation_of_a_transformed_program_is_no_recompile():
    square = jit(lambda x: x**2)
    square(1.0)
    first = miss_log.total()
    grad(square)(1.0)
    entries = miss_log.since(first)
    assert [each.cache for each in entries] == ["compilation"] * 2
    assert recompiles(entries) is None
    grad(square)(jnp.ones(3).sum())
    found = recompiles(miss_log.since(first))
    assert found is not None and found.title.startswith("1 recompile, ")
    assert float(found.title.split()[2]) > 1.0 and found.title.endswith(" ms")  # includes the compilation time
    assert len(found.reasons) == 1 and "weak_type" in found.reasons[0]


def test_a_retrace_raises_with_the_explanation():
    with pytest.raises(RecompilationError) as raised, no_recompile():
        F(np.ones(4, np.float32), 2.0)
    lines = str(raised.value).splitlines()
    assert lines[0] == "scaled would be traced in no_recompile."
    assert lines[1] == "  Why: x: f32[3] became f32[4]"
    assert lines[2].startswith(f"  Where: {__file__}:")
    assert lines[-1].startswith("Pad x to one shape")
    (difference,) = raised.value.reason.differences
    assert difference == ("shape", "x", "f32[3]", "f32[4]")
    # no_recompile prevented the trace, so this shape still misses
    assert not explain_cache_miss(F, np.ones(4, np.float32), 2.0)


def test_no_recompile_also_forbids_compiling_a_traced_function():
    f = jit(lambda x: x + 1.0)
    f.trace(X)
    with pytest.raises(RecompilationError, match="would be compiled in no_recompile"), no_recompile():
        f(X)


def test_allow_counts_a_function_with_its_inner_functions():
    inner = jit(lambda x: x * 2.0)

    def outer(x):
        return lax.cond(x > 0, lambda y: inner(y), lambda y: y, x)

    f, g = jit(outer), jit(lambda x: x - 1.0)
    with no_recompile(allow=1) as block:
        f(1.0)
        f(2.0)
        assert block.misses == ("outer was traced: first call",)
        with pytest.raises(RecompilationError) as raised:
            g(1.0)
    lines = str(raised.value).splitlines()
    assert lines[0] == "<lambda> would be traced after the 1 miss that no_recompile allows."
    assert "  before that, outer was traced: first call" in lines


def test_blocks_nest_and_are_reentrant():
    block = no_recompile()
    with block, block:
        with pytest.raises(RecompilationError):
            jit(lambda x: x)(1.0)
        with pytest.raises(RecompilationError), no_recompile(allow=5):  # the inner block allows it, the outer raises
            jit(lambda x: x)(1.0)
        assert len(guards) == 2
    jit(lambda x: x).trace(1.0)


def test_no_recompile_decorates_a_function_that_several_threads_call():
    inside = threading.Barrier(2)

    @no_recompile()
    def work(number):
        inside.wait()
        F(X, number)
        inside.wait()

    at_once(lambda: work(0.0), lambda: work(1.0))
    assert not guards
    with pytest.raises(RecompilationError):
        no_recompile()(jit(lambda x: x))(1.0)


def test_no_recompile_refuses_a_bad_allowance():
    for bad in (-1, 1.5, None):
        with pytest.raises(ValueError, match="allow must be"):
            no_recompile(bad)


def test_explain_cache_miss_predicts_hits_and_misses():
    assert explain_cache_miss(F, X, 2.0)
    assert repr(explain_cache_miss(F, X, 2.0)) == "scaled is cached for these arguments"
    answer = explain_cache_miss(F, X, np.float32(2.0))
    assert not answer and not answer.hit
    assert answer.reason == "factor: f32[] (weak_type) became f32[]"
    assert answer.differences == (("weak_type", "factor", "f32[] (weak_type)", "f32[]"),)
    assert repr(answer) == f"scaled would be traced: {answer.reason}\n{answer.advice}"
    assert explain_cache_miss(F, minijax.ShapeDtypeStruct((3,), "float32"), 2.0)
    with pytest.raises(TypeError, match="a function made by jit or pmap"):
        explain_cache_miss(scaled, 1.0, 2.0)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        explain_cache_miss(F, "text", 2.0)
    with pytest.raises(ValueError, match="Non-hashable static"):
        explain_cache_miss(jit(scaled, static_argnums=1), X, [1])


def shown(session, *lines):
    for each in lines:
        outcome = session.run_line(each)
    return plain(outcome.shown, 100)


@pytest.fixture
def session():
    made = Session(find, {})
    for each in (
        "import minijax.numpy as jnp",
        "from minijax import *",
        "def f(params, n): return params['w'][0] * n",
        "g = jit(f)",
        "p = {'w': [jnp.ones(3)]}",
    ):
        assert made.run_line(each).error is None
    return made


def test_why_shows_reason_cost_and_advice(session):
    text = shown(session, "g(p, 2.0)", "%why")
    assert "f was traced" in text and "first call" in text
    assert re.search(r"cost +trace [\d.]+ .s · lower [\d.]+ .s · compile [\d.]+ .s", text)
    text = shown(session, "g({'w': [jnp.ones(4)]}, 2.0)", "%why")
    assert "why      params['w'][0]: f32[3] became f32[4]" in text
    assert "advice   Pad params['w'][0] to one shape" in text
    text = shown(session, "(g(p, 2.0), g(p, 3.0))", "%why")
    assert text.split() == ["cached", "hit", "f", "×2"]
    text = shown(session, "g.trace(p, 2)", "%why")
    assert "nearest of 2 earlier signatures" in text and "n: f32[] (weak_type) became i32[] (weak_type)" in text
    assert "compile" not in text.split("advice")[0]


def test_why_shows_repeated_misses_once(session):
    text = shown(session, "for i in range(6): jit(lambda x: x + i).trace(1.0)", "%why")
    assert "<lambda> was traced\n" in text and "<lambda> was traced ×5\n" in text and "number 6 made there" in text
    text = shown(session, "h = jit(lambda x: x)", "for i in range(2, 6): h.trace(jnp.ones(i))", "%why")
    assert "<lambda> was traced ×3" in text
    assert all(f"x: f32[{i}] became f32[{i + 1}]" in text for i in range(2, 5))


def recompiled(number):
    """A recording with this many cache misses, each with its own combination of shape, dtype and function."""
    reasons = [(f"f{i % 7}", f"x: f32[{i}] became {'f32' if i % 3 else 'i32'}[{i + 1}]") for i in range(number)]
    misses = [CacheRecord(i, "staging", name, False, reason, "Pad x.") for i, (name, reason) in enumerate(reasons)]
    return Recording("summary", caches=tuple(misses))


def test_why_shows_every_miss_up_to_a_bound():
    for number, everything in ((100, False), (250, True)):
        text = plain(why_document(recompiled(number), everything), 100)
        assert all(f"x: f32[{i}] became" in text for i in range(number)) and " more " not in text
    text = plain(why_document(recompiled(250)), 100)
    assert text.count(" became ") == 100 and "150 more of 250 misses before these (%why --all shows them all)" in text
    many = Recording("summary", caches=recompiled(3).caches, cut=(("cache misses", 7), ("cache hits", 9)))
    text = plain(why_document(many), 100)
    assert "and 7 more misses, which were counted and not kept" in text and "and 9 hits of other functions" in text


def test_why_shows_misses_from_before_the_session(session):
    fresh = Session(find, session.namespace)
    assert "no cache of minijax missed in it. %why f(3.0) predicts" in shown(fresh, "%why")
    fresh.namespace["g"](session.namespace["p"], 2.0)  # this call is made before the session runs its first line
    text = shown(fresh, "%why")
    assert "nothing has been recorded yet" in text and "f was traced" in text and "why      first call" in text
    assert f"at       {__file__}:" in text and re.search(r"cost +trace .* lower .* compile", text)
    g = fresh.namespace["g"]
    assert [(each.name, str(each.reason)) for each in explain_misses(g)][-1] == ("f", "first call")
    F(np.ones(11, np.float32), 2.0)  # the engine keeps the latest misses, also of functions called outside sessions
    assert explain_misses(scaled)[-1].subject == f"scaled at {__file__}:{scaled.__code__.co_firstlineno}"
    text = shown(fresh, "1 + 1", "%why --history")
    assert "f was traced" in text
    text = shown(fresh, "%why --history --all")
    made, kept = miss_log.total(), len(miss_log.since(0))
    assert ("earlier misses were counted" in text) == (made > kept)
    entries = miss_log.since(0)[-3:]
    text = plain(kept_document(entries, 10), 100)
    assert "7 earlier misses were counted: the engine keeps the latest 1,000" in text


def test_why_takes_arrays_of_real_jax():
    session = batch.new_session({})
    shown(session, "import jax.numpy as rnp", "g = jit(lambda x: x * 2)", "g(rnp.ones(3))")
    assert "nothing would be traced" in shown(session, "%why g(rnp.ones(3))")
    assert "x: f32[3] became f32[4]" in shown(session, "%why g(rnp.ones(4))")


def test_why_explains_a_trace_of_real_jax(caplog):
    session = batch.new_session({})
    shown(session, "import jax, jax.numpy as rnp", "f = jax.jit(lambda x, n=1: rnp.sin(x) * n, static_argnums=1)")
    for line, expected in (
        ("f(1.0)", "<lambda> was traced (jax) why JAX had not seen this function before at <minijax-3>:1"),
        ("f(1.0)", "used no cache of minijax, and real JAX traced nothing in it (JAX does not report hits)"),
        ("f(rnp.ones(3)); f(rnp.ones(4))", "became f32[4] at <minijax-7>:1 (<module>) advice Pad x to one"),
        (
            "h = jax.jit(pow, static_argnums=1); h(1.0, 2); h(rnp.ones(4), 3)",
            "exp: static 2 became 3 JAX did not compare the types",
        ),
        (
            "h = jax.jit(lambda x, mode: x, static_argnames='mode'); h(1.0, mode='a'); h(1.0, mode='b')",
            "mode: static 'a' became 'b' JAX did not compare the types",
        ),
        (
            "h(1.0, mode='c')",
            "advice Each value of a static argument is compiled separately: call with few values of mode",
        ),
        ("jit(lambda x: x)(1.0), f(rnp.ones(5))", "why first call"),
        ("for i in range(2): jax.jit(lambda p: p)(1.0)", "advice Define the function once"),
    ):
        text = " ".join(shown(session, line, "%why").split())
        assert expected in text, text
    assert "x: f32[3] became f32[5]" in shown(session, "%why --history")
    text = shown(session, "%why f(2.0)")
    assert "whether JAX would trace this call of f" in text and "f32[3] became f32[4]" in text
    session.run_line("g = jax.jit(lambda x: x)")
    assert "JAX has not traced g while it was watched" in shown(session, "%why g(2.0)")
    # %why does not count traces by commands, and leaves JAX's own log switched off
    assert "JAX" not in shown(session, "%log jit(jnp.cos)(1.0)", "%why") and not caplog.records
    jax = session.namespace["jax"]
    with jax.explain_cache_misses(True):
        shown(session, "g(1.0)")
    assert "TRACING CACHE MISS" in caplog.text and not jax.config.jax_explain_cache_misses
    del session.namespace["f"], session.namespace["g"], session.namespace["jax"], session.namespace["rnp"]
    assert "JAX" not in shown(session, "1 + 1", "%why")


def test_why_predicts_a_call_without_making_it(session):
    assert "f would be traced" in shown(session, "%why g(p, 2.0)")
    shown(session, "g(p, 2.0)")
    assert shown(session, "%why g(p, 2.0)").split() == "cached hit f: nothing would be traced".split()
    text = shown(session, "%why g({'w': [f32[9]]}, 2.0)")
    assert "why      params['w'][0]: f32[3] became f32[9]" in text and "advice" in text
    assert "nothing has been recorded yet" in plain(Session(find, {}).run_line("%why").shown)


def test_why_names_no_jaxpr_of_another_function():
    jaxprs = (JaxprRecord(1, "linear", "g at m.py:3", 1), JaxprRecord(2, "staged", "f at m.py:1", 1))
    recording = Recording("summary", jaxprs=jaxprs, phases=(PhaseRecord(3, "compile", "f", 0.1, 0.1),))
    text = plain(why_document(recording), 80)
    assert "compiled for the first time: f staged" in text and "linear" not in text and "compile 100 ms" in text
