"""``jit`` as a primitive: a call of a closed jaxpr, compiled by XLA when evaluated.

The call's inputs are the jaxpr's inputs; constant arrays stay in the ``ClosedJaxpr``. Each transformation of a call
is a call of the transformed jaxpr, which is cached with the original.
"""

from __future__ import annotations

import functools
import itertools
import operator
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.backend import pjrt
from minijax.config import context_mesh, preferred_device, while_on
from minijax.core import dtypes, miss_log, observe
from minijax.core.array import Array, CommittedArray, as_array, common_device, device_array, get_aval, uncommitted
from minijax.core.guards import check, check_transfer, guards, transfer_guards
from minijax.core.lazy import HigherModule
from minijax.core.lists import chosen, partition, safe_zip, split_list, spread
from minijax.core.meshes import context
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Dims, Flags, Params, Rule, Values
from minijax.core.structural import UNSPECIFIED, Unspecified, batched_sharding
from minijax.core.trace import check_alive
from minijax.interpreters.evaluate import commits_itself
from minijax.interpreters.jvp import jvp_jaxpr, with_zeros
from minijax.interpreters.linear_parts import linearize_jaxpr
from minijax.interpreters.named_axes import AxisPrimitive
from minijax.interpreters.partial_eval import dce_call, dce_closed, dce_jaxpr, partial_eval_jaxpr, split_now
from minijax.interpreters.program import called_jaxprs
from minijax.interpreters.recompute import call_recompute, recompute_rules
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import call_operands, operand_cotangents, transpose_jaxpr
from minijax.interpreters.vmap import vmap_jaxpr
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, is_effectful, matters
from minijax.ir.pretty import jit_params, jit_read
from minijax.ir.typecheck import call_rule
from minijax.lowering.lower import lower_closed, lower_places, passed_consts
from minijax.ops.declare import set_rules, unchanged
from minijax.ops.subjaxprs import nonzeros

if TYPE_CHECKING:
    from minijax.lowering.places import ModulePlaces

jit_p = AxisPrimitive("jit", multiple_results=True)
jit_p.keeps_signatures = False


@jit_p.def_abstract_eval
def jit_abstract(*avals: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    return jaxpr.out_avals


called_jaxprs[jit_p] = "jaxpr"


# ---------------------------------------------------------------------------------------------- evaluation
commits_itself.add(jit_p)


_buffer = operator.attrgetter("_buffer")


# The module for programs over several devices, loaded at the first such program.
_partitioned = HigherModule("partitioned_programs")
_sharded = HigherModule("sharded_arrays")


class Compiled:
    """A compiled jaxpr: the executable, its text, and its constants on the device."""

    __slots__ = (
        "name",
        "executable",
        "const_buffers",
        "in_avals",
        "out_avals",
        "donated",
        "float0s",
        "effectful",
        "made_of",
        "elsewhere",
        "repeatable",
        "kept",
        "n_consts",
    )

    # the ``Placement`` of a program over several devices, else None
    placement: Any = None

    def __init__(
        self, closed: ClosedJaxpr, name: str, donated: Flags, keep_unused: bool, text: str, host_callbacks: Values = ()
    ) -> None:
        self.name = name
        # how to compile this for another device; the reference is weak, because the jaxpr holds this program
        self.made_of = (weakref.ref(closed), name, donated, keep_unused, text, host_callbacks)
        self.elsewhere: dict[Any, OnDevice] = {}
        # the positions of the arguments that the executable uses; None if it uses all
        self.kept = None if keep_unused else kept_inputs(closed)
        self.donated = [i for i, d in enumerate(self._taken(donated)) if d] if donated else []
        self.in_avals = self._taken(closed.in_avals)
        self.out_avals = closed.out_avals
        self.effectful = bool(host_callbacks) and any(map(is_effectful, closed.eqns))
        # the positions of float0 results: on the device they are unused booleans
        self.float0s = [i for i, aval in enumerate(self.out_avals) if aval.dtype == dtypes.float0]
        # whether a repeated call only passes buffers to the executable and wraps the results
        self.repeatable = type(self) is Compiled and bool(self.out_avals) and not (self.effectful or self.float0s)
        passed = [*itertools.compress(closed.consts, passed_consts(closed))]
        self.n_consts = len(passed)
        with observe.timed("compile", name, closed.memo.get("missed")):
            self.executable = self.made(closed, from_disk=True)
        how = (name, donated, keep_unused, self.placement)
        self.executable.origin = functools.partial(_origin, self.made_of[0], *how)
        self.const_buffers = [*map(self._constant, passed)]
        if observe.on_compiled:
            observe.emit(observe.on_compiled, name, self.executable)

    def made(self, closed: ClosedJaxpr, **options: Any) -> Any:
        """A new executable of the program; ``options`` are further arguments of ``pjrt.compile``."""
        _, name, _, _, text, host_callbacks = self.made_of
        options |= {"name": name, "out_avals": self.out_avals, "host_callbacks": host_callbacks}
        return self._compile(closed, text, n_consts=self.n_consts, kept=self.kept, **options)

    def _compile(self, closed: ClosedJaxpr, text: str, **options: Any) -> Any:
        return pjrt.compile(text, **options)

    def _constant(self, x: Any) -> Any:
        return to_buffer(uncommitted(x))

    def _taken(self, args: Values) -> Values:
        """The entries of ``args`` that belong to used inputs; ``args`` has one entry for each input."""
        return args if self.kept is None else [args[i] for i in self.kept]

    def __call__(self, *args: Any) -> list[Array]:
        """Run on array-like arguments; the results stay on the device."""
        if pjrt.others_in_use:
            device = self.device_of(args)
            if type(device) is tuple:
                return _partitioned.call_over_mesh(self, args)  # type: ignore[no-any-return]
            if device is not None:
                return self.on(device)(*args)
            device = default_place() if type(self) is Compiled else None
            if device is not None:
                return list(map(_sharded.there, self.on(device)(*args)))
        if self.kept is not None:
            args = tuple(self._taken(args))
        try:
            leaves = [*self.const_buffers, *map(_buffer, args)]
        except AttributeError:
            leaves = None
        if leaves is None:
            leaves = [*self.const_buffers, *map(_borrowed, args, self.in_avals)]
        if observe.on_phase or observe.on_executed:
            return self._watched_call(leaves, args)
        outs = self._execute(leaves)
        if self.donated:
            self._forget_donated(args)
        return self._results(outs)

    def device_of(self, args: Values) -> Any:
        """The device or devices to which used arguments are committed, else None. ValueError if they differ."""
        return common_device(self._taken(args), self.name)

    def on(self, device: Any) -> OnDevice:
        """The program for arguments committed to ``device``, compiled once."""
        program = self.elsewhere.get(device)
        if program is None:
            closed, *others = self.made_of
            program = self.elsewhere[device] = OnDevice(device, closed(), *others)
        return program

    def _results(self, buffers: Values) -> list[Any]:
        outs: list[Any] = list(map(device_array, buffers, self.out_avals))
        for i in self.float0s:
            outs[i] = np.zeros(self.out_avals[i].shape, dtypes.float0)
        return outs

    def _execute(self, leaves: list[Any]) -> list[Any]:
        if self.effectful:
            # wait, so that the program's output comes before Python's later output
            return self.executable.execute_and_wait(leaves)
        return self.executable.execute(leaves)

    def _watched_call(self, leaves: list[Any], args: Values) -> list[Array]:
        with observe.timed("run", self.name):
            outs = self._execute(leaves)
            for buffer in outs:
                pjrt.block_until_ready(buffer)
        if self.donated:
            self._forget_donated(args)
        if observe.on_executed:
            observe.emit(observe.on_executed, self.name, self.executable, len(leaves), len(outs))
        return self._results(outs)

    def _forget_donated(self, args: Values) -> None:
        for i in self.donated:
            if isinstance(args[i], Array):
                args[i].forget_host_copy()


def default_place() -> Any:
    """This thread's ``default_device``, or None if it is XLA's first device. RuntimeError for another platform."""
    place = preferred_device()
    if place is None:
        return None
    first = pjrt.local_devices()[0]
    if isinstance(place, str):
        if place != first.platform:
            raise RuntimeError(f"Unknown backend {place}: programs run on {first.platform!r} here.")
        return None
    return None if place == first else place


# After ``default_device`` is set, each call checks where its arguments are.
while_on("default_device", pjrt.note_committed, lambda: None)


class OnDevice(Compiled):
    """A program for the device to which its arguments are committed. Its results are committed too."""

    __slots__ = ("device",)

    def __init__(self, device: Any, *made_of: Any) -> None:
        self.device = device
        super().__init__(*made_of)
        self.const_buffers = [pjrt.transfer(buffer, device) for buffer in self.const_buffers]

    def _compile(self, closed: ClosedJaxpr, text: str, **options: Any) -> Any:
        return pjrt.compile(text, device=self.device, **options)

    def __call__(self, *args: Any) -> list[Array]:
        args = tuple(self._taken(args))
        leaves = [*self.const_buffers, *map(self._here, args)]
        if observe.on_phase or observe.on_executed:
            return self._watched_call(leaves, args)
        outs = self._execute(leaves)
        self._forget_donated(args)
        return self._results(outs)

    def _here(self, x: Any) -> Any:
        """The buffer of ``x`` on this device. If ``x`` is there, its own buffer is used, and donation deletes ``x``."""
        buffer = to_buffer(x)
        if pjrt.buffer_device(buffer) == self.device:
            return buffer
        if transfer_guards and type(x) is Array:
            check_transfer("device_to_device", x.aval)
        return pjrt.transfer(buffer, self.device)

    def _results(self, buffers: Values) -> list[Any]:
        outs = super()._results(buffers)
        return [CommittedArray(x._buffer, x.aval, self.device) if type(x) is Array else x for x in outs]


def _borrowed(x: Any, aval: Any) -> Any:
    """The device buffer of ``x``; a user's NumPy array is copied."""
    if type(x) is np.ndarray and x.dtype is aval.dtype and not observe.on_transfer and not transfer_guards:
        return pjrt.put(x, aval=aval)
    return to_buffer(x)


def to_buffer(x: Any) -> Any:
    """The device buffer of ``x``, cached in an ``Array``."""
    try:
        return x._buffer
    except AttributeError:
        pass
    given, x = x, as_array(check_alive(x))
    if x.on_device:
        return x._buffer
    if transfer_guards and x is not given:  # arrays of minijax count as being on the device
        check_transfer("host_to_device", x.aval)
    if observe.on_transfer:
        observe.emit(observe.on_transfer, "to_device", x.aval)
    # an Array's value is never written to, so the device may share its memory
    buffer = x._buffer = pjrt.put(x._np, aval=x.aval, owned=True)
    return buffer


def kept_inputs(closed: ClosedJaxpr) -> list[int] | None:
    """The positions of the inputs that outputs or effects need; None if they need all inputs."""
    used = dce_closed(closed, [True] * len(closed.out_avals))[1]
    return None if all(used) else [i for i, u in enumerate(used) if u]


class Module(NamedTuple):
    """A lowered jaxpr: its StableHLO module, and the Python functions that it calls by index."""

    text: str
    host_callbacks: list[Any]


# Rewrites a program to one without references. ``ops.refs.discharge``, which imports this module, sets it.
without_refs: Rule = unchanged


def set_without_refs(form: Rule) -> None:
    """Set the function that rewrites a program before lowering."""
    global without_refs
    without_refs = form


def lowered(
    closed: ClosedJaxpr, name: str, donated: Flags = (), keep_unused: bool = False, placement: Any = None
) -> Module:
    """The StableHLO module of ``closed``, which is lowered once. ``placement`` partitions the program."""
    key = ("stablehlo", name, tuple(donated), keep_unused, placement)
    module = closed.memo.get(key)
    if module is None:
        closed = without_refs(closed)
        with observe.timed("lower", name, closed.memo.get("missed")):
            callbacks: list[Any] = []
            options = _lowering_options(closed, keep_unused, callbacks, placement)
            text = lower_closed(closed, name, donated, **options)
            module = closed.memo[key] = Module(text, callbacks)
        if observe.on_lowered:
            observe.emit(observe.on_lowered, name, module.text)
    return module


def _lowering_options(closed: ClosedJaxpr, keep_unused: bool, callbacks: list[Any], placement: Any = None) -> Params:
    return {
        "placement": placement,
        "platform": pjrt.platform,
        "host_callbacks": callbacks,
        "drop_unused": not keep_unused,
    }


def lowered_places(
    closed: ClosedJaxpr, name: str, donated: Flags = (), keep_unused: bool = False, placement: Any = None
) -> ModulePlaces:
    """The equation of each line of the module (see ``lowering.places``); computed once."""
    key = ("places", name, tuple(donated), keep_unused, placement)
    places = closed.memo.get(key)
    if places is None:
        closed = without_refs(closed)
        options = _lowering_options(closed, keep_unused, [], placement)
        places = closed.memo[key] = lower_places(closed, name, donated, **options)
    return places


def _origin(closed: weakref.ref[ClosedJaxpr], *how: Any) -> Any:
    """The jaxpr of an executable and the ``places`` of its module; None if the jaxpr has been freed."""
    alive = closed()
    return None if alive is None else (alive, lowered_places(alive, *how))


def compiled(closed: ClosedJaxpr, name: str, donated: Flags = (), keep_unused: bool = False) -> Compiled:
    """The compiled form of ``closed``, which is compiled once."""
    program = known_program(closed, donated, keep_unused)
    if program is None:
        key, original = _program_key(donated, keep_unused), closed
        closed = without_refs(closed)
        announce(closed, name, key, _left_a_mesh(original, key))
        module = lowered(closed, name, donated, keep_unused)
        program = original.memo[key] = Compiled(closed, name, donated, keep_unused, module.text, module.host_callbacks)
    return program


@functools.lru_cache(maxsize=1024)
def _named_program(name: str, compute: Any, avals: tuple[Any, ...], static: tuple[Any, ...]) -> ClosedJaxpr:
    with observe.unobserved():
        return stage(lambda *values: compute(*values, *static), avals, name)


def named_call(name: str, compute: Any, args: Values, static: tuple[Any, ...] = ()) -> list[Any]:
    """Call ``compute(*args, *static)``, which returns a list of arrays, as a jitted function named ``name``.
    It is staged once per signature."""
    closed = _named_program(name, compute, tuple(map(get_aval, args)), static)
    mesh_params = {} if context_mesh() is None else {"ctx_mesh": context.named}
    outs: list[Any] = jit_p.bind(*args, jaxpr=closed, name=name, donated_invars=(False,) * len(args), **mesh_params)
    return outs


# With more signatures of one primitive than this, its cache of programs is cleared.
MAX_PROGRAMS = 1024


def compiled_impl(p: Primitive) -> Any:
    """An evaluation rule for a primitive that NumPy cannot compute: XLA compiles one program per signature."""
    programs: dict[Any, Compiled] = {}

    def run_compiled(*args: Any, **params: Any) -> Any:
        arrays = [as_array(check_alive(x)) for x in args]
        key = (*[x.aval for x in arrays], *params.items())
        program = programs.get(key)
        if program is None:
            if len(programs) >= MAX_PROGRAMS:
                programs.clear()
            program = programs[key] = compiled(one_equation(p, [x.aval for x in arrays], params), p.name)
        outs = program(*arrays)
        return outs if p.multiple_results else outs[0]

    return run_compiled


def one_equation(p: Primitive, avals: Sequence[Any], params: Params) -> ClosedJaxpr:
    """The program of one equation of ``p`` on operands of these types."""
    found = p.abstract_eval(*avals, **params)
    ins, outs = list(map(Var, avals)), list(map(Var, found if p.multiple_results else [found]))
    return ClosedJaxpr(Jaxpr([], ins, outs, [JaxprEqn(p, ins, params, outs)], p.name))


def known_program(closed: ClosedJaxpr, donated: Flags = (), keep_unused: bool = False) -> Compiled | None:
    """The cached result of ``compiled``, if there is one."""
    return closed.memo.get(_program_key(donated, keep_unused))


def _program_key(donated: Flags, keep_unused: bool) -> Any:
    return "executable", tuple(donated), keep_unused


def _left_a_mesh(closed: ClosedJaxpr, key: Any) -> str:
    """The reason for compiling a program for one device if programs for a mesh exist already; '' if none exist."""
    keys = [each for each in list(closed.memo) if type(each) is tuple]  # other threads may add entries
    over_a_mesh = any(len(each) > len(key) and each[: len(key)] == key for each in keys)
    return "arguments: over a mesh became on one device" if over_a_mesh else ""


# What the reason of a cache miss calls a program that a transformation made from another program.
_MADE_BY = {"jvp": "derivative", "vmap": "batched form", "transpose": "transpose", "partial_eval": "known part"}


def announce(closed: ClosedJaxpr, name: str, key: Any, again: str = "") -> None:
    """Tell guards that ``closed`` will be compiled. If there is a reason, such as ``again``, report a cache miss."""
    made_by = closed.memo.get("made_by", "")
    reason = again
    if made_by and not again:
        reason = f"the {_MADE_BY.get(made_by, made_by)} of {name} is compiled for the first time"
    if guards:
        check("compiled", name, lambda: reason or "its program is run for the first time")
    if reason:
        if observe.on_cache:
            observe.emit(observe.on_cache, "compilation", name, False, key, reason)
        closed.memo["missed"] = miss_log.add("compilation", name, name, reason)


@jit_p.def_impl
def jit_impl(
    *args: Any,
    jaxpr: ClosedJaxpr,
    name: str,
    donated_invars: Flags = (),
    keep_unused: bool = False,
    in_shardings: Values = (),
    out_shardings: Values = (),
    **params: Any,
) -> list[Array]:
    if not (jaxpr.jaxpr.outvars or any(map(is_effectful, jaxpr.eqns))):
        return []  # a known part without results: all residuals are operands of the call
    if pjrt.others_in_use:
        places = _partitioned.placement_of
        placement = places(jaxpr, args, name, in_shardings, out_shardings, keep_unused)
        if placement is not None:
            program = _partitioned.partitioned
            return program(jaxpr, name, placement, donated_invars, keep_unused)(*args)  # type: ignore[no-any-return]
    return compiled(jaxpr, name, donated_invars, keep_unused)(*args)


# ---------------------------------------------------------------------------------------------- transformations
def jit_stage(trace: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    if params.get("inline"):
        return eval_closed(jaxpr, *args)
    return trace.record(jit_p, args, {"jaxpr": jaxpr, **params})


def _handed_on(params: Params, ins: Sequence[Values] = (), outs: Sequence[Values] = ()) -> Params:
    """The parameters that a transformed call keeps; ``ins``, ``outs``: groups of shardings of operands and results."""
    passed: dict[str, Any] = {key: params[key] for key in ("inline", "keep_unused", "ctx_mesh") if key in params}
    for key, groups in (("in_shardings", ins), ("out_shardings", outs)):
        given = tuple(itertools.chain(*groups)) if "in_shardings" in params or "out_shardings" in params else ()
        if any(map(_names_one, given)):
            passed[key] = given
    return passed


def _names_one(sharding: Any) -> bool:
    return type(sharding) is not Unspecified


def _named(params: Params, key: str, count: int) -> Values:
    """The shardings of ``count`` operands or results of a call: ``UNSPECIFIED`` unless the user gave them."""
    return params.get(key) or (UNSPECIFIED,) * count


def jit_jvp(primals: Values, tangents: Values, *, jaxpr: ClosedJaxpr, name: str, **params: Any) -> Any:
    nonzero, given = nonzeros(tangents)
    jvp_of, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    ins, named = _named(params, "in_shardings", len(primals)), _named(params, "out_shardings", len(nonzero_out))
    passed = _handed_on(params, (ins, chosen(nonzero, ins)), (named, chosen(nonzero_out, named)))
    outs = jit_p.bind(*primals, *given, jaxpr=jvp_of, name=name, **passed)
    return with_zeros(outs, nonzero_out)


def jit_batch(axis: Any, args: Values, dims: Dims, *, jaxpr: ClosedJaxpr, name: str, **params: Any) -> Any:
    batched, out_dims = vmap_jaxpr(jaxpr, axis, dims)
    ins = [*map(batched_sharding, _named(params, "in_shardings", len(args)), dims)]
    outs = [*map(batched_sharding, _named(params, "out_shardings", len(out_dims)), out_dims)]
    return jit_p.bind(*args, jaxpr=batched, name=name, **_handed_on(params, [ins], [outs])), out_dims


def split_call(jaxpr: ClosedJaxpr, unknown_in: Flags) -> Any:
    """Partial evaluation of a call's jaxpr: ``(known jaxpr, unknown jaxpr, unknown outputs, inputs)``.
    For each residual, ``inputs`` has the number of the known input that it equals, or None for an output of the known
    jaxpr."""
    key = ("partial_eval", tuple(unknown_in))
    if key not in jaxpr.memo:
        known, unknown, unknown_out, n_res = partial_eval_jaxpr(jaxpr, unknown_in)
        outs, residuals = split_list(known.jaxpr.outvars, len(known.out_avals) - n_res)
        place = {v: i for i, v in enumerate(known.jaxpr.invars)}
        inputs = [place.get(v) for v in residuals]
        made = [v for v, i in safe_zip(residuals, inputs) if i is None]
        pruned = known.jaxpr.replace(outvars=[*outs, *made])
        pruned, _ = dce_jaxpr(pruned, [True] * len(pruned.outvars), keep_inputs=True)  # JAX does so inside of jit
        known = ClosedJaxpr(pruned, known.consts)
        known.memo["made_by"], unknown.memo["made_by"] = "partial_eval", "linear part"
        jaxpr.memo[key] = known, unknown, unknown_out, inputs
    return jaxpr.memo[key]


def jit_partial_eval_jaxpr(eqn: JaxprEqn, unknown_in: Flags) -> Any:
    name = eqn.params["name"]
    known_jaxpr, unknown_jaxpr, unknown_out, inputs = split_call(eqn.params["jaxpr"], unknown_in)
    known_in, unknown_args = partition(unknown_in, eqn.invars)
    known_out, later_out = partition(unknown_out, eqn.outvars)
    made = [Var(aval) for aval in known_jaxpr.out_avals[len(known_out) :]]
    fresh = iter(made)
    residuals = [next(fresh) if i is None else known_in[i] for i in inputs]
    params = eqn.params
    known_ins, unknown_ins = partition(unknown_in, _named(params, "in_shardings", len(eqn.invars)))
    known_outs, unknown_outs = partition(unknown_out, _named(params, "out_shardings", len(eqn.outvars)))
    given = [UNSPECIFIED if i is None else known_ins[i] for i in inputs]
    first = _handed_on(params, [known_ins], (known_outs, [UNSPECIFIED] * len(made)))
    second = _handed_on(params, (given, unknown_ins), [unknown_outs])
    now_params, then_params = ({"name": name, **passed} for passed in (first, second))
    now = JaxprEqn(jit_p, known_in, {**now_params, "jaxpr": known_jaxpr}, [*known_out, *made], eqn.source)
    ins = [*residuals, *unknown_args]
    then = JaxprEqn(jit_p, ins, {**then_params, "jaxpr": unknown_jaxpr}, later_out, eqn.source)
    return ([now] if matters(now) else []), [then]


class _Linearized(NamedTuple):
    """A linearized call. ``places`` gives the origin of each result and residual: ``("made", i)`` is the i-th result
    of ``known``, ``("operand", i)`` is the i-th operand, and ``("constant", value)`` is a constant.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    nonzero_out: list[bool]
    places: list[tuple[str, Any]]


def _linearized(jaxpr: ClosedJaxpr, nonzero: Flags) -> _Linearized:
    key = ("linearized call", tuple(nonzero))
    found: _Linearized | None = jaxpr.memo.get(key)
    if found is not None:
        return found
    known, linear, nonzero_out, n_res = linearize_jaxpr(jaxpr, nonzero)
    # the linear call takes its constants as operands
    residuals, tangents = split_list(linear.jaxpr.invars, n_res)
    reads = dict.fromkeys(v for eqn in linear.eqns for v in eqn.invars)
    value_of = dict(safe_zip(linear.jaxpr.constvars, linear.consts))
    atom_of = dict(safe_zip(residuals, known.jaxpr.outvars[len(known.out_avals) - n_res :]))
    ordered = [v for v in reads if v in atom_of or v in value_of]
    ordered += [v for v in (*value_of, *residuals) if v not in reads]
    place: dict[Any, tuple[str, Any]] = {v: ("operand", i) for i, v in enumerate(known.jaxpr.invars)}
    made: list[Any] = []

    def placed(atom: Any) -> tuple[str, Any]:
        if type(atom) is Literal or atom not in place:
            made.append(atom)
            if type(atom) is Literal:
                return "made", len(made) - 1
            place[atom] = "made", len(made) - 1
        return place[atom]

    results = [placed(atom) for atom in known.jaxpr.outvars[: len(known.out_avals) - n_res]]
    places = [*results, *[("constant", value_of[v]) if v in value_of else placed(atom_of[v]) for v in ordered]]
    linear = ClosedJaxpr(linear.jaxpr.replace(constvars=[], invars=[*ordered, *tangents]))
    known = ClosedJaxpr(known.jaxpr.replace(outvars=made), known.consts)
    known.memo["made_by"], linear.memo["made_by"] = "known part", "linear part"
    found = jaxpr.memo[key] = _Linearized(known, linear, nonzero_out, places)
    return found


def jit_linearize(is_vjp: bool, nonzero: Flags, *primals: Any, jaxpr: ClosedJaxpr, name: str, **params: Any) -> Any:
    known, linear, nonzero_out, places = _linearized(jaxpr, nonzero)
    ins, named = _named(params, "in_shardings", len(primals)), _named(params, "out_shardings", len(nonzero_out))
    where: dict[int, Any] = {}
    for sharding, (kind, at) in zip(named, places, strict=False):
        if kind == "made":
            where.setdefault(at, sharding)
    known_outs = [where.get(i, UNSPECIFIED) for i in range(len(known.out_avals))]
    made = jit_p.bind(*primals, jaxpr=known, name=name, **_handed_on(params, [ins], [known_outs]))
    values = [x if kind == "constant" else (made if kind == "made" else primals)[x] for kind, x in places]
    outs, residuals = split_list(values, len(nonzero_out))

    def linear_call(residuals: Values, *tangents: Any) -> list[Any]:
        tangent_ins = [UNSPECIFIED] * len(residuals), chosen(nonzero, ins)
        passed = _handed_on(params, tangent_ins, [chosen(nonzero_out, named)])
        return spread(nonzero_out, jit_p.bind(*residuals, *nonzeros(tangents)[1], jaxpr=linear, name=name, **passed))

    return outs, nonzero_out, residuals, linear_call


recompute_rules[jit_p] = call_recompute(
    jit_p,
    lambda eqn, unknown_in, split: {"jaxpr": split.known, "name": eqn.params["name"]},
    lambda eqn, split: {"jaxpr": split.staged, "name": eqn.params["name"]},
)


def jit_dce(eqn: JaxprEqn, used: Flags) -> JaxprEqn:
    return dce_call(eqn, used, ["donated_invars", "in_shardings"], ["out_shardings"])


def jit_transpose(cts: Values, *args: Any, jaxpr: ClosedJaxpr, name: str, **params: Any) -> list[Any]:
    linear, nonzero, known, given = call_operands(cts, args)
    transposed, arrives = transpose_jaxpr(jaxpr, linear, nonzero, [get_aval(ct) for ct in given])
    ins, linear_ins = partition(linear, _named(params, "in_shardings", len(args)))
    cts_in = chosen(nonzero, _named(params, "out_shardings", len(nonzero)))
    passed = _handed_on(params, (ins, cts_in), [chosen(arrives, linear_ins)])
    found = jit_p.bind(*known, *given, jaxpr=transposed, name=name, **passed)
    return operand_cotangents(args, arrives, found)


def jit_lower(
    ctx: Any, avals: Any, out_avals: Any, *names: str, jaxpr: ClosedJaxpr, name: str, **params: Any
) -> list[str]:
    symbol = ctx.module.function(jaxpr, name, params.get("in_shardings"), params.get("out_shardings"))
    return ctx.call(symbol, names, avals, out_avals)


set_rules(
    jit_p,
    jvp=jit_jvp,
    linearize=jit_linearize,
    axis_batch=jit_batch,
    transpose=jit_transpose,
    stage=jit_stage,
    partial_eval=split_now(jit_p),
    partial_eval_jaxpr=jit_partial_eval_jaxpr,
    dce=jit_dce,
    lower=jit_lower,
    typecheck=call_rule("jaxpr"),
    shown=jit_params,
    parse=jit_read,
)
