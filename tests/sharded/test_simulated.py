"""For meshes without devices, programs are lowered, compiled and displayed as for real ones, but refuse to run."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import minijax as jax
import minijax.numpy as jnp
from minijax import lax
from minijax.backend import client
from minijax.core.meshes import SimulatedDevice
from minijax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from minijax.tools.documents.document import document, plain
from minijax.tools.xla.collectives import blocks, of_lowered

P = PartitionSpec
MESH = AbstractMesh((64, 4), ("data", "model"))


def stand_in(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*spec)))


def product(x: Any, w: Any) -> Any:
    return jnp.sin(x @ w).sum(0)


X, W = stand_in((128, 8), "data"), stand_in((8, 16), None, "model")


def test_compiling_for_simulated_devices_frees_them_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = []

    def counted(count: int, made: Any = client.simulated) -> Any:
        found = made(count)
        threads.append(len(os.listdir("/proc/self/task")))
        return found

    monkeypatch.setattr(client, "simulated", counted)
    client.runtime()  # start this process's own client first, because it stays alive
    lowered = jax.jit(product).lower(X, W)
    assert "mhlo.num_partitions = 256" in lowered.as_text()
    compiled = lowered.compile()
    assert threads[0] - len(os.listdir("/proc/self/task")) > 256
    assert len(threads) == 1
    # each device has two rows of x and four columns of w
    assert compiled.memory_analysis().argument_size_in_bytes == (2 * 8 + 8 * 4) * 4
    assert "all-reduce" in compiled.as_text() and compiled.cost_analysis()["flops"] > 0
    assert compiled.input_shardings == ((X.sharding, W.sharding), {})
    assert compiled.output_shardings == NamedSharding(MESH, P("model"))
    (found,) = of_lowered(lowered)
    assert (found.kind, found.size, found.axes, found.bytes) == ("all-reduce", 64, ("data",), 4 * 4)
    assert found.sent == 2 * 63 / 64 * 16
    shown = plain(document(*blocks([found], 256, False, lowered.placement.simulated)), 120)
    assert "256 simulated devices" in shown and "nothing has run" in shown


def test_shard_map_over_a_mesh_without_devices_divides_the_program() -> None:
    f = jax.jit(jax.shard_map(lambda x: lax.psum(x, "data"), mesh=MESH, in_specs=P("data"), out_specs=P()))
    lowered = f.lower(jax.ShapeDtypeStruct((128, 3), jnp.float32))
    (found,) = of_lowered(lowered)
    assert (found.kind, found.size, found.bytes) == ("all-reduce", 64, 2 * 3 * 4)
    with pytest.raises(ValueError, match=r"<lambda> cannot be run: its 256 devices \(data=64, model=4\) are simulated"):
        f(jnp.ones((128, 3)))


def test_programs_do_not_run_on_simulated_devices() -> None:
    compiled = jax.jit(product).lower(X, W).compile()
    with pytest.raises(ValueError, match=r"product cannot be run: its 256 devices .* are simulated"):
        compiled(np.ones(X.shape, np.float32), np.ones(W.shape, np.float32))
    with pytest.raises(ValueError, match="product cannot be run"):
        jax.jit(product, in_shardings=(X.sharding, W.sharding))(jnp.ones(X.shape), jnp.ones(W.shape))
    with pytest.raises(ValueError, match="it cannot be run"):
        compiled.program.executable.execute([])
    for lies in (lambda: jax.device_put(jnp.ones(X.shape), X.sharding), lambda: X.sharding.device_set):
        with pytest.raises(ValueError, match="has no devices: no array can have it"):
            lies()
    huge = AbstractMesh((8192,), ("data",))
    vast = jax.ShapeDtypeStruct((8192,), jnp.float32, sharding=NamedSharding(huge, P("data")))
    with pytest.raises(ValueError, match="a mesh of 8192 devices cannot be simulated: the maximum is 4096"):
        jax.jit(jnp.sin).lower(vast).compile()


def test_an_abstract_mesh_uses_real_devices_if_there_are_enough() -> None:
    (device,) = jax.devices()[:1]
    one, other = AbstractMesh((1,), ("data",)), AbstractMesh((2,), ("data",))
    there = jax.device_put(jnp.ones(4), NamedSharding(jax.sharding.Mesh(np.array([device]), ("data",)), P("data")))
    out = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(one, P("data")))(there)
    assert out.sharding == there.sharding and out.tolist() == [2.0] * 4
    with pytest.raises(ValueError, match=r"incompatible devices .* which has no devices"):
        jax.jit(lambda x: x * 2, out_shardings=NamedSharding(other, P("data")))(there)
    assert NamedSharding(one, P("data")).is_equivalent_to(there.sharding, 1)
    assert not NamedSharding(other, P("data")).is_equivalent_to(there.sharding, 1)


def test_simulated_devices_are_equal_if_their_ids_are() -> None:
    assert SimulatedDevice(3) == SimulatedDevice(3) != SimulatedDevice(4)
