"""The types inside ``shard_map`` (one program on each device) name the mesh axes along which values differ.

A value *varies* along an axis if devices at different positions along it may hold different values. JAX calls these
axes "varying manual axes" and prints ``f32[2,4]{V:(x,y)}``. ``VaryingArray`` is a ``ShapedArray`` with such axes.

Invariant: the operands of an operation vary along the same axes. While the program of each device is traced or
transformed (``manual``), ``bind`` applies ``pvary`` to an operand that varies along fewer axes than the others. The
transpose of ``pvary`` sums cotangents over the devices, so derivatives of shared values are right.

``bind`` applies ``pvary`` through ``bind_hooks``. Without ``shard_map`` this list is empty, so other programs pay
nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from minijax.core.array import get_aval
from minijax.core.avals import ManualAxisType, ShapedArray
from minijax.core.lazy import HigherModule
from minijax.core.primitive import Primitive, abstract_hooks, bind_hooks, infer_type
from minijax.core.refs import AbstractRef

# ``explicit_types.result_types`` asks JAX along which axes results are unreduced or reduced.
_explicit_types = HigherModule("explicit_types")
_reshard = HigherModule("reshard")

_interned: weakref.WeakValueDictionary[Any, VaryingArray] = weakref.WeakValueDictionary()


class VaryingArray(ShapedArray):
    """The interned type of values of type ``plain`` that vary along the mesh axes ``along``, in the mesh's order.

    Along ``unreduced`` axes the value must still be summed. Along ``reduced`` axes its cotangent must still be summed.
    """

    __slots__ = ("plain", "along", "vma", "unreduced", "reduced")

    plain: ShapedArray
    along: tuple[Any, ...]

    def __new__(  # type: ignore[misc]
        cls,
        plain: ShapedArray,
        along: tuple[Any, ...],
        unreduced: frozenset[Any] = frozenset(),
        reduced: frozenset[Any] = frozenset(),
    ) -> VaryingArray:
        key = (plain, along, unreduced, reduced)
        found = _interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.shape, self.dtype, self.weak_type = plain.shape, plain.dtype, plain.weak_type
        self.ndim = plain.ndim
        self.plain, self.along, self.vma = plain, along, frozenset(along)
        self.unreduced, self.reduced = unreduced, reduced
        self.zero = self.mlir = self.unmapped = None
        self.size = plain.size
        _ask_for_types()
        if unreduced or reduced:
            note_summed()
        return _interned.setdefault(key, self)

    def __reduce__(self) -> Any:
        return (VaryingArray, (self.plain, self.along, self.unreduced, self.reduced))

    def over(self, plain: ShapedArray) -> ShapedArray:
        """The type ``plain`` with the varying, unreduced and reduced axes of this type."""
        return VaryingArray(plain, self.along, self.unreduced, self.reduced)

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """The axes along which values vary, are unreduced and are reduced."""
        return ManualAxisType(self.vma, self.unreduced, self.reduced)

    def to_cotangent_aval(self) -> ShapedArray:
        """The type of cotangents: reduced axes become unreduced, and unreduced axes reduced."""
        return summed(self.to_tangent_aval(), self.reduced, self.unreduced)

    def update(self, **changes: Any) -> ShapedArray:
        """The type with the given fields replaced; ``vma`` are the axes along which it varies."""
        along = changes.pop("vma", self.along)
        made = varying(self.plain.update(**changes), along)
        return summed(made, self.unreduced, self.reduced) if self.unreduced or self.reduced else made

    @property
    def sharding(self) -> Any:
        """The sharding of values of this type over the axes that are not manual."""
        return self.plain.sharding

    def _without(self, axis: int) -> ShapedArray:
        return self.over(self.plain.part(axis))

    def stacked(self, size: int, axis: int = 0) -> ShapedArray:
        return self.over(self.plain.stacked(size, axis))

    def str_short(self, short_dtypes: bool = True) -> str:
        text = summed_text(ordered({*self.unreduced, *self.reduced}), self.along, self.unreduced, self.reduced)
        return f"{self.plain.str_short(short_dtypes)}{text}"


def summed_text(order: Iterable[Any], along: Iterable[Any], unreduced: frozenset[Any], reduced: frozenset[Any]) -> str:
    """``{V:x, U:(y,z)}``: varying (V), unreduced (U) and reduced (R) axes. U and R axes are sorted as in ``order``."""
    order = tuple(order)
    kinds = {"V": tuple(along), "U": [a for a in order if a in unreduced], "R": [a for a in order if a in reduced]}
    parts = [
        f"{kind}:{axes[0] if len(axes) == 1 else '(' + ','.join(map(str, axes)) + ')'}"
        for kind, axes in kinds.items()
        if axes
    ]
    return f"{{{', '.join(parts)}}}" if parts else ""


def note_summed() -> None:
    """From now on types may have unreduced and reduced axes."""
    if _reshard.reduced_scalars not in bind_hooks:
        bind_hooks.append(_reshard.reduced_scalars)


def _ask_for_types() -> None:
    """From now on ask ``type_of_varying`` for the types of results."""
    if type_of_varying not in abstract_hooks:
        abstract_hooks.insert(0, type_of_varying)


def varying(aval: ShapedArray, axes: Iterable[Any]) -> ShapedArray:
    """The type ``aval``, of a value or a reference, changed to vary along exactly ``axes``."""
    if type(aval) is AbstractRef:
        return AbstractRef(varying(aval.inner_aval, axes))  # type: ignore[return-value]
    along = ordered(axes)
    if type(aval) is VaryingArray:
        left = bool(along or aval.unreduced or aval.reduced)
        return VaryingArray(aval.plain, along, aval.unreduced, aval.reduced) if left else aval.plain
    return VaryingArray(aval, along) if along else aval


def summed(aval: ShapedArray, unreduced: Iterable[Any], reduced: Iterable[Any]) -> ShapedArray:
    """The type ``aval`` inside ``shard_map`` with exactly these unreduced and reduced axes."""
    u, r = frozenset(unreduced), frozenset(reduced)
    if type(aval) is VaryingArray:
        return VaryingArray(aval.plain, aval.along, u, r) if u or r or aval.along else aval.plain
    return VaryingArray(aval, (), u, r) if u or r else aval


def bare(aval: ShapedArray) -> ShapedArray:
    """The type ``aval`` without the axes along which values vary, are unreduced or reduced."""
    return aval.plain if type(aval) is VaryingArray else aval


class _Checked:
    """A marker in ``state.axis_env``: it separates cache entries whose types record varying axes from the others."""

    def __repr__(self) -> str:
        return "check_vma"


CHECKED = _Checked()


class _Manual(threading.local):
    """The mesh and the axes of the per-device program that this thread traces."""

    axes: frozenset[Any] = frozenset()
    checked = False
    mesh: Any = None


_now = _Manual()


def ordered(axes: Iterable[Any]) -> tuple[Any, ...]:
    """``axes`` in the order of the mesh, or sorted by name if there is no mesh."""
    wanted = set(axes)
    first = [] if _now.mesh is None else [name for name in _now.mesh.axis_names if name in wanted]
    return (*first, *sorted(wanted.difference(first), key=str))


def is_checked(names: Iterable[Any]) -> bool:
    """Whether types record variation along at least one mesh axis in ``names``."""
    return _now.checked and not _now.axes.isdisjoint(names)


def mesh_axes(names: Iterable[Any]) -> frozenset[Any]:
    """The names among ``names`` that are mesh axes, not axes of a vmap."""
    return _now.axes.intersection(names)


def manual_axes() -> frozenset[Any]:
    """The manual axes of ``current_mesh()``: those over which ``shard_map`` splits the current computation."""
    return _now.axes


def current_mesh() -> Any:
    """The mesh of the ``shard_map`` that is being traced, or None."""
    return _now.mesh


@contextmanager
def _during(axes: frozenset[Any], checked: bool, mesh: Any) -> Iterator[None]:
    before = _now.axes, _now.checked, _now.mesh
    _now.axes, _now.checked, _now.mesh = axes, checked, mesh
    try:
        yield
    finally:
        _now.axes, _now.checked, _now.mesh = before


@contextmanager
def manual(mesh: Any, axes: Iterable[Any], checked: bool) -> Iterator[None]:
    """Within the block, trace a per-device program over ``axes`` of ``mesh``.

    ``checked``: whether types show the axes along which values vary.
    """
    if checked:
        _ask_for_types()
        bind_hooks.append(same_varying)
    try:
        with _during(_now.axes.union(axes), checked, mesh):
            yield
    finally:
        if checked:
            bind_hooks.remove(same_varying)


def everywhere() -> Any:
    """Within the block, computations do not belong to a per-device program."""
    return _during(frozenset(), False, None)


pvary_p = Primitive("pvary")
# collective -> function of its parameters, giving the axes along which its operands must vary
varies_along: dict[Primitive, Callable[[dict[str, Any]], Iterable[Any]]] = {}
# primitive -> function of its operands' varying axes and its parameters, giving the varying axes of its results
vma_rules: dict[Primitive, Callable[[frozenset[Any], dict[str, Any]], Iterable[Any]]] = {}

# primitives whose results may be unreduced or reduced along an axis although no operand is
makes_sums: set[Primitive] = set()
# casts a reduced value to a varying one; its rules are in ``ops.meshes.sums``
reduced_vary_cast_p = Primitive("reduced_vary_cast_p")


def pvary(x: Any, axes: Iterable[Any]) -> Any:
    """``x``, cast to vary along ``axes`` too."""
    missing = set(axes).difference(get_aval(x).vma)
    return pvary_p.bind(x, axes=ordered(missing)) if missing else x


def varying_like(x: Any, *others: Any) -> Any:
    """``x``, cast to vary along the axes of ``others`` too. Loops need it for constants in the initial carry."""
    if not _now.checked:
        return x
    axes = frozenset().union(*[getattr(getattr(other, "aval", None), "vma", ()) for other in others])
    return pvary(x, axes) if axes else x


def same_varying(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    """``args``, cast to vary along the same axes. Operands of primitives that call programs stay unchanged."""
    if not _now.checked or not args:
        return args
    users = varies_along.get(primitive)
    if users is not None:
        axes = _now.axes.intersection(users(params))
    elif len(args) == 1 or not primitive.keeps_signatures:
        return args
    else:
        axes = frozenset()
    found = [get_aval(x).vma for x in args]
    union = axes.union(*found)
    for x, vma in zip(args, found, strict=True):
        if vma != union and isinstance(get_aval(x), AbstractRef):
            raise TypeError(
                f"{primitive.name}: the reference of type {get_aval(x).str_short()} does not vary along "
                f"{ordered(union - vma)}, but another operand does. Make it from an array that varies: "
                f"new_ref(lax.pcast(x, {ordered(union - vma)}, to='varying'))."
            )
    return tuple([x if vma == union else _varied(x, union - vma) for x, vma in zip(args, found, strict=True)])


def _varied(x: Any, axes: frozenset[Any]) -> Any:
    """``x``, cast to vary along ``axes`` too. If it is reduced along them, cotangents are summed later."""
    if get_aval(x).reduced == axes:
        return reduced_vary_cast_p.bind(x, axes=ordered(axes))
    return pvary(x, axes)


def type_of_varying(primitive: Primitive, avals: tuple[Any, ...], params: dict[str, Any], following: int) -> Any:
    """The result type(s) inside ``shard_map``. None leaves them to the next hook: if no operand's type names such
    axes, or if ``primitive`` calls programs and is not in ``vma_rules``.
    """
    rule = vma_rules.get(primitive)
    if rule is None and not primitive.keeps_signatures:
        return None
    union = frozenset().union(*[aval.vma for aval in avals])
    sums = any(type(aval) is VaryingArray and (aval.unreduced or aval.reduced) for aval in avals)
    if not union and not sums and (rule is None or not _now.checked):
        return None
    plain = tuple([bare(aval) for aval in avals])
    out = infer_type(primitive, plain, params, following)
    axes = union if rule is None else rule(union, params)
    outs = [varying(each, axes) for each in (out if primitive.multiple_results else [out])]
    if sums or primitive in makes_sums:
        found = _explicit_types.result_types(primitive, avals, params)
        outs = [summed(each, own.unreduced, own.reduced) for each, own in zip(outs, found, strict=True)]
    return outs if primitive.multiple_results else outs[0]
