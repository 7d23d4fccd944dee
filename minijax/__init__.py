"""minijax: the core of JAX, rebuilt so that people can watch it work."""

import sys

# While ``python -m MODULE`` imports this package, ``sys.argv`` starts with "-m". The original arguments end with MODULE
# and the program's arguments.
if (
    _as_module := sys.argv[:1] == ["-m"]
    and "".join(sys.orig_argv[-len(sys.argv) :][:1]).removeprefix("-m") in ("minijax", "minijax.repl")
) and not sys.flags.safe_path:
    # ``python -m minijax`` puts the current folder first: a numpy.py there would hide NumPy (see repl/user_folder.py)
    del sys.path[0]

import gc
import importlib
import os
from typing import TYPE_CHECKING, Any

if gc.isenabled():
    # Objects made during imports stay alive: searching them for garbage took a tenth of the import time.
    gc.disable()
    # whether this process is a minijax prompt, not a user's program
    _script = os.path.basename("".join(sys.argv[:1]))
    _is_prompt = _as_module or _script in ("minijax-repl", "minijax-repl.exe", "minijax-repl-script.py")
    try:
        if _is_prompt and "OPENBLAS_THREAD_TIMEOUT" not in os.environ:
            # An idle thread of NumPy's BLAS spins before it sleeps, by default for an eighth of the start-up time of a
            # prompt. 2 to the power of 20 cycles is enough. Child processes must not inherit the setting.
            os.environ["OPENBLAS_THREAD_TIMEOUT"] = "20"
            try:
                importlib.import_module("numpy")
            finally:
                del os.environ["OPENBLAS_THREAD_TIMEOUT"]
        importlib.import_module("minijax.numpy")
    finally:
        if not gc.get_freeze_count():
            # moves the objects to the oldest generation, so that the next collection does not scan them
            gc.freeze()
            gc.unfreeze()
        if not _is_prompt:  # a prompt enables it after its own imports: see repl/__main__.py
            gc.enable()

if TYPE_CHECKING:  # see _LATE
    from minijax import custom_derivatives, debug, distributed, dtypes, nn, random
    from minijax.api.callbacks import effects_barrier, pure_callback
    from minijax.api.checkpoint import checkpoint, checkpoint_policies, remat
    from minijax.api.closures import closure_convert, custom_gradient
    from minijax.api.custom_jvp import custom_jvp
    from minijax.api.custom_vjp import custom_vjp
    from minijax.api.pmap import pmap
    from minijax.jacobians import hessian, jacfwd, jacobian, jacrev

from minijax import lax, numpy, tree, tree_util
from minijax.api import (
    block_until_ready,
    device_get,
    device_put,
    eval_shape,
    grad,
    jit,
    jvp,
    linear_transpose,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from minijax.api.devices import (
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from minijax.config import (
    check_tracer_leaks,
    checking_leaks,
    config,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from minijax.core.array import get_aval as typeof
from minijax.core.avals import AnyArray as Array
from minijax.core.lazy import defined_later as _defined_later
from minijax.core.lazy import set_higher_modules as _set_higher_modules
from minijax.core.names import named_call, named_scope
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.trace import ensure_compile_time_eval
from minijax.lax import stop_gradient
from minijax.version import __version__ as __version__
from minijax.version import __version_info__ as __version_info__

__all__ = [
    "Array",
    "ShapeDtypeStruct",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "closure_convert",
    "config",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "distributed",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "enable_x64",
    "ensure_compile_time_eval",
    "eval_shape",
    "explain_cache_misses",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "nn",
    "no_tracing",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "random",
    "remat",
    "pure_callback",
    "stop_gradient",
    "threefry_partitionable",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]


def load_ipython_extension(ipython: Any) -> None:
    """Called by ``%load_ext minijax``."""
    importlib.import_module("minijax.ipython_ext").load_ipython_extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Called by ``%unload_ext minijax``."""
    importlib.import_module("minijax.ipython_ext").unload_ipython_extension(ipython)


# Modules that few programs use, imported at first use.
_LATE = (
    "api_util",
    "custom_derivatives",
    "debug",
    "distributed",
    "dtypes",
    "dlpack",
    "example_libraries",
    "flatten_util",
    "image",
    "interop",
    "lib",
    "monitoring",
    "nn",
    "ops",
    "profiler",
    "random",
    "ref",
    "scipy",
    "sharding",
    "stages",
    "typing",
)

# Functions that few programs use, and their modules.
_LATE_FUNCTIONS = {
    **dict.fromkeys(("Ref", "ad", "ds", "free_ref", "freeze", "new_ref"), "minijax.api.refs"),
    **dict.fromkeys(("NamedSharding", "P", "make_mesh", "reshard", "set_mesh"), "minijax.sharding"),
    **dict.fromkeys(
        (
            "make_array_from_callback",
            "make_array_from_process_local_data",
            "make_array_from_single_device_arrays",
        ),
        "minijax.api.placed_arrays",
    ),
    **dict.fromkeys(("hessian", "jacfwd", "jacobian", "jacrev"), "minijax.jacobians"),
    **dict.fromkeys(("checkpoint", "checkpoint_policies", "remat"), "minijax.api.checkpoint"),
    "closure_convert": "minijax.api.closures",
    "custom_gradient": "minijax.api.closures",
    "custom_jvp": "minijax.api.custom_jvp",
    "custom_vjp": "minijax.api.custom_vjp",
    "effects_barrier": "minijax.api.callbacks",
    "live_arrays": "minijax.api.devices",
    "pmap": "minijax.api.pmap",
    "shard_map": "minijax.api.shard_map",
    "pure_callback": "minijax.api.callbacks",
}
_defined_later(
    "minijax.api.callbacks",
    "minijax.api.checkpoint",
    "minijax.api.custom_jvp",
    "minijax.api.custom_vjp",
    "minijax.api.pmap",
    "minijax.api.refs",
    "minijax.extend.core.calls",
    "minijax.ops.meshes.reshard",
    "minijax.ops.random.bits",
)
# role -> module: the modules that lower modules use without importing them. See ``core.lazy``.
_set_higher_modules(
    {
        "api_util": "minijax.api_util",
        "borrowed_primitives": "minijax.interop.borrowed",
        "borrowing": "minijax.interop.names",
        "eager_over_meshes": "minijax.ops.meshes.eager",
        "explicit_types": "minijax.core.explicit",
        "export_rules": ("minijax.interop.exported_calls", "minijax.interop.refs"),
        "exported_programs": "minijax.interop.exported",
        "extend_core": "minijax.extend.core",
        "import_rules": (*("minijax.interop.effects", "minijax.interop.nested_programs", "minijax.interop.refs"),),
        "linearization": "minijax.interpreters.linearize",
        "mesh_making": "minijax.sharding",
        "numpy": "minijax.numpy",
        "partitioned_programs": "minijax.ops.meshes.partitioned",
        "public_names": "minijax",
        "references": "minijax.api.refs",
        "reshard": "minijax.ops.meshes.reshard",
        "scan": "minijax.ops.scan",
        "sharded_arrays": "minijax.ops.sharded",
        "sharded_types": "minijax.interop.sharded_types",
        "sharding_texts": "minijax.lowering.shardings",
        "shardings": "minijax.core.shardings",
    }
)
if "MINIJAX_LAUNCHER" in os.environ:
    # set by ``python -m minijax.distributed``: this process joins the others before it has a device
    importlib.import_module("minijax.backend.distributed")


def __getattr__(name: str) -> Any:
    """Import at first use a name that ``import minijax`` leaves out; ``Device`` is jaxlib's class of devices."""
    if name in _LATE:
        return importlib.import_module(f"minijax.{name}")
    if name in _LATE_FUNCTIONS:
        found = globals()[name] = getattr(importlib.import_module(_LATE_FUNCTIONS[name]), name)
        return found
    if name == "Device":
        return importlib.import_module("minijax.backend.pjrt").device_class()
    raise AttributeError(f"module 'minijax' has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE, *_LATE_FUNCTIONS})
