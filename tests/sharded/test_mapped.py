"""``shard_map`` has JAX's values, derivatives, errors and jaxprs on eight devices. Special cases run on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijax as mj
import minijax.numpy as jnp
from minijax import lax, random, sharding
from minijax.core.primitive import abstract_hooks
from minijax.ops.meshes import partitioned
from minijax.tools import explain_cache_miss
from tests.on_devices import printed
from tests.sharded.programs import PROGRAMS


def test_programs_match_jax() -> None:
    found = printed("-m", "tests.sharded.matrix", "--mode", "mapped", "--slice", "--json")
    assert found == {"cells": len(PROGRAMS), "differing": {}}


def on_one_device(fun: Callable[..., Any], **options: Any) -> Any:
    mesh, spec = sharding.Mesh(np.array(mj.devices()[:1]), ("x",)), sharding.PartitionSpec("x")
    return mj.shard_map(fun, mesh=mesh, in_specs=spec, out_specs=spec, **options)


def test_separately_lowered_programs_have_plain_types() -> None:
    keys, shapes = random.split(random.key(0), 1), jnp.array([0.5, 2.0])
    drawn = on_one_device(lambda k, a: random.gamma(k[0], a))(keys, shapes)
    assert np.array_equal(drawn, random.gamma(keys[0], shapes))


def _doubled_first(x: Any) -> Any:
    ref = mj.new_ref(x)
    ref[...] += jnp.sin(x)
    ref[0] = ref[1] * 2.0
    return ref[...]


@pytest.mark.parametrize("check_vma", [True, False])
def test_references_work_inside_shard_map(check_vma: bool) -> None:
    mapped = on_one_device(_doubled_first, check_vma=check_vma)
    x = jnp.array([0.5, 2.0, 3.0])
    assert np.allclose(mapped(x), _doubled_first(x), rtol=1e-6)
    gradients = [mj.grad(lambda x, f=f: (f(x) ** 2).sum())(x) for f in (mapped, _doubled_first)]
    assert np.allclose(*gradients, rtol=1e-6)


def test_references_cannot_be_arguments_or_hold_varying_values() -> None:
    ref = mj.new_ref(jnp.zeros(2))
    with pytest.raises(NotImplementedError, match="takes a mutable array reference"):
        on_one_device(lambda r: r[...])(ref)

    def mixed(x: Any) -> Any:
        r = mj.new_ref(jnp.zeros(2))
        r[...] = x
        return r[...]

    with pytest.raises(TypeError, match="does not vary along"):
        on_one_device(mixed)(jnp.ones(2))


def test_the_first_varying_value_has_a_varying_type() -> None:
    mesh, whole = sharding.Mesh(np.array(mj.devices()[:1]), ("x",)), sharding.PartitionSpec()
    mapped = mj.shard_map(
        lambda x: lax.pcast(x, "x", to="varying"), mesh=mesh, in_specs=whole, out_specs=sharding.PartitionSpec("x")
    )
    before = [*abstract_hooks]
    abstract_hooks.clear()
    try:
        assert ":f32[3]{V:x} = pvary" in str(mj.make_jaxpr(mapped)(np.ones(3, np.float32)))
    finally:
        abstract_hooks[:] = before


def test_specs_must_match_the_types_of_the_arguments() -> None:
    mesh, over = sharding.make_mesh((1,), ("x",), devices=mj.devices()[:1]), sharding.PartitionSpec
    whole = jnp.ones(4)

    def doubled(x: Any, **options: Any) -> Any:
        return mj.shard_map(lambda a: a * 2, mesh=mesh, **options)(x)

    with sharding.set_mesh(mesh):
        divided = mj.device_put(whole, over("x"))
        assert doubled(divided, out_specs=over("x")).tolist() == [2.0] * 4
        for x, spec in [(whole, over("x")), (divided, over())]:
            with pytest.raises(ValueError, match="does not match the specs of the input"):
                doubled(x, in_specs=spec, out_specs=spec)
        assert mj.shard_map(lambda a: None, in_specs=over("x"), out_specs=None)(divided) is None
    with pytest.raises(ValueError, match="which the mesh does not have. Did you mean row"):
        rows = sharding.Mesh(np.array(mj.devices()[:1]), ("row",))
        mj.shard_map(lambda a: a, mesh=rows, in_specs=over("rwo"), out_specs=over())(whole)
    with pytest.raises(TypeError, match="Did you mean `in_specs=P"):
        mj.shard_map(lambda a: a, mesh=rows, in_specs=None, out_specs=over())(whole)


def test_programs_of_derivatives_are_not_cached_for_ever() -> None:
    mj.grad(lambda x: on_one_device(jnp.sin)(x).sum())(jnp.ones(2))
    kept = {primitive.name for primitive, *_ in partitioned._equations}
    assert "reduce_sum" in kept
    assert "shard_map" not in kept


@pytest.mark.parametrize("word", ["unreduced", "reduced"])
def test_pending_sums_need_explicit_axes_in_full_manual_mode(word: str) -> None:
    kinds = sharding.AxisType.Explicit, sharding.AxisType.Auto
    mesh = sharding.make_mesh((1, 1), ("x", "y"), kinds, devices=mj.devices()[:1])
    for axis, options, error, said in [
        ("x", {"axis_names": {"x"}}, NotImplementedError, "full manual mode.* Leave axis_names out"),
        ("y", {}, ValueError, f"{word.capitalize()} axes can only refer to mesh axes that is of type `Explicit`"),
    ]:
        spec = sharding.PartitionSpec(**{word: {axis}})
        with pytest.raises(error, match=said):
            mj.shard_map(lambda a: a, mesh=mesh, in_specs=spec, out_specs=spec, **options)(jnp.ones(4))


def test_misses_and_errors_name_shardings() -> None:
    mesh = sharding.make_mesh((1,), ("x",), devices=mj.devices()[:1])
    P = sharding.PartitionSpec  # noqa: N806
    double = mj.jit(lambda v: v * 2.0)
    with sharding.set_mesh(mesh):
        double(mj.device_put(jnp.ones(4), P("x")))
        miss = explain_cache_miss(double, jnp.ones(4))
    assert "v: f32[4@x] became f32[4]\nShard v in one way before every call" in str(miss)

    mapped = mj.shard_map(lambda params, v: v, mesh=mesh, in_specs=({"up": P(None, "x")}, P()), out_specs=P())
    with pytest.raises(ValueError, match=r"params\['up'\] has shape f32\[4\] of rank 1"):
        mapped({"up": jnp.ones(4)}, jnp.ones(4))
    with pytest.raises(NameError, match="or by shard_map over a mesh that has this axis"):
        lax.psum(jnp.ones(4), "x")
    with pytest.raises(ValueError, match=r"axis_shapes=\(4, 2\) and axis_names=\('x',\)"):
        sharding.make_mesh((4, 2), ("x",))
