"""Counts the operations that cached programs replace. So an observer that only counts does not slow a program.

While all observers set ``Observer.counting_thread``, cached programs run. A ``Tally`` adds up the operations that the
replaced rules would bind, measured once per signature, and reports them before the next event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from minijax.core import observe
from minijax.core.array import Array
from minijax.core.records import NamedTuple
from minijax.core.trace import Trace, Tracer


class Binds(NamedTuple):
    """Counts of the operations that rules bind. ``levels``: tuples (level, on tangents?, operations, tracers made)."""

    operations: int
    levels: tuple[tuple[int, bool, int, int], ...]


class Tally:
    """Counts of program runs since the last report. ``own``: the level of the operation behind a run, or None."""

    __slots__ = ("levels", "own", "known", "runs", "listeners")

    def __init__(self, levels: tuple[float, ...], own: float | None = None) -> None:
        self.levels = levels
        self.own = own
        # program, or (program, a bit for each inline operand) -> the counts of its rules; see ``_with_inline``
        self.known: dict[Any, Binds] = {}
        # the same key -> number of runs
        self.runs: dict[Any, int] = {}
        # the hooks that were subscribed at the first of these runs
        self.listeners: Sequence[Callable[..., None]] = ()

    def add(self, program: Any, args: Sequence[Any]) -> None:
        """Count a run of ``program`` on ``args``. KeyError if the counts of its rules are unknown."""
        if len(args) > 1:
            program = _with_inline(program, args)
        runs = self.runs
        try:
            runs[program] += 1
        except KeyError:
            self.known[program]
            if not runs:
                self.listeners = tuple(observe.on_counted)
                observe.unreported().append(self)
            runs[program] = 1

    def knows(self, program: Any, args: Sequence[Any], kept: dict[Any, Binds | None]) -> bool | None:
        """Whether the program can be counted; None if it must be measured first. ``kept`` caches measurements."""
        try:
            key = _with_inline(program, args)
        except KeyError:
            return False
        if key in self.known:
            return True
        try:
            binds = kept[self.levels, 0 if key is program else key[1]]
        except KeyError:
            return None
        if binds is None:
            return False
        self.known[key] = binds
        return True

    def measured(self, program: Any, args: Sequence[Any], kept: dict[Any, Binds | None], run: Callable[[], Any]) -> Any:
        """Return the result of ``run()`` and count its operations. ``run`` uses the rules that ``program`` replaces."""
        meter = _Meter()
        with observe.watching(meter):
            out = run()
        key = _with_inline(program, args)
        kept[self.levels, 0 if key is program else key[1]] = meter.found(self.own)
        return out

    def report(self) -> None:
        runs = dict(self.runs)
        self.runs.clear()
        for listener in self.listeners:
            if listener in observe.on_counted:
                for key, times in runs.items():
                    listener(self.known[key], times)


def _with_inline(program: Any, args: Sequence[Any]) -> Any:
    """The key of a run: the program, and a bit for each operand that is neither an ``Array`` nor a tracer.

    KeyError for a NumPy boolean: there are only two such objects, so two values can have the same id.
    """
    inline, bit = 0, 1
    for x in args:
        if type(x) is Array:
            if type(x._np) is np.bool_:
                raise KeyError
        elif not isinstance(x, Tracer):
            inline |= bit
        bit += bit
    return (program, inline) if inline else program


class _Meter(observe.Observer):
    """Counts operations, and records whether any other event happens."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.counts: dict[tuple[int, bool], list[int]] = {}
        self.operations = 0
        self.countable = True

    def bind_exit(self, primitive: Any, trace: Trace, out: Any) -> None:
        if get_ident() != self.thread:
            return
        level = trace.main.level
        count = self.counts.setdefault((level, trace.level != level), [0, 0])
        self.operations += 1
        count[0] += 1
        if level:
            outs = out if primitive.multiple_results else (out,)
            count[1] += sum([isinstance(x, Tracer) and x._trace is trace for x in outs])

    def _other(self, *args: Any) -> None:
        self.countable = self.countable and get_ident() != self.thread

    main_push: Any = _other
    main_pop: Any = _other
    jaxpr: Any = _other
    cache: Any = _other
    phase: Any = _other
    lowered: Any = _other
    compiled: Any = _other
    executed: Any = _other
    custom_rule: Any = _other

    def found(self, own: float | None) -> Binds | None:
        """Return the counts, plus one operation of level ``own`` and its tracer. None if there were other events."""
        if not self.countable:
            return None
        if own is not None:
            count = self.counts.setdefault((int(own), False), [0, 0])
            count[0] += 1
            count[1] += 1
            self.operations += 1
        levels = [(level, on_tangents, *count) for (level, on_tangents), count in self.counts.items()]
        return Binds(self.operations, tuple(levels))  # type: ignore[arg-type]
