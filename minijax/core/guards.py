"""Guards: what may forbid tracing and compiling for a while.

A cache that has missed, and is about to trace or compile, tests ``if guards:`` and calls ``check``. On a hit
nobody asks, so a guard costs a cached call nothing. Observers cannot do this: one that raises is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

from minijax.core.trace import state
from minijax.errors import RecompilationError, source_line

# The guards of all threads, the innermost of each thread last.
guards: list[Guard] = []


class Guard:
    """Counts what is traced or compiled on its thread, and raises beyond ``allowed``.

    What is traced or compiled as a part of tracing something else counts with that, and a program that was traced
    while the guard stood may be compiled too.
    """

    __slots__ = ("thread", "allowed", "level", "traced", "misses")

    def __init__(self, allowed: int = 0) -> None:
        self.thread = get_ident()
        self.allowed = allowed
        self.level = state.dynamic.level
        self.traced: set[str] = set()
        # what was let pass, as text
        self.misses: list[str] = []

    def note(self, kind: str, name: str, reason: str) -> None:
        """``name`` is about to be traced or compiled (``kind``). RecompilationError if that is one too many."""
        if kind == "traced":
            self.traced.add(name)
        elif name in self.traced:
            return
        self.misses.append(f"{name} was {kind}: {reason}")
        if len(self.misses) <= self.allowed:
            return
        allowance = f"after the {self.allowed} that no_recompile allows" if self.allowed else "in no_recompile"
        before = "".join(f"\n  before that, {miss}" for miss in self.misses[:-1])
        # ``reason`` itself ends in what to do about it: see ``api.misses``
        advice = getattr(reason, "advice", "") or "Call it once before the block, with arguments of the same types."
        raise RecompilationError(
            f"{name} would be {kind} {allowance}.\n  Why: {reason}\n  Where: {source_line()}{before}\n{advice}",
            reason,
        )


def check(kind: str, name: str, explain: Callable[[], str]) -> None:
    """Tell this thread's guards, innermost first, that ``name`` is about to be 'traced' or 'compiled'.

    ``explain`` gives the reason, once it is needed.
    """
    me, reason = get_ident(), None
    for guard in reversed(tuple(guards)):
        # what happens while another function is being traced is a part of that
        if guard.thread == me and state.dynamic.level <= guard.level:
            reason = explain() if reason is None else reason
            guard.note(kind, name, reason)
