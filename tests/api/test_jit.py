"""``jit``: one trace for each signature, results on the device, closed-over constants, donation, compiled programs."""

import copy
import pickle
import re

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax


def counted(fun):
    def wrapper(*args, **kwargs):
        wrapper.count += 1
        return fun(*args, **kwargs)

    wrapper.count = 0
    return wrapper


def test_a_function_is_traced_once_per_signature():
    f = counted(lambda x, y: lax.sin(x) * lax.cos(y))
    jitted = minijax.jit(f)
    jitted(3.0, 4.0)
    jitted(4.0, 5.0)
    assert f.count == 1
    jitted(np.float32(3.0), np.float32(4.0))
    assert f.count == 2
    jitted(np.ones(2, np.float32), np.ones(2, np.float32))
    assert f.count == 3
    jitted(3.0, 4.0)
    assert f.count == 3


def test_results_stay_on_the_device_until_they_are_read():
    out = minijax.jit(lambda x: x + 1)(np.ones(3, np.float32))
    assert out.on_device and not out.on_host
    again = minijax.jit(lambda x: x * 2)(out)
    assert not out.on_host, "feeding a result to another program must not fetch it"
    np.testing.assert_array_equal(np.asarray(again), [4, 4, 4])


def test_small_arrays_become_constants_and_large_ones_arguments():
    small, unread, large = np.float32([1, 2, 3]), np.float32([4, 5]), np.ones((3, 20_000), np.float32)

    def f(x):
        _ = x[:2] + unread
        return (x + small)[:, None] * large

    jitted = minijax.jit(f)
    text = jitted.lower(small).as_text()
    assert re.findall(r"%arg\d: (\S+?)[,)]", text) == ["tensor<3x20000xf32>", "tensor<3xf32>"]
    assert re.findall(r"constant (dense<.*?>) :", text) == ["dense<[1.0, 2.0, 3.0]>"]
    np.testing.assert_array_equal(jitted(small), f(small))
    small[:] = 0
    np.testing.assert_array_equal(jitted(np.float32([1, 1, 1])), np.outer([2, 3, 4], large[0]))


def _donated(ns):
    x = ns.numpy.ones(4)
    ns.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x


def _again(ns, *args, **options):
    """A jitted function, already called with arguments like ``args``."""
    f = ns.jit(lambda x, y: x + y, **options)
    for _ in range(3):
        f(ns.numpy.ones(4), *args)
    return f


def _twice(f, x):
    return f(x, x)


USES_AFTER_DONATION = {
    "add": lambda ns, x: x + 1,
    "repeated call": lambda ns, x: _again(ns, ns.numpy.ones(4))(ns.numpy.ones(4), x),
    "repeated call, NumPy": lambda ns, x: _again(ns, np.ones(4, np.float32))(x, np.ones(4, np.float32)),
    "donated again": lambda ns, x: _again(ns, ns.numpy.ones(4), donate_argnums=0)(x, ns.numpy.ones(4)),
    "donated and used": lambda ns, x: _twice(ns.jit(lambda x, y: x + y, donate_argnums=0), ns.numpy.ones(4)),
    "wait": lambda ns, x: x.block_until_ready(),
    "callback": lambda ns, x: ns.pure_callback(np.sin, ns.ShapeDtypeStruct((4,), np.float32), x),
}


@pytest.mark.parametrize("use", USES_AFTER_DONATION)
def test_use_after_donation_raises_the_error_of_jax(use):
    def error_of(ns):
        try:
            return USES_AFTER_DONATION[use](ns, _donated(ns))
        except Exception as error:
            return error

    theirs, ours = error_of(jax), error_of(minijax)
    if not isinstance(theirs, Exception):
        assert ours == theirs
        return
    kind = minijax.errors.JaxRuntimeError if isinstance(theirs, jax.errors.JaxRuntimeError) else type(theirs)
    assert isinstance(ours, kind), (theirs, ours)
    assert type(theirs) is not RuntimeError or not isinstance(ours, minijax.errors.JaxRuntimeError)
    assert "Array has been deleted" not in str(theirs) or str(theirs) in str(ours)
    assert "Use the result of that computation" in str(ours) or "Pass a copy" in str(ours)


def test_lowered_and_compiled_programs_describe_themselves():
    lowered = minijax.jit(lambda x: lax.sin(x) @ x).lower(minijax.ShapeDtypeStruct((8, 8), np.float32))
    text = lowered.as_text()
    assert "stablehlo.sine" in text and "func.func public @main" in text
    compiled = lowered.compile()
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] >= 2 * 8**3 - 8 * 8
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 256 and memory.output_size_in_bytes == 256
    x = np.ones((8, 8), np.float32)
    np.testing.assert_allclose(np.asarray(compiled(x)), np.sin(x) @ x, rtol=1e-5)
    with pytest.raises(TypeError, match="types"):
        compiled(np.ones((4, 4), np.float32))


def test_constants_of_any_kind_survive_compilation():
    big = np.arange(1000.0, dtype=np.float32).reshape(10, 100)
    for const in (big, big.astype(np.int8), big > 3, np.float32(-0.0), np.float32("nan"), np.float32("inf")):
        inner = minijax.jit(lambda x, const=const: jnp.asarray(const) + x.astype(jnp.asarray(const).dtype))
        plain = np.asarray(const) + np.zeros((), np.asarray(const).dtype)
        for f in (inner, minijax.jit(lambda x, inner=inner: inner(x))):
            out = np.asarray(f(np.float32(0)))
            np.testing.assert_array_equal(out, plain)


def test_an_output_without_leaves_is_returned_at_every_call():
    for empty in (None, (), {}, [None]):
        jitted = minijax.jit(lambda x, empty=empty: empty)
        assert jitted(1.0) == empty and jitted(1.0) == empty and jitted(2.0) == empty


def test_jit_returns_float0_tangents():
    x = jnp.arange(3.0)
    value, tangent = minijax.jit(lambda x, t: minijax.jvp(lambda y: y > 1, (x,), (t,)))(x, x)
    np.testing.assert_array_equal(np.asarray(value), [False, False, True])
    assert tangent.dtype == minijax.dtypes.float0 and tangent.shape == (3,)


def test_a_jitted_function_can_be_copied_after_a_call():
    jitted = minijax.jit(jnp.roll, static_argnums=1)
    assert jitted(jnp.arange(3), 1).tolist() == [2, 0, 1]
    for again in (copy.copy(jitted), copy.deepcopy(jitted), pickle.loads(pickle.dumps(jitted))):
        assert again is not jitted and again.static_argnums == jitted.static_argnums
        assert again(jnp.arange(3), 1).tolist() == [2, 0, 1]
