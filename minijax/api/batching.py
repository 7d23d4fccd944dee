"""``vmap``: map a function over array axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.flat import FlatFun, check_args, check_callable, describe, fun_name, leaf_names, wraps
from minijax.core import avals
from minijax.core.array import get_aval
from minijax.interpreters.vmap import AxisData, batch, match_axis
from minijax.pytree import PyTreeDef, flatten_call, prefix_leaves, tree_flatten

__all__ = ["vmap"]


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """``fun`` mapped over array axes, as if called in a loop and the results stacked.

    ``in_axes``: for each positional argument an int, None (not mapped), or a pytree of these that is a prefix of the
    argument. Keyword arguments are mapped along axis 0. ``out_axes``: the same for the outputs. ``axis_name``: the
    name that collectives use. ``axis_size``: needed if no argument is mapped. ``spmd_axis_name``: the mesh axes over
    which shardings inside ``fun`` shard the mapped axis.

    ``fun`` runs once per call and sees each mapped argument without its mapped axis. All mapped axes have the same size
    n. Each output of shape s becomes an array with an axis of size n inserted into s at its ``out_axes``. Its dtype
    does not change.

    ValueError for axes that do not fit, for sizes that differ, and if an output is mapped but its ``out_axes`` is None.
    TypeError for ``in_axes`` of a wrong type.

    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(jnp.arange(3.), 2.)
    Array([0., 2., 4.], dtype=float32)
    """
    check_callable(fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or type(in_axes) is int or isinstance(in_axes, tuple)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
            f"passed to the function, but got {in_axes}."
        )
    check_axes(in_axes, out_axes, "vmap")
    spmd = tuple(spmd_axis_name) if isinstance(spmd_axis_name, (tuple, list)) else (spmd_axis_name,)

    @wraps(fun)
    def vmap_f(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        name = describe(fun)
        leaves, in_tree = flatten_call(args, kwargs)
        dims, leaves = _input_axes(in_axes, fun, in_tree, args, leaves)
        size = _axis_size(fun, leaves, dims, in_tree, axis_size)
        flat = FlatFun(fun, in_tree, "vmap", subject=name)
        division = _division(leaves, dims) if avals.sharded_types_made else None
        axis = AxisData(axis_name, size, () if spmd_axis_name is None else spmd, division)
        outs, found = batch(flat, axis, leaves, dims, name)
        wanted = _output_axes(out_axes, flat.out_tree)
        return flat.out_tree.unflatten(
            [place_axis(o, d, w, axis, fun) for o, d, w in zip(outs, found, wanted, strict=True)]
        )

    return vmap_f


def map_leaves(
    fun: Callable[..., Sequence[Any]], values: Sequence[Any], name: str
) -> tuple[list[Any], list[int | None], AxisData]:
    """Map flat ``fun`` over axis 0 of the nonempty ``values``. Return results, their mapped axes and ``AxisData``."""
    if not values:
        raise ValueError(NO_ARGUMENT)
    axis = AxisData(None, get_aval(values[0]).shape[0], (), None)
    return *batch(fun, axis, values, [0] * len(values), name), axis


NO_ARGUMENT = "vmap wrapped function must be passed at least one argument containing an array"


def check_axes(in_axes: Any, out_axes: Any, transform: str) -> None:
    """Raise TypeError if a leaf of the axes passed to ``transform`` is neither an int nor None."""
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if type(axes) is int:
            continue
        for axis in tree_flatten(axes)[0]:
            if type(axis) is not int:
                raise TypeError(
                    f"{transform} {name} must be an int, None, or (nested) container with those types as leaves, but "
                    f"got {axes}."
                )


def _input_axes(
    in_axes: Any, fun: Callable[..., Any], in_tree: PyTreeDef, args: Sequence[Any], leaves: list[Any]
) -> tuple[list[int | None], list[Any]]:
    """Return the mapped axis of each leaf, and the leaves."""
    if in_axes == 0 and type(in_axes) is int:  # no prefix to broadcast
        axes: list[Any] = [0] * len(leaves)
        leaves = check_args(leaves, "vmap", fun, in_tree)
    else:
        axes = _spread(in_axes, tuple(args), "vmap in_axes")
        axes += [0] * (len(leaves) - len(axes))  # keyword arguments
        # unmapped arguments pass unchanged, arrays or not
        mapped = [0 if axis is None else x for x, axis in zip(leaves, axes, strict=True)]
        checked = check_args(mapped, "vmap", fun, in_tree)
        if checked is not mapped:
            leaves = [x if axis is None else c for x, c, axis in zip(leaves, checked, axes, strict=True)]
    out: list[int | None] = []
    for x, axis in zip(leaves, axes, strict=True):
        if axis is None:
            out.append(None)
            continue
        out.append(mapped_axis("vmap", get_aval(x).shape, axis))
    return out, leaves


def mapped_axis(transform: str, shape: tuple[int, ...], axis: int) -> int:
    """Return ``axis`` of an argument of this shape as a nonnegative number. ValueError if it has no such axis."""
    if not -len(shape) <= axis < len(shape):
        raise ValueError(
            f"{transform} was requested to map its argument along axis {axis}, which implies that its rank should be "
            f"at least {axis + 1 if axis >= 0 else -axis}, but is only {len(shape)} (its shape is {shape})"
        )
    return axis % len(shape)


def output_axis(transform: str, ndim: int, axis: int) -> int:
    """``axis`` of an output with ``ndim`` dimensions, counted from 0. ValueError if it has no such axis."""
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"axis {axis} is out of bounds for array of dimension {ndim}: {transform} out_axes must fit every output, "
            "with the mapped axis counted."
        )
    return axis % ndim


def _axis_size(
    fun: Callable[..., Any], leaves: Sequence[Any], dims: Sequence[int | None], tree: PyTreeDef, given: int | None
) -> int:
    sizes = {get_aval(x).shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
    if given is not None:
        sizes.add(given)
    if not sizes:
        if not leaves:
            raise ValueError(NO_ARGUMENT)
        raise ValueError("vmap must have at least one non-None value in in_axes, or an axis_size")
    if len(sizes) == 1:
        return sizes.pop()
    raise ValueError(describe_sizes("vmap", fun, tree, [*map(get_aval, leaves)], dims, given))


def _division(leaves: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Return the mesh axes that shard the mapped axis, or None if it is not sharded.

    Raise ValueError unless these mesh axes are equal for all leaves.
    """
    found = None
    mapped = [(get_aval(x), d) for x, d in zip(leaves, dims, strict=True) if d is not None]
    for i, (aval, d) in enumerate(mapped):
        division = avals.sharding_along_axis(aval, d)
        if i and division != found:
            first, second = (each and each.spec[0] for each in (found, division))
            raise ValueError(
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got inconsistent axis "
                f"specs: {first} vs {second}. Bring them to one sharding with sharding.reshard."
            )
        found = division
    return found


def describe_sizes(
    transform: str,
    fun: Callable[..., Any],
    tree: PyTreeDef,
    avals: Sequence[Any],
    dims: Sequence[int | None],
    given: int | None = None,
) -> str:
    """The error message for mapped axes of different sizes: each argument with its size."""
    lines = [f"{transform} got inconsistent sizes for array axes to be mapped:"]
    if given is not None:
        lines.append(f"  * axis_size is {given}")
    for name, d, aval in zip(leaf_names(fun, tree), dims, avals, strict=True):
        if d is not None:
            lines.append(f"  * one axis had size {aval.shape[d]}: axis {d} of argument {name} of type {aval}")
    lines.append("Map axes of one size, or use in_axes=None for an argument that is the same for all.")
    return "\n".join(lines)


def _spread(axes: Any, full: Any, name: str) -> list[Any]:
    """Broadcast ``axes`` to one entry for each leaf of ``full``."""
    try:
        return prefix_leaves(axes, full, name=name)
    except ValueError as error:
        raise ValueError(f"{name} specification must be a tree prefix of the corresponding value.\n{error}") from None


def _output_axes(out_axes: Any, out_tree: PyTreeDef) -> list[Any]:
    if type(out_axes) is int:
        return [out_axes] * out_tree.num_leaves
    return _spread(out_axes, out_tree, "vmap out_axes")


def place_axis(value: Any, dim: int | None, wanted: int | None, axis: AxisData, fun: Callable[..., Any]) -> Any:
    """Move the mapped axis ``dim`` of output ``value`` to ``wanted``. ValueError if ``wanted`` is out of range, or is
    None for a mapped output.
    """
    if wanted is None:
        if dim is not None:
            raise ValueError(
                f"vmap has mapped output but out_axes is None: an output of {fun_name(fun)} varies along the mapped "
                "axis, so it has one value per example. Give that output an axis in out_axes."
            )
        return value
    if dim == wanted:
        return value
    wanted = output_axis("vmap", get_aval(value).ndim + (dim is None), wanted)
    return match_axis(value, dim, axis.size, wanted, axis.division)
