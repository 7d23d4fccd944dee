"""Caches of a replayed program, bounded in bytes: its values, and loop states from which other states are computed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from minijax.tools.values.examples import Stacked

# Rough overhead of a kept value, in bytes.
ENTRY = 300

State = list[Any]


class Keeper:
    """The most recently used values by key, with at most ``most_bytes`` in total."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self.bytes = 0
        # the number of evictions
        self.dropped = 0

    def get(self, key: Any) -> Any:
        """The value under ``key``; None if it was evicted or never kept."""
        found = self.held.get(key)
        if found is None:
            return None
        self.held.move_to_end(key)
        return found[0]

    def keep(self, key: Any, value: Any) -> None:
        """Keep ``value``. Evict the least recently used values if all are too large together."""
        before = self.held.pop(key, None)
        size = size_of(value) + ENTRY
        self.bytes += size - (0 if before is None else before[1])
        self.held[key] = value, size
        while self.bytes > self.most_bytes and self.held:
            _, (_, size) = self.held.popitem(last=False)
            self.bytes -= size
            self.dropped += 1


def size_of(value: Any) -> int:
    """The bytes of a value or of a list of values."""
    if isinstance(value, Stacked):
        return int(value.array.nbytes)
    return sum(map(size_of, value)) if isinstance(value, list) else 0


class Course:
    """The states of a loop of ``length`` steps. State 0 is given; ``advance(at, state, steps)`` computes later ones.

    A course keeps about every sqrt(``length``)-th state. When a state between two of these is requested, it also keeps
    about every sqrt(n)-th of the n states between these two, so that other states nearby take few steps.
    """

    def __init__(self, keeper: Keeper, start: State, length: int, advance: Callable[[int, State, int], State]) -> None:
        self.keeper = keeper
        self.start = start
        self.advance = advance
        self.stretch = max(1, math.isqrt(max(length, 1)))
        room = max(1, keeper.most_bytes // 4)
        each = max(ENTRY, size_of(start))
        self.stretch = min(max(self.stretch, math.ceil(length * each / room)), max(length, 1))
        self.piece = max(1, math.isqrt(self.stretch))

    def state(self, at: int) -> State:
        """The state before step ``at``."""
        known, state = self._nearest(at)
        while known < at:
            for steps in (self.stretch, self.piece, 1):
                start = known % self.stretch if steps == self.piece else known
                if start % steps == 0 and known + steps <= at:
                    break
            if steps == self.piece:  # do not go beyond the next kept state
                steps = min(steps, self.stretch - known % self.stretch)
            state = self.advance(known, state, steps)
            known += steps
            self.keeper.keep((self, known), state)
        return state

    def _nearest(self, at: int) -> tuple[int, State]:
        stretch = at - at % self.stretch
        piece = stretch + (at - stretch) // self.piece * self.piece
        for known in (
            *range(at, piece, -1),
            *range(piece, stretch, -self.piece),
            *range(stretch, 0, -self.stretch),
        ):
            state = self.keeper.get((self, known))
            if state is not None:
                return known, state
        return 0, self.start
