"""``debug_nans``: an operation whose result has a NaN raises in the thread that enabled the setting."""

import contextlib
import threading

import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import grad, jit, jvp, lax, vmap
from minijax.config import debug_infs, debug_key_reuse, debug_nans
from minijax.core.meshes import context
from minijax.core.primitive import evaluation_watched
from minijax.core.trace import stack_depth
from minijax.interpreters.evaluate import EvalTrace
from tests.threads import at_once


def log_sin(x):
    return jnp.sin(jnp.log(x))


F = jit(log_sin)
LINE = log_sin.__code__.co_firstlineno + 1

# name -> (call, part of JAX's message)
CASES = {
    "eager": (lambda: jnp.log(-1.0), "invalid value (nan) encountered in log"),
    "jit": (lambda: F(-1.0), "invalid value (nan) encountered in log"),
    "jvp": (lambda: jvp(log_sin, (-1.0,), (1.0,)), "invalid value (nan) encountered in log"),
    "grad": (lambda: grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(0.0), "invalid value (nan) encountered in mul"),
    "vmap": (lambda: vmap(log_sin)(jnp.array([1.0, -1.0])), "invalid value (nan) encountered in log"),
    "grad of jit": (lambda: grad(F)(-1.0), "invalid value (nan) encountered in log"),
    "scan": (lambda: lax.scan(lambda c, x: (jnp.log(c), x), 0.5, jnp.ones(4)), "encountered in scan"),
    "given": (lambda: jit(lambda x: x * 2.0)(float("nan")), "invalid value (nan) encountered in mul"),
    "bfloat16": (lambda: jnp.sqrt(jnp.bfloat16(-1.0)), "invalid value (nan) encountered in sqrt"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_nan_raises(name):
    call, words = CASES[name]
    call()  # without the setting it does not raise
    with debug_nans(True), pytest.raises(FloatingPointError) as raised:
        call()
    assert words in str(raised.value)
    assert f"It happened at {__file__}:" in str(raised.value)
    assert stack_depth() == 0
    call()


def test_a_jitted_call_names_the_operation_inside_and_its_line():
    for _ in range(2):
        with debug_nans(True), pytest.raises(FloatingPointError) as raised:
            F(-1.0)
        lines = str(raised.value).splitlines()
        assert lines[1].startswith(f"It happened at {__file__}:{LINE}:")
        assert lines[2] == "  operand 0: f32[]: -1.0"
        assert lines[-1].startswith("Keep its operands")
    with debug_nans(True):
        assert float(F(2.0)) == pytest.approx(np.sin(np.log(2.0)), rel=1e-6)
        assert float(F(2.0)) == pytest.approx(np.sin(np.log(2.0)), rel=1e-6)


def test_infinities_and_integers_pass():
    with debug_nans(True):
        assert np.isneginf(np.asarray(jnp.log(jnp.zeros(3)))).all()
        assert int(jnp.arange(3).sum()) == 3


def test_a_context_affects_one_thread_and_the_setting_affects_all():
    seen = []

    def work():
        try:
            seen.append(float(jnp.log(-1.0)))
        except FloatingPointError:
            seen.append("raised")

    def in_thread():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return seen.pop()

    with debug_nans(True):
        assert np.isnan(in_thread())
    minijax.config.update("jax_debug_nans", True)
    try:
        assert in_thread() == "raised"
    finally:
        minijax.config.update("jax_debug_nans", False)
    assert np.isnan(in_thread())


def test_the_error_shows_the_extremes_of_larger_operands():
    with debug_nans(True), pytest.raises(FloatingPointError, match=r"operand 0: f32\[3\]: from -1.0 to 1.0"):
        jnp.log(jnp.array([-1.0, 0.5, 1.0]))


def test_donated_arguments_are_not_read_again():
    f = jit(lambda x: jnp.log(x), donate_argnums=0)
    with debug_nans(True), pytest.raises(FloatingPointError, match=r"encountered in jit\(<lambda>\)"):
        f(jnp.asarray(np.array([-1.0, 2.0], np.float32)))


@contextlib.contextmanager
def mesh_set(on):
    before = context.mesh
    context.set(minijax.make_mesh((1,), ("x",)) if on else None)
    try:
        yield
    finally:
        context.set(before)


@pytest.mark.parametrize("setting", [debug_nans, debug_infs, debug_key_reuse, mesh_set])
def test_operations_are_checked_only_while_a_thread_needs_it(setting):
    usual = EvalTrace.process_primitive

    def looked_at():
        assert (EvalTrace.process_primitive is not usual) == bool(evaluation_watched)
        return bool(evaluation_watched)

    def inside(on):
        with setting(on):
            return looked_at()

    assert not looked_at() and not inside(False) and inside(True) and not looked_at()
    with pytest.raises(ZeroDivisionError), setting(True):
        assert looked_at() and inside(True) and at_once(lambda: inside(True), lambda: inside(False)) == [True, True]
        raise ZeroDivisionError
    assert not looked_at()
    if setting is mesh_set:  # a thread may end without resetting its mesh
        at_once(lambda: context.set(minijax.make_mesh((1,), ("x",))))
    else:
        for on in (True, True, False):
            minijax.config.update(setting.name, on)
            assert looked_at() is on
            assert inside(not on)
    assert not looked_at()
