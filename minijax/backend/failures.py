"""What goes wrong on a device, as exceptions that say what happened and what to do."""

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
    """The device has no room for a buffer or for a program's temporaries."""


class DeletedArrayError(RuntimeError):
    """An array was used whose memory was freed, or donated to a computation."""


class DeletedArgumentError(DeletedArrayError, ValueError):
    """Such an array was given to a compiled program; JAX raises RuntimeError or, in a repeated call, ValueError."""


class DonatedTwiceError(ExecutionError, ValueError):
    """A call donated an array that it also uses as another argument; JAX's kind depends on the call, as above."""


_GONE = (
    "Its memory was freed, or given to a computation that it was donated to (donate_argnums). Use the result of that "
    "computation, or do not donate the array."
)


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


# XLA makes a text of whatever a callback raises. An interrupt, or an exit, must reach the user as what it is: it
# waits here for whoever is told of the failure, under a number that stands in that text.
_interrupts: dict[int, BaseException] = {}
_numbers = itertools.count(1)
_INTERRUPT = r"callback interrupted \(number (\d+)\)"
_MOST_INTERRUPTS = 100


def interruptible(callback: Callable[..., Any]) -> Callable[..., Any]:
    """``callback``, whose KeyboardInterrupt, SystemExit and the like are found again by ``runtime_error``."""

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
    """What to raise when ``doing`` something on a device failed."""
    text = str(error)
    for number in re.findall(_INTERRUPT, text):
        interrupt = _interrupts.pop(int(number), None)
        if interrupt is not None:  # else it has been raised, and who asks again for the results gets an error
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
    """What to raise for a buffer that is gone; ``where`` says what part it has in the program that it was given to."""
    kind = DeletedArgumentError if where else DeletedArrayError
    what = f"Array has been deleted with shape={type_text(buffer)}. {where}".rstrip()
    return kind(f"{what}\n{_GONE}")


def run_error(
    error: Exception, name: str, buffers: Sequence[Any], n_consts: int, kept: Sequence[int] | None = None
) -> BaseException:
    """What to raise when the program ``name`` could not be run on ``buffers``, or failed.

    The first ``n_consts`` of them are what the function closes over, the others its arguments; those at the positions
    ``kept``, if not all.
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
