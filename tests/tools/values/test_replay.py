"""A replay runs a program again to get its variables' values. Here they are compared with JAX's."""

import jax
import numpy as np
import pytest

import minijax
from minijax import lax
from minijax import numpy as jnp
from minijax.core import miss_log
from minijax.core.keys import is_key
from minijax.interop import from_jax
from minijax.tools.recording.recorder import Recorder
from minijax.tools.values.examples import Unknown
from minijax.tools.values.replay import replay
from tests.tools.values.programs import PROGRAMS, Replayed


def _numbers(x):
    if hasattr(x, "dtype") and is_key(x.dtype):
        x = minijax.random.key_data(x)
    return np.asarray(x)


def _agree(where, found, expected):
    assert not isinstance(found, Unknown), f"{where}: {found}"
    np.testing.assert_allclose(_numbers(found), expected, rtol=2e-5, atol=1e-5, err_msg=where)


def _ones(closed):
    """A cotangent of ones for each inexact output; None for the others."""
    inexact = [np.issubdtype(np.dtype(a.dtype), np.inexact) if not is_key(a.dtype) else False for a in closed.out_avals]
    return [np.ones(a.shape, a.dtype) if f else None for a, f in zip(closed.out_avals, inexact, strict=True)]


def _tangents(args):
    return [x * x - np.float32(0.25) if np.asarray(x).dtype.kind in "fc" else None for x in args]


IMPORTED = ("while", "cond in scan", "custom_vjp")


@pytest.mark.parametrize(
    ("name", "imported"), [*[(name, False) for name in PROGRAMS], *[(name, True) for name in IMPORTED]]
)
def test_results_tangents_and_cotangents_match_jax(name, imported):
    """This checks only arguments and results; ``test_moment.py`` checks the variables inside."""
    program = PROGRAMS[name]
    args, of_jax = program.args, program.build(jax)
    closed = minijax.make_jaxpr(from_jax(of_jax) if imported else program.build(minijax))(*args)
    cts = _ones(closed) if program.reverse else None
    frame = replay(closed, args, _tangents(args), cts, rules=True)
    for v, expected in zip(frame.jaxpr.outvars, jax.tree.leaves(of_jax(*args)), strict=True):
        _agree("value", frame.value(v), expected)
    places = [i for i, x in enumerate(args) if x.dtype.kind == "f"]
    inexact = [v for v in frame.jaxpr.outvars if np.issubdtype(v.aval.dtype, np.inexact)]

    def of_floats(*floats):
        given = [*args]
        for i, x in zip(places, floats, strict=True):
            given[i] = x
        return [out for out in jax.tree.leaves(of_jax(*given)) if jax.numpy.issubdtype(out.dtype, np.inexact)]

    floats = [args[i] for i in places]
    if not name.startswith("custom_vjp"):  # custom_vjp functions have no forward mode
        _, tangents = jax.jvp(of_floats, floats, [t for t in _tangents(args) if t is not None])
        for v, expected in zip(inexact, tangents, strict=True):
            _agree("tangent", frame.tangent(v), expected)
    if program.reverse:
        outs, pull = jax.vjp(of_floats, *floats)
        for i, expected in zip(places, pull([np.ones_like(out) for out in outs]), strict=True):
            _agree("cotangent", frame.cotangent(frame.jaxpr.invars[i]), expected)


def looked_at(frame):
    """(path, value, tangent, cotangent) of each variable, in the order of computation."""
    for v in frame.jaxpr.invars:
        yield str(frame.path), frame.value(v), frame.tangent(v), frame.cotangent(v)
    for eqn in frame.jaxpr.eqns:
        for inner in inner_frames(frame, eqn):
            yield from looked_at(inner)
        for v in eqn.outvars:
            yield f"{frame.path} {eqn.primitive.name}", frame.value(v), frame.tangent(v), frame.cotangent(v)


def inner_frames(frame, eqn):
    name = eqn.primitive.name
    if name == "scan":
        n = frame.count(eqn)
        yield from (frame.inside(eqn, i) for i in (reversed(range(n)) if eqn.params["reverse"] else range(n)))
    elif name == "while":
        for i in range(frame.count(eqn)):
            yield frame.inside(eqn, i, "condition")
            yield frame.inside(eqn, i)
    elif name in ("cond", "jit", "remat2", "custom_jvp_call", "custom_vjp_call"):
        yield frame.inside(eqn)


def _everything(frame):
    return [x for _, *found in looked_at(frame) for x in found]


def _per_example(m):
    def f(x):
        y, n = m.lax.while_loop(lambda s: s[0] < 20.0, lambda s: (s[0] * x, s[1] + 1), (x, 0))
        return m.lax.cond(y > 25.0, lambda v: m.numpy.sin(v) * n, lambda v: v * v + 1, x)

    return f


VMAPPED = {
    "turns and branches": Replayed(_per_example, (np.float32(2),), reverse=False),
    **{name: PROGRAMS[name] for name in ("jit in jit", "scan backwards", "cond in scan", "custom_vjp", "derivative")},
}


def _stacked(x):
    """Six examples of an argument, stacked as two by three."""
    steps = np.arange(6).reshape(2, 3, *[1] * np.ndim(x))
    return np.asarray(x + (steps if np.asarray(x).dtype.kind in "iu" else steps * 0.4), np.asarray(x).dtype)


@pytest.mark.parametrize("name", VMAPPED)
def test_each_example_matches_its_replay_alone(name):
    program = VMAPPED[name]
    closed = minijax.make_jaxpr(program.build(minijax))(*program.args)
    args = list(map(_stacked, program.args))
    cts = _ones(closed) if program.reverse else None
    mapped = [(True, True)] * len(args)
    frame = replay(closed, args, _tangents(args), cts, axes=[(None, 2), ("i", 3)], mapped=mapped, rules=True)
    for at in ((0, 0), (1, 2)):
        own = [x[at] for x in args]
        alone = replay(closed, own, _tangents(own), cts, rules=True)
        for (where, *found), (_, *expected) in zip(looked_at(frame.example(*at)), looked_at(alone), strict=True):
            for a, b in zip(found, expected, strict=True):
                _same_example(where, a, b)


def _same_example(where, a, b):
    if isinstance(a, Unknown):  # a backward pass is unknown if examples take different branches
        assert isinstance(b, Unknown) or "examples take different branches" in a.reason, f"{where}: {a}"
    elif b is None:
        assert a is None or not np.any(a), where
    elif a is None:
        assert not np.any(b), where
    else:
        assert not isinstance(b, Unknown), f"{where}: {b}"
        _agree(where, a, _numbers(b))


def test_a_replay_knows_batch_axes_and_loop_counts_per_example():
    def f(x, y):
        n = lax.while_loop(lambda s: s < x, lambda s: s + 2, jnp.float32(0))
        return n + y, y * 2

    closed = minijax.make_jaxpr(f)(np.float32(0), np.float32(0))
    frame = replay(closed, [np.float32([1, 7]), np.float32(3)], axes=[("batch", 2)], mapped=[(True,), (False,)])
    loop, total, twice = frame.jaxpr.eqns
    assert frame.mapped(total.outvars[0]) == (True,)
    assert frame.mapped(twice.outvars[0]) == (False,)
    assert frame.value(twice.outvars[0]).shape == ()
    assert frame.count(loop) == 4
    np.testing.assert_array_equal(frame.counts(loop), [1, 4])
    first = frame.example(0)
    assert first.count(loop) == 1
    assert first.path == ("batch 0 of 2",)
    with pytest.raises(IndexError, match="1 iterations; there is no iteration 1"):
        first.inside(loop, 1)
    last = frame.inside(loop, 3)
    (carry,) = last.jaxpr.invars[-1:]
    np.testing.assert_array_equal(last.value(carry), [2.0, 6.0])  # the first example has finished, so its carry stays


def test_a_replay_runs_no_user_code():
    calls = []

    @minijax.custom_jvp
    def g(x):
        calls.append("g")
        return x * 2

    @g.defjvp
    def rule(primals, tangents):
        calls.append("rule")
        return g(primals[0]), tangents[0] * 3

    def body(c, a):
        calls.append("body")
        minijax.debug.print("{}", c)
        minijax.debug.callback(lambda v: calls.append("callback"), c)
        return g(c) + a, c

    def f(x):
        calls.append("f")
        noise = minijax.pure_callback(lambda v: calls.append("pure") or v, x, x)
        y, ys = lax.scan(body, x, jnp.arange(3.0))
        chosen = lambda noise, x: lax.cond(noise > 0, jnp.sin, jnp.cos, x)  # noqa: E731
        loop = lax.scan(lambda c, a: ((c[0] + a, chosen(c[1] * noise, a)), c[1]), (x, x), ys)
        turns = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + c[2], c[2] * noise), (0, x, x))
        ends = lax.while_loop(lambda c: c < noise, lambda c: c + 1, x)
        return y, ys, noise + 1, loop, turns, ends, chosen(noise, x)

    closed = minijax.make_jaxpr(f)(1.0)
    calls.clear()
    frame = replay(closed, [1.0], [1.0], [1.0, *[None] * 10])
    found = [frame.value(v) for v in frame.jaxpr.outvars]
    assert float(found[0]) == 12.0
    np.testing.assert_array_equal(found[1], [1, 2, 5])
    assert isinstance(found[2], Unknown)
    assert "callback" in found[2].reason
    # those results of a loop that do not depend on the callback are known
    assert float(found[3]) == 9.0 and int(found[6]) == 3
    assert all(isinstance(found[i], Unknown) for i in (4, 5, 7, 8, 9, 10))
    tangent = frame.tangent(frame.jaxpr.outvars[0])
    assert isinstance(tangent, Unknown)
    assert "rule" in tangent.reason
    loop = next(e for e in frame.jaxpr.eqns if e.primitive.name == "scan")
    assert len(list(looked_at(frame.inside(loop, 1)))) > 3
    assert not calls
    with_rules = replay(closed, [1.0], [1.0], rules=True)
    assert float(with_rules.tangent(with_rules.jaxpr.outvars[0])) == 27.0
    assert calls == ["rule", "g"]


def test_the_function_of_a_custom_vjp_has_no_cotangents_inside():
    closed = minijax.make_jaxpr(PROGRAMS["custom_vjp"].build(minijax))(0.5, 2.0)
    frame = replay(closed, [0.5, 2.0], None, [1.0], rules=True)
    call = next(e for e in frame.jaxpr.eqns if e.primitive.name == "custom_vjp_call")
    inner = frame.inside(call)
    assert "backward pass takes its place" in inner.cotangent(inner.jaxpr.invars[0]).reason
    refused = replay(closed, [0.5, 2.0], None, [1.0])
    assert "staging it runs the user's Python" in refused.cotangent(refused.jaxpr.invars[0]).reason


def test_missing_values_have_a_reason():
    closed = minijax.make_jaxpr(lambda x, y: (x + y, jnp.sin(y)))(1.0, 1.0)
    inside = []

    def looking(x):
        frame = replay(closed, [x, 2.0])
        inside.extend(frame.value(v) for v in frame.jaxpr.outvars)
        return x * 2

    with minijax.debug_nans(True), minijax.checking_leaks():
        minijax.vmap(minijax.grad(looking))(jnp.arange(3.0))
        staged = minijax.make_jaxpr(looking)(1.0)
    assert len(staged.eqns) == 1
    wrong = replay(closed, [np.zeros(3, np.float32), 1.0], [1.0, None])
    assert wrong.value(wrong.jaxpr.outvars[0]).reason == "the argument is f32[3], but the program takes f32[]"
    assert float(wrong.value(wrong.jaxpr.outvars[1])) == pytest.approx(np.sin(1.0))
    assert wrong.tangent(wrong.jaxpr.outvars[1]) is None
    for total, sine in (inside[:2], inside[2:]):
        assert "still active" in total.reason
        assert float(sine) == pytest.approx(np.sin(2.0))


def test_dropped_values_are_recomputed():
    def f(x):
        for _ in range(20):
            x = jnp.sin(x) + 1
        return jnp.sum(x)

    closed = minijax.make_jaxpr(f)(np.zeros(1000, np.float32))
    small = replay(closed, [np.ones(1000, np.float32)], None, [1.0], most_bytes=20_000)
    whole = replay(closed, [np.ones(1000, np.float32)], None, [1.0])
    for a, b in zip(_everything(small), _everything(whole), strict=True):
        assert (a is None and b is None) or np.array_equal(a, b)
    assert small.root.keeper.bytes <= 20_000
    assert small.root.keeper.dropped > 0


def test_a_replay_copies_refs():
    def f(x):
        r = minijax.new_ref(x)
        a = r[0]
        r[1] = a * 3

        @minijax.jit
        def write(y):
            r[2] = y * r[1]
            return r[2] + 1

        def body(c, i):
            own = minijax.new_ref(c)
            own[...] = own[...] * 2
            r[0] += c
            return own[...] + i, r[0]

        b = write(a + 1)
        c, ys = lax.scan(body, a, jnp.arange(3.0))
        return r[...], b, c, ys, a * b

    x = np.float32([1, 2, 3])
    closed = minijax.make_jaxpr(f)(x)
    cts = _ones(closed)
    frame = replay(closed, [x], [x + 1], cts)
    outs, tangents = minijax.jvp(f, (x,), (x + 1,))
    for v, out, tangent in zip(frame.jaxpr.outvars, outs, tangents, strict=True):
        _agree("result", frame.value(v), np.asarray(out))
        _agree("tangent", frame.tangent(v), np.asarray(tangent))
    (given,) = minijax.vjp(f, x)[1](tuple(map(jnp.asarray, cts)))
    _agree("cotangent", frame.cotangent(frame.jaxpr.invars[0]), np.asarray(given))
    made = next(e for e in frame.jaxpr.eqns if e.primitive.name == "new_ref")
    assert "the values read from it are known" in frame.value(made.outvars[0]).reason
    loop = next(e for e in frame.jaxpr.eqns if e.primitive.name == "scan")
    assert "as a whole" in frame.inside(loop, 1).reason


def test_an_endless_loop_is_abandoned_and_can_be_inspected(monkeypatch):
    monkeypatch.setattr("minijax.tools.values.courses.PATIENCE", 0.0)
    closed = minijax.make_jaxpr(lambda x: lax.while_loop(lambda s: s >= 0, lambda s: (s + 3) % 1000, x))(1)
    frame = replay(closed, [1], [None])
    (loop,) = frame.jaxpr.eqns
    assert frame.count(loop) == Unknown("the loop has not ended after 4,096 iterations")
    assert "not ended" in frame.value(loop.outvars[0]).reason
    inner = frame.inside(loop, 4000)
    assert int(inner.value(inner.jaxpr.invars[0])) == (1 + 3 * 4000) % 1000
    with pytest.raises(IndexError, match="there is no iteration 4096"):
        frame.inside(loop, 4096)


def test_a_replay_notifies_no_observer_and_changes_no_cache():
    f, args = minijax.jit(PROGRAMS["scan"].build(minijax)), PROGRAMS["scan"].args
    f(*args)
    closed = minijax.make_jaxpr(f)(*args)
    called = closed.eqns[0].params["jaxpr"]
    loop = next(e for e in called.eqns if e.primitive.name == "scan")
    programs = (closed, called, loop.params["jaxpr"])
    before = [set(p.memo) for p in programs], f._cache_size(), miss_log.total()
    with Recorder("full") as recorder:
        frame = replay(closed, args, _tangents(args), _ones(closed))
        assert len(_everything(frame)) > 50
    assert not recorder.recording.events
    assert ([set(p.memo) for p in programs], f._cache_size(), miss_log.total()) == before


@pytest.mark.parametrize("imported", [False, True])
def test_library_rules_are_staged_and_user_rules_are_not(imported):
    def f(x):
        return minijax.nn.relu(minijax.nn.softplus(x))

    fun = from_jax(lambda x: jax.nn.relu(jax.nn.softplus(x))) if imported else f
    closed = minijax.make_jaxpr(fun)(0.5)
    frame = replay(closed, [0.5], [1.0], [1.0])
    expected = pytest.approx(1 / (1 + np.exp(-0.5)), rel=1e-5)
    assert float(frame.tangent(frame.jaxpr.outvars[0])) == expected
    assert float(frame.cotangent(frame.jaxpr.invars[0])) == expected
    calls = []
    m = jax if imported else minijax

    @m.custom_jvp
    def g(x):
        return x * 2

    g.defjvps(lambda t, ans, x: calls.append(1) or t * 3)
    closed = minijax.make_jaxpr(from_jax(lambda x: g(x)) if imported else lambda x: g(x))(0.5)
    frame = replay(closed, [0.5], [1.0])
    assert "staging it runs the user's Python" in frame.tangent(frame.jaxpr.outvars[0]).reason
    assert not calls


def test_each_device_of_a_pmap_can_be_inspected():
    mapped = minijax.pmap(lambda a, b: a * 2 / lax.psum(a, "i") + b, axis_name="i", in_axes=(0, None))
    xs = np.float32([1.0])
    closed = minijax.make_jaxpr(mapped)(xs, 3.0)
    frame = replay(closed, [xs, 3.0], [xs, 0.0])
    (call,) = frame.jaxpr.eqns
    np.testing.assert_allclose(frame.value(call.outvars[0]), [5.0])
    np.testing.assert_allclose(frame.tangent(call.outvars[0]), [0.0])
    program = frame.inside(call)
    (mapped,) = program.jaxpr.eqns
    device = program.inside(mapped, 0)
    assert device.path == ("jit _fun", "shard_map", "i 0 of 1")
    assert device.value(device.jaxpr.invars[0]).tolist() == [1.0]
    with pytest.raises(IndexError, match="no device 1"):
        program.inside(mapped, 1)
