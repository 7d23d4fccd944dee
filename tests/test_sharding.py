"""Descriptions of shardings match JAX's, and so do programs on arrays over several devices.

Programs on several devices run in a separate process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from minijax.api.visualize_sharding import drawing, grid, ranges, visualize_sharding
from minijax.core.meshes import Mesh
from minijax.core.shardings import NamedSharding
from minijax.core.shardings import PartitionSpec as P
from tests.on_devices import printed

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
facts += [P("x") + ("y", None), ("y",) + P("x"), p.index(("x", "y")), p.count(None)]
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
layout, meshes, hosts = (importlib.import_module(sys.argv[1] + ".experimental." + name)
                         for name in ("layout", "mesh_utils", "multihost_utils"))
whole, last = np.arange(8.0, dtype=np.float32).reshape(4, 2), of.SingleDeviceSharding(devices[3])
Layout, Format = layout.Layout, layout.Format
rows = Layout((0, 1))
facts += [rows, Layout((1, 0), ((8, 128),), 4), rows == Layout([0, 1]), rows.update(tiling=((2,),)), Layout.AUTO]
facts += [Format(rows, last), Format(), Format(rows, last) == Format(rows, last), hash(rows) == hash(Layout((0, 1)))]
facts += [jax.device_put(whole, Format(rows, last)).devices()]
places = [meshes.create_device_mesh((2, 2)), meshes.create_device_mesh((1, 2), devices[2:]),
          meshes.create_hybrid_device_mesh((2, 2), (1, 1), process_is_granule=True),
          meshes.create_hybrid_device_mesh((4,), (1,), devices[::-1], process_is_granule=True)]
facts += [(each.shape, [device.id for device in each.flat]) for each in places]
tree = {"a": whole[0], "b": 3}
facts += [hosts.process_allgather(tree), hosts.process_allgather(tree, tiled=True), hosts.broadcast_one_to_all(tree)]
facts += [hosts.assert_equal(tree), hosts.sync_global_devices("here"), hosts.reached_preemption_sync_point(1)]
asked = []
everywhere = of.NamedSharding(mesh, P())
for sharding in (last, everywhere):
    made = jax.make_array_from_callback((4, 2), sharding, lambda index: asked.append(index) or whole[index])
    facts += [made, made.dtype, sorted(device.id for device in made.devices())]
    facts += [made.sharding.is_fully_replicated, len(made.addressable_shards), (made + 1).sum()]
facts += [asked, jax.make_array_from_callback((), last, lambda index: 2.5).weak_type]
copies = [jax.device_put(whole, device) for device in devices]
facts += [jax.make_array_from_single_device_arrays((4, 2), everywhere, copies)]
facts += [jax.make_array_from_process_local_data(last, {"a": whole, "b": whole[0]})]
held = jax.device_put(whole, devices[2])
facts += [any(x is held for x in jax.live_arrays())]
single_mesh = of.Mesh(np.array(devices[1:2]), ("x",))
with jax.set_mesh(single_mesh):
    facts += [of.get_mesh(), jax.device_put(whole, P()).devices(), of.get_abstract_mesh().axis_names]
of.set_mesh(single_mesh)
facts += [of.get_mesh() == single_mesh]
of.set_mesh(None)
facts += [of.get_mesh().empty, of.get_abstract_mesh().empty]
for refused in (
    lambda: meshes.create_device_mesh((3,)),
    lambda: meshes.create_hybrid_device_mesh((4,), (1,)),
    lambda: meshes.create_hybrid_device_mesh((2,), (2,), process_is_granule=True),
    lambda: Format(rows),
    lambda: Format(3),
    lambda: Format(None, 3),
    lambda: rows.check_compatible_aval((1,)),
    lambda: jax.make_array_from_callback((4,), devices[0], lambda index: 1),
    lambda: jax.make_array_from_callback((5, 2), last, lambda index: whole),
    lambda: jax.make_array_from_callback((4, 2), last, lambda index: whole, dtype=np.int32),
    lambda: jax.jit(lambda x: jax.make_array_from_callback((4, 2), last, lambda index: x))(whole),
    lambda: jax.make_array_from_single_device_arrays((4, 2), everywhere, 3),
    lambda: jax.make_array_from_single_device_arrays((4, 2), everywhere, []),
    lambda: jax.make_array_from_single_device_arrays((4, 2), last, [whole]),
    lambda: jax.make_array_from_single_device_arrays((4, 2), last, copies[:1]),
    lambda: jax.make_array_from_process_local_data(last, whole, (5, 2)),
    lambda: jax.set_mesh(3),
    lambda: jax.jit(lambda x: (of.get_mesh(), x)[1])(1.0),
    lambda: jax.jit(lambda x: (jax.set_mesh(mesh), x)[1])(1.0),
    lambda: jax.device_put(whole, P()),
):
    try:
        refused()
    except Exception as error:
        facts.append((type(error).__name__, str(error).replace("jax.", "")[:24]))
    else:
        facts.append("not refused")
if sys.argv[1] == "minijax":
    try:
        jax.device_put(whole, Format(Layout((1, 0)), last))
    except NotImplementedError:
        pass
    else:
        raise AssertionError("another layout")
print(json.dumps([str(fact) for fact in facts]))
"""


def facts(library: str) -> list[str]:
    found: list[str] = printed("-c", FACTS, library, devices=4)
    return found


def test_programs_on_sharded_arrays_match_jax() -> None:
    theirs, ours = (printed("-m", "tests.sharded_programs", of, quickly=True) for of in ("jax", "minijax"))
    raised = {name for name, what in theirs.items() if what[0] == "raised"}
    assert len(theirs) > 60 and len(raised) > 15
    for name, what in theirs.items():
        if name.startswith("text: ") and "GSPMDSharding" in what[2]:
            # if XLA chose an argument's sharding, JAX prints XLA's description; minijax's names mesh axes
            what[2] = ours[name][2]
    assert ours == theirs


def test_descriptions_of_shardings_match_jax() -> None:
    jaxs = facts("jax")
    assert len(jaxs) > 70
    assert facts("minijax") == jaxs


@dataclass(frozen=True)
class NamedDevice:
    """A device with only the attributes that a picture shows."""

    id: int
    platform: str = "cpu"


def test_pictures_of_shardings_show_the_devices_of_each_shard() -> None:
    devices = np.array([NamedDevice(i) for i in range(8)], dtype=object)
    mesh = Mesh(devices.reshape(4, 2), ("x", "y"))
    for spec in (P(), P("x"), P("y", "x"), P(None, "y"), P(("x", "y")), P(("y", "x"), None)):
        sharding = NamedSharding(mesh, spec)
        held: dict[tuple[int, int], list[int]] = {}
        for device, (rows, columns) in sharding.devices_indices_map((8, 8)).items():
            held.setdefault((rows.start or 0, columns.start or 0), []).append(device.id)
        cells = [cell for row in grid((8, 8), sharding) for cell in row]
        assert cells == [f"CPU {ranges(sorted(held[part]))}" for part in sorted(held)]
        assert len({len(line) for line in drawing((8, 8), sharding)}) == 1
    # boxes as wide as the texts, then narrower ones
    sharding = NamedSharding(mesh, P(None, "x"))
    assert [drawing((8, 8), sharding, width)[1] for width in (33, 29, 17)] == [
        "│CPU 0,1│CPU 2,3│CPU 4,5│CPU 6,7│", "│ 0,1  │ 2,3  │ 4,5  │ 6,7  │", "│0,1│2,3│4,5│6,7│"
    ]  # fmt: skip
    assert ranges([0, 2, 4, 5, 6, 7, 9, 10]) == "0,2,4-7,9,10"
    with pytest.raises(ValueError, match="1 or 2 dimensions"):
        drawing((2, 2, 2), NamedSharding(mesh, P()))
    import jax

    with pytest.raises(TypeError, match="For a sharding of JAX, call jax.debug.visualize_sharding"):
        visualize_sharding((2,), jax.numpy.ones(2).sharding)
