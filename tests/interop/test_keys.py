"""Random keys between JAX and minijax: values, types, parameters, and programs that draw random numbers."""

import jax
import jax.extend.random
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import numpy as jnp
from minijax.core.keys import PRNGImpl, impl_of
from minijax.interop import from_jax
from minijax.interop.values import aval_of, from_jax_value, impl_of_jax, spec_of, to_jax_value

pytestmark = pytest.mark.usefixtures("compiled_quickly")

IMPLEMENTATIONS = ("threefry2x32", "rbg")


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_keys_of_every_kind_survive_a_round_trip(name):
    keys = jax.random.split(jax.random.key(3, impl=name), (2, 3))
    ours = from_jax_value(keys)
    assert repr(ours) == repr(keys)
    assert str(ours.aval) == str(keys.aval)
    assert (aval_of(keys), spec_of(ours.aval).dtype) == (ours.aval, keys.dtype)
    back = to_jax_value(ours)
    assert back.dtype == keys.dtype and (back == keys).all()
    assert impl_of_jax(impl_of(keys.dtype._impl)) is keys.dtype._impl
    words = mj.random.wrap_key_data(mj.random.key_data(ours), impl=name)
    assert words.dtype is ours.dtype and (words == ours).all()


def test_keys_of_a_user_defined_implementation_are_converted():
    impl = jax.extend.random.define_prng_impl(
        key_shape=(3,),
        seed=lambda s: rnp.full(3, s, "uint32"),
        split=lambda k, shape: rnp.broadcast_to(k, (*shape, 3)) + 1,
        random_bits=lambda k, width, shape: rnp.full(shape, k[0], f"uint{width}"),
        fold_in=lambda k, x: k + x.astype("uint32"),
        name="mine",
        tag="mine",
    )
    key = jax.random.key(7, impl=impl)
    ours = from_jax(lambda k: jax.random.split(k, 2))(key)
    assert ours.dtype is PRNGImpl("mine", (3,), "mine").dtype
    np.testing.assert_array_equal(mj.random.key_data(ours), np.full((2, 3), 8))
    bits = from_jax(lambda k: jax.random.bits(k, (2,)))
    np.testing.assert_array_equal(mj.jit(mj.vmap(bits))(ours), np.full((2, 2), 8))


def drawn(key, scale):
    first, second = jax.random.split(key)
    return jax.random.normal(first, (3,)) * scale + jax.random.uniform(jax.random.fold_in(second, 5), (3,))


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_random_numbers_match_jax(name):
    key, mine = jax.random.key(3, impl=name), from_jax(drawn)
    ours, scale = from_jax_value(key), np.float32(1.5)
    keys = jax.random.split(key, 4)

    @jax.jit
    def transformed(key, keys, scale):
        return jax.grad(lambda s: drawn(key, s).sum())(scale), jax.vmap(drawn, (0, None))(keys, scale)

    wanted, (grad, batched) = drawn(key, scale), transformed(key, keys, scale)
    np.testing.assert_array_equal(mine(ours, scale), wanted)
    np.testing.assert_allclose(mj.jit(mine)(ours, scale), wanted, rtol=1e-6)
    np.testing.assert_allclose(mj.grad(lambda s: mine(ours, s).sum())(scale), grad, rtol=1e-6)
    np.testing.assert_allclose(mj.vmap(mine, (0, None))(from_jax_value(keys), scale), batched, rtol=1e-6)
    _, scanned = mj.lax.scan(lambda c, k: (k, mine(k, scale)), ours, from_jax_value(keys))
    np.testing.assert_allclose(scanned, rnp.stack([drawn(k, scale) for k in keys]), rtol=1e-5)


def test_keys_may_be_arguments_constants_and_carries():
    key = jax.random.key(1)
    assert str(mj.make_jaxpr(from_jax(lambda k: jax.random.wrap_key_data(jax.random.key_data(k))))(key)) == str(
        jax.make_jaxpr(lambda k: jax.random.wrap_key_data(jax.random.key_data(k)))(key)
    )
    closed_over = from_jax(lambda x: x + jax.random.normal(key, (2,)))
    np.testing.assert_array_equal(closed_over(jnp.zeros(2)), jax.random.normal(key, (2,)))
    carried = from_jax(lambda k: jax.lax.fori_loop(0, 3, lambda i, c: jax.random.split(c)[0], k))
    wanted = jax.lax.fori_loop(0, 3, lambda i, c: jax.random.split(c)[0], key)
    assert (to_jax_value(carried(key)) == wanted).all() and (to_jax_value(mj.jit(carried)(key)) == wanted).all()
