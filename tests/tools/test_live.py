"""Levels opened by %push and closed by %pop give the results of transformed functions, in any order."""

import gc
import threading
import weakref

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax.config import use_direct_linearize
from minijax.core.trace import Tracer, stack_depth, state
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.typecheck import typecheck_jaxpr
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.usage import UsageError


@pytest.fixture
def session():
    session = batch.new_session({})
    yield session
    session.live.drop_all()
    assert stack_depth() == 0 and state.axis_env == ()


def run(session, *lines):
    """Run lines, none of which may fail; return the outcome of the last."""
    for each in lines:
        outcome = session.run_line(each)
        assert outcome.error is None, f"{each}\n{plain(outcome.shown)}"
    return outcome


def text(outcome, width=80):
    return plain(outcome.shown, width) + "\n" + plain(outcome.summary, width)


def same(found, expected):
    found, expected = (minijax.tree_util.tree_flatten(each) for each in (found, expected))
    assert found[1] == expected[1]
    for a, b in zip(map(jnp.asarray, found[0]), map(jnp.asarray, expected[0]), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def f(x):
    return jnp.sin(x) * x + 2.0


LINES = ("y = sin(x) * x", "y + 2.0")


def closed(session, push, *lines):
    return run(session, push, *(lines or LINES), "%pop").value


def test_jvp_carries_tangents(session):
    same(closed(session, "%push jvp x=3. dx=2."), minijax.jvp(f, (3.0,), (2.0,)))
    same(closed(session, "%push jvp x=3."), minijax.jvp(f, (3.0,), (1.0,)))
    same(
        closed(session, "%push jvp x=[1., 2.] dx=[0., 1.]"), minijax.jvp(f, (jnp.array([1.0, 2.0]),), (jnp.eye(2)[1],))
    )
    two = minijax.jvp(lambda x, y: {"a": x * y, "b": x}, (3.0, 4.0), (1.0, 0.5))
    same(closed(session, "%push jvp dy=0.5 x=3. y=4.", "{'a': x * y, 'b': x}"), two)
    # one number as the tangent of a whole array; a pytree as a primal; an integer as a primal
    same(closed(session, "%push jvp x=jnp.ones(3) dx=2.")[1], 2.0 * (jnp.cos(1.0) + jnp.sin(1.0)) * jnp.ones(3))
    value, tangent = closed(session, "%push jvp p=(1., {'w': jnp.ones(2)}) n=3", "p[0] * p[1]['w'] * n")
    same((value, tangent), (3.0 * jnp.ones(2), 6.0 * jnp.ones(2)))


def test_vmap_maps_axes(session):
    rows = jnp.arange(6.0).reshape(2, 3)
    session.namespace["rows"] = rows
    same(closed(session, "%push vmap x=[1., 2., 3.]"), minijax.vmap(f)(jnp.array([1.0, 2.0, 3.0])))
    same(closed(session, "%push vmap r=rows", "r.sum()"), rows.sum(1))
    same(closed(session, "%push vmap r=rows --axis 1", "r.sum()"), rows.sum(0))
    same(closed(session, "%push vmap r=rows --axis -1", "r"), rows.T)
    dot = minijax.vmap(jnp.dot, in_axes=(0, None))(rows, rows[0])
    same(closed(session, "%push vmap r=rows w=rows[0] --axis 0,None", "jnp.dot(r, w)"), dot)
    same(closed(session, "%push vmap r=rows w=rows[0] --axis w=None", "jnp.dot(r, w)"), dot)
    # a result that does not depend on a mapped name is broadcast
    same(closed(session, "%push vmap r=rows", "jnp.float32(1.0)"), jnp.ones(2))


def test_a_named_axis_lasts_from_line_to_line(session):
    run(session, "%push vmap x=[1., 2., 3.] --name rows", "total = lax.psum(x, 'rows')", "1/1")
    assert isinstance(session.run_line("lax.psum(x, 'nowhere')").error, NameError)
    assert "axis 'rows'" in text(run(session, "%stack"))
    same(run(session, "%pop x / total").value, jnp.array([1.0, 2.0, 3.0]) / 6.0)
    assert state.axis_env == ()


def test_jaxpr_records_line_by_line(session):
    outcome = run(session, "%push jaxpr z=f32[3] k=i32[]")
    assert "z is a" in text(outcome) and "0 equations" in text(outcome)
    shown = text(run(session, "w = sin(z) * 2."))
    assert "JitTracer<jaxpr:1>(d:f32[3])" in shown
    assert "2 equations, 2 new" in shown and "# w, new" in shown
    shown = text(run(session, "v = w + k"))
    assert "4 equations, 2 new" in shown and shown.count("new\n") == 2
    shown = text(run(session, "3 + 4"))
    assert "jaxpr" not in shown  # arithmetic of Python numbers adds no equations
    assert "z is a tracer, and only arrays are on devices" in str(session.run_line("%shards z").error)
    value = run(session, "%pop (v, w)").value
    assert isinstance(value, ClosedJaxpr)
    expected = minijax.make_jaxpr(lambda z, k: (jnp.sin(z) * 2.0 + k, jnp.sin(z) * 2.0))
    like = (minijax.ShapeDtypeStruct((3,), np.float32), minijax.ShapeDtypeStruct((), np.int32))
    once = "{ lambda ; a:f32[3] b:i32[]. let\n    c:f32[3] = sin a\n    d:f32[3] = mul c 2.0:f32[]\n"
    assert str(value).startswith(once) and [v.aval for v in value.jaxpr.outvars] == expected(*like).out_avals
    typecheck_jaxpr(value.jaxpr)


def test_everything_is_recorded_at_a_recording_level(session):
    run(
        session,
        "made = jnp.ones(3) * 2.; compiled = jit(sin)(2.)",
        "%push jaxpr z=f32[3]",
        "c = jnp.ones(3)",
        "d = c * 2.",
    )
    assert isinstance(session.namespace["d"], Tracer)
    # equations are not added when existing arrays are shown
    before = len(session.levels[0].program().jaxpr.eqns)
    run(session, "made", "compiled", "repr(made), str(made), f'{compiled:.2f}', float(compiled), made.tolist()")
    run(session, "%stack", "%tracers", "%tracers --all", "%help push", "%history")
    assert len(session.levels[0].program().jaxpr.eqns) == before
    assert len(run(session, "%pop d + z").value.eqns) == before + 1


@pytest.mark.parametrize("kind", ["linearize", "vjp", "grad", "value_and_grad"])
def test_reverse_mode_levels_match_their_functions(session, kind):
    found = closed(session, f"%push {kind} x=3.")
    if kind == "linearize":
        value, linear = minijax.linearize(f, 3.0)
        same((found[0], found[1](2.0)), (value, linear(2.0)))
        assert [e.primitive for e in found[1].jaxpr.eqns] == [e.primitive for e in linear.jaxpr.eqns]
    elif kind == "vjp":
        value, pullback = minijax.vjp(f, 3.0)
        same((found[0], found[1](2.0)), (value, pullback(2.0)))
    else:
        same(found, getattr(minijax, kind)(f)(3.0))


def test_grad_in_tutorial_mode_pushes_two_levels(session):
    with use_direct_linearize(False):
        run(session, "%push grad x=3.")
        shown = text(run(session, "y = sin(x)"))
        assert "grad:2 so far · 1 equation, 1 new · tangent of x is a" in shown and "# tangent of y, new" in shown
        assert "unknown a" in text(run(session, "%tracers")) and "partial_eval:1  " in text(run(session, "%stack"))
    # the level closes in the mode in which it was opened, although the mode has changed
    assert float(run(session, "%pop y").value) == pytest.approx(np.cos(3.0))


STAGED = {
    "jit": lambda x: minijax.jit(f)(x),
    "checkpoint": lambda x: minijax.checkpoint(f)(x),
    "jacfwd": lambda x: minijax.jacfwd(f)(x),
    "jacrev": lambda x: minijax.jacrev(f)(x),
    "hessian": lambda x: minijax.hessian(f)(x),
}


@pytest.mark.parametrize("kind", STAGED)
def test_staged_levels_match_their_functions(session, kind):
    same(closed(session, f"%push {kind} x=[3., 1.]"), STAGED[kind](jnp.array([3.0, 1.0])))


# transformation -> (arguments of %push; expression for the next %pop, where _ is the result of this level;
# a function that applies this transformation to a function)
NEST = {
    "jvp": ("{inner}={outer} d{inner}=one", "_[1]", lambda g: lambda x: minijax.jvp(g, (x,), (jnp.float32(1.0),))[1]),
    "vmap": (
        "{inner}=jnp.stack([{outer}, {outer} * 0.5])",
        "_.sum()",
        lambda g: lambda x: minijax.vmap(g)(jnp.stack([x, x * 0.5])).sum(),
    ),
    "jaxpr": ("{inner}={outer}", "evaluated(_, {outer})", lambda g: lambda x: evaluated(minijax.make_jaxpr(g)(x), x)),
    "grad": ("{inner}={outer}", "_", minijax.grad),
    "linearize": ("{inner}={outer}", "_[1](one)", lambda g: lambda x: minijax.linearize(g, x)[1](jnp.float32(1.0))),
    "vjp": ("{inner}={outer}", "_[1](one)[0]", lambda g: lambda x: minijax.vjp(g, x)[1](jnp.float32(1.0))[0]),
    "jit": ("{inner}={outer}", "_", minijax.jit),
    "checkpoint": ("{inner}={outer}", "_", minijax.checkpoint),
}


def evaluated(closed, x):
    return eval_closed(closed, x)[0]


def nested(session, kinds):
    """Push each of ``kinds`` on the previous level's variable; pop them all; compare with nested functions."""
    run(session, "x0 = jnp.float32(0.7); one = jnp.float32(1.0)")
    session.namespace["evaluated"] = evaluated
    for i, kind in enumerate(kinds):
        run(session, f"%push {kind} " + NEST[kind][0].format(inner=f"x{i + 1}", outer=f"x{i}"))
        assert len(session.levels) == i + 1 and session.prompt_label().startswith(kind + ":")
    n = len(kinds)
    run(session, f"y = sin(x{n}) * x{n}")
    take = "y * x0"
    for i in range(n, 0, -1):
        run(session, f"%pop {take}")
        take = NEST[kinds[i - 1]][1].format(outer=f"x{i - 1}")
    found = run(session, take).value

    def function(x):
        return jnp.sin(x) * x * jnp.float32(0.7)

    for kind in reversed(kinds):
        function = NEST[kind][2](function)
    np.testing.assert_allclose(found, function(jnp.float32(0.7)), rtol=1e-5, err_msg=str(kinds))
    assert found.aval == function(jnp.float32(0.7)).aval
    assert stack_depth() == 0 and not session.levels


@pytest.mark.parametrize(
    "kinds",
    [
        ("jvp", "jvp", "jvp", "jvp"),
        ("jit", "grad", "vmap"),
        ("linearize", "vmap", "jvp"),
        ("vmap", "grad", "jaxpr"),
        ("jvp", "linearize", "grad"),
        ("grad", "checkpoint", "jit"),
        ("vmap", "jaxpr", "vjp", "vmap", "linearize", "jvp"),
        ("jaxpr", "jaxpr", "grad", "vmap", "jaxpr"),
    ],
)
def test_levels_nest_in_any_order(session, kinds):
    nested(session, kinds)


def test_pop_restores_shadowed_names_and_replaces_tracers_by_values(session):
    run(session, "x = 'mine'; keep = [1]; both = keep", "%push jvp x=3. new=1.")
    run(session, "y = x * 2.", "t = (y, {'k': y}, 5)", "keep.append(y)", "y")
    shown = text(run(session, "%pop y"))
    names = session.namespace
    assert names["x"] == "mine" and float(names["y"]) == 6.0 and float(names["new"]) == 1.0
    assert float(names["t"][0]) == float(names["t"][1]["k"]) == 6.0 and names["t"][2] == 5
    assert names["both"] is names["keep"] and float(names["keep"][1]) == 6.0
    assert float(session.outputs[6]) == 6.0  # the value that was shown as out[6]
    assert "new, y  now the primal" in shown
    assert "x  what it was before %push" in shown and "now with the primal inside" in shown
    assert not isinstance(names["__"], Tracer)


def test_closing_a_jaxpr_level_removes_its_variables(session):
    run(session, "box = []", "%push jaxpr z=f32[3]", "w = z * 2.; box.append(w)")
    shown = text(run(session, "%pop w"))
    assert "w, z  gone: worth nothing outside jaxpr:1" in shown or "z, w  gone" in shown
    assert "w" not in session.namespace and "z" not in session.namespace
    # the tracer in the list stays, dead, and its use raises a clear error
    error = session.run_line("box[0] + 1.").error
    assert isinstance(error, minijax.errors.UnexpectedTracerError) and "%push jaxpr z" in str(error)


def test_bare_pop_returns_the_last_assigned_or_shown_value(session):
    assert "nothing has been assigned" in text(session_after(session, "%push jvp x=3.", "%pop"))
    run(session, "y = x * 2.", "x * 5.")
    assert float(run(session, "%pop").value[0]) == 15.0
    run(session, "%push jvp x=3.", "x * 5.", "y, w = x * 2., x * 4.")
    assert float(run(session, "%pop").value[0]) == 12.0
    run(session, "%push jvp x=3.", "y = 1.", "y += x;")
    assert float(run(session, "%pop").value[0]) == 4.0
    # %pop without arguments returns the vmap level's result: the jaxpr level's later result has no arrays
    run(session, "%push jvp x=3.", "%push vmap v=[1., 2.]", "w = v * x", "%pop", "%push jaxpr z=x", "%pop z")
    same(run(session, "%pop").value, (jnp.array([3.0, 6.0]), jnp.array([1.0, 2.0])))
    run(session, "%push jvp x=3.", "y = x * 7.", "%push jvp z=x", "%pop --drop")
    assert float(run(session, "%pop").value[0]) == 21.0


def session_after(session, *lines):
    for each in lines:
        outcome = session.run_line(each)
    return outcome


def test_closed_levels_are_freed(session):
    run(session, "%push grad x=3.", "y = sin(x)", "%push jaxpr z=f32[3]", "w = z * y")
    mains = [weakref.ref(main) for level in session.levels for main in level.mains]
    run(session, "%pop w", "%pop y", "del _, __, ___; Out.clear()")
    gc.collect()
    assert [each() for each in mains] == [None, None]


STACK = (
    "%push jvp x=3.",
    "y = sin(x)",
    "%push vmap v=[1., 2.] --name i",
    "u = v * y",
    "%push jaxpr z=f32[]",
    "w = z * u",
)
BAD_LINES = (
    "1 / 0",
    "float(z)",
    "jit(lambda a: a.oops)(v)",
    "raise KeyboardInterrupt",
    "make_jaxpr(lambda a: (_ for _ in ()).throw(KeyboardInterrupt))(1.)",
    "%jaxpr [][0]",
    "%push jvp q=[][0]",
    "%pop undefined",
    "lax.psum(v, 'j')",
)


@pytest.mark.parametrize("line", BAD_LINES)
def test_levels_survive_errors(session, line):
    run(session, *STACK)
    depth, mains, names = stack_depth(), list(state.stack), dict(session.namespace)
    assert session.run_line(line).error is not None
    assert state.stack == mains and stack_depth() == depth == 3 and all(main.alive for main in mains)
    assert state.dynamic is mains[3].trace and state.source is None and dict(state.axis_env) == {"i": 2}
    assert all(session.namespace[name] is names[name] for name in "xyvuzw")
    # all three levels still work
    program = run(session, "%pop w").value
    assert "mul" in str(program)
    pair = run(session, "%pop u", "%pop _").value
    np.testing.assert_allclose(pair[1], np.cos(3.0) * np.array([1.0, 2.0]), rtol=1e-6)


def test_a_transformation_that_fails_after_closing_reopens_the_level(session):
    run(session, "%push jvp a=2.", "%push pmap x=jnp.ones((4096, 2))", "y = x * a")
    mains = list(state.stack)
    assert "device" in text(session.run_line("%pop y")).lower()
    assert state.stack == mains and all(main.alive for main in mains) and state.dynamic is mains[2].trace
    run(session, "w = y + 1.")
    assert len(session.levels[-1].program().jaxpr.eqns) >= 2
    run(session, "%pop --all")


def test_commands_work_under_levels(session):
    run(session, "def f(x): return sin(x) * x", "%push jvp x=3.", "%push jaxpr z=f32[]")
    program = text(run(session, "%jaxpr f(z)"))
    assert "sin a" in program and "mul" in program
    assert not session.levels[-1].program().jaxpr.eqns  # %jaxpr records on its own temporary level
    run(session, "%grad f(z)", "%jvp f(x)", "%log f(x)", "%vmap f(jnp.ones(2))")
    for line in ("%jit f(z)", "%jit f(1.)"):
        error = session.run_line(line).error
        assert isinstance(error, UsageError) and "jaxpr:2 records everything" in str(error)
    run(session, "%pop z", "%jit f(x)")
    same(run(session, "%pop f(x)").value, minijax.jvp(lambda x: jnp.sin(x) * x, (3.0,), (1.0,)))


def test_levels_belong_to_their_thread(session):
    run(session, "%push jvp x=3.")
    seen = []

    def elsewhere():
        seen.append(stack_depth())
        seen.append(session.run_line("1 / 0").error)
        seen.append(session.run_line("%push jvp q=1.").error)
        seen.append(stack_depth())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen[0] == 0 and isinstance(seen[1], ZeroDivisionError) and seen[3] == 0
    assert isinstance(seen[2], UsageError) and "another thread" in str(seen[2])
    assert stack_depth() == 1 and session.prompt_label() == "jvp:1"
    assert float(run(session, "%pop x * 2.").value[1]) == 2.0


def test_tracers_are_shown_level_by_level_with_both_shapes(session):
    run(session, "%push vmap v=jnp.ones((3, 2)) --axis 0", "%push jvp x=v", "y = x * 2.", "x * 3.;", "spare = [x * 4.]")
    shown = text(run(session, "%tracers"))
    assert "jvp:2" in shown and "y  jvp:2 f32[2]" in shown and "primal  vmap:1 f32[2]  logical" in shown
    assert "physical f32[3,2], batch axis 0" in shown and "1 more without a name of yours" in shown
    everything = text(run(session, "%tracers --all"))
    assert "(no name)" in everything and "more without" not in everything
    stack = text(run(session, "%stack"))
    assert "eval ▸ vmap:1 ▸ jvp:2" in stack and "vmap of v f32[3,2] · 3 at once" in stack and "(x, y)" in stack
    run(session, "%push linearize t=1.", "s = t * t")
    assert "s  linearize:3 f32[]  tangent d" in text(run(session, "%tracers"))
    assert "eval ▸ vmap:1 ▸ jvp:2 ▸ linearize:3" in text(run(session, "%stack"))


def test_levels_are_dropped_if_their_interpreters_are_reset(session):
    run(session, "%push jvp x=3.", "from minijax.core.trace import reset_stack", "reset_stack()")
    assert session.run_line("1 / 0").error is not None
    assert not session.levels and session.prompt_label() == ""
