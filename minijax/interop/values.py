"""Convert types and values between JAX and minijax.

In: an aval, array, number or random key of one library. Out: its counterpart in the other library, which shares its
memory if possible.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minijax.api.explicit import use_abstract_mesh
from minijax.backend import pjrt
from minijax.config import matmul_precision, trace_key, x64_enabled
from minijax.core.array import Array, MeshArray
from minijax.core.avals import ShapedArray
from minijax.core.explicit import common_mesh, mesh_of_type, sharded_type, whole_spec
from minijax.core.keys import PRNGImpl, impl_of, is_key, keys_of, words_of
from minijax.core.meshes import AbstractMesh, AxisType, Mesh, context
from minijax.core.refs import AbstractRef
from minijax.core.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from minijax.core.trace import state
from minijax.core.varying import VaryingArray, current_mesh, is_checked, manual_axes, summed, varying
from minijax.ops.sharded import over_mesh


@functools.cache
def jax_module(name: str = "") -> Any:
    """``jax``, or its module ``name``, imported on first use: importing jax takes half a second."""
    return importlib.import_module(f"jax.{name}" if name else "jax")


def impl_of_jax(ours: PRNGImpl) -> Any:
    """JAX's implementation of random bits that corresponds to minijax's ``ours``."""
    if ours.theirs is None:
        ours.theirs = jax_module("random").key_dtype(ours.name)._impl
    return ours.theirs


def dtype_of(theirs: Any) -> Any:
    """Convert JAX's element type: a key type, or NumPy's."""
    if isinstance(theirs, np.dtype):
        return theirs
    dtypes = jax_module("dtypes")
    if dtypes.issubdtype(theirs, dtypes.prng_key):
        return impl_of(theirs._impl).dtype
    if dtypes.issubdtype(theirs, dtypes.extended):
        raise NotImplementedError(f"minijax has no values of type {theirs}")
    return np.dtype(theirs)


def dtype_of_jax(ours: Any) -> Any:
    """Convert an element type, minijax's or JAX's, to JAX's."""
    return jax_module("random").key_dtype(impl_of_jax(ours.impl)) if is_key(ours) else ours


def aval_of(theirs: Any) -> Any:
    """Convert JAX's type: an aval, the type of a reference, or a ``ShapeDtypeStruct``."""
    if hasattr(theirs, "inner_aval"):
        return AbstractRef(aval_of(theirs.inner_aval))
    if isinstance(theirs, ShapedArray):
        return theirs
    made = ShapedArray(tuple(theirs.shape), dtype_of(theirs.dtype), bool(getattr(theirs, "weak_type", False)))
    sharding: Any = getattr(theirs, "sharding", None)
    if type(sharding).__name__ == "NamedSharding" and sharding.mesh.explicit_axes:
        made = sharded_type(made, abstract_of_jax(sharding.mesh), part_of_jax(sharding.spec))
    manual = getattr(theirs, "manual_axis_type", None)
    if manual is not None and (manual.varying or manual.unreduced or manual.reduced):
        made = summed(varying(made, manual.varying), manual.unreduced, manual.reduced)
    return made


def abstract_of_jax(theirs: Any) -> AbstractMesh:
    """Convert JAX's abstract mesh. Inside a ``shard_map`` over that mesh, manual axes keep minijax's types."""
    types = {name: AxisType[each.name] for name, each in zip(theirs.axis_names, theirs.axis_types, strict=True)}
    around = current_mesh()
    if around is not None and around.shape_tuple == theirs.shape_tuple:  # the mesh of the enclosing shard_map
        types = {name: kind for name, kind in types.items() if kind is not AxisType.Manual}
        return around.abstract_mesh.update_axis_types(types)
    device = theirs.abstract_mesh.abstract_device
    about = {} if device is None else {"device_kind": device.device_kind, "platform": device.platform}
    return AbstractMesh(theirs.axis_sizes, theirs.axis_names, tuple(types.values()), **about)


def mesh_of_jax(theirs: Any) -> AbstractMesh:
    """Convert JAX's mesh to one over the minijax devices with the same ids."""
    if isinstance(theirs, jax_module("sharding").AbstractMesh):
        around = current_mesh()
        if around is not None and around.shape_tuple == theirs.shape_tuple:  # the mesh of the enclosing shard_map
            return around
        return abstract_of_jax(theirs)
    types = tuple(AxisType[each.name] for each in theirs.axis_types)
    ours = {device.id: device for device in pjrt.devices()}
    devices = np.empty(theirs.devices.shape, object)
    for at, device in np.ndenumerate(theirs.devices):
        if device.id not in ours:
            raise NotImplementedError(
                f"a mesh with the device {device}: minijax has {len(ours)}. Start the program with "
                f"JAX_NUM_CPU_DEVICES={theirs.devices.size}."
            )
        devices[at] = ours[device.id]
    return Mesh(devices, theirs.axis_names, types)


@contextmanager
def mesh_now() -> Iterator[None]:
    """A context in which JAX has minijax's current mesh; in ``shard_map``, also its manual axes and ``check_vma``."""
    mesh = current_mesh()
    if mesh is None:
        of = jax_module("sharding")
        wanted = None if context.mesh is None else abstract_for_jax(context.mesh)
        if wanted is None or wanted == of.get_abstract_mesh():
            yield
        else:
            with of.use_abstract_mesh(wanted):
                yield
        return
    # JAX's shard_map sets the same for its own tracing; there is no public function
    types_tell = sys.modules["jax._src.config"]._check_vma
    with jax_module("sharding").use_abstract_mesh(_manual_mesh(mesh)), types_tell(is_checked(manual_axes())):
        yield


@contextmanager
def mesh_of_jax_now() -> Iterator[None]:
    """A context in which JAX's current mesh is also minijax's, unless minijax has a current mesh already."""
    theirs = jax_module("sharding").get_abstract_mesh()
    if theirs.empty or context.mesh is not None or current_mesh() is not None or theirs.manual_axes:
        yield
        return
    with use_abstract_mesh(abstract_of_jax(theirs)):
        yield


def _manual_mesh(mesh: AbstractMesh) -> Any:
    """JAX's abstract mesh for a per-device program: the current manual axes are Manual."""
    manual = jax_module("sharding").AxisType.Manual
    return abstract_for_jax(mesh).update_axis_types(dict.fromkeys(manual_axes(), manual))


def abstract_for_jax(ours: AbstractMesh) -> Any:
    """Convert minijax's mesh to a JAX abstract mesh, the kind that JAX's types contain."""
    of = jax_module("sharding")
    ours = ours.abstract_mesh
    device = None if ours.device_kind is None else of.AbstractDevice(ours.device_kind, None, ours.platform)
    types = tuple(of.AxisType[each.name] for each in ours.axis_types)
    return of.AbstractMesh(ours.axis_sizes, ours.axis_names, types, abstract_device=device)


def mesh_for_jax(ours: AbstractMesh) -> Any:
    """Convert minijax's mesh to JAX's."""
    of = jax_module("sharding")
    if not isinstance(ours, Mesh):
        return abstract_for_jax(ours)
    types = tuple(of.AxisType[each.name] for each in ours.axis_types)
    theirs = {device.id: device for device in jax_module().devices()}
    devices = np.empty(ours.devices.shape, object)
    for at, device in np.ndenumerate(ours.devices):
        devices[at] = theirs[device.id]
    return of.Mesh(devices, ours.axis_names, types)


def sharding_of_jax(theirs: Any) -> Any:
    """Convert JAX's sharding to one over the devices with the same ids; None if minijax cannot express it."""
    of = jax_module("sharding")
    if isinstance(theirs, of.SingleDeviceSharding):
        (device,) = theirs.device_set
        ours = {each.id: each for each in pjrt.devices()}
        return SingleDeviceSharding(ours[device.id]) if device.id in ours else None
    if not isinstance(theirs, of.NamedSharding):
        return None
    abstract = isinstance(theirs.mesh, of.AbstractMesh)
    mesh = abstract_of_jax(theirs.mesh) if abstract else mesh_of_jax(theirs.mesh)
    return NamedSharding(mesh, part_of_jax(theirs.spec))


def part_of_jax(theirs: Any) -> PartitionSpec:
    """Convert JAX's ``PartitionSpec``."""
    free = jax_module("sharding").PartitionSpec.UNCONSTRAINED
    parts = [PartitionSpec.UNCONSTRAINED if part is free else part for part in theirs.partitions]
    return PartitionSpec(*parts, unreduced=theirs.unreduced, reduced=theirs.reduced)


def sharding_for_jax(ours: Sharding) -> Any:
    """Convert to JAX's sharding. NotImplementedError for a sharding that only XLA can describe."""
    of = jax_module("sharding")
    if isinstance(ours, SingleDeviceSharding):
        theirs = {device.id: device for device in jax_module().devices()}
        return of.SingleDeviceSharding(theirs[ours.assignment[0].id])
    if not isinstance(ours, NamedSharding):
        raise NotImplementedError(f"minijax cannot convert {ours} for JAX: first give the array a NamedSharding.")
    return of.NamedSharding(mesh_for_jax(ours.mesh), spec_for_jax(ours.spec))


def spec_for_jax(ours: PartitionSpec) -> Any:
    """Convert to JAX's ``PartitionSpec``."""
    theirs = jax_module("sharding").PartitionSpec
    parts = [theirs.UNCONSTRAINED if part is PartitionSpec.UNCONSTRAINED else part for part in ours]
    return theirs(*parts, unreduced=ours.unreduced, reduced=ours.reduced)


def specs_of(avals: Sequence[Any]) -> list[Any]:
    """``spec_of`` for each operand of one operation: if one operand's type names a mesh, all specs do."""
    mesh = common_mesh(avals)
    return [spec_of(aval, mesh) for aval in avals]


def spec_of(aval: Any, mesh: AbstractMesh | None = None) -> Any:
    """JAX's ``ShapeDtypeStruct`` for a type, or a JAX reference. ``mesh`` is used if the type names no mesh."""
    if type(aval) is AbstractRef:
        with jax_module().ensure_compile_time_eval():
            return jax_module().new_ref(jax_module("numpy").zeros(aval.shape, dtype_of_jax(aval.dtype)))
    weak, ours = bool(getattr(aval, "weak_type", False)), aval_of(aval)
    mesh = mesh_of_type(ours) or mesh
    about = _over_mesh(ours, mesh) if type(ours) is VaryingArray or mesh is not None else {}
    return jax_module().ShapeDtypeStruct(aval.shape, dtype_of_jax(aval.dtype), weak_type=weak, **about)


def type_for_jax(aval: ShapedArray, mesh: AbstractMesh | None) -> Any:
    """JAX's abstract value for a type; replicated over ``mesh`` if the type names none."""
    about = _over_mesh(aval, mesh)
    return jax_module("core").ShapedArray(aval.shape, dtype_of_jax(aval.dtype), aval.weak_type, **about)


def _over_mesh(ours: ShapedArray, mesh: AbstractMesh | None) -> dict[str, Any]:
    """The keyword arguments that give JAX's type a mesh: the mesh that the type ``ours`` names, or else ``mesh``."""
    of, around = jax_module("sharding"), current_mesh()
    mesh = mesh_of_type(ours) or mesh
    if mesh is None and around is None:
        return {}
    theirs = _manual_mesh(around) if mesh is None else abstract_for_jax(mesh)  # type: ignore[arg-type]
    if around is not None and mesh is not None:
        theirs = theirs.update_axis_types(dict.fromkeys(manual_axes(), of.AxisType.Manual))
    about = {"sharding": of.NamedSharding(theirs, spec_for_jax(whole_spec(ours)))}
    if type(ours) is VaryingArray:
        states = {"varying": ours.vma, "unreduced": ours.unreduced, "reduced": ours.reduced}
        about["manual_axis_type"] = of.ManualAxisType(**states)
    return about


def from_jax_value(x: Any) -> Array:
    """Convert a JAX array, NumPy array or number; the result shares memory on the host."""
    if type(x).__name__ == "Ref":
        raise NotImplementedError(
            f"minijax cannot import a JAX function that closes over a mutable array reference, {x!r}: JAX would write "
            "to it. Create the reference inside the function."
        )
    dtype = getattr(x, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):
        aval = aval_of(x)
        return Array(keys_of(np.asarray(jax_module("random").key_data(x)), aval.dtype), aval)
    value = np.asarray(x)
    made = Array(value, ShapedArray(value.shape, value.dtype, bool(getattr(x, "weak_type", False))))
    if len(getattr(x, "addressable_shards", ())) > 1:
        sharding = sharding_of_jax(x.sharding)
        return made if sharding is None else over_mesh(made, sharding)
    return made


def from_jax_values(tree: Any) -> Any:
    """Convert JAX's arrays in a tree of JAX; an exception is a leaf."""
    array = jax_module().Array
    return jax_module("tree_util").tree_map(
        lambda x: from_jax_value(x) if isinstance(x, array) else x, tree, is_leaf=lambda x: isinstance(x, Exception)
    )


def to_jax_value(x: Array) -> Any:
    """Convert to a JAX array; weak types stay weak, keys stay keys."""
    if is_key(x.aval.dtype):
        words = jax_module("numpy").asarray(words_of(x._value(), x.aval.dtype))
        return jax_module("random").wrap_key_data(words, impl=impl_of_jax(x.aval.dtype.impl))
    # JAX would narrow 64-bit values while it computes with 32 bits
    with jax_module().enable_x64(x.aval.dtype.itemsize > 4 or jax_module().config.jax_enable_x64):
        made = jax_module("numpy").asarray(np.asarray(x))
        if type(x) is MeshArray:
            made = jax_module().device_put(made, sharding_for_jax(x.device))
        if not x.aval.weak_type:
            return made
        params = {"new_dtype": made.dtype, "weak_type": True, "sharding": None}
        return jax_module("lax").convert_element_type_p.bind(made, **params)


# JAX settings that affect a function's program, besides those that minijax sets.
_JAX_SETTINGS = (
    *("jax_default_prng_impl", "jax_threefry_partitionable", "jax_default_matmul_precision"),
    *("jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_enable_custom_prng", "jax_disable_jit"),
)


def settings() -> tuple[Any, ...]:
    """All settings of both libraries, and the named axes, that a function's program depends on."""
    config = jax_module().config
    mesh = jax_module("sharding").get_abstract_mesh()
    return (trace_key(), state.axis_env, mesh, *[getattr(config, name) for name in _JAX_SETTINGS])


@contextlib.contextmanager
def circumstances() -> Iterator[None]:
    """A context in which JAX computes with minijax's setting of 64-bit types and, if set, its matmul precision."""
    jax = jax_module()
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(x64_enabled()))
        if matmul_precision() is not None:
            stack.enter_context(jax.default_matmul_precision(matmul_precision()))
        yield


def make_jaxpr(fun: Callable[..., Any], specs: Sequence[Any]) -> Any:
    """JAX's ``ClosedJaxpr`` of ``fun`` at arguments of types ``specs``, inside the current named axes."""
    axes = [(name, size) for name, size in state.axis_env if name is not None]
    with circumstances(), mesh_now():
        return jax_module().make_jaxpr(fun, axis_env=axes or None)(*specs)
