"""``pmap``: a ``JitFunction`` of a ``shard_map`` over a mesh of one axis. The arguments determine the axis size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.api.batching import check_axes, describe_sizes, mapped_axis, output_axis
from minijax.api.compile import JitFunction, hashable_tree
from minijax.api.flat import FlatFun, check_callable, fun_name, int_or_ints
from minijax.api.placed_arrays import global_to_host_local, host_local_to_global
from minijax.api.shard_map import bind_over
from minijax.api.stages import StagedCall
from minijax.backend import pjrt
from minijax.core.array import get_aval
from minijax.core.meshes import AxisType, Mesh, context
from minijax.core.records import NamedTuple
from minijax.core.refs import AbstractRef, Ref
from minijax.core.shardings import NamedSharding, PartitionSpec
from minijax.core.trace import state
from minijax.core.varying import current_mesh, manual_axes
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ops.call import jit_p
from minijax.ops.shape import expand_dims, squeeze
from minijax.pytree import prefix_leaves, tree_unflatten

# The default names of the axis and of the program.
UNNAMED = "_internal_pmap_axis_name"
_PROGRAM = "_fun"


class Options(NamedTuple):
    """The arguments of ``pmap``, made canonical."""

    axis_name: Any
    in_axes: Any
    out_axes: Any
    static: tuple[int, ...]
    donated: tuple[int, ...]
    devices: tuple[Any, ...] | None
    backend: str | None
    axis_size: int | None
    alone: bool = False

    def within_process(self) -> Options:
        """These options, with this process's own devices."""
        own = tuple(pjrt.local_devices())
        return Options(*self[:5], own, self.backend, None, True)


class PmapFunction(JitFunction):
    """The result of ``pmap``: call it with arguments that have the mapped axis; ``lower`` shows the program."""

    # a slot, because functools.wraps would copy an attribute in ``__dict__`` to the user's function
    __slots__ = ("options",)

    transform = "pmap"
    runs_as_written = False

    def __init__(self, fun: Callable[..., Any], options: Options) -> None:
        self.options = options
        super().__init__(fun, options.static, (), options.donated, (), False, False)

    def _options(self) -> tuple[Any, ...]:
        each = self.options
        return ("pmap", each.axis_name, *map(hashable_tree, (each.in_axes, each.out_axes)), *each[3:])

    @property
    def called(self) -> str:
        return f"pmap of {fun_name(self.fun)}"

    def __reduce__(self) -> Any:
        return PmapFunction, (self.fun, self.options)

    def __repr__(self) -> str:
        return f"<pmap of {self.subject}>"

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        static = self.options.static
        if not static:
            return args, kwargs, ()
        if max(static) >= len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={static} but was called with only {len(args)} "
                f"positional argument{'s' if len(args) > 1 else ''}. All static broadcasted arguments must be passed "
                "positionally."
            )
        return super()._split(args, kwargs)

    def _traced(
        self, avals: Sequence[Any], static: Any, in_tree: Any, args: Any, kwargs: Any
    ) -> tuple[str, ClosedJaxpr, Any, list[Any], list[Any]]:
        options = self.options
        flat = FlatFun(self._with_static(static), in_tree, "pmap", subject=self.subject)
        if any([isinstance(aval, AbstractRef) for aval in avals]):
            raise NotImplementedError(_of_references(self.subject))
        axes = self._in_axes(static, args, avals)
        mesh = self._mesh(self._size(flat, axes, avals))
        specs = [_spec(axis, options.axis_name) for axis in axes]
        out_specs: list[PartitionSpec] = []

        def part(*values: Any) -> list[Any]:
            slices = [x if axis is None else squeeze(x, [axis]) for x, axis in zip(values, axes, strict=True)]
            outs = flat(*slices)
            out_axes = self._out_axes(flat.out_tree, outs)
            out_specs[:] = [_spec(axis, options.axis_name) for axis in out_axes]
            return [x if axis is None else expand_dims(x, [axis]) for x, axis in zip(outs, out_axes, strict=True)]

        def mapped(*leaves: Any) -> list[Any]:
            names = frozenset(mesh.axis_names)
            return bind_over(part, leaves, mesh, mesh, names, False, specs, out_specs, self.subject, "pmap")

        part.input_names = mapped.input_names = flat.input_names  # type: ignore[attr-defined]
        closed = stage(mapped, avals, self.subject, label="pmap")
        if any([isinstance(c, Ref) for c in closed.consts]):
            raise NotImplementedError(_of_references(self.subject))
        ins, outs = ([NamedSharding(mesh, spec) for spec in each] for each in (specs, out_specs))
        return _PROGRAM, closed, flat.out_tree, ins, outs

    def _bound(self, staged: StagedCall) -> dict[str, Any]:
        if _nothing_traced():
            return staged.params
        # the program that is being traced places the arrays when it is evaluated
        return {key: value for key, value in staged.params.items() if key not in ("in_shardings", "out_shardings")}

    def _in_axes(self, static: Any, args: tuple[Any, ...], avals: Sequence[Any]) -> tuple[int | None, ...]:
        in_axes = self.options.in_axes
        at = {i for i, _, _ in static[0]} if static else set()
        if at and isinstance(in_axes, tuple):
            in_axes = tuple(axis for i, axis in enumerate(in_axes) if i not in at)
        try:
            axes = prefix_leaves(in_axes, args, name="pmap in_axes")
        except ValueError as error:
            raise ValueError(
                f"{error}\npmap in_axes must be a tree prefix of the tuple of positional arguments; arguments passed "
                "by keyword are mapped over their leading axis."
            ) from None
        axes += [0] * (len(avals) - len(axes))
        pairs = zip(avals, axes, strict=True)
        return tuple(None if axis is None else mapped_axis("pmap", aval.shape, axis) for aval, axis in pairs)

    def _out_axes(self, out_tree: Any, outs: Sequence[Any]) -> list[int | None]:
        try:
            axes = prefix_leaves(self.options.out_axes, out_tree, name="pmap out_axes")
        except ValueError as error:
            raise ValueError(f"{error}\npmap out_axes must be a tree prefix of the function's output.") from None
        pairs = zip(axes, outs, strict=True)
        return [None if axis is None else output_axis("pmap", get_aval(x).ndim + 1, axis) for axis, x in pairs]

    def _size(self, flat: FlatFun, axes: Sequence[int | None], avals: Sequence[Any]) -> int:
        """The number of participating devices: the size of the mapped axis."""
        sizes = {aval.shape[axis] for aval, axis in zip(avals, axes, strict=True) if axis is not None}
        if not sizes:
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if len(sizes) > 1:
            raise ValueError(describe_sizes("pmap", flat.fun, flat.in_tree, avals, axes))
        (size,) = sizes
        given = self.options.axis_size
        if given is not None and given != size:
            raise ValueError(f"Specified axis_size {given} doesn't match received axis_size {size}.")
        return int(size)

    def _mesh(self, size: int) -> Mesh:
        backend = self.options.backend
        if backend is not None and backend != pjrt.platform():
            raise RuntimeError(f"Unknown backend {backend}. Available backends are [{pjrt.platform()!r}].")
        mesh = Mesh(pjrt.program_devices(size, self.options.devices), (self.options.axis_name,))
        within = current_mesh()
        outer: Any = context.mesh if within is None else within
        if within is not None or outer is not None and outer != mesh:
            manual = outer.abstract_mesh.update_axis_types(dict.fromkeys(manual_axes(), AxisType.Manual))
            raise ValueError(
                f"The context mesh {manual} should match the mesh passed to shard_map {mesh}, which is "
                f"what pmap of {self.subject} needs. Within pmap and shard_map, use vmap instead, and call pmap where "
                "no mesh is set."
            )
        return mesh

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]) -> Any:
        if not self._over_processes:
            return super().call(args, kwargs, static)
        if not _nothing_traced():
            # each process traces separately, over its own devices
            return PmapFunction(self.fun, self.options.within_process()).call(args, kwargs, static)
        staged, leaves, avals = self._find(args, kwargs, static)
        outs = jit_p.bind(*leaves, **staged.params)
        for i in itertools.compress(range(len(leaves)), staged.params["donated_invars"]):
            leaves[i].forget_host_copy()
        # each process gets its own part of the results; such calls have no fast path
        return tree_unflatten(staged.out_tree, [*map(global_to_host_local, outs)]), leaves, avals, None

    @property
    def _over_processes(self) -> bool:
        return pjrt.process_count() > 1 and not self.options.alone

    def _key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], list[Any], list[Any]]:
        key, leaves, avals = super()._key(args, kwargs, static)
        if not (self._over_processes and _nothing_traced()):
            return key, leaves, avals
        axes = self._in_axes(static, args, avals)
        mesh = self._global_mesh({aval.shape[axis] for aval, axis in zip(avals, axes, strict=True) if axis is not None})
        whole = [NamedSharding(mesh, _spec(axis, self.options.axis_name)) for axis in axes]
        leaves = [*map(host_local_to_global, leaves, whole)]
        avals = [*map(get_aval, leaves)]
        return (*key[:2], tuple(avals), *key[3:]), leaves, avals

    def _global_mesh(self, sizes: set[int]) -> Mesh:
        """The mesh over all processes. ``sizes``: the sizes of this process's mapped axes, which must be equal."""
        if len(sizes) != 1:
            raise ValueError(
                f"pmap got mapped axes of sizes {sorted(sizes)}: each process passes arguments whose mapped axes have "
                "the size of its number of devices."
            )
        (local,) = sizes
        given, devices = self.options.axis_size, self.options.devices
        total = given or (local * pjrt.process_count() if devices is None else len(devices))
        mesh = self._mesh(total)
        mine = mesh.local_mesh.size
        if mine != local:
            raise ValueError(
                f"pmap over {total} devices, {mine} of which belong to this process, got a mapped axis of size "
                f"{local}: each process passes one slice for each of its own devices."
            )
        return mesh


def _nothing_traced() -> bool:
    return len(state.stack) == 1 and not state.dynamic.level


def _spec(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _of_references(subject: str) -> str:
    return (
        f"pmap of a function that takes or closes over a mutable array reference, here {subject}, is not supported. "
        "Pass its content, r[...], and return the new content."
    )


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> PmapFunction:
    """Compile ``fun`` with XLA for several devices and run it on all of them, each on one slice of the arguments.

    It is ``jit`` of a ``shard_map`` over a mesh of one axis; results stay on the devices. With several processes (see
    ``minijax.distributed``) each process passes and gets the slices of its own devices.

    ``axis_name``: the name that collectives use. ``in_axes``: for each positional argument an int, None (not mapped),
    or a pytree of ints and Nones that is a prefix of the argument; keyword arguments are mapped along axis 0.
    ``out_axes``: the same for outputs; None takes the first device's value. ``static_broadcasted_argnums``: positions
    of hashable arguments, which ``fun`` gets as they are. ``devices``: all by default. ``backend`` and ``axis_size``
    are only checked. ``donate_argnums``: positions of arguments whose memory XLA reuses.

    When called: ValueError if there are more slices than devices, if axes or sizes do not fit, if an argument is
    committed to another device, if the current mesh is not pmap's, or inside ``pmap`` or ``shard_map``. RuntimeError
    if ``backend`` is another platform. TypeError if an argument or an output is no array.
    """
    check_callable(fun)
    check_axes(in_axes, out_axes, "pmap")
    if devices is not None:
        devices = tuple(devices)
        if not devices:
            raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    static = int_or_ints(static_broadcasted_argnums, "static_broadcasted_argnums")
    donated = int_or_ints(donate_argnums, "donate_argnums")
    if {*static} & {*donated}:
        raise ValueError(
            f"`static_broadcasted_argnums` {[*static]} and `donate_argnums` {[*donated]} cannot intersect: a static "
            "argument has no memory to give away."
        )
    name = UNNAMED if axis_name is None else axis_name
    options = Options(name, in_axes, out_axes, static, donated, devices, backend, axis_size)
    return PmapFunction(fun, options)
