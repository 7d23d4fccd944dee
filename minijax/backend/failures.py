"""Exceptions for failures on a device. Each says what happened and what to do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core.avals import ShapedArray
from minijax.errors import JaxRuntimeError


class CompileError(JaxRuntimeError):
    """XLA refused a program; the message is XLA's."""


class ExecutionError(JaxRuntimeError):
    """A program or a transfer failed on the device."""


class DeviceOutOfMemoryError(ExecutionError, MemoryError):
    """The device has no memory for a buffer or for the temporaries of a program."""


class DeletedArrayError(RuntimeError):
    """An array was used after its memory was freed or donated."""


class DeletedArgumentError(DeletedArrayError, ValueError):
    """A deleted array was passed to a compiled program. JAX raises RuntimeError or, in a repeated call, ValueError."""


class DonatedTwiceError(ExecutionError, ValueError):
    """A donated array is also another argument. JAX raises RuntimeError or, in a repeated call, ValueError."""


_GONE = (
    "Its memory was freed, or it was donated to a computation (donate_argnums). Use the result of that computation, "
    "or do not donate the array."
)


def type_text(value: Any) -> str:
    """``float32[8]``, or ``<unknown>`` for an object without an aval."""
    aval = getattr(value, "aval", None)
    return aval.str_short(short_dtypes=False) if isinstance(aval, ShapedArray) else "<unknown>"


def _is_oom(text: str) -> bool:
    return "RESOURCE_EXHAUSTED" in text or "Out of memory" in text


def compile_error(error: Exception, name: str) -> JaxRuntimeError:
    """The exception for a program ``name`` that XLA refuses."""
    text = str(error)
    if _is_oom(text):
        return DeviceOutOfMemoryError(f"out of memory while compiling {name}:\n{text}")
    return CompileError(f"XLA could not compile {name}:\n{text}")


# XLA turns any exception of a callback into text. An interrupt or an exit must reach the user unchanged: it is kept
# here, under a number that XLA's text contains.
_interrupts: dict[int, BaseException] = {}
_numbers = itertools.count(1)
_INTERRUPT = r"callback interrupted \(number (\d+)\)"
_MOST_INTERRUPTS = 100


def interruptible(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``callback`` so that ``runtime_error`` finds the KeyboardInterrupt or SystemExit that it raises."""

    def call(*values: Any) -> Any:
        try:
            return callback(*values)
        except Exception:
            raise
        except BaseException as error:
            number = next(_numbers)
            _interrupts[number] = error
            _interrupts.pop(number - _MOST_INTERRUPTS, None)
            raise RuntimeError(f"callback interrupted (number {number}) by {type(error).__name__}") from None

    return call


def runtime_error(error: Exception, doing: str) -> BaseException:
    """The exception for a failure while ``doing`` something on a device."""
    text = str(error)
    for number in re.findall(_INTERRUPT, text):
        interrupt = _interrupts.pop(int(number), None)
        if interrupt is not None:  # else it was raised before, and the failed results are used again
            return interrupt
    if _is_oom(text):
        return DeviceOutOfMemoryError(
            f"out of memory while {doing}:\n{text}\n"
            "Delete arrays no longer needed, donate arguments (donate_argnums), or use smaller batches."
        )
    if "deleted or donated buffer" in text:
        text += f"\n{_GONE}"
    return ExecutionError(f"error while {doing}:\n{text}")


def deleted_error(buffer: Any, where: str = "") -> DeletedArrayError:
    """The exception for a deleted buffer; ``where`` describes the argument and the program, as text."""
    kind = DeletedArgumentError if where else DeletedArrayError
    what = f"Array has been deleted with shape={type_text(buffer)}. {where}".rstrip()
    return kind(f"{what}\n{_GONE}")


def run_error(
    error: Exception, name: str, buffers: Sequence[Any], n_consts: int, kept: Sequence[int] | None = None
) -> BaseException:
    """The exception for a program ``name`` that failed on ``buffers``, or could not start.

    The first ``n_consts`` buffers are closed over. The others are arguments of the program: those at positions
    ``kept``, or all of them if ``kept`` is None.
    """
    for position, buffer in enumerate(buffers):
        if hasattr(buffer, "aval") and buffer.is_deleted():
            number = position - n_consts
            what = "closed over by" if number < 0 else f"argument {number if kept is None else kept[number]} of"
            return deleted_error(buffer, f"It is {what} {name}.")
    if "previously donated in the same call" in str(error):
        return DonatedTwiceError(
            f"error while running {name}:\n{error}\nPass a copy for one of the two arguments, or donate neither."
        )
    return runtime_error(error, f"running {name}")


def put_error(error: Exception, array: Any) -> BaseException:
    """The exception for an ``array`` that cannot be copied to a device."""
    text = str(error)
    if not _is_oom(text) and not _supported(array.dtype):
        return TypeError(
            f"an array of dtype {array.dtype} cannot be put on a device. "
            "Convert it to a numeric or boolean dtype first."
        )
    return runtime_error(error, f"copying an array of {array.dtype}{list(array.shape)} to the device")


def _supported(dtype: np.dtype) -> bool:
    return dtype.kind in "biufc" or dtype.type.__module__.startswith("ml_dtypes")
