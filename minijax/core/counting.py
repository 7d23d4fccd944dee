"""Counting what kept programs stand for, so that who only counts operations does not slow them down.

Where somebody watches, rules are run. An observer that wants to know of operations how many there were, and no more,
says so (``Observer.counting_thread``); while there are only such, kept programs are used as when nobody watches, and
what their rules would have bound is added up in a ``Tally`` and told to them before the next event. How much that is
has been counted by the same hook once, while the rules ran (``measured``); for one signature it is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from minijax.core import observe
from minijax.core.array import Array
from minijax.core.named import NamedTuple
from minijax.core.trace import Trace, Tracer


class Binds(NamedTuple):
    """What the rules of an operation bind: how many operations in all, and of each level of the stack.

    ``levels`` has (level, whether they are operations on tangents, operations, tracers that they make).
    """

    operations: int
    levels: tuple[tuple[int, bool, int, int], ...]


class Tally:
    """How often programs have run since that was last told.

    ``levels`` are those of the interpreters that their rules' operations belong to; a program's counts are kept with
    it for each of these. ``own`` is the level of the operation itself, which is counted with them, if there is one.
    """

    __slots__ = ("levels", "own", "known", "runs", "listeners")

    def __init__(self, levels: tuple[float, ...], own: float | None = None) -> None:
        self.levels = levels
        self.own = own
        # program, or program and a number with a bit set for each operand that is inline -> what its rules bind
        self.known: dict[Any, Binds] = {}
        # the same -> how often it has run
        self.runs: dict[Any, int] = {}
        # the hooks of those who were there when the first of them ran
        self.listeners: Sequence[Callable[..., None]] = ()

    def add(self, program: Any, args: Sequence[Any]) -> None:
        """Count a run of ``program`` on ``args``. KeyError for one that may not be counted, or not yet."""
        if len(args) > 1:
            program = _with_inline(program, args)
        runs = self.runs
        try:
            runs[program] += 1
        except KeyError:
            self.known[program]
            if not runs:
                self.listeners = tuple(observe.on_counted)
                observe.untold().append(self)
            runs[program] = 1

    def knows(self, program: Any, args: Sequence[Any], kept: dict[Any, Binds | None]) -> bool | None:
        """Whether the program may be counted; None if that has to be found out. ``kept`` is what is known of it."""
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
        """What ``run()`` gives, which runs the rules that ``program`` stands for: they are counted."""
        meter = _Meter()
        with observe.watching(meter):
            out = run()
        key = _with_inline(program, args)
        kept[self.levels, 0 if key is program else key[1]] = meter.found(self.own)
        return out

    def tell(self) -> None:
        """Tell who has watched ever since how often programs have run."""
        runs = dict(self.runs)
        self.runs.clear()
        for listener in self.listeners:
            if listener in observe.on_counted:
                for key, times in runs.items():
                    listener(self.known[key], times)


def _with_inline(program: Any, args: Sequence[Any]) -> Any:
    """What a run of ``program`` on ``args`` is counted as.

    Rules convert numbers that somebody wrote inline without an operation: with such operands it is another program.
    KeyError for an operand that is one of NumPy's two truth values: which array of the user's it is cannot be told.
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
    """Counts operations as whoever counts does, and notes whether anything else happens."""

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
        """What there was, and one operation of level ``own`` with its tracer; None if that is more than operations."""
        if not self.countable:
            return None
        if own is not None:
            count = self.counts.setdefault((int(own), False), [0, 0])
            count[0] += 1
            count[1] += 1
            self.operations += 1
        levels = [(level, on_tangents, *count) for (level, on_tangents), count in self.counts.items()]
        return Binds(self.operations, tuple(levels))  # type: ignore[arg-type]
