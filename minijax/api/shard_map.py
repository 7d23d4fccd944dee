"""``shard_map``: every device of a mesh runs a function on its part of the arguments."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minijax.api.compile import jit
from minijax.api.flat import FlatFun, check_args, check_callable, describe, fun_name, leaf_names
from minijax.core import lazy
from minijax.core.array import get_aval, uncommitted
from minijax.core.explicit import spec_of, whole_spec
from minijax.core.lists import merge, partition
from minijax.core.meshes import AbstractMesh, Mesh, axis_hint, context
from minijax.core.refs import AbstractRef
from minijax.core.shardings import (
    DuplicateSpecError,
    NamedSharding,
    PartitionSpec,
    axes_of_part,
    axes_of_spec,
    check_axes_once,
)
from minijax.core.structural import UNSPECIFIED
from minijax.core.trace import ensure_compile_time_eval, state
from minijax.core.varying import current_mesh, everywhere, manual_axes, ordered, pvary
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ops.shape import expand_dims
from minijax.ops.subjaxprs import hoist_consts
from minijax.pytree import prefix_leaves, tree_flatten, tree_leaves, tree_map, tree_unflatten

_of_primitive = functools.partial(lazy.public, "minijax.ops.meshes.shard_map")


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: Any = None,
    axis_names: Iterable[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Run ``f`` on each device of a mesh, on the device's parts of the arguments, and join the results.

    Without ``f``, return a decorator.

    Collectives of ``minijax.lax`` communicate along the mesh's axes. ``out_specs``: a ``PartitionSpec`` for each
    output, or a prefix of their tree. ``in_specs``: a tuple with a spec for each argument, or None to pass the argument
    unchanged. On a mesh with explicit axes, the default is the specs in the arguments' types. ``mesh``: by default the
    current mesh. ``axis_names``: the axes along which ``f`` runs on each device, all by default. ``check_vma``: types
    inside ``f`` name the axes along which values vary, and these axes are checked against ``out_specs``.

    A call raises ValueError for specs that do not fit, and for an output that may vary along an axis that ``out_specs``
    does not name. It raises TypeError for an argument that is no array.
    """
    if f is None:
        return functools.partial(
            shard_map, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )
    check_callable(f)
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    mapped = ShardMapped(f, mesh, in_specs, out_specs, frozenset(axis_names), check_vma)
    functools.wraps(f, updated=())(mapped)

    @functools.wraps(f)
    def shard_mapped(*args: Any) -> Any:
        if state.dynamic.level or len(state.stack) > 1:
            return mapped(*args)
        return mapped.run(*args)

    return shard_mapped


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def _is_leaf(x: Any) -> bool:
    return x is None or _is_spec(x)


def _check_divided(aval: Any, spec: PartitionSpec, axes: frozenset[Any], *, whole: bool) -> None:
    """ValueError unless an argument is sharded over ``axes`` as in ``spec``.

    ``whole``: also check a replicated argument.
    """
    own = spec_of(aval)
    for word in ("unreduced", "reduced"):
        if getattr(spec, word) != getattr(aval, word):
            raise ValueError(
                f"in_specs containing {word} {spec} passed to shard_map should be equal to the {word} present on the "
                f"argument, {aval.str_short()}. Say P(..., {word}={set(getattr(aval, word)) or '{}'}), leave in_specs "
                "out, or reshard the argument with sharding.reshard."
            )
    if not (whole or any(own)):
        return
    wanted = [axes_of_part(part) for part in (*spec, *[None] * (aval.ndim - len(spec)))]
    found = [tuple(name for name in axes_of_part(part) if name in axes) for part in own]
    if wanted != found:
        raise ValueError(
            f"in_specs passed to shard_map: {spec} does not match the specs of the input: {PartitionSpec(*own)} for "
            f"arg: {aval}. `in_specs` is an optional argument so you can omit specifying it and shard_map will infer "
            "the in_specs from the arguments. If you want to reshard your inputs, you can use `jax.reshard` on the "
            "arguments and then pass those args to shard_map."
        )


def _found_specs(args: Any) -> Any:
    return tree_map(lambda x: whole_spec(get_aval(x)), args)


def bind_over(
    part: Callable[..., Any],
    leaves: Sequence[Any],
    mesh: Any,
    written: Any,
    axes: frozenset[Any],
    check_vma: bool,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    name: str,
    label: str,
) -> list[Any]:
    """Run ``part`` on each device of ``mesh``. It maps the device's parts of ``leaves`` to its parts of the results.

    ``out_specs`` may be a list that ``part`` fills when it is staged. ``written``: the mesh in the equation. Messages
    show ``name`` and ``label``.
    """
    inner_aval, on_each_device = _of_primitive("inner_aval"), _of_primitive("on_each_device")
    avals = zip(map(get_aval, leaves), in_specs, strict=True)
    with on_each_device(mesh, axes, check_vma):
        closed = stage(part, [inner_aval(aval, spec, mesh, check_vma) for aval, spec in avals], name, label=label)
    closed, consts = hoist_consts(closed)
    return _of_primitive("shard_map_p").bind(  # type: ignore[no-any-return]
        *consts,
        *leaves,
        check_vma=check_vma,
        in_specs=(*[PartitionSpec()] * len(consts), *in_specs),
        jaxpr=closed,
        mesh=written,
        newly_manual_axes=axes,
        out_specs=tuple(out_specs),
    )


class _Now(threading.local):
    """The untransformed call that runs on this thread: its operands, and whether tracers printed values during it."""

    args: Any = None
    shown = False


class ShardMapped:
    """A function under ``shard_map``. Under a trace the object itself is called, otherwise ``run``."""

    def __init__(
        self, fun: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, axes: frozenset[Any], check_vma: bool
    ) -> None:
        self.fun = fun
        self.given_mesh = mesh
        self.in_specs, self.out_specs = in_specs, out_specs
        self.axes = axes
        self.check_vma = check_vma
        # for untransformed calls: the jitted function of each mesh, and the current call
        self.programs: dict[Any, Any] = {}
        self.now = _Now()
        # whether some spec in ``in_specs`` is None: such an argument passes unchanged and is no operand
        self.hands_on = in_specs is not None and None in tree_leaves(in_specs, is_leaf=_is_leaf)

    def _with_specs(self, in_specs: Any) -> ShardMapped:
        found = ShardMapped(self.fun, self.given_mesh, in_specs, self.out_specs, self.axes, self.check_vma)
        found.now = self.now
        return found

    def run(self, *args: Any) -> Any:
        """The value of an untraced call. If tracers printed values, the next call stages again, to print too."""
        mesh = context.mesh if self.given_mesh is None else self.given_mesh
        jitted = self.programs.get(mesh)
        if jitted is None:
            jitted = self.programs[mesh] = jit(self, out_shardings=self._places(mesh))
        if self.hands_on:
            jitted, args = self._of_operands(mesh, args)  # arguments with spec None are no operands
        now = self.now
        now.args, now.shown = args, False
        try:
            return jitted(*args)
        finally:
            now.args = None
            if now.shown:
                jitted.clear_cache()

    def _of_operands(self, mesh: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return a jitted function of those arguments that are operands, and these operands."""
        leaves, tree = tree_flatten(args)
        handed_on = self._handed_on(args)
        operands, fixed = partition(handed_on, leaves)

        def call(*operands: Any) -> Any:
            return self(*tree_unflatten(tree, merge(handed_on, operands, fixed)))

        call.__name__ = fun_name(self.fun)
        return jit(call, out_shardings=self._places(mesh)), tuple(operands)

    def _places(self, mesh: Any) -> Any:
        """The result shardings of an untraced call: ``out_specs``, or unspecified if some axes are left to XLA."""
        specs = tree_leaves(self.out_specs, is_leaf=_is_leaf)
        if not isinstance(mesh, Mesh) or not all(map(_is_spec, specs)) or self.axes not in (set(), {*mesh.axis_names}):
            return UNSPECIFIED
        try:
            return tree_map(lambda spec: NamedSharding(mesh, spec), self.out_specs, is_leaf=_is_spec)
        except (ValueError, DuplicateSpecError):  # an unknown or repeated axis: the call raises the error
            return UNSPECIFIED

    @property
    def mesh(self) -> AbstractMesh:
        mesh = (current_mesh() or context.mesh) if self.given_mesh is None else self.given_mesh
        if mesh is None:
            raise ValueError(
                "The mesh cannot be None: either pass it to shard_map, or set one with set_mesh around the call."
            )
        if not isinstance(mesh, AbstractMesh):
            raise TypeError(f"shard_map requires a `jax.sharding.Mesh` instance for its second argument, got {mesh!r}.")
        return mesh

    def __call__(self, *args: Any) -> Any:
        mesh = self.mesh
        axes = self.axes or frozenset(mesh.axis_names)
        unknown = axes.difference(mesh.axis_names)
        if unknown:
            raise ValueError(
                f"jax.shard_map requires axis_names={set(axes)} to be a subset of mesh.axis_names={mesh.axis_names}."
                f"{axis_hint(next(iter(unknown)), mesh)}"
            )
        axes = axes.difference(manual_axes())  # along the manual axes, the caller already runs on each device
        if self.in_specs is None and mesh.any_explicit:
            return self._with_specs(_found_specs(args))(*args)
        self._check_specs(self.in_specs, mesh, axes, "in_specs")
        self._check_specs(self.out_specs, mesh, axes, "out_specs")
        handed_on = self._handed_on(args)
        given, in_tree = tree_flatten((args, {}))
        leaves, fixed = partition(handed_on, given)
        # arguments with spec None may be any objects
        checked = check_args(merge(handed_on, leaves, [0] * len(fixed)), "shard_map", self.fun, in_tree)
        leaves, _ = partition(handed_on, checked)
        specs = [spec for spec in self._specs(self.in_specs, args, "in_specs") if spec is not None]
        avals = [*map(get_aval, leaves)]
        for i, (aval, spec) in enumerate(zip(avals, specs, strict=True)):
            if isinstance(aval, AbstractRef):
                raise NotImplementedError(
                    f"shard_map of a function that takes a mutable array reference, here of type {aval}, is not "
                    "supported. Pass its content, r[...], and return the new content."
                )
            self._check(aval, spec, mesh, lambda at: partition(handed_on, leaf_names(self.fun, in_tree))[0][at], i)
            if mesh.any_explicit:
                _check_divided(aval, spec, axes, whole=axes == {*mesh.explicit_axes} == {*mesh.axis_names})
        flat = FlatFun(self.fun, in_tree, "shard_map", subject=describe(self.fun))
        out_specs: list[PartitionSpec] = []

        def part(*values: Any) -> list[Any]:
            if self.now.args is not None:
                self._show_values(mesh, axes, specs)
            outs = flat(*merge(handed_on, values, fixed))
            out_specs[:] = self._specs(self.out_specs, flat.out_tree, "out_specs")
            return [self._cast_to_spec(out, spec, mesh, axes) for out, spec in zip(outs, out_specs, strict=True)]

        part.input_names = lambda: partition(handed_on, flat.input_names())[0]  # type: ignore[attr-defined]
        written = mesh.abstract_mesh if self.given_mesh is None else mesh
        outs = bind_over(
            part, leaves, mesh, written, axes, self.check_vma, specs, out_specs, fun_name(self.fun), "shard_map"
        )
        return tree_unflatten(flat.out_tree, outs)

    def _show_values(self, mesh: AbstractMesh, axes: frozenset[Any], specs: list[PartitionSpec]) -> None:
        """Let tracers in the staged function print values. All operands are known, so the equations so far can run."""
        concrete = mesh if isinstance(mesh, Mesh) else context.mesh
        if not isinstance(concrete, Mesh) or axes != {*mesh.axis_names}:
            return
        now, operands = self.now, tree_leaves(self.now.args)
        check_vma = self.check_vma

        def show(tracer: Any) -> str:
            closed = tracer._trace.builder.so_far(tracer.variable)

            def block(*values: Any) -> Any:
                (out,) = eval_closed(closed, *values)
                return expand_dims(out, (0,))

            block.__name__ = "value"
            each = ShardMapped(block, concrete, tuple(specs), PartitionSpec(concrete.axis_names), axes, check_vma)
            now.shown = True
            now.args, outer = None, now.args
            try:
                with ensure_compile_time_eval(), everywhere():
                    found = jit(each)(*operands)
                    # index on the host: on devices, a slice of an axis in explicit mode must divide evenly among them
                    whole = uncommitted(found) if found.is_fully_addressable else found
                    values = [whole[i] for i in range(concrete.size)]
            finally:
                now.args = outer
            names = ", ".join(map(str, concrete.axis_names))
            places = zip(np.ndenumerate(concrete.devices), values, strict=True)
            return "\n".join(f"On {on} at mesh coordinates ({names},) = {at}:\n{x}\n" for (at, on), x in places)

        state.dynamic.builder.show_value = show  # type: ignore[attr-defined]

    def _specs(self, given: Any, tree: Any, what: str) -> list[Any]:
        """One spec for each leaf of ``tree``; None for an argument that passes unchanged."""
        none = what == "in_specs"
        return prefix_leaves(given, tree, is_leaf=_is_spec, none_is_leaf=none, name=f"shard_map {what}")

    def _handed_on(self, args: tuple[Any, ...]) -> list[bool]:
        return [spec is None for spec in self._specs(self.in_specs, args, "in_specs")]

    def _check_specs(self, given: Any, mesh: AbstractMesh, axes: frozenset[Any], what: str) -> None:
        """Raise an error unless all leaves of ``given`` are specs that name axes in ``axes``, each axis once."""
        if given is None and what == "in_specs":
            raise TypeError(
                "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` instances, but it was "
                "None. Did you mean `in_specs=P()`?"
            )
        for spec in tree_leaves(given, is_leaf=_is_spec):
            if not _is_spec(spec):
                raise TypeError(
                    f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` instances, but found "
                    f"{spec!r} of type {type(spec).__name__}."
                )
            names = [name for part in spec for name in (part if isinstance(part, tuple) else (part,))]
            named = [name for name in names if name is not None]
            for name in named:
                if name not in axes:
                    there = name in mesh.axis_names
                    advice = " Name it in axis_names, or leave it out." if there else axis_hint(name, mesh)
                    raise ValueError(
                        f"shard_map {what} argument must refer to an axis marked as manual ({set(axes) or '{}'}), but "
                        f"{spec} refers to {name!r}{'' if there else ', which the mesh does not have'}.{advice}"
                    )
            check_axes_once(spec, mesh)
            if spec.unreduced or spec.reduced:
                if {*mesh.axis_names} != axes:
                    raise NotImplementedError(
                        f"unreduced/reduced can only be passed to {what} when shard_map is in full manual mode. Got "
                        f"mesh axis names {mesh.axis_names}, manual axes: {set(axes)}, specs: {spec}. Leave "
                        "axis_names out."
                    )
                NamedSharding(mesh, spec)  # raises for axes that are not explicit

    def _check(self, aval: Any, spec: PartitionSpec, mesh: AbstractMesh, name: Callable[[int], str], i: int) -> None:
        """ValueError unless ``spec`` fits argument ``i``. The message calls the argument ``name(i)``."""
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function '{fun_name(self.fun)}' was given argument arrays with axis sizes "
                f"that are incompatible with the corresponding in_specs: {name(i)} has shape {aval.str_short()} of "
                f"rank {aval.ndim}, but its spec {spec} is for rank {len(spec)} at least."
            )
        for size, part in zip(aval.shape, spec, strict=False):
            count = mesh.count(axes_of_part(part))
            if size % count:
                raise ValueError(
                    f"shard_map applied to the function '{fun_name(self.fun)}' was given argument arrays with axis "
                    f"sizes that are not evenly divisible by the corresponding mesh axis sizes: {name(i)} of shape "
                    f"{aval.str_short()} has an axis of size {size}, which {spec} divides into {count}. "
                    f"Pad it to a multiple of {count}, or divide it along other axes."
                )

    def _cast_to_spec(self, out: Any, spec: PartitionSpec, mesh: AbstractMesh, axes: frozenset[Any]) -> Any:
        """Cast one device's output to vary along the axes of its spec. ValueError if it may vary along other axes."""
        aval = get_aval(out)
        along = axes_of_spec(spec)
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function '{fun_name(self.fun)}' was given out_specs which are incompatible "
                f"with the outputs: {spec} is for rank {len(spec)} at least, but an output is {aval.str_short()}."
            )
        if not self.check_vma:
            return out
        if missing := ordered(spec.unreduced.intersection(aval.vma)):
            out = lazy.public("minijax.ops.meshes.sums", "vary_unreduced_cast_p").bind(out, axes=missing)
            aval = get_aval(out)
        for word in ("unreduced", "reduced"):
            if getattr(spec, word) != getattr(aval, word):
                raise ValueError(
                    f"out_specs passed to shard_map should be equal to the {word} present on the output. Got "
                    f"out_specs={spec} and an output of type {aval.str_short()}. Take the sum with lax.psum, cast it "
                    f"with lax.pcast, or say P(..., {word}={set(getattr(aval, word)) or '{}'})."
                )
        more = [name for name in mesh.axis_names if name in aval.vma and name in axes and name not in along]
        if more:
            raise ValueError(
                f"shard_map applied to the function '{fun_name(self.fun)}' was given out_specs which require "
                "replication which can't be statically inferred given the mesh:\n\n"
                f"The mesh given has shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}.\n\n"
                f"out_specs is {spec}, which says that the output varies along {set(along) or '{}'} only, but it may "
                f"vary along {set(more)} too. Reduce it along these axes (lax.psum, lax.pmean), name them in "
                "out_specs, or pass check_vma=False if all devices have the same value."
            )
        return pvary(out, along)
