"""Buffers and executables: put arrays on a device, compile StableHLO text, run it, fetch the results.

A *buffer* is jaxlib's array object; its ``aval`` is a :class:`~minijax.core.avals.ShapedArray`. Nothing here checks or
converts dtypes: callers give exactly what the program expects. Importing jax takes ten times as long as the rest of a
first call, so methods of jaxlib that import jax (``LoadedExecutable.execute``, ``disassemble_*``,
``unsafe_buffer_pointer``) are avoided.

An argument of ``@main`` with ``tf.aliasing_output = 0 : i32`` or ``jax.buffer_donor = true`` is deleted by the call, or
copied if a NumPy view of it is alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from minijax.backend import client as _client
from minijax.backend.client import Runtime, runtime
from minijax.backend.failures import (
    compile_error,
    deleted_error,
    interruptible,
    put_error,
    run_error,
    runtime_error,
)
from minijax.config import config
from minijax.core import dtypes
from minijax.core.avals import ShapedArray, physical_aval
from minijax.core.guards import check_transfer, transfer_guards
from minijax.core.keys import is_key, words_of

Buffer = Any  # jaxlib's ArrayImpl, which no type stub describes
Device = Any


# --- devices ------------------------------------------------------------------------------------------------


def platform() -> str:
    """The platform programs run on, as jax names it: ``'cpu'``, ``'gpu'``, ``'tpu'``."""
    return runtime().client.platform


def device_class() -> type:
    """The class of devices, which is jaxlib's."""
    return _client.load()[0].Device  # type: ignore[no-any-return]


def devices() -> list[Device]:
    """The devices of all processes: PJRT's objects with ``id``, ``platform``, ``device_kind``."""
    return list(runtime().devices)


def local_devices() -> list[Device]:
    """The devices of this process."""
    return list(runtime().local_devices)


def process_index() -> int:
    """The number of this process among those joined by :mod:`minijax.backend.distributed`; 0 if it is alone."""
    return runtime().client.process_index()


def process_count() -> int:
    """The number of processes that share :func:`devices`."""
    return runtime().process_count


def program_devices(count: int, given: Sequence[Device] | None = None) -> list[Device]:
    """The first ``count`` devices of ``given``, or of all devices ordered by process. ValueError if too few."""
    found = sorted(devices(), key=lambda device: device.process_index) if given is None else list(given)
    if len(found) < count:
        raise ValueError(
            f"compiling computation that requires {count} logical devices, but only {len(found)} XLA devices are "
            "available. Map a smaller axis, or use vmap; on a host, set the environment variable "
            "JAX_NUM_CPU_DEVICES to the number of devices you want."
        )
    return found[:count]


# Whether an array is committed to one of several devices. Only then do programs check where arguments are.
others_in_use = False


def note_committed() -> None:
    """Note that an array is committed to one of several devices."""
    global others_in_use
    others_in_use = True


# --- buffers ------------------------------------------------------------------------------------------------


def put(array: Any, device: Device | None = None, *, aval: ShapedArray | None = None, owned: bool = False) -> Buffer:
    """Copy a NumPy array (or NumPy scalar) of any strides and byte order to a device, in its dtype.

    ``device``: the first by default. ``aval``: the array's type, needed for random keys. ``owned``: whether nobody
    writes to the array again; a CPU may then use its memory in place. Otherwise the array is read before this returns.
    TypeError for a dtype such as object or string.
    """
    rt = _client._runtime or runtime()
    if aval is None:
        aval = ShapedArray(array.shape, array.dtype)
    elif is_key(aval.dtype):
        array, aval = words_of(array, aval.dtype), physical_aval(aval)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
        aval = ShapedArray(array.shape, array.dtype, aval.weak_type)
    semantics = rt.aliasing if owned else rt.copying
    try:
        if device is None:
            return rt.put(aval, rt.sharding, [array], rt.default_list, True, False, semantics, True)
        return rt.put(aval, rt.on(device), [array], [device], True, False, semantics, True)
    except rt.error as error:
        if array.dtype == dtypes.float0:  # on a device, float0 is an unused array of booleans
            return put(np.zeros(array.shape, bool), device, owned=True)
        raise put_error(error, array) from None


def place(value: Any, aval: ShapedArray, device: Device) -> Buffer:
    """Copy a NumPy value of type ``aval`` to the device. Nobody may write to the value afterwards."""
    return put(value, device, aval=aval, owned=True)


def transfer(buffer: Buffer, device: Device) -> Buffer:
    """The buffer on the given device: a copy, or the same buffer if it is there already."""
    rt = runtime()
    try:
        return rt.put(buffer.aval, rt.on(device), [buffer], [device], True, False, rt.copying, True)
    except rt.error as error:
        if buffer.is_deleted():
            raise deleted_error(buffer) from None
        raise runtime_error(error, f"copying a buffer to {device}") from None


def to_numpy(buffer: Buffer) -> np.ndarray:
    """Wait for a one-device buffer. Return its value as a read-only NumPy array; on a CPU, a view of the buffer.

    DeletedArrayError if it was deleted or donated, ExecutionError if the program that made it failed.
    """
    try:
        return np.asarray(memoryview(buffer))
    except BufferError:
        pass
    return _to_numpy_slowly(buffer)


def _to_numpy_slowly(buffer: Buffer) -> np.ndarray:
    """``to_numpy`` for dtypes without a buffer protocol format (bfloat16, int4), and for memory not on the host."""
    rt = runtime()
    if buffer.is_deleted():
        raise deleted_error(buffer)
    if transfer_guards and platform() != "cpu":
        check_transfer("device_to_host", buffer.aval)
    try:
        if not rt.from_jax and not _client.jax_is_imported():
            viewed = _through_dlpack(rt, buffer)
            if viewed is not None:
                return viewed
        # This imports jax if it is installed, and then takes most of a second.
        value, _ = buffer._single_device_array_to_np_array_did_copy()
    except rt.error as error:
        raise runtime_error(error, "fetching a buffer") from None
    value.flags.writeable = False
    return value.view()  # a view of a locked array cannot be unlocked by its user


class _DLPackCapsule:
    """The object that ``numpy.from_dlpack`` reads."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU


# struct DLTensor { void* data; struct { int32 type, id; } device; int32 ndim; struct { uint8 code, bits; ...
# (https://dmlc.github.io/dlpack/latest/c_api.html): the dtype's code is byte 20, and code 1 is an unsigned
# integer.
_DLPACK_CODE = 8 + 8 + 4
_DLPACK_UINT = 1


def _through_dlpack(rt: Runtime, buffer: Buffer) -> np.ndarray | None:
    """A view of a host buffer of bfloat16 or float8; None for other buffers.

    NumPy's DLPack refuses these dtypes, so the buffer is passed as unsigned integers.
    """
    dtype = buffer.aval.dtype
    if dtype.itemsize not in (1, 2) or rt.client.platform != _client.BUILT_IN:
        return None
    try:
        capsule = rt.xla.buffer_to_dlpack_managed_tensor(buffer)
    except rt.error as error:
        if "UNIMPLEMENTED" in str(error):  # int4 and the like are packed on the device
            return None
        raise
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + _DLPACK_CODE).value = _DLPACK_UINT
    return np.from_dlpack(_DLPackCapsule(capsule)).view(dtype)


def block_until_ready(buffers: Any) -> Any:
    """Wait until a buffer, or every buffer in a list or tuple, is computed. ExecutionError if its program failed."""
    rt = _client._runtime or runtime()
    try:
        rt.wait(buffers if isinstance(buffers, (list, tuple)) else [buffers])
    except rt.error as error:
        raise runtime_error(error, "waiting for a result") from None
    return buffers


def buffer_device(buffer: Buffer) -> Device:
    """The device of a one-device buffer."""
    return buffer._sharding._device


# --- executables --------------------------------------------------------------------------------------------


class Executable:
    """A compiled program, loaded on its devices.

    ``execute(buffers)`` runs it and returns a list of buffers, which may not be ready yet. It takes one buffer for
    each argument of ``@main``, from :func:`put` or ``spmd.put_over``; PJRT checks the number of buffers and their sizes
    in bytes, not their dtypes. ExecutionError if it fails, DeletedArgumentError for a deleted argument.
    """

    def __init__(
        self,
        rt: Runtime,
        loaded: Any,
        name: str,
        out_avals: Sequence[Any],
        shardings: Sequence[Any],
        device: Device | None,
        n_consts: int = 0,
        kept: Sequence[int] | None = None,
    ) -> None:
        self.name = name
        self.out_avals = tuple(out_avals)
        self.loaded = loaded
        self.device = device
        # returns the jaxpr that was compiled, and the equation of each line of the module; for tools
        self.origin: Callable[[], Any] | None = None
        self.kept = kept
        self._handlers = [
            rt.xla.array_result_handler(aval, sharding, True, True)
            for aval, sharding in zip(self.out_avals, shardings, strict=True)
        ]
        self._error = rt.error
        self._explain: _Explain = lambda error, buffers: run_error(error, name, buffers, n_consts, kept)
        self.execute = _executor(loaded.execute_sharded, self._handlers, rt.error, self._explain)
        if device is None:
            self.execute = _refusing_deleted(self.execute, self._explain)

    def __repr__(self) -> str:
        outs = ", ".join(aval.str_short() for aval in self.out_avals)
        return f"<Executable {self.name} -> ({outs})>"

    def execute_and_wait(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Like ``execute``, but wait until the program has ended, even if it has no results."""
        if self.device is None:
            _refuse_deleted(buffers, self._explain)
        try:
            results = self.loaded.execute_sharded(buffers, with_tokens=True)
            ended = results.consume_token()
            buffers_out = results.consume_with_handlers(self._handlers)
            ended.block_until_ready()
            return buffers_out
        except self._error as error:
            raise self._explain(error, buffers) from None

    def cost_analysis(self) -> dict[str, Any]:
        """XLA's estimate: ``flops``, ``transcendentals``, ``bytes accessed`` and others, as numbers."""
        costs = self.loaded.cost_analysis()
        return dict(costs[0] if isinstance(costs, list) else costs)

    def memory_analysis(self) -> Any:
        """XLA's memory plan: ``argument_size_in_bytes``, ``temp_size_in_bytes``, ...; None if the platform has none."""
        try:
            return self.loaded.get_compiled_memory_stats()
        except self._error:
            return None

    def hlo_text(self) -> str:
        """The optimised HLO, as text."""
        return "\n\n".join(module.to_string() for module in self.loaded.hlo_modules())


class SimulatedExecutable:
    """The texts of a program that was compiled for simulated devices; ``execute`` raises ValueError."""

    def __init__(self, made: Executable) -> None:
        self.name, self.out_avals, self.device, self.kept = made.name, made.out_avals, None, made.kept
        self.origin: Callable[[], Any] | None = None
        self._text, self._costs, self._memory = made.hlo_text(), made.cost_analysis(), made.memory_analysis()

    def __repr__(self) -> str:
        return f"<SimulatedExecutable {self.name}>"

    def execute(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        raise ValueError(f"{self.name} was compiled for simulated devices, those of an AbstractMesh: it cannot be run.")

    execute_and_wait = execute

    def cost_analysis(self) -> dict[str, Any]:
        return dict(self._costs)

    def memory_analysis(self) -> Any:
        return self._memory

    def hlo_text(self) -> str:
        return self._text


# Turns an error of XLA into the exception that this module raises.
_Explain = Callable[[Exception, Sequence[Buffer]], BaseException]
_Execute = Callable[[Sequence[Buffer]], list[Buffer]]


def _executor(run: Any, handlers: list[Any], error: Any, explain: _Explain) -> _Execute:
    """``Executable.execute`` as a closure: small calls are slowed by every attribute access."""

    def execute(buffers: Sequence[Buffer]) -> list[Buffer]:
        try:
            return run(buffers).consume_with_handlers(handlers)  # type: ignore[no-any-return]
        except error as failure:
            raise explain(failure, buffers) from None

    return execute


def _refusing_deleted(execute: _Execute, explain: _Explain) -> _Execute:
    def execute_on_several(buffers: Sequence[Buffer]) -> list[Buffer]:
        _refuse_deleted(buffers, explain)
        return execute(buffers)

    return execute_on_several


def _refuse_deleted(buffers: Sequence[Buffer], explain: _Explain) -> None:
    """Raise if a buffer over several devices is deleted: jaxlib would crash."""
    for buffer in buffers:
        if buffer.is_deleted():
            raise explain(RuntimeError("deleted argument"), buffers)


# A front end may set this to a function that runs its argument on another thread and waits for the result. XLA handles
# no signal while it compiles, but a signal can interrupt that wait.
run_elsewhere: Callable[[Callable[[], Any]], Any] | None = None


def compile(
    module_text: str | bytes,
    *,
    name: str,
    out_avals: Sequence[ShapedArray] | None = None,
    device: Device | None = None,
    partitioning: Any = None,
    host_callbacks: Sequence[Callable[..., Any]] = (),
    n_consts: int = 0,
    kept: Sequence[int] | None = None,
    flags: Sequence[tuple[str, str]] = (),
    within: AbstractContextManager[Any] | None = None,
    from_disk: bool = False,
) -> Executable | SimulatedExecutable:
    """Compile a StableHLO module, text or bytecode, with a public ``@main``, and load it.

    ``name``, ``n_consts`` (how many arguments are closed over), ``kept`` (positions of the others): for error messages.
    ``out_avals``: the results' types; by default they are read from the program, in 0.1 ms. ``device``: the first by
    default. ``partitioning``: in place of ``device``, a ``spmd.Partitioning`` over several devices. ``host_callbacks``:
    the functions that custom calls name by index. ``flags``: XLA's options, such as ``("xla_dump_to", folder)``.
    ``within``: a context manager around XLA's work. ``from_disk``: use the disk cache, if the user set one and there
    are no callbacks or flags.

    CompileError if XLA refuses it, DeviceOutOfMemoryError if it needs too much memory.
    """
    simulated = partitioning is not None and partitioning.simulated
    rt = _client.simulated(len(partitioning.devices)) if simulated else runtime()
    if partitioning is None:
        assigned = [rt.default_device if device is None else device]
        options = rt.compile_options(np.array([[assigned[0].id]]))
    else:
        assigned = rt.devices if simulated else list(partitioning.devices)
        options = rt.spmd_options([each.id for each in assigned], *partitioning.free)
    _register_custom_calls(rt, module_text)
    if flags:
        options.env_option_overrides = list(flags)
    device_list = rt.xla.DeviceList(tuple(assigned))

    def work() -> Any:
        with within or contextlib.nullcontext():
            if host_callbacks:
                module = _parse_module(module_text)
                return rt.client.compile_and_load(module, device_list, options, [*map(interruptible, host_callbacks)])
            return rt.client.compile_and_load(module_text, device_list, options)

    kept_at = None
    if from_disk and not (simulated or host_callbacks or flags) and config.read("compilation_cache_dir"):
        disk_cache = importlib.import_module("minijax.backend.disk_cache")
        kept_at = disk_cache.entry(rt, module_text, name, options, assigned, device_list)
    loaded = None if kept_at is None else kept_at.read()
    if loaded is None:
        began = time.perf_counter()
        try:
            loaded = work() if run_elsewhere is None else run_elsewhere(work)
        except rt.error as error:
            raise compile_error(error, name) from None
        if kept_at is not None:
            kept_at.write(loaded, time.perf_counter() - began)
    types = _read_out_avals(rt, loaded) if out_avals is None else out_avals
    out_avals = [*map(physical_aval, types)]
    if partitioning is not None:
        place = assigned[0] if len(assigned) == 1 else None
        shardings = partitioning.results(loaded, types)
        if simulated:
            return SimulatedExecutable(Executable(rt, loaded, name, [], [], place, n_consts, kept))
        return Executable(rt, loaded, name, out_avals, shardings, place, n_consts, kept)
    (place,) = assigned
    return Executable(rt, loaded, name, out_avals, [rt.on(place)] * len(out_avals), place, n_consts, kept)


def text_costs(module_text: str | bytes, *, name: str) -> dict[str, Any]:
    """XLA's estimate for an uncompiled StableHLO module (``Executable.cost_analysis``); CompileError if invalid."""
    rt = runtime()
    try:
        computation = rt.xla.mlir.mlir_module_to_xla_computation(module_text, use_tuple_args=False, return_tuple=False)
        return dict(rt.xla.hlo_module_cost_analysis(rt.client, computation.get_hlo_module()))
    except rt.error as error:
        raise compile_error(error, name) from None


def unoptimized_text(module_text: str) -> str:
    """The HLO text of a StableHLO module, as XLA receives it; CompileError if XLA cannot read the module."""
    rt = runtime()
    try:
        made = rt.xla.mlir.mlir_module_to_xla_computation(module_text, use_tuple_args=False, return_tuple=False)
        return str(made.get_hlo_module().to_string())
    except rt.error as error:
        raise compile_error(error, "program") from None


def instruction_costs(hlo_text: str) -> dict[str, Any]:
    """XLA's estimate for a program in HLO: flops, transcendentals, bytes accessed. ValueError if it cannot be read."""
    rt = runtime()
    hlo = importlib.import_module("jaxlib._hlo")
    try:
        return dict(rt.xla.hlo_module_cost_analysis(rt.client, hlo.hlo_module_from_text(hlo_text)))
    except rt.error as error:
        raise ValueError(f"XLA cannot read this HLO: {error}") from None


def _parse_module(module_text: str | bytes) -> Any:
    """The module as an MLIR object, the only form that is accepted together with host callbacks."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    # rules borrowed from JAX contain Shardy's dialect
    dialects = [importlib.import_module(f"jaxlib.mlir.dialects.{name}") for name in ("stablehlo", "chlo", "sdy")]
    context = ir.Context()
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in dialects:
        dialect.register_dialect(context)
    return ir.Module.parse(module_text, context)


def _read_out_avals(rt: Runtime, loaded: Any) -> list[ShapedArray]:
    """The result types of a compiled program, from its HLO."""
    proto = loaded.hlo_modules()[0].as_serialized_hlo_module_proto()
    shape = rt.xla_client.XlaComputation(proto).program_shape().result_shape()
    results = shape.tuple_shapes() if shape.is_tuple() else [shape]
    return [ShapedArray(tuple(each.dimensions()), each.numpy_dtype()) for each in results]


# --- custom calls -------------------------------------------------------------------------------------------

_registered = False
_register_lock = threading.Lock()


def _register_custom_calls(rt: Runtime, module_text: str | bytes) -> None:
    """Load LAPACK (0.1 s) if the module calls it, since XLA would crash without it. Register it unless jax did."""
    global _registered
    if _registered or rt.client.platform != _client.BUILT_IN:
        return
    if not (b"lapack_" in module_text if isinstance(module_text, bytes) else "lapack_" in module_text):
        return
    with _register_lock:
        if _registered:
            return
        lapack = importlib.import_module("jaxlib.lapack")
        lapack._lapack.initialize()
        for target, function, version in () if rt.from_jax else lapack.registrations()[_client.BUILT_IN]:
            rt.xla_client.register_custom_call_target(target, function, _client.BUILT_IN, api_version=version)
        _registered = True
