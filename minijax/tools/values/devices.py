"""The values of each device inside a ``shard_map``: devices are examples of one more vmap for each axis of the mesh.

In: values of the outer program, as ``Stacked``, and the specs that divide them. Out: the parts, with an axis in front
for each mesh axis along which they differ; and results assembled from such parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.shardings import PartitionSpec, axes_of_part, axes_of_spec
from minijax.core.varying import varying
from minijax.interpreters.vmap import AxisData
from minijax.ir.jaxpr import JaxprEqn
from minijax.tools.values.examples import Levels, Stacked, row
from minijax.tools.values.feeds import COTANGENT, Feed, of_operands

# Primitives that run a program on each of several devices.
MAPPED = "shard_map"


def is_mapped(eqn: JaxprEqn) -> bool:
    """Whether each of several devices runs the program of ``eqn``."""
    return eqn.primitive.name == MAPPED


def manual_axes(eqn: JaxprEqn) -> list[AxisData]:
    """The mesh axes along which a ``shard_map`` runs its program."""
    here = eqn.params["newly_manual_axes"]
    return [AxisData(name, size) for name, size in eqn.params["mesh"].shape_tuple if name in here]


def device_count(eqn: JaxprEqn) -> int:
    """The number of devices that run the program of a ``shard_map``."""
    return math.prod(axis.size for axis in manual_axes(eqn))


def place_in_mesh(axes: Sequence[tuple[Any, int]], index: int) -> str:
    """The coordinates of device ``index`` in a mesh: ``data=1, model=0``; '' if the mesh has only one axis."""
    if len(axes) < 2:
        return ""
    places = np.unravel_index(index, [size for _, size in axes])
    return ", ".join(f"{name}={place}" for (name, _), place in zip(axes, places, strict=True))


class Devices(Feed):
    """Gives the program of each device its parts of the values in the ``outer`` frame, and assembles the results.

    With ``check_vma``, ``pvary`` sums the cotangents of shared values; without it, ``_summed`` does.
    """

    def __init__(self, outer: Any, eqn: JaxprEqn) -> None:
        find = of_operands(outer, eqn.invars, eqn.outvars)
        super().__init__(find, outer.feed.kinds, outer.feed.missing)
        self.eqn = eqn
        self.axes = manual_axes(eqn)
        self.levels = Levels([*outer.levels.axes, *self.axes])
        self.checked = eqn.params["check_vma"]

    def __call__(self, kind: str, place: int) -> Any:
        """One part of the value or tangent of an operand, or of the cotangent of a result, for each device.

        Without ``check_vma``, devices with the same part share its cotangent equally.
        """
        spec = self.eqn.params["out_specs" if kind == COTANGENT else "in_specs"][place]
        found = self._parts(super().__call__(kind, place), spec)
        if kind != COTANGENT or self.checked or not isinstance(found, Stacked):
            return found
        return _scaled(found, 1 / math.prod(axis.size for axis in self.axes if axis.name not in axes_of_spec(spec)))

    def results(self, outs: Sequence[Any]) -> list[Any]:
        """The results of the call, assembled from the results of the devices."""
        return [self._together(x, spec) for x, spec in zip(outs, self.eqn.params["out_specs"], strict=True)]

    def arrived(self, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the call's operands, assembled from the cotangents of their parts."""
        specs = self.eqn.params["in_specs"]
        return [self._together(self._summed(x, spec), spec) for x, spec in zip(cts, specs, strict=True)]

    def _parts(self, x: Any, spec: PartitionSpec) -> Any:
        if not isinstance(x, Stacked):
            return x
        before, aval = sum(x.mapped), x.array.aval
        names, shape = [], list(aval.shape[:before])
        for dimension, size in enumerate(aval.shape[before:]):
            divided = axes_of_part(spec[dimension]) if dimension < len(spec) else ()
            sizes = [self._size(name) for name in divided]
            names += [*divided, None]
            shape += [*sizes, size // math.prod(sizes)]
        order = self._order(names, before)
        mapped = [axis.name in names for axis in self.axes]
        value = _reshaped(x.array, shape)
        return Stacked(_transposed(value, order), (*x.mapped, *mapped))

    def _together(self, x: Any, spec: PartitionSpec) -> Any:
        if not isinstance(x, Stacked):
            return x
        x = self._as_divided(x, axes_of_spec(spec))
        outer = len(x.mapped) - len(self.axes)
        before = sum(x.mapped[:outer])
        names, whole = [], list(x.array.aval.shape[:before])
        for dimension, size in enumerate(x.array.aval.shape[sum(x.mapped) :]):
            divided = axes_of_part(spec[dimension]) if dimension < len(spec) else ()
            names += [*divided, None]
            whole.append(size * math.prod(map(self._size, divided)))
        back = np.argsort(self._order(names, before)).tolist()
        together = _reshaped(_transposed(x.array, back), whole)
        return Stacked(Array(together._value(), varying(together.aval, ())), x.mapped[:outer])

    def _as_divided(self, x: Stacked, names: Sequence[Any]) -> Stacked:
        """``x`` with axes for exactly ``names``: repeated along missing axes; of other axes, only the first device."""
        outer = len(x.mapped) - len(self.axes)
        for i, axis in enumerate(self.axes):
            at = sum(x.mapped[: outer + i])
            if x.mapped[outer + i] == (axis.name in names):
                continue
            if axis.name in names:
                array = _repeated(x.array, axis.size, at)
            else:
                array = row(Stacked(x.array, (True,) * at), 0).array
            mapped = list(x.mapped)
            mapped[outer + i] = axis.name in names
            x = Stacked(array, tuple(mapped))
        return x

    def _summed(self, x: Any, spec: PartitionSpec) -> Any:
        """``x``; without ``check_vma``, its sum over the devices that have the same part."""
        if self.checked or not isinstance(x, Stacked):
            return x
        outer = len(x.mapped) - len(self.axes)
        for i, axis in enumerate(self.axes):
            if axis.name in axes_of_spec(spec):
                continue
            if not x.mapped[outer + i]:
                x = _scaled(x, axis.size)
                continue
            at = sum(x.mapped[: outer + i])
            value = np.asarray(x.array._value()).sum(axis=at, dtype=x.array.aval.dtype)
            shape = x.array.aval.shape
            array = Array(value, x.array.aval.update(shape=(*shape[:at], *shape[at + 1 :])))
            x = Stacked(array, (*x.mapped[: outer + i], False, *x.mapped[outer + i + 1 :]))
        return x

    def _order(self, names: Sequence[Any], before: int) -> list[int]:
        """The permutation: the first ``before`` axes, the mesh axes in ``names`` in mesh order, then the rest."""
        mesh = [before + names.index(axis.name) for axis in self.axes if axis.name in names]
        rest = [before + i for i, name in enumerate(names) if name is None]
        return [*range(before), *mesh, *rest]

    def _size(self, name: Any) -> int:
        return next(axis.size for axis in self.axes if axis.name == name)


def device_of(frame: Any, eqn: JaxprEqn, index: int | None, devices: Callable[[JaxprEqn], Any]) -> Any:
    """The frame of device ``index`` of a ``shard_map``; of all devices if None. The last mesh axis counts fastest."""
    if index is None:
        return devices(eqn)
    sizes = [axis.size for axis in manual_axes(eqn)]
    if not 0 <= index < math.prod(sizes):
        raise IndexError(f"this shard_map runs on {math.prod(sizes)} devices; there is no device {index}")
    return devices(eqn).example(*[None] * len(frame.levels.axes), *map(int, np.unravel_index(index, sizes)))


def _reshaped(x: Array, shape: Sequence[int]) -> Array:
    value = np.asarray(x._value())
    return Array(value.reshape((*shape, *value.shape[x.aval.ndim :])), x.aval.update(shape=tuple(shape)))


def _transposed(x: Array, order: Sequence[int]) -> Array:
    value = np.asarray(x._value())
    rest = range(len(order), value.ndim)  # the words of a random key are trailing axes
    return Array(np.transpose(value, [*order, *rest]), x.aval.update(shape=tuple(x.aval.shape[i] for i in order)))


def _repeated(x: Array, size: int, at: int) -> Array:
    value = np.expand_dims(np.asarray(x._value()), at)
    shape = (*x.aval.shape[:at], size, *x.aval.shape[at:])
    return Array(np.broadcast_to(value, (*shape, *value.shape[len(shape) :])), x.aval.update(shape=shape))


def _scaled(x: Stacked, by: float) -> Stacked:
    aval = x.array.aval
    return x._replace(array=Array((np.asarray(x.array._value()) * by).astype(aval.dtype), aval))
