"""Reads meshes, shardings and sharded types from printed jaxprs.

``f32[8@x,4@(y,z)]`` is sharded over explicit axes, and ``f32[2,4]{V:x}`` varies along ``x``. A type does not give the
sizes of mesh axes: they come from the mesh that is set, or from a mesh printed in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.avals import ShapedArray
from minijax.core.explicit import NO_SUMS, sharded_type
from minijax.core.lazy import HigherModule
from minijax.core.meshes import AbstractMesh, AxisType, Mesh, context
from minijax.core.shardings import NamedSharding, PartitionSpec, SingleDeviceSharding
from minijax.core.varying import summed, varying
from minijax.ir.parse_tokens import Scanner

_sharding = HigherModule("mesh_making")

Read = Callable[[], Any]

_MESH = re.compile(r"(?:Abstract)?Mesh\((?=['\"(])")
_AXIS = re.compile(r"(['\"])(\w+)\1\s*:\s*(\d+)")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=\s*")
_ALONG = re.compile(r"([VUR]):(\w+|\([\w,]+\))")
_BRACKETS = re.compile(r"shard_map\[|\[|\]")
_WORD = re.compile(r"[A-Za-z_]\w*")


def read_mesh(scan: Scanner, name: str) -> AbstractMesh:
    """Read the rest of a mesh after ``Mesh(`` or ``AbstractMesh(``. It is abstract if there are too few devices."""
    sizes: list[int] = []
    names: list[str] = []
    fields: dict[str, Any] = {}
    scan.take_text("()")
    while not scan.take_text(")"):
        if axis := scan.take(_AXIS):
            names.append(axis[2])
            sizes.append(int(axis[3]))
        elif key := scan.take(_KEYWORD):
            fields[key[1]] = _words(scan)
        elif not scan.take_text(","):
            scan.fail_expecting("an axis of a mesh, such as 'x': 4")
    kinds = [AxisType[kind] for kind in fields.get("axis_types", ())] or None
    about = {key: fields[key] for key in ("device_kind", "platform") if key in fields}
    abstract = AbstractMesh(sizes, names, kinds, **about)
    return abstract if name == "AbstractMesh" or not names else _of_devices(abstract)


def _words(scan: Scanner) -> Any:
    """A word, or a tuple of words."""
    if not scan.take_text("("):
        return scan.expect(_WORD, "a word")[0]
    words = []
    while not scan.take_text(")"):
        words.append(scan.expect(_WORD, "a word")[0])
        scan.take_text(",")
    return words


def _of_devices(abstract: AbstractMesh) -> AbstractMesh:
    now = context.mesh
    if isinstance(now, Mesh) and (now.shape_tuple, now.axis_types) == (abstract.shape_tuple, abstract.axis_types):
        return now
    try:
        return _sharding.make_mesh(abstract.axis_sizes, abstract.axis_names, abstract.axis_types)
    except ValueError:  # there are too few devices
        return abstract


def mesh_on_page(text: str) -> AbstractMesh | None:
    """The mesh that is set (or None) if ``text`` has no mesh, or one with the same axes; else the first in ``text``."""
    found = _MESH.search(text)
    now = context.mesh
    if found is None:
        return now
    scan = Scanner(text)
    scan.at = found.end()
    printed = read_mesh(scan, "AbstractMesh")
    return now if now is not None and now.shape_tuple == printed.shape_tuple else printed


def typed(scan: Scanner, plain: ShapedArray, axes: Sequence[str], along: str, at: int) -> ShapedArray:
    """``plain`` with mesh axes. ``axes``: a text per dimension, 'x', '(x,y)' or ''. ``along``: the text in braces."""
    spec = [_names(each) for each in axes]
    summed_axes = {kind: _names(names) for kind, names in _ALONG.findall(along)}
    unreduced, reduced = frozenset(summed_axes.get("U", ())), frozenset(summed_axes.get("R", ()))
    aval = plain
    inside = "V" in summed_axes or _inside_shard_map(scan.text[:at])
    if any(spec) or not inside:
        named = [*spec, *([] if inside else [(*unreduced, *reduced)])]
        mesh = mesh_on_page(scan.text)
        missing = [name for part in named for name in part if mesh is None or name not in mesh.axis_names]
        if mesh is None or missing:
            scan.fail(
                f"the text does not give the size of the mesh axis {missing[0]}; set the mesh around the call, "
                "with set_mesh(mesh)",
                at,
            )
        aval = sharded_type(plain, _explicit(mesh, named), spec, NO_SUMS if inside else (unreduced, reduced))
    return summed(varying(aval, summed_axes.get("V", ())), unreduced, reduced) if inside else aval


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.strip("()").split(",")) if text else ()


def _inside_shard_map(before: str) -> bool:
    """Whether the position after the text ``before`` is inside the program of a ``shard_map``."""
    depth = 0
    for found in reversed([*_BRACKETS.finditer(before)]):
        depth += 1 if found[0] == "]" else -1
        if depth < 0:
            if found[0] != "[":
                return True
            depth = 0
    return False


def _explicit(mesh: AbstractMesh, spec: Sequence[Sequence[str]]) -> AbstractMesh:
    """``mesh``, with the axis type Explicit for the axes in ``spec``."""
    return mesh.abstract_mesh.update_axis_types({name: AxisType.Explicit for part in spec for name in part})


def read_resharded(params: dict[str, Any], in_avals: Sequence[Any], out_avals: Sequence[Any]) -> dict[str, Any]:
    """Derive the parameters of ``reshard``, which are not printed, from the types."""
    (x,), (out,) = in_avals, out_avals
    sharding = NamedSharding(_mesh_of(out, x), out.sharding.spec)
    return {"dst_sharding": sharding, "concrete_mesh": None, "operand_mesh": None}


def _mesh_of(*avals: Any) -> AbstractMesh:
    return next((aval.sharding.mesh for aval in avals if not aval.sharding.mesh.empty), avals[0].sharding.mesh)


# Constructors and words in the text of parameters.
CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "P": PartitionSpec,
    "PartitionSpec": PartitionSpec,
    "NamedSharding": lambda mesh, spec, memory_kind=None: NamedSharding(mesh, spec, memory_kind=memory_kind),
    "SingleDeviceSharding": SingleDeviceSharding,
}
WORDS: dict[str, Any] = {kind.name: kind for kind in AxisType} | {"UNCONSTRAINED": PartitionSpec.UNCONSTRAINED}
