"""Functions of minijax that JAX runs, and functions converted in both directions."""

import jax
import jax.ad_checkpoint
import jax.numpy as rnp
import numpy as np
import pytest

import minijax as mj
from minijax import lax
from minijax import numpy as jnp
from minijax.ad_checkpoint import checkpoint_name
from minijax.extend.core import Primitive
from minijax.interop import from_jax, to_jax
from minijax.interpreters import ad, batching

from ..oracle.normalise import normalise
from .test_from_jax import PROGRAMS as OF_JAX
from .test_from_jax import values_of

pytestmark = pytest.mark.usefixtures("compiled_quickly")

X = np.array([0.5, 1.5, -0.25], np.float32)
NEAR = {"rtol": 2e-6, "atol": 2e-6}


@pytest.mark.parametrize("fun", OF_JAX, ids=lambda fun: fun.__name__)
def test_a_round_trip_keeps_derivatives(fun):
    back, x, xs = to_jax(from_jax(fun)), rnp.asarray(X), rnp.stack([X, X + 1])
    assert normalise(jax.make_jaxpr(back)(x)).lines == normalise(jax.make_jaxpr(fun)(x)).lines
    value, gradient, gradients = values_of(fun)
    np.testing.assert_allclose(back(x), value, **NEAR)
    np.testing.assert_allclose(jax.jit(jax.grad(back))(x), gradient, **NEAR)
    np.testing.assert_allclose(jax.vmap(jax.grad(jax.jit(back)))(xs), gradients, **NEAR)


# ------------------------------------------------------------------------------- functions written for minijax


def of_sums(x):
    def step(c, a):
        c = lax.cond(a > 0, lambda c: c * a, lambda c: c - a, c)
        return c, jnp.sin(c)

    c, ys = lax.scan(step, 1.0, x)
    return mj.jit(lambda y: y * 2)(ys).sum() + lax.while_loop(lambda v: v < 10, lambda v: v * 2, jnp.abs(c) + 1)


@mj.custom_jvp
def doubled(x):
    return x * 2


@doubled.defjvp
def doubled_jvp(primals, tangents):
    return primals[0] * 2, tangents[0] * 7


@mj.custom_vjp
def tripled(x, y):
    return x * 3, y


tripled.defvjp(lambda x, y: ((x * 3, y), jnp.sin(x)), lambda res, cts: (cts[0] * res, cts[1] * 5))


def with_own_rules(x):
    scale = jnp.cos(x[0])
    inner = mj.custom_jvp(lambda y: y * lax.stop_gradient(scale))
    inner.defjvp(lambda primals, tangents: (inner(primals[0]), tangents[0] * 11))
    a, b = tripled(x, x)
    return (doubled(x) + a + b).sum() + mj.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()


multiply_p = Primitive("multiply_of_a_user")
multiply_p.def_impl(lambda x, y: x * y)
multiply_p.def_abstract_eval(lambda x, y: mj.core.ShapedArray(x.shape, x.dtype))
ad.primitive_jvps[multiply_p] = lambda primals, tangents: (
    multiply_p.bind(*primals),
    primals[1] * ad.instantiate_zeros(tangents[0]) * 13,
)
batching.primitive_batchers[multiply_p] = lambda args, dims: (multiply_p.bind(*args), dims[0])


def with_a_primitive(x):
    return multiply_p.bind(x, x)


@pytest.mark.parametrize("fun", [of_sums, with_own_rules], ids=lambda fun: fun.__name__)
def test_jax_transforms_minijax_functions(fun):
    theirs, x, xs = to_jax(fun), rnp.asarray(X), rnp.stack([X, X + 1])
    assert isinstance(theirs(x), jax.Array)
    expected = np.asarray(mj.grad(fun)(X) if fun is with_own_rules else mj.jacfwd(fun)(X))
    derivative = jax.grad(theirs) if fun is with_own_rules else jax.jacfwd(theirs)
    np.testing.assert_allclose(theirs(x), fun(jnp.asarray(X)), **NEAR)
    np.testing.assert_allclose(jax.jit(theirs)(x), fun(jnp.asarray(X)), **NEAR)
    np.testing.assert_allclose(derivative(x), expected, **NEAR)
    np.testing.assert_allclose(jax.jit(derivative)(x), expected, **NEAR)
    np.testing.assert_allclose(jax.vmap(theirs)(xs), mj.vmap(fun)(jnp.asarray(xs)), **NEAR)


def test_a_users_primitive_is_converted_with_its_rules():
    theirs, x = to_jax(with_a_primitive), rnp.asarray(X)
    np.testing.assert_allclose(theirs(x), X * X)
    np.testing.assert_allclose(jax.vmap(theirs)(x), X * X)
    np.testing.assert_allclose(jax.jvp(theirs, (x,), (x,))[1], X * X * 13)
    assert jax.make_jaxpr(theirs)(x).eqns[0].primitive.name == "multiply_of_a_user"


def test_differentiation_by_closed_over_values_raises():
    def fun(x, y):
        inner = mj.custom_jvp(lambda a: a * y)
        inner.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * 3))
        return inner(x)

    theirs = to_jax(mj.jit(fun))
    np.testing.assert_allclose(jax.jit(jax.grad(theirs))(2.0, 5.0), 3.0)
    with pytest.raises(mj.errors.UnexpectedTracerError, match="closed-over value"):
        jax.grad(theirs, 1)(2.0, 5.0)


def test_callbacks_and_prints_of_minijax_run_under_jax(capfd):
    seen = []

    def host(x):
        seen.append(type(x).__module__.partition(".")[0])
        return np.asarray(x) * 2

    def fun(x):
        y = mj.pure_callback(host, mj.ShapeDtypeStruct((3,), np.float32), x, vmap_method="sequential")
        mj.debug.print("first {} of {n}", x[0], n=3)
        mj.debug.callback(lambda v: seen.append(float(v)), x[1])
        return y

    for run in (to_jax(fun), jax.jit(to_jax(fun)), jax.jit(to_jax(from_jax(to_jax(fun))))):
        seen.clear()
        np.testing.assert_allclose(run(X), X * 2)
        jax.effects_barrier()
        assert sorted(map(str, seen)) == ["1.5", "minijax"]
        assert capfd.readouterr().out == "first 0.5 of 3\n"


def test_numbers_trees_and_64_bits_match_jax():
    def fun(params, rate, *, mode):
        return {"w": params["w"] * rate, "mode": mode, "none": None}

    theirs, w = to_jax(fun), rnp.asarray(X)
    for rate in (0.5, 2, 0.25):
        out = theirs({"w": w}, rate, mode="train")
        assert (out["mode"], out["none"], out["w"].dtype) == ("train", None, np.float32)
        np.testing.assert_allclose(out["w"], X * rate)
    with jax.enable_x64(True):
        assert theirs({"w": np.arange(3.0)}, 0.5, mode="").get("w").dtype == np.float64
    assert jax.jit(lambda w, rate: theirs({"w": w}, rate, mode="x")["w"])(w, 0.5).dtype == np.float32


def test_checkpoint_policies_are_converted():
    def own(primitive, *avals, **params):
        return primitive is lax.dot_general_p

    def inside(x):
        return jnp.sin(checkpoint_name(jnp.sin(x), "kept") @ jnp.eye(3)).sum()

    policies = mj.checkpoint_policies
    for policy in (None, policies.dots_saveable, policies.save_only_these_names("kept"), own):
        fun = mj.checkpoint(inside, policy=policy)
        ours, theirs = mj.make_jaxpr(mj.grad(fun))(X), jax.make_jaxpr(jax.grad(to_jax(fun)))(X)
        assert str(ours).count(" sin ") == str(theirs).count(" sin "), policy
        assert str(ours).count("dot_general[") == str(theirs).count("dot_general["), policy


def test_shardings_are_converted_both_ways():
    ours, theirs = mj.sharding, jax.sharding
    if min(mj.device_count(), jax.device_count()) < 2:
        pytest.skip("needs two devices")
    mesh, their_mesh = (of.Mesh(np.array(ns.devices()[:2]), ("x",)) for ns, of in ((mj, ours), (jax, theirs)))
    spec, free = ours.PartitionSpec("x"), ours.PartitionSpec(ours.PartitionSpec.UNCONSTRAINED, "x")
    rows, columns = ours.NamedSharding(mesh, spec), ours.NamedSharding(mesh, free)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)

    def fun(a):
        return lax.with_sharding_constraint(jnp.sin(a), columns) * 2

    jitted = mj.jit(fun, in_shardings=rows, out_shardings=rows)
    back = from_jax(to_jax(jitted))
    assert str(mj.make_jaxpr(back)(x)) == str(mj.make_jaxpr(jitted)(x))
    their_rows = theirs.NamedSharding(their_mesh, theirs.PartitionSpec("x"))
    for got, where in ((to_jax(jitted)(x), their_rows), (back(mj.device_put(x, rows)), rows)):
        assert got.sharding == where
        np.testing.assert_allclose(got, np.sin(x) * 2, **NEAR)
    assert to_jax(lambda a: a + 1)(jax.device_put(x, their_rows)).sharding == their_rows
    assert from_jax(lambda a: a + 1)(mj.device_put(x, rows)).sharding == rows
