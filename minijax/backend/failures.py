"""What goes wrong on a device, as exceptions that say what happened and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.errors import JaxRuntimeError


class CompileError(JaxRuntimeError):
    """XLA refused a program; the message is XLA's."""


class ExecutionError(JaxRuntimeError):
    """A program or a transfer failed on the device."""


class DeviceOutOfMemoryError(ExecutionError, MemoryError):
    """The device has no room for a buffer or for a program's temporaries."""


def type_text(value: Any) -> str:
    """``float32[8]``, or ``<unknown>`` for what has no type of ours."""
    aval = getattr(value, "aval", None)
    return aval.str_short(short_dtypes=False) if isinstance(aval, ShapedArray) else "<unknown>"


def _is_oom(text: str) -> bool:
    return "RESOURCE_EXHAUSTED" in text or "Out of memory" in text


def compile_error(error: Exception, name: str) -> JaxRuntimeError:
    """What to raise when XLA refuses the program ``name``."""
    text = str(error)
    if _is_oom(text):
        return DeviceOutOfMemoryError(f"out of memory while compiling {name}:\n{text}")
    return CompileError(f"XLA could not compile {name}:\n{text}")


def runtime_error(error: Exception, doing: str) -> JaxRuntimeError:
    """What to raise when ``doing`` something on a device failed."""
    text = str(error)
    if _is_oom(text):
        return DeviceOutOfMemoryError(
            f"out of memory while {doing}:\n{text}\n"
            "Delete arrays no longer needed, donate arguments (donate_argnums), or use smaller batches."
        )
    return ExecutionError(f"error while {doing}:\n{text}")


def deleted_error(what: str) -> ExecutionError:
    """What to raise for a buffer that is gone; ``what`` says which."""
    return ExecutionError(
        f"{what}\nIts memory was freed, or given to a computation that it was donated to (donate_argnums). "
        "Use the result of that computation, or do not donate the array."
    )


def put_error(error: Exception, array: Any) -> Exception:
    """What to raise when ``array`` cannot be copied to a device."""
    text = str(error)
    if not _is_oom(text) and not _supported(array.dtype):
        return TypeError(
            f"an array of dtype {array.dtype} cannot be put on a device. "
            "Convert it to a numeric or boolean dtype first."
        )
    return runtime_error(error, f"copying an array of {array.dtype}{list(array.shape)} to the device")


def _supported(dtype: np.dtype) -> bool:
    return dtype.kind in "biufc" or dtype.type.__module__.startswith("ml_dtypes")
