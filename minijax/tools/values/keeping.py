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

    States whose numbers are multiples of ``stretch``, about the square root of ``length``, are kept. So are the states
    between two of these that led to a requested one, first in steps of ``piece``, then of 1.
    """

    def __init__(self, keeper: Keeper, start: State, length: int, advance: Callable[[int, State, int], State]) -> None:
        self.keeper = keeper
        self.start = start
        self.advance = advance
        room = max(1, keeper.most_bytes // 4)
        fewest = math.ceil(length * max(ENTRY, size_of(start)) / room)
        self.piece = max(1, math.isqrt(math.isqrt(max(length, 1))), math.isqrt(max(fewest, 1)))
        self.stretch = self.piece**2

    def state(self, at: int) -> State:
        """The state before step ``at``."""
        known, state = self._nearest(at)
        while known < at:
            steps = next(n for n in (self.stretch, self.piece, 1) if known % n == 0 and known + n <= at)
            state = self.advance(known, state, steps)
            known += steps
            self.keeper.keep((self, known), state)
        return state

    def _nearest(self, at: int) -> tuple[int, State]:
        stretch = at - at % self.stretch
        for known in (*range(at, stretch, -1), *range(stretch, 0, -self.stretch)):
            state = self.keeper.get((self, known))
            if state is not None:
                return known, state
        return 0, self.start
