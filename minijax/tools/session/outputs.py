"""``Out``: the results of earlier inputs, within a memory bound."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from minijax.core.array import Array

# Maximum number of results, and of bytes for all of them. Beyond either limit, the earliest results are dropped.
MOST_RESULTS = 1000
MOST_BYTES = 256 * 1024 * 1024
# Maximum number of objects counted in one result; further objects count as 0 bytes.
_MOST_PARTS = 100_000


class Outputs(dict[int, Any]):
    """Results by input number. The latest result is kept, whatever its size."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, int] = {}
        self.dropped = 0

    def __setitem__(self, number: int, value: Any) -> None:
        super().__setitem__(number, value)
        self._sizes[number] = bytes_of(value)
        total = sum(self._sizes.values())
        for early in list(self._sizes)[:-1]:
            if total <= MOST_BYTES and len(self._sizes) <= MOST_RESULTS:
                return
            total -= self._sizes.pop(early)
            if self.pop(early, None) is not None:
                self.dropped += 1

    def __missing__(self, number: Any) -> Any:
        bound = f"{MOST_RESULTS:,} results of {MOST_BYTES // 2**20} MB together"
        if self.dropped and type(number) is int and 0 < number < max(self._sizes):
            raise KeyError(
                f"Out[{number}] is not kept: the prompt keeps at most {bound}; it dropped {self.dropped} earlier ones. "
                "Name a result that you need later."
            )
        raise KeyError(number)


def bytes_of(value: Any) -> int:
    """The size in bytes of a value, including the items of lists, tuples and dictionaries. Each object counts once."""
    seen: set[int] = set()
    todo, total = [value], 0
    while todo and len(seen) < _MOST_PARTS:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        # getsizeof leaves out the data of a NumPy view
        total += each.nbytes + 128 if isinstance(each, (Array, np.ndarray)) else sys.getsizeof(each, 64)
        if isinstance(each, (list, tuple)):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
    return total
