"""The public collectives: ``lax.psum`` and others, on pytrees, along named axes.

Source of names and meanings: https://docs.jax.dev/en/latest/jax.lax.html#parallel-operators
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import get_aval
from minijax.core.trace import Tracer
from minijax.core.varying import is_checked, mesh_axes, ordered, pvary_p
from minijax.interpreters.named_axes import axes_size
from minijax.ops.convert import convert_element_type
from minijax.ops.meshes.sums import (
    all_gather_reduced_p,
    preduced_p,
    psum_invariant_p,
    reduced_vary_cast_p,
    state_of,
    unreduced_psum_p,
    unreduced_reduce_scatter_p,
    vary_unreduced_cast_p,
)
from minijax.ops.parallel import (
    Groups,
    all_gather_invariant_p,
    all_gather_p,
    all_to_all_p,
    axis_index_p,
    group_size,
    names_tuple,
    pbroadcast_p,
    pmax_p,
    pmin_p,
    ppermute_p,
    psum_p,
    reduce_scatter_p,
)
from minijax.ops.reduce import reduce_sum
from minijax.ops.shape import canonical_axis, expand_dims, squeeze
from minijax.pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]


def _groups(axis_index_groups: Sequence[Sequence[int]] | None) -> Groups:
    return None if axis_index_groups is None else tuple(tuple(map(int, group)) for group in axis_index_groups)


def _reduction_groups(axes: tuple[Any, ...], axis_index_groups: Sequence[Sequence[int]] | None) -> Groups:
    groups = _groups(axis_index_groups)
    if groups is None:
        return None
    if any(isinstance(axis, int) for axis in axes):
        raise ValueError("axis_index_groups only supported for sums over just named axes")
    members = [i for group in groups for i in group]
    if set(members) != set(range(len(members))):
        raise ValueError("axis_index_groups must cover all indices exactly once")
    return groups


def _check_no_groups(groups: Groups) -> None:
    """NotImplementedError for groups: no type can say that only the devices of one group share a value."""
    if groups is not None:
        raise NotImplementedError(
            "axis_index_groups of a reduction in shard_map: types cannot say that a value is the same "
            "only within a group. Pass check_vma=False to shard_map."
        )


def _scalar_like(example: Any, value: int) -> Any:
    """Convert ``value`` to the type of ``example``, which may be a Python number."""
    if isinstance(example, (int, float, complex)) and not isinstance(example, np.generic):
        return type(example)(value)
    return np.asarray(value, get_aval(example).dtype)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The sum of ``x`` over the mapped axis ``axis_name``. It has the shapes and dtypes of ``x``, but no weak type.

    Args:
      x: an array or pytree of arrays; booleans are summed as int32. An untraced value is the same in all instances, so
        its sum is the value times the axis size; ``psum(1, name)`` is the axis size as a Python int.
      axis_name: a name, or a tuple of names. An int in the tuple is an axis of ``x`` itself.
      axis_index_groups: lists of indices along the axis; each list is a group with its own sum. Not under vmap.

    Raises:
      NameError: no enclosing ``vmap`` or ``pmap`` has that axis name. ValueError: groups that do not cover the axis.
    """
    axes = names_tuple(axis_name)
    if not axes:
        return x
    groups = _reduction_groups(axes, axis_index_groups)
    leaves, tree = tree_flatten(x)
    leaves = [convert_element_type(v, np.int32) if dtypes.is_bool(get_aval(v).dtype) else v for v in leaves]
    if is_checked(axes) and any(isinstance(v, Tracer) for v in leaves):
        _check_no_groups(groups)
        over_mesh = ordered(mesh_axes(axes))
        sums = [state_of(get_aval(v), axes, "psum") == "unreduced" for v in leaves]
        others = tuple(axis for axis in axes if axis not in over_mesh)
        if others:
            leaves = [psum_p.bind(v, axes=others, axis_index_groups=None) for v in leaves]
        primitives = [unreduced_psum_p if unreduced else psum_invariant_p for unreduced in sums]
        found = [p.bind(v, axes=over_mesh) for p, v in zip(primitives, leaves, strict=True)]
        return tree_unflatten(tree, found)
    if any(isinstance(v, Tracer) for v in leaves):
        return tree_unflatten(tree, [psum_p.bind(v, axes=axes, axis_index_groups=groups) for v in leaves])
    names = [axis for axis in axes if not isinstance(axis, int)]
    positions = [axis for axis in axes if isinstance(axis, int)]
    size = math.prod(map(_size_of, names)) if groups is None else len(groups[0])
    return tree_unflatten(tree, [_scalar_like(v, size) * _sum_over(v, positions) for v in leaves])


def _size_of(name: Any) -> int:
    return axes_size((name,))


def _sum_over(x: Any, positions: Sequence[int]) -> Any:
    if not positions:
        return x
    return reduce_sum(x, [canonical_axis(axis, get_aval(x).ndim) for axis in positions])


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The mean of ``x`` over the mapped axis: ``psum(x)`` divided by the number of instances. Raises as ``psum``.

    The result has the shapes of ``x``; integers give floats.
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    count = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_map(lambda v: v / count, total)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The elementwise maximum of ``x`` over the mapped axis. It has no derivative. Raises as ``psum``."""
    return _extremum(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The elementwise minimum of ``x`` over the mapped axis. It has no derivative. Raises as ``psum``."""
    return _extremum(pmin_p, x, axis_name, axis_index_groups)


def _extremum(primitive: Any, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    axes = names_tuple(axis_name)
    groups = _reduction_groups(axes, axis_index_groups)
    if is_checked(axes):
        _check_no_groups(groups)
    return tree_map(lambda leaf: primitive.bind(leaf, axes=axes, axis_index_groups=groups), x)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value of ``x`` in instance ``source``, for all instances. NameError for an unbound axis name."""
    return tree_map(lambda leaf: pbroadcast_p.bind(leaf, axis_name=axis_name, source=source), x)


_CAST_TO = ("unreduced", "reduced", "varying")
# (state along the axes before, after) -> the cast
_CASTS = {
    ("invarying", "varying"): pvary_p,
    ("invarying", "reduced"): preduced_p,
    ("varying", "unreduced"): vary_unreduced_cast_p,
    ("reduced", "varying"): reduced_vary_cast_p,
}


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Inside ``shard_map``, cast ``x`` to another state along mesh axes. No data is sent.

    A varying value can become unreduced: a later ``psum`` takes the sum. A value that all devices share (invarying) can
    become varying or reduced. The cotangent of a reduced value is unreduced. A reduced value can become varying.

    Args:
      x: an array or pytree of arrays.
      axis_name: the axis, or a tuple of axes.
      to: ``"varying"``, ``"unreduced"`` or ``"reduced"``.

    Raises:
      ValueError: there is no such cast from the state of ``x``, or ``to`` is unknown. NameError: an unbound axis
        name. TypeError: ``axis_name`` is a set, which has no order.
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"{axis_name=} must be a tuple or a str. Got {axis_name}. Name the axes in order.")
    axes = names_tuple(axis_name)
    if not axes:
        return x
    if to not in _CAST_TO:
        raise ValueError(f"Got unexpected `to` value {to!r} for `jax.lax.pcast`. Allowed `to` values are: {_CAST_TO}.")

    def cast(leaf: Any) -> Any:
        aval = get_aval(leaf)
        before = state_of(aval, axes, "pcast")
        primitive = _CASTS.get((before, to))
        if primitive is None:
            from_here = sorted(after for start, after in _CASTS if start == before)
            advice = f"From there it can be cast to {' or '.join(from_here)}" if from_here else "lax.psum takes its sum"
            raise ValueError(
                f"Unsupported pcast from={before}, to={to!r}: {aval.str_short()} is {before} along {axes}. {advice}."
            )
        # without ``check_vma``, types do not record a state
        return leaf if mesh_axes(axes) and not is_checked(axes) else primitive.bind(leaf, axes=ordered(axes))

    return tree_map(cast, x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send ``x`` between instances: ``perm`` is a list of pairs (source, destination).

    ``x`` is an array or pytree of arrays; the result has its shapes and dtypes.
    An instance that receives nothing gets zeros. ValueError if a source or a destination occurs twice; NameError for
    an unbound axis name.

    >>> vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(jnp.array([1., 2., 3.]))
    Array([0., 1., 2.], dtype=float32)
    """
    names = names_tuple(axis_name)
    pairs = tuple((int(source), int(destination)) for source, destination in perm)
    return tree_map(lambda leaf: ppermute_p.bind(leaf, axis_name=names, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute ``x``: instance ``i`` gets the value of ``perm[i]``. ValueError unless ``perm`` is a permutation."""
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)), strict=True)))


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """Swap the mapped axis with ``axis`` of ``x``, which has the same size: ``all_to_all(x, name, axis, axis)``."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Exchange pieces between instances: ``split_axis`` becomes the mapped axis, which becomes ``concat_axis``.

    Args:
      x: an array or pytree of arrays. ``split_axis`` has an element for each instance (with ``tiled``, a multiple).
      axis_name: the mapped axis, or a tuple of axes.
      split_axis: the axis that is cut into one piece for each instance.
      concat_axis: the axis along which the received pieces are stacked, counted without ``split_axis``; with
        ``tiled``, the axis along which they are concatenated.
      axis_index_groups: lists of indices along the axis; pieces are exchanged only within a group. Not under vmap.
      tiled: whether the pieces are slices, so that no axis is removed or added.

    Raises:
      ValueError: the sizes do not fit. NameError: the axis name is not bound.
    """
    groups = _groups(axis_index_groups)
    size = group_size(axis_name, groups)

    def bind(leaf: Any) -> Any:
        split, concat = split_axis, concat_axis
        length = get_aval(leaf).shape[split]
        if tiled:
            if length % size:
                raise ValueError(
                    f"The size of all_to_all split_axis ({length}) has to be divisible by the size of the named axis "
                    f"{axis_name} ({size})"
                )
        else:
            if length != size:
                raise ValueError(
                    "all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they "
                    f"are {size} and {length} respectively."
                )
            if split < concat:
                concat += 1  # ``concat_axis`` is counted without the split axis, which still exists here
            if split != concat:
                leaf = expand_dims(leaf, (concat,))
                split += split > concat
        params = {"axis_name": axis_name, "axis_index_groups": groups, "axis_size": size, "tiled": tiled}
        out = all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
        return squeeze(out, (split,)) if not tiled and split != concat else out

    return tree_map(bind, x)


def _with_size(x: Any, axis_name: Any, axis_index_groups: Any, bind: Callable[[Any, dict[str, Any]], Any]) -> Any:
    """``bind(leaf, params)`` for every leaf, with the parameters that ``all_gather`` and ``psum_scatter`` share."""
    names = names_tuple(axis_name)
    if not names:
        return x
    groups = _groups(axis_index_groups)
    params = {"axis_name": names, "axis_index_groups": groups, "axis_size": group_size(names, groups)}
    return tree_map(lambda leaf: bind(leaf, params), x)


_GATHERED = ("varying", "reduced", "invarying")


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Collect ``x`` from all instances: stack along a new ``axis``, or (``tiled``) concatenate along an existing one.

    Args:
      x: an array or pytree of arrays.
      axis_name: the axis, or a tuple of axes.
      axis_index_groups: lists of indices along the axis; each group gathers separately.
      axis: the axis of the result along which the values are stacked or concatenated.
      tiled: concatenate along ``axis``, an existing axis of ``x``, instead of stacking.
      to: ``"varying"``; or, inside ``shard_map``, ``"invarying"`` (the type says that the result is equal everywhere)
        or ``"reduced"`` (the result is equal everywhere too, but its cotangent is unreduced).

    Raises:
      NameError: the axis name is not bound. NotImplementedError: under vmap with groups or several names; groups
        with another ``to`` than "varying". ValueError: an unknown ``to``, or "reduced" for an ``x`` that does not vary.
    """
    if to not in _GATHERED:
        raise ValueError(
            f"Got unexpected `to` value for `jax.lax.all_gather`, {to!r}. Allowed `to` values are: {_GATHERED}."
        )
    if to != "varying" and axis_index_groups is not None:
        raise NotImplementedError(f"all_gather(to={to!r}) takes no axis_index_groups. Pass to='varying'.")

    def bind(leaf: Any, params: dict[str, Any]) -> Any:
        at = canonical_axis(axis, get_aval(leaf).ndim + (not tiled))
        if to == "varying":
            return all_gather_p.bind(leaf, all_gather_dimension=at, tiled=tiled, **params)
        sized = {"axis_name": params["axis_name"], "axis_size": params["axis_size"]}
        primitive = all_gather_reduced_p if to == "reduced" else all_gather_invariant_p
        return primitive.bind(leaf, all_gather_dimension=at, tiled=tiled, **sized)

    return _with_size(x, axis_name, axis_index_groups, bind)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """``psum``, but an instance keeps only its piece of the sum along ``scatter_dimension`` (with ``tiled``, a slice).

    ValueError unless the dimension has one element (with ``tiled``, a multiple) per instance; NameError as ``psum``.
    """

    def bind(leaf: Any, params: dict[str, Any]) -> Any:
        axes = params["axis_name"]
        if is_checked(axes) and state_of(get_aval(leaf), axes, "psum_scatter") == "unreduced":
            _check_no_groups(params["axis_index_groups"])
            sized = {"axis_name": axes, "axis_size": params["axis_size"]}
            return unreduced_reduce_scatter_p.bind(leaf, scatter_dimension=scatter_dimension, tiled=tiled, **sized)
        return reduce_scatter_p.bind(leaf, scatter_dimension=scatter_dimension, tiled=tiled, **params)

    return _with_size(x, axis_name, axis_index_groups, bind)


def axis_index(axis_name: Any) -> Any:
    """The instance's int32 index along the mapped axis; for several axes, row-major. NameError for an unbound name."""
    if not isinstance(axis_name, (tuple, list)):
        return axis_index_p.bind(axis_name=axis_name)
    inner = 1
    index: Any = convert_element_type(0, np.int32)
    for name in reversed(axis_name):
        index = index + axis_index(name) * inner
        inner *= axis_size(name)
    return index


def axis_size(axis_name: Any) -> int:
    """The number of instances along the mapped axis, a Python int. NameError for an unbound axis name."""
    return psum(1, axis_name)
