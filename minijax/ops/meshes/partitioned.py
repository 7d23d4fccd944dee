"""Programs that XLA partitions over the devices of a mesh: where they run, how they are compiled and called.

In: a ``ClosedJaxpr`` and its operands, some of them sharded over a mesh. Out: ``MeshArray``s. A program is compiled
once for each ``Placement``: its devices and the shardings of its arguments and results. ``placement_of`` finds the
placement from the operands, the call and the program.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.backend import pjrt, spmd
from minijax.config import trace_key
from minijax.core import dtypes, observe
from minijax.core.array import (
    HELD,
    Array,
    CommittedArray,
    MeshArray,
    as_array,
    get_aval,
    kind_of,
    placed_text,
    placed_type,
)
from minijax.core.avals import ShapedArray
from minijax.core.explicit import whole_spec
from minijax.core.guards import check_transfer, transfer_guards
from minijax.core.keys import is_key
from minijax.core.lists import safe_zip
from minijax.core.meshes import Mesh, context, simulated_devices
from minijax.core.primitive import Primitive
from minijax.core.rules import Flags, Names, Params, Rule, Values
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.shardings import NamedSharding, PartitionSpec, Placement, Sharding, SingleDeviceSharding, mesh_of
from minijax.core.trace import check_alive
from minijax.interpreters.partial_eval import dce_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from minijax.lowering.places import with_line_names
from minijax.ops.call import Compiled, announce, jit_p, kept_inputs, lowered, one_equation
from minijax.ops.meshes.known_mesh import named_by
from minijax.ops.sharded import over_mesh

# The maximum number of differences between two placements that a cache miss lists.
_MOST_DIFFERENCES = 6

# primitive -> a function from an equation's parameters to the shardings in them
names_shardings: dict[Primitive, Rule] = {}


class Partitioned(Compiled):
    """A jaxpr compiled for the devices of a ``Placement``; its results stay on them."""

    __slots__ = ("arrays", "partitioning", "placement", "ins")

    def __init__(self, placement: Placement, *made_of: Any) -> None:
        self.placement = placement
        super().__init__(*made_of)
        self.repeatable = bool(self.out_avals) and not (self.effectful or self.float0s)
        # turns the buffers of results into arrays
        self.arrays = _maker(self.out_avals, self.partitioning.outs)
        self.ins: list[Any] = self.partitioning.ins[self.n_consts :]

    def _compile(self, closed: ClosedJaxpr, text: str, **options: Any) -> Any:
        devices, mesh, ins, outs = self.placement
        taken = [*[self.placement.everywhere] * self.n_consts, *self._taken(ins)]
        # as in JAX, only the first used argument can pass its sharding on to results
        named = safe_zip(self._taken(ins), self._taken([aval.ndim for aval in closed.in_avals]))
        first = next(((s, ndim) if isinstance(s, NamedSharding) else None for s, ndim in named), None)
        whole: list[bool] = []
        if mesh is not None and mesh.any_explicit and not mesh.are_all_axes_explicit and None in outs:
            found = named_by(closed, [isinstance(each, NamedSharding) for each in ins])
            whole = [each is None and name for each, name in safe_zip(outs, found)]
        self.partitioning = spmd.Partitioning(devices, mesh, taken, outs, first, whole)
        return pjrt.compile(with_line_names(text), partitioning=self.partitioning, **options)

    def _constant(self, x: Any) -> Any:
        return self.there(x, self.placement.everywhere)

    def __call__(self, *args: Any) -> list[Array]:
        args = tuple(self._taken(args))
        leaves = [*self.const_buffers, *map(self.there, args, self.ins)]
        if observe.on_phase or observe.on_executed:
            return self._watched_call(leaves, args)
        outs = self._execute(leaves)
        if self.donated:
            self._forget_donated(args)
        return self._results(outs)

    def there(self, x: Any, sharding: Any) -> Any:
        """A buffer of ``x`` with ``sharding``. If ``x`` has it, this is its own buffer, which donation deletes."""
        if type(x) is MeshArray and (x.device == sharding or x.device.is_equivalent_to(sharding, x.aval.ndim)):
            return x._buffer
        array = as_array(check_alive(x))
        if transfer_guards and type(x) not in HELD:
            check_transfer("device_to_device" if isinstance(x, Array) else "host_to_device", array.aval)
        if isinstance(sharding, SingleDeviceSharding):
            (device,) = sharding.assignment
            return pjrt.place(array._value(), array.aval, device)
        return over_mesh(array, sharding)._buffer

    def mover(self, i: int) -> Rule:
        """A faster ``there`` for the ``i``-th argument of repeated calls."""
        sharding, aval, there = self.ins[i], self.in_avals[i], self.there
        if isinstance(sharding, SingleDeviceSharding) or is_key(aval.dtype) or aval.dtype == dtypes.float0:
            return lambda x: there(x, sharding)
        place, dtype = spmd.placer(sharding, aval), aval.dtype

        def move(x: Any) -> Any:
            if not transfer_guards:
                if type(x) is np.ndarray or isinstance(x, np.generic):
                    if x.dtype == dtype:
                        return place(x, False)
                elif type(x) is float:
                    return place(np.asarray(x, dtype), True)
                elif type(x) is Array:
                    return place(x._value(), True)
            return there(x, sharding)

        return move

    def device_of(self, args: Values) -> Any:
        return None  # the placement decides the devices

    def _results(self, buffers: Values) -> list[Any]:
        outs: list[Any] = self.arrays(buffers)
        for i in self.float0s:
            outs[i] = np.zeros(self.out_avals[i].shape, dtypes.float0)
        return outs


class Simulated(Partitioned):
    """A jaxpr compiled for simulated devices. It can be displayed but not run."""

    __slots__ = ()

    def _compile(self, closed: ClosedJaxpr, text: str, **options: Any) -> Any:
        # optimize nothing: the machine code never runs, and its HLO does not depend on the backend's optimization level
        options["flags"] = (("xla_backend_optimization_level", "0"), *options.get("flags", ()))
        try:
            return super()._compile(closed, text, **options)
        finally:
            # a client and its devices form a reference cycle; collecting it now ends the client's threads
            gc.collect()

    def _constant(self, x: Any) -> Any:
        return None

    def __call__(self, *args: Any) -> list[Array]:
        axes = f" ({_axes_text(self.placement.mesh)})" if self.placement.mesh else ""
        raise ValueError(
            f"{self.name} cannot be run: its {len(self.placement.devices)} devices{axes} are simulated, because only "
            "an AbstractMesh was given. Put its arguments over a Mesh of devices, or look at the program that each "
            "device would run, jit(f).lower(...).compile().as_text()."
        )


def _maker(avals: Sequence[ShapedArray], shardings: Values) -> Rule:
    """A function that makes arrays of types ``avals`` from buffers with these ``shardings``."""
    pjrt.note_committed()
    if any([type(each) is SingleDeviceSharding for each in shardings]):
        return lambda buffers: [*map(_array_at, buffers, avals, shardings)]
    kinds = [*map(kind_of, map(placed_type, avals, shardings), shardings)]
    if len(kinds) == 1:
        (kind,) = kinds

        def only(buffers: Values) -> list[Any]:
            out: MeshArray = _new(MeshArray)
            (out._buffer,) = buffers
            out.kind = kind
            return [out]

        return only

    def arrays(buffers: Values) -> list[Any]:
        # a function call here would slow a small call by a tenth; strict=True would slow this loop by a seventh
        outs: list[Any] = []
        for buffer, kind in zip(buffers, kinds):  # noqa: B905
            out: MeshArray = _new(MeshArray)
            out._buffer = buffer
            out.kind = kind
            outs.append(out)
        return outs

    return arrays


def _array_at(buffer: Any, aval: ShapedArray, sharding: Any) -> Array:
    if type(sharding) is SingleDeviceSharding:
        return CommittedArray(buffer, aval, *sharding.assignment)
    return MeshArray(buffer, aval, sharding)


_new = object.__new__


def shardings_named(closed: ClosedJaxpr) -> list[tuple[str, Sharding]]:
    """(primitive name, sharding) for each sharding in the parameters of a live equation. Computed once."""
    found = closed.memo.get("shardings named")
    if found is None:
        found = [*_named_in(closed.jaxpr.eqns)]
        if found:  # drop the shardings of dead equations
            found = [*_named_in(dce_closed(closed, [True] * len(closed.out_avals))[0].jaxpr.eqns)]
        closed.memo["shardings named"] = found
    return found


def _named_in(eqns: Sequence[JaxprEqn]) -> Iterator[tuple[str, Sharding]]:
    for eqn in eqns:
        rule = names_shardings.get(eqn.primitive)
        if rule is not None:
            yield from ((eqn.primitive.name, each) for each in rule(eqn.params))
        if eqn.params:
            yield from _named_in_programs(eqn.params)


def _named_in_programs(params: Params) -> Iterator[tuple[str, Sharding]]:
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield from shardings_named(item)
            elif isinstance(item, Jaxpr):
                yield from _named_in(item.eqns)


def names_any(params: Params) -> bool:
    """Whether a program in ``params`` contains a sharding."""
    return bool([*_named_in_programs(params)])


names_shardings[jit_p] = lambda params: [
    each for key in ("in_shardings", "out_shardings") for each in params.get(key, ()) if isinstance(each, Sharding)
]


def sharding_of_operand(x: Any) -> Sharding | None:
    """The sharding of the operand ``x`` if ``x`` is committed to devices, else None."""
    if type(x) is MeshArray:
        return x.device  # type: ignore[no-any-return]
    if type(x) is ShapeDtypeStruct:
        return x.sharding  # type: ignore[no-any-return]
    return SingleDeviceSharding(x.device) if type(x) is CommittedArray else None


class _Devices:
    """The ``count`` devices of a program, on which the shardings of operands, results and equations must agree.
    ``found`` is None while only abstract meshes are known. ``described``: whether there was an abstract mesh."""

    def __init__(self) -> None:
        self.found: tuple[Any, ...] | None = None
        self.count: int | None = None
        self.described = False
        self.describe: Callable[[], str]

    def note(self, sharding: Sharding, describe: Callable[[], str]) -> None:
        devices = None if sharding.abstract else sharding.assignment
        count = sharding.num_devices
        if self.count not in (None, count) or None not in (self.found, devices) and self.found != devices:
            raise ValueError(
                f"Received incompatible devices for jitted computation. Got {self.describe()} and {describe()}. Bring "
                "them together with device_put, or name shardings over the same devices in the same order."
            )
        self.described = self.described or devices is None
        if self.count is None or self.found is None and devices is not None:
            self.found, self.count, self.describe = devices, count, describe


def other_devices(operand: str, devices: Any) -> ValueError:
    """The error for an ``operand`` that is not committed to ``devices``, the devices of the mesh that is set."""
    return ValueError(
        f"Received incompatible devices for jitted computation. Got {operand} and jit's context mesh with device ids "
        f"{[each.id for each in devices]} on platform {devices[0].platform.upper()}. With device_put bring it to the "
        "mesh that is set, or compute outside of set_mesh."
    )


def _devices_text(what: str, sharding: Sharding) -> str:
    if sharding.abstract:
        return f"{what} over {mesh_of([sharding])}, which has no devices"
    devices = sharding.assignment
    return f"{what} with device ids {[each.id for each in devices]} on platform {devices[0].platform.upper()}"


def placement_of(
    closed: ClosedJaxpr,
    args: Values,
    name: str,
    ins: Values = (),
    outs: Values = (),
    keep_unused: bool = False,
    label: Callable[[int], str] = "args[{}]".format,
) -> Placement | None:
    """The placement of a program on ``args``; None if the program is not over a mesh.

    Args:
      closed: the program.
      args: arrays, array-like values, or ``ShapeDtypeStruct``s.
      name: the name of the program, for messages.
      ins, outs: the shardings that the caller gave. Entries that are not a ``Sharding`` are ignored.
      keep_unused: whether unused arguments affect the placement too.
      label: a function from an argument's number to its name.

    Raises ValueError if devices do not agree, or if a sharding does not fit its array.
    """
    kept = None if keep_unused else kept_inputs(closed)
    taken = range(len(args)) if kept is None else set(kept)
    devices = _Devices()
    chosen: list[Sharding | None] = [None] * len(args)
    over = bool(outs)
    for i, x in enumerate(args):
        own = sharding_of_operand(x)
        wanted = ins[i] if ins and isinstance(ins[i], Sharding) else None
        if wanted is not None:
            _check_wanted(x, own, wanted, name, label(i))
        if i not in taken:
            continue
        chosen[i] = sharding = wanted or own
        if sharding is not None:
            over = over or wanted is not None or type(x) is not CommittedArray
            devices.note(sharding, _describe_operand(x, own, sharding, name, label, i))
    inner = shardings_named(closed)
    for primitive, sharding in inner:
        devices.note(sharding, lambda p=primitive, s=sharding: _devices_text(f"{p} inside {name}", s))  # type: ignore[misc]
    requested = outs or [None] * len(closed.out_avals)
    results = [each if isinstance(each, Sharding) else None for each in requested]
    for sharding, aval in safe_zip(results, closed.out_avals):
        if sharding is not None:
            sharding.shard_shape(aval.shape)
            devices.note(sharding, lambda s=sharding: _devices_text(f"out_shardings of {name}", s))  # type: ignore[misc]
    mesh = mesh_of([*chosen, *[s for _, s in inner], *results])
    found = devices.found
    if isinstance(context.mesh, Mesh):
        if found is None and devices.count in (None, context.mesh.size):
            found, mesh = context.mesh_devices, context.mesh
        elif found is not None and found != context.mesh_devices:
            raise other_devices(devices.describe(), context.mesh_devices)
    if found is None and devices.count is not None:
        found = simulated_devices(devices.count)
    elif found is not None and devices.described:
        chosen, results = [_over(each, found) for each in chosen], [_over(each, found) for each in results]
        mesh = mesh_of([_over(NamedSharding(mesh, PartitionSpec()), found)]) if mesh is not None else None
    if found is None or not (over or inner or mesh is not None):
        return None
    if mesh is not None and mesh.are_all_axes_explicit:
        named = named_by(closed, [isinstance(each, NamedSharding) for each in chosen]) if None in results else []
        results = [
            _as_typed(aval, mesh, named[i]) if each is None else each
            for i, (each, aval) in enumerate(safe_zip(results, closed.out_avals))
        ]
    return Placement(found, mesh, tuple(chosen), tuple(results))


def _over(sharding: Sharding | None, devices: Values) -> Sharding | None:
    """``sharding``, with ``devices`` if its mesh is abstract."""
    return sharding.over(devices) if isinstance(sharding, NamedSharding) else sharding


def _as_typed(aval: ShapedArray, mesh: Any, named: bool) -> Sharding:
    """The sharding of a result of type ``aval``. ``named``: whether JAX's type names a mesh, see ``known_mesh``."""
    spec = whole_spec(aval)
    says = named or any(spec) or spec.unreduced or spec.reduced
    return NamedSharding(mesh, spec if says else PartitionSpec())


def _check_wanted(x: Any, own: Sharding | None, wanted: Sharding, name: str, label: str) -> None:
    """ValueError if ``wanted`` does not fit the argument, or if the argument is committed to another sharding."""
    aval = get_aval(x)
    wanted.shard_shape(aval.shape)
    if own is not None and not _same_tiles(own, wanted, aval.ndim):
        raise ValueError(
            f"Sharding passed to jit does not match the sharding on the respective arg. Got jit sharding: {wanted}, "
            f"arg sharding: {own} for argument {label} of {name}, of type {aval}. Move the argument with device_put."
        )


def _same_tiles(a: Sharding, b: Sharding, ndim: int) -> bool:
    """Whether arrays of ``ndim`` dimensions have the same parts in the same order; the devices may differ."""
    if a.is_fully_replicated or b.is_fully_replicated:
        return a.is_fully_replicated and b.is_fully_replicated
    return np.array_equal(a.tiles(ndim), b.tiles(ndim))


def _describe_operand(
    x: Any, own: Sharding | None, sharding: Sharding, name: str, label: Callable[[int], str], i: int
) -> Callable[[], str]:
    def described() -> str:
        if own is None or type(x) not in HELD:
            return _devices_text(f"in_shardings for argument {label(i)} of {name}", sharding)
        return placed_text(x, label(i), name)

    return described


def partitioned(
    closed: ClosedJaxpr, name: str, placement: Placement, donated: Flags = (), keep_unused: bool = False
) -> Partitioned:
    """The program for ``closed`` on the devices of ``placement``; compiled once."""
    key = ("executable", tuple(donated), keep_unused, placement)
    program = closed.memo.get(key)
    if program is None:
        announce(closed, name, key, _differences_text(closed, key))
        module = lowered(closed, name, donated, keep_unused, placement)
        made_of = (closed, name, donated, keep_unused, module.text, module.host_callbacks)
        program = closed.memo[key] = (Simulated if placement.simulated else Partitioned)(placement, *made_of)
    return program  # type: ignore[no-any-return]


class Moved(str):
    """Why a program is compiled again: its arguments have other shardings than before."""

    __slots__ = ()

    advice = (
        "Move the arguments back to their former shardings with device_put: each set of shardings needs its "
        "own compilation."
    )


def why_again(closed: ClosedJaxpr, placement: Placement, donated: Flags, keep_unused: bool) -> str:
    """Why ``partitioned`` would compile again; '' if it would not compile, or would compile for the first time."""
    key = ("executable", tuple(donated), keep_unused, placement)
    return "" if key in closed.memo else _differences_text(closed, key)


def _differences_text(closed: ClosedJaxpr, key: tuple[Any, ...]) -> str:
    """How a placement differs from the nearest one that ``closed`` was compiled for; '' if there is none."""
    wanted, how = key[-1], key[:-1]
    names: Names = closed.memo["argument names"]() if "argument names" in closed.memo else ()
    found = [_differences(each[-1], wanted, names) for each in closed.memo if type(each) is tuple and each[:-1] == how]
    if how in closed.memo:
        found.append(_differences(None, wanted, names))
    nearest = min(found[::-1], key=len, default=[])
    shown = nearest[:_MOST_DIFFERENCES]
    more = [f"and {len(nearest) - len(shown)} more"] if len(nearest) > len(shown) else []
    return Moved("; ".join([*shown, *more]))


def _differences(before: Placement | None, after: Placement, names: Names) -> list[str]:
    """The differences between two placements, as texts. ``before`` is None for a program on one device."""
    one_mesh = before is None or before.mesh == after.mesh and before.devices == after.devices
    found = []
    for i, (a, b) in enumerate(safe_zip(before.ins if before else [None] * len(after.ins), after.ins)):
        if a != b:
            name = names[i] if i < len(names) else f"args[{i}]"
            found.append(f"{name}: {_sharding_text(a, one_mesh)} became {_sharding_text(b, one_mesh)}")
    if before is not None and not one_mesh and not found:
        found.append(f"mesh: {_mesh_text(before)} became {_mesh_text(after)}")
    if before is None and not found:
        found.append(f"mesh: one device became {_mesh_text(after)}")
    return found


def _sharding_text(sharding: Sharding | None, one_mesh: bool) -> str:
    if sharding is None:
        return "uncommitted"
    if not isinstance(sharding, NamedSharding):
        return repr(sharding)
    return repr(sharding.spec) if one_mesh else f"{sharding.spec!r} over {_axes_text(sharding.mesh)}"


def _mesh_text(placement: Placement) -> str:
    devices = f"devices {[each.id for each in placement.devices]}"
    return devices if placement.mesh is None else f"{_axes_text(placement.mesh)} on {devices}"


def _axes_text(mesh: Any) -> str:
    return ", ".join(f"{name}={size}" for name, size in mesh.shape_tuple)


# (primitive, types and placements of operands) -> the compiled program of one equation
_equations: dict[Any, Partitioned] = {}
MAX_EQUATIONS = 4096


def _kept_equations(params: Params) -> dict[Any, Any]:
    """The cache for an equation: the memo of a jaxpr in its parameters, or ``_equations``."""
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, ClosedJaxpr):
                return item.memo
    return _equations


def evaluate_over_mesh(p: Primitive, args: Values, params: Params, outs: Sequence[Sharding] = ()) -> Any:
    """Evaluate ``p`` over a mesh by a program of one equation. ``outs``: the shardings in ``params``."""
    arrays = [as_array(check_alive(x)) for x in args]
    avals = [x.aval for x in arrays]
    places = [x.device if isinstance(x, CommittedArray) else None for x in arrays]
    key: Any = (p, *avals, *places, trace_key(), *params.items())
    kept = _kept_equations(params)
    try:
        program = kept.get(key)
    except TypeError:  # a parameter has no hash: the program is not cached
        key = program = None
    if program is None:
        closed = one_equation(p, avals, params)
        placement = placement_of(closed, arrays, p.name, outs=outs, keep_unused=True)
        assert placement is not None, "an operand is over a mesh, or the parameters contain one"
        program = partitioned(closed, p.name, placement, keep_unused=True)
        if key is not None:
            if kept is _equations and len(kept) >= MAX_EQUATIONS:
                kept.clear()
            kept[key] = program
    found = program(*arrays)
    return found if p.multiple_results else found[0]


def call_over_mesh(program: Compiled, args: Values) -> list[Any]:
    """Run ``program`` on ``args``, at least one of which is over a mesh."""
    ref, name, donated, keep_unused, *_ = program.made_of
    closed = ref()
    assert closed is not None, "a program that is called has its jaxpr"
    placement = placement_of(closed, args, name, keep_unused=keep_unused)
    assert placement is not None, "an argument is over a mesh"
    return partitioned(closed, name, placement, donated, keep_unused)(*args)


def moved(x: MeshArray, sharding: Sharding) -> MeshArray:
    """Reshard a multi-process array with one SPMD program."""
    identity = ClosedJaxpr(Jaxpr([], [var := Var(x.aval)], [var], [], "device_put"))
    placement = placement_of(identity, [x], "device_put", outs=[sharding], keep_unused=True)
    assert placement is not None, "the array is over a mesh"
    (out,) = partitioned(identity, "device_put", placement, keep_unused=True)(x)
    assert type(out) is MeshArray, "the result is over the mesh of ``sharding``"
    return out


def shardings_of(program: Partitioned) -> tuple[list[Sharding], list[Sharding]]:
    """The shardings of the arguments (replicated if unused) and of the results."""
    ins = [program.placement.everywhere] * len(program.placement.ins)
    kept = range(len(ins)) if program.kept is None else program.kept
    for i, sharding in safe_zip(kept, program.ins):
        ins[i] = sharding
    return ins, [each for each in program.partitioning.outs if each is not None]


def check_lies(program: Partitioned, args: Values) -> None:
    """ValueError if one of ``args`` is committed to another sharding than the program was compiled for."""
    for i, sharding in safe_zip(program._taken(range(len(args))), program.ins):
        own = sharding_of_operand(args[i])
        if own is not None and not own.is_equivalent_to(sharding, args[i].aval.ndim):
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of arguments passed to "
                f"it: {program.name} was compiled for {sharding}, and argument {i} has the sharding {own}. Move "
                "the argument with device_put, or lower with arguments that have the same shardings as these."
            )
