"""A sequence of records that are made when they are read. It is used in place of a tuple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class LikeTuple(Sequence[Any]):
    """A sequence of records that are made or read one by one. It equals a tuple of the same records."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (LikeTuple, tuple)):
            return NotImplemented
        return self is other or len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*self, *other)

    def __radd__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*other, *self)

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


class Lazy(LikeTuple):
    """``size`` records. ``make`` makes each one at its first use; later uses return the same object."""

    def __init__(self, size: int) -> None:
        self._made: list[Any] = [None] * size

    def make(self, index: int) -> Any:
        """The record at this index."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple([self[i] for i in range(*index.indices(len(self._made)))])
        found = self._made[index]
        if found is None:
            index %= len(self._made)
            found = self._made[index] = self.make(index)
        return found

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self._made)))

    def __reduce__(self) -> Any:
        return tuple, (tuple(self),)
