"""Guards: objects that can forbid tracing, compiling, and transfers between the host and devices.

After a cache miss, code that is about to trace or compile tests ``if guards:`` and calls ``check``. A cache hit skips
this test, so guards do not slow cached calls. An observer cannot be a guard, since an observer that raises is removed.

Code that moves an array tests ``if transfer_guards:`` and calls ``check_transfer``.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from minijax.config import transfer_level, while_on
from minijax.core import observe
from minijax.core.trace import state
from minijax.errors import JaxRuntimeError, RecompilationError, source_line

# The guards of all threads, the innermost of each thread last.
guards: list[Guard] = []


class Guard:
    """Counts the traces and compilations on its thread, except nested ones. Raises if they exceed ``allowed``."""

    def __init__(self, allowed: int = 0) -> None:
        self.thread = get_ident()
        self.allowed = allowed
        self.level = state.dynamic.level
        self.traced: set[str] = set()
        # texts of the traces and compilations so far
        self.misses: list[str] = []

    def note(self, kind: str, name: str, reason: str) -> None:
        """Count a trace or compilation (``kind``) of ``name``. RecompilationError if there are too many now."""
        if kind == "traced":
            self.traced.add(name)
        elif name in self.traced:  # the same program was counted when it was traced
            return
        self.misses.append(f"{name} was {kind}: {reason}")
        if len(self.misses) <= self.allowed:
            return
        misses = "miss" if self.allowed == 1 else "misses"
        allowance = f"after the {self.allowed} {misses} that no_recompile allows" if self.allowed else "in no_recompile"
        before = "".join(f"\n  before that, {miss}" for miss in self.misses[:-1])
        # ``reason`` may carry advice: see ``api.misses``
        advice = getattr(reason, "advice", "") or "Call it once before the block, with arguments of the same types."
        raise RecompilationError(
            f"{name} would be {kind} {allowance}.\n  Why: {reason}\n  Where: {source_line()}{before}\n{advice}",
            reason,
        )


def check(kind: str, name: str, explain: Callable[[], str]) -> None:
    """Tell this thread's guards, innermost first, that ``name`` will be 'traced' or 'compiled', and why."""
    me, reason = get_ident(), None
    for guard in reversed(tuple(guards)):
        # a trace inside another one is not counted
        if guard.thread == me and state.dynamic.level <= guard.level:
            reason = explain() if reason is None else reason
            guard.note(kind, name, reason)


# Not empty while a setting ``transfer_guard`` is on in some thread.
transfer_guards: list[str] = []

# While this observer (without hooks) is subscribed, cached calls take the path that checks transfers.
_slowly = observe.Observer()


def _start_transfer_guards() -> None:
    if not transfer_guards:
        observe.subscribe(_slowly)
    transfer_guards.append("on")


def _stop_transfer_guards() -> None:
    transfer_guards.pop()
    if not transfer_guards:
        observe.unsubscribe(_slowly)


# Inside ``device_get``, a thread's transfers are explicit.
_explicit = contextvars.ContextVar("explicit", default=False)


@contextlib.contextmanager
def asked_for() -> Iterator[None]:
    """Context manager: transfers of this thread in the block are explicit."""
    outer = _explicit.set(True)
    try:
        yield
    finally:
        _explicit.reset(outer)


for _direction in ("", "_host_to_device", "_device_to_device", "_device_to_host"):
    while_on(f"transfer_guard{_direction}", _start_transfer_guards, _stop_transfer_guards)


def check_transfer(direction: str, aval: Any, explicit: bool = False) -> None:
    """Apply this thread's guard to a transfer of an array of type ``aval``: raise JaxRuntimeError, log, or do nothing.

    ``direction``: such as ``host_to_device``. ``explicit``: whether ``device_put`` or ``device_get`` asked for it.
    """
    level = transfer_level(direction)
    action, _, every = level.partition("_")
    explicit = explicit or _explicit.get()
    if action == "allow" or (explicit and not every):
        return
    moved = f"{direction.replace('_', '-')} transfer: aval={aval!r}"
    if action == "log":
        sys.stderr.write(f"{moved}, at {source_line()}\n")
        return
    advice = "Allow it with transfer_guard('allow')." if explicit else "Move it before with device_put or device_get."
    raise JaxRuntimeError(f"INVALID_ARGUMENT: Disallowed {moved}, at {source_line()}. {advice}")
