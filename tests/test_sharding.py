"""``minijax.sharding``: descriptions of shardings say what JAX's say. Four devices need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

FACTS = """
import importlib, json, sys
import numpy as np
jax, of = importlib.import_module(sys.argv[1]), importlib.import_module(sys.argv[1] + ".sharding")
devices = jax.devices()
mesh = of.Mesh(np.array(devices).reshape(2, 2), ("x", "y"))
P, facts = of.PartitionSpec, []
facts += [repr(mesh), str(mesh), mesh.shape, mesh.size, mesh.axis_types, mesh.device_ids.tolist(), mesh.shape_tuple]
facts += [mesh.empty, repr(mesh.abstract_mesh)[:30], mesh == of.Mesh(np.array(devices).reshape(2, 2), ("x", "y"))]
p = P("x", None, ("x", "y"))
facts += [p, len(p), p[0], P("x"), P("x") + P("y"), P("x") == P("x", None), hash(P("x")) == hash(P("x"))]
halves = of.NamedSharding(mesh, P("x", None))
for spec in (P(), P("x"), P(None, "y"), P(("x", "y")), P("y", "x"), P("x", "y")):
    named = of.NamedSharding(mesh, spec)
    parts = sorted((device.id, index) for device, index in named.devices_indices_map((4, 8)).items())
    facts += [named, named.is_fully_replicated, named.shard_shape((4, 8)), parts, named.num_devices]
    facts += [named.is_fully_addressable, named.is_equivalent_to(halves, 2), named == halves, named.memory_kind]
single = of.SingleDeviceSharding(devices[0])
facts += [single, single.shard_shape((2,)), single.is_fully_replicated, jax.make_mesh((2, 2), ("a", "b"))]
facts += [jax.device_put(np.ones(3), of.SingleDeviceSharding(devices[1])).devices(), jax.P is P, list(of.AxisType)]
for refused in (
    lambda: of.NamedSharding(mesh, P("z")),
    lambda: of.NamedSharding(mesh, P("x", "x")),
    lambda: of.Mesh(np.array(devices).reshape(2, 2), ("x",)),
    lambda: halves.shard_shape((3, 3)),
    lambda: jax.make_mesh((8,), ("x",)),
):
    try:
        refused()
    except Exception as error:
        facts.append(str(error)[:60])
if sys.argv[1] == "minijax":
    try:
        jax.device_put(np.ones(4), halves)
    except NotImplementedError as error:
        assert "map over its leading axis with pmap" in str(error)
print(json.dumps([str(fact) for fact in facts]))
"""


def facts(library: str) -> list[str]:
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, "-c", FACTS, library], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    found: list[str] = json.loads(run.stdout)
    return found


def test_shardings_are_what_jax_describes() -> None:
    jaxs = facts("jax")
    assert len(jaxs) > 70
    assert facts("minijax") == jaxs
