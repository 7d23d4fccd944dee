"""The interpreter stack: threads, exceptions, interrupts, dead tracers."""

import gc
import itertools
import sys
import threading

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
from minijax import errors, lax
from minijax.core.trace import reaching, reset_stack, state
from minijax.interpreters import jvp_rules
from tests.threads import at_once


def clean_here():
    """Whether this thread is outside all transformations."""
    base = state.stack[0].trace
    return (len(state.stack), state.dynamic, state.source, state.axis_env) == (1, base, None, ()) and base.level == 0


def clean():
    """Whether the process is outside all transformations. Other threads must not transform meanwhile."""
    return clean_here() and not reaching


# ---------------------------------------------------------------------------------------------- interrupts


@minijax.custom_jvp
def with_jvp(x):
    return lax.sin(x)


@with_jvp.defjvp
def with_jvp_rule(primals, tangents):
    return with_jvp(*primals), lax.mul(lax.cos(*primals), *tangents)


@minijax.custom_vjp
def with_vjp(x):
    return lax.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), lax.cos(x)), lambda c, ct: (lax.mul(c, ct),))


def fresh(f=lax.sin):
    """A function that is in no cache."""
    return lambda x: f(x)


def looped(x):
    return lax.scan(lambda c, y: (lax.mul(c, y), c), x, THREE)[0]


def repeated(x):
    return lax.while_loop(lambda c: lax.ne(c, c), lax.sin, x)


def shown(x):
    minijax.debug.callback(lambda y: None, x)
    return minijax.pure_callback(lambda y: np.sin(y), minijax.ShapeDtypeStruct((), np.float32), x)


known = minijax.jit(lax.sin)
ONE, THREE = np.float32(1.0), np.ones(3, np.float32)
PROGRAMS = {
    "jit cached": lambda: known(ONE),
    "jvp": lambda: minijax.jvp(fresh(), (ONE,), (ONE,)),
    "scan": lambda: minijax.make_jaxpr(fresh(looped))(ONE),
    "while": lambda: minijax.vmap(fresh(repeated))(THREE),
    "custom_vjp": lambda: minijax.vmap(minijax.grad(fresh(with_vjp)), axis_name="i")(THREE),
    "vmap in a pullback": lambda: minijax.vjp(minijax.vmap(fresh(with_vjp), axis_name="i"), THREE)[1](THREE),
    "checkpoint": lambda: minijax.grad(minijax.checkpoint(fresh()))(ONE),
    "callback": lambda: shown(ONE),
    "nested": lambda: minijax.make_jaxpr(minijax.grad(minijax.jit(fresh())))(ONE),
}


LOCKS = (type(threading.Lock()), type(threading.RLock()))


class Interrupt(KeyboardInterrupt):
    pass


@pytest.fixture(autouse=True)
def _numpys_errors_are_as_they_were():
    """Restore NumPy's error state: an interrupt at the start of ``errstate.__exit__`` leaves it changed."""
    before = np.geterr()
    yield
    np.seterr(**before)


def has_no_signals(frame, event, argument):
    """Whether Python cannot deliver an interrupt at this event.

    Python discards exceptions in finalizers. At the end of ``with lock:``, Python releases the lock, then checks for
    signals: it checks after a C function has returned, not before the call.
    """
    unlocks = event == "c_call" and isinstance(getattr(argument, "__self__", None), LOCKS)
    return unlocks or "weakref" in frame.f_code.co_filename


def interrupted_at(run, number, counts):
    """Interrupt ``run()`` at event ``number`` of the frames with ``counts(frame)``; return whether it was reached."""
    left, here = itertools.count(-number), sys._getframe()
    reached = False

    def profile(frame, event, argument):
        nonlocal reached
        if (counts is not None and not counts(frame)) or next(left) or frame is here:
            return
        reached = True
        if not has_no_signals(frame, event, argument):
            raise Interrupt

    try:
        sys.setprofile(profile)
        run()
    except Interrupt:
        pass
    finally:
        sys.setprofile(None)
    return reached


def all_interrupts(run, counts=None):
    """Interrupt ``run()`` once at every event; return the number of events, and which events left the stack dirty."""
    run()  # do one-time work, such as imports
    dirty = []
    gc.disable()
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None  # ignore errors in abandoned generators
    try:
        for number in itertools.count():
            reached = interrupted_at(run, number, counts)
            if not clean():
                dirty.append(number)
                reset_stack()
            if not reached:
                return number, dirty
    finally:
        sys.unraisablehook = hook
        gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_at_any_call_or_return_leaves_the_stack_clean(name):
    number, dirty = all_interrupts(PROGRAMS[name])
    assert number > (10 if name == "jit cached" else 50) and not dirty
    PROGRAMS[name]()  # and the caches still work


# ------------------------------------------------------------------------------------------------ threads


def in_another_thread(run):
    """The result or exception of ``run()`` on a new thread."""
    results = []

    def work():
        try:
            results.append(run())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[0]


def through_rule(ns, f):
    """A function that calls ``f`` in the rule of a ``custom_jvp`` function."""
    g = ns.custom_jvp(lambda x: x * 2.0)
    g.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0]))
    return lambda x: ns.jvp(g, (x,), (x,))


# kind of tracer -> call ``f`` with such a tracer
TRACERS = {
    "jit": lambda ns, f: ns.jit(f)(1.0),
    "jvp": lambda ns, f: ns.jvp(f, (1.0,), (1.0,)),
    "vmap": lambda ns, f: ns.vmap(f)(np.ones(3, np.float32)),
    "grad": lambda ns, f: ns.grad(f)(1.0),
    "scan": lambda ns, f: ns.lax.scan(lambda c, x: (f(c), None), 1.0, None, length=2),
    "custom rule": lambda ns, f: ns.make_jaxpr(through_rule(ns, f))(1.0),
}
# uses of the tracer in another thread
USES = {
    "eager": lambda ns, x: ns.numpy.sin(x),
    "jit": lambda ns, x: ns.jit(ns.numpy.sin)(x),
    "jit cached": lambda ns, x: [g(x) for g in [ns.jit(lambda y: y + 1.0)] for _ in [g(1.0), g(1.0), g(1.0)]],
    "closed over by jit": lambda ns, x: ns.jit(lambda y: y + x)(1.0),
    "returned": lambda ns, x: ns.jit(lambda y: x)(1.0),
}


@pytest.mark.parametrize("kind", TRACERS)
def test_a_tracer_in_another_thread_raises(kind, monkeypatch):
    monkeypatch.setattr(jvp_rules, "WORTH_DERIVING", 0)

    def outcomes(ns, uses):
        found = {}

        def f(x):
            for use in uses:
                found[use] = in_another_thread(lambda: USES[use](ns, x))  # noqa: B023
            return x * 2.0

        TRACERS[kind](ns, f)
        return found

    # for JAX, test every kind and every use, but not every pair
    for use, error in outcomes(jax, USES if kind == "jvp" else ["eager"]).items():
        assert isinstance(error, jax.errors.UnexpectedTracerError), use
    for use, error in outcomes(minijax, USES).items():
        assert isinstance(error, errors.UnexpectedTracerError), (use, error)
        assert "in another thread" in str(error) and "belongs to the thread that traces" in str(error)


def test_an_unknown_tangent_in_another_thread_raises():
    outcomes = []

    def f(x):
        outcomes.append(in_another_thread(lambda: lax.sin(x.tangent)))
        return x * 2.0

    program = minijax.linearize(f, 1.0)[1].jaxpr
    assert isinstance(outcomes[0], errors.UnexpectedTracerError)
    assert [eqn.primitive.name for eqn in program.eqns] == ["mul"], "no operation of the other thread was recorded"


def test_operations_of_another_thread_are_not_recorded():
    def f(x):
        in_another_thread(lambda: lax.sin(x))
        # another thread may use numbers and arrays, and trace programs of its own
        y = in_another_thread(lambda: minijax.jit(minijax.grad(lax.sin))(0.0) + THREE)
        return x * y

    assert [eqn.primitive.name for eqn in minijax.make_jaxpr(f)(THREE).eqns] == ["mul"]
    np.testing.assert_array_equal(minijax.vmap(f, axis_name="i")(np.ones((2, 3), np.float32)), 2 * np.ones((2, 3)))


def test_threads_share_functions_while_they_trace_them():
    def work(ns):
        inner = ns.jit(lambda x, n: ns.numpy.sin(x) * n, static_argnums=1)
        loop = ns.jit(lambda x: ns.lax.scan(lambda c, y: (inner(c, 2) + y, c), x, ns.numpy.ones(4))[0])
        return (
            inner(0.5, 3),
            ns.grad(loop)(0.25),
            ns.vmap(ns.grad(loop))(ns.numpy.arange(3.0)),
            ns.jvp(loop, (0.5,), (1.0,)),
            str(ns.make_jaxpr(ns.grad(inner), static_argnums=1)(1.0, 5)),
            ns.linearize(loop, 0.5)[1](2.0),
        )

    functions = minijax.jit(lambda x: minijax.vmap(lax.sin)(x) * 2.0), minijax.grad(lambda x: with_vjp(with_jvp(x)))

    def run():
        shared = functions[0](THREE), functions[1](0.5)
        return shared, work(minijax), clean_here()

    results = at_once(*[run] * 4, turn=1e-4)
    expected = work(jax)
    for (sines, slope), values, is_clean in results:
        np.testing.assert_allclose(sines, 2 * np.sin(THREE), rtol=1e-6)
        np.testing.assert_allclose(slope, np.cos(np.sin(0.5)) * np.cos(0.5), rtol=1e-6)
        for ours, theirs in zip(values, expected, strict=True):
            if isinstance(ours, str):
                assert ours == theirs
            else:
                np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert is_clean


# ------------------------------------------------------------------------------------------------ dead tracers


def test_ensure_compile_time_eval_computes_values_while_staging():
    def programs(ns):
        def constants(x):
            with ns.ensure_compile_time_eval():
                table = ns.numpy.arange(3) + 1
                assert int(table.sum()) == 6  # a concrete value, although the function is being staged
            return x + table

        @ns.ensure_compile_time_eval()
        def decorated(x):
            return ns.numpy.sin(x) + ns.numpy.ones(2).sum()

        def inner(x):
            with ns.ensure_compile_time_eval():
                return x * ns.jit(lambda: ns.numpy.ones(2).sum())()

        return [
            ns.jit(constants)(1.0),
            ns.jit(ns.grad(decorated))(1.0),
            ns.vmap(decorated)(ns.numpy.ones(2)),
            ns.make_jaxpr(inner)(1.0).out_avals[0].shape,
            len(ns.make_jaxpr(constants)(1.0).jaxpr.eqns),
        ]

    for ours, theirs in zip(programs(minijax), programs(jax), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ZeroDivisionError), minijax.ensure_compile_time_eval():
        raise ZeroDivisionError
    assert clean()
    again = minijax.ensure_compile_time_eval()

    def twice(x):
        with again, again:
            pass
        return minijax.lax.sin(1.0) + x

    assert len(minijax.make_jaxpr(twice)(1.0).jaxpr.eqns) == 2
