"""Compare with JAX the types and shardings of arrays that are created while a mesh is set.

``python -m tests.sharded.eager_rows`` prints a JSON object: "types of the axes: row" -> [ours, theirs]. A result
comes from ``outcomes.described``.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import numpy as np

from tests.sharded.outcomes import described, print_both

HOST = np.arange(8, dtype=np.float32)


def _rows(of: Any, x: Any) -> dict[str, Any]:
    """Name -> function to run while a mesh is set. ``x`` is an array that was created before the mesh was set."""
    jnp, lax, random, P = of.numpy, of.lax, of.random, of.sharding.PartitionSpec

    def sharded() -> Any:
        return of.device_put(HOST, P("x"))

    def other() -> Any:
        return of.device_put(HOST, of.devices()[1])

    return {
        "array of lists": lambda: jnp.array([[1.0, 2.0]]),
        "array of an array": lambda: jnp.array(x),
        "array of arrays": lambda: jnp.array([x[0], x[1]]),
        "zeros": lambda: jnp.zeros((8, 4)),
        "full of an array": lambda: jnp.full((2, 8), HOST),
        "zeros_like of a new array": lambda: jnp.zeros_like(jnp.array([1.0, 2.0])),
        "ones_like of a sharded array": lambda: jnp.ones_like(sharded()),
        "arange": lambda: jnp.arange(8),
        "linspace": lambda: jnp.linspace(0, 1, 5),
        "meshgrid": lambda: jnp.meshgrid(HOST, HOST),
        "split": lambda: random.split(random.key(0)),
        "normal": lambda: random.normal(random.key(0), (8, 4)),
        "device_put": lambda: of.device_put(HOST),
        "device_put to a device": lambda: of.device_put(jnp.zeros(8), of.devices()[2]),
        "x + 1": lambda: x + 1,
        "add of NumPy arrays": lambda: jnp.add(HOST, HOST),
        "sin of a NumPy array": lambda: jnp.sin(HOST),
        "a sharded array plus x": lambda: sharded() + x,
        "an array on another device plus 1": lambda: other() + 1,
        "a call with an array on another device": lambda: of.jit(jnp.sin)(other()),
        "a mask": lambda: x[x > 3],
        "iteration": lambda: list(jnp.arange(3)),
        "iteration over a sharded array": lambda: list(sharded()),
        "at": lambda: x.at[0].set(1.0),
        "sum": lambda: jnp.zeros((8, 4)).sum(0),
        "softmax": lambda: of.nn.softmax(x),
        "a call": lambda: of.jit(lambda v: (v, v + 1, jnp.zeros(3)))(x),
        "a call without arguments": lambda: of.jit(lambda: jnp.ones(3))(),
        "a gradient": lambda: of.grad(lambda v: (v * v).sum())(x),
        "a pushforward": lambda: of.jvp(jnp.sin, (x,), (x,)),
        "vmap": lambda: of.vmap(lambda v: v * 2)(x),
        "scan": lambda: lax.scan(lambda c, v: (c + v, c), 0.0, x),
        "cond": lambda: lax.cond(True, lambda v: v, lambda v: v + 1, x),
        "a reference": lambda: of.new_ref(x)[...],
        "shard_map of a new array": lambda: of.shard_map(jnp.sin, in_specs=P("x"), out_specs=P("x"))(jnp.arange(8.0)),
    }


def _with_out_sharding(of: Any, x: Any) -> dict[str, Any]:
    """Functions with ``out_sharding``. JAX raises an error unless a mesh with explicit axes is set."""
    spec = of.sharding.PartitionSpec("x")
    return {
        "zeros with out_sharding": lambda: of.numpy.zeros(8, out_sharding=spec),
        "matmul with out_sharding": lambda: of.numpy.matmul(x, x, out_sharding=spec),
        "reshape with out_sharding": lambda: of.numpy.reshape(x, (4, 2), out_sharding=spec),
        "at.get with out_sharding": lambda: x.at[np.arange(4)].get(out_sharding=spec),
        "uniform with out_sharding": lambda: of.random.uniform(of.random.key(0), (8,), out_sharding=spec),
    }


def _all(of: Any) -> dict[str, Any]:
    x = of.numpy.arange(8.0)
    kinds = of.sharding.AxisType
    found = {}
    for name, types in (("explicit", (kinds.Explicit,) * 2), ("auto", (kinds.Auto,) * 2)):
        with of.set_mesh(of.make_mesh((4, 2), ("x", "y"), axis_types=types)):
            rows = {**_rows(of, x), **_with_out_sharding(of, x)}
            found |= {f"{name}: {row}": described(of, make) for row, make in rows.items()}
    found |= {row: described(of, make) for row, make in _with_out_sharding(of, x).items()}
    # now no mesh is set any more
    found["afterwards"] = described(of, lambda: (of.numpy.arange(8.0), x + 1, of.jacfwd(of.numpy.sin)(x)))
    # the array ``alone`` is on one device, although its type is sharded
    mesh = of.make_mesh((4, 2), ("x", "y"))
    place = of.sharding.NamedSharding(mesh, of.sharding.PartitionSpec("x", "y"))
    sharded = of.device_put(np.ones((8, 8), np.float32), place)
    found["iteration over a sharded array"] = described(of, lambda: list(sharded))
    along_x = of.sharding.NamedSharding(mesh, of.sharding.PartitionSpec("x"))
    keys = of.device_put(of.random.split(of.random.key(0), 8), along_x)
    found["iteration over sharded keys"] = described(of, lambda: list(keys))
    alone = of.device_put(sharded, of.devices()[0])
    for row, function in (("sin", of.numpy.sin), ("dot", lambda v: v @ v), ("call", of.jit(lambda v: v + 1))):
        found[f"brought to one device: {row}"] = described(of, lambda function=function: function(alone))
    return found


if __name__ == "__main__":
    print_both(_all)
