"""The latest cache misses of staged functions. They are always recorded.

A miss traces and usually compiles, so recording it is cheap in comparison. Cache hits do not use this module. An entry
holds only text, numbers and the code of the call, so it keeps no function and no value of the user alive. All misses
are counted. The latest ``MOST_KEPT`` entries are kept, and the first ``MOST_NAMES`` functions have their own counts.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from minijax import errors

MOST_KEPT = 1000
MOST_NAMES = 1000


class Missed:
    """One cache miss.

    Attributes:
      number: its number among all misses of this process, from 0.
      cache: the kind of cache: 'staging', 'body', 'compilation'.
      name: the function's name.
      subject: the function as error messages name it: ``f at file.py:12``.
      reason: why the cache missed, usually an ``api.differences.Miss``, which is a string with attributes.
      place: the user's line that made the call: ``/home/me/file.py:12 (f)``.
      began: when tracing began, by ``time.perf_counter``.
      costs: phase ('trace', 'lower', 'compile') -> seconds, set when the phase ends. Tracing includes the tracing and
        compiling of inner functions.
    """

    def __init__(self, number: int, cache: str, name: str, subject: str, reason: str, place: Place) -> None:
        self.number = number
        self.cache = cache
        self.name = name
        self.subject = subject
        self.reason = reason
        self._place = place
        self.costs: dict[str, float] = {}
        self.began = time.perf_counter()

    @property
    def place(self) -> str:
        """The file, the line and the function. Computing the line is slow, so it is not done at each miss."""
        if self._place is None:
            return "<unknown>"
        code = self._place[0]
        return f"{code.co_filename}:{errors.position(self._place)[0]} ({code.co_qualname})"

    def traced(self) -> None:
        """Record the end of tracing, which began when this entry was made."""
        self.took("trace", time.perf_counter() - self.began)

    def took(self, phase: str, seconds: float) -> None:
        """Record the time of a phase that this miss caused."""
        self.costs[phase] = self.costs.get(phase, 0.0) + seconds

    @property
    def seconds(self) -> float:
        """The time of all phases so far, in seconds."""
        return sum(self.costs.values())

    def __repr__(self) -> str:
        verb = "compiled" if self.cache == "compilation" else "traced"
        cost = f" ({self.seconds * 1000:.1f} ms)" if self.costs else ""
        return f"{self.subject} was {verb} at {self.place}{cost}: {self.reason}"


# The user's code that made the call, and the position in it; None if no user code ran.
Place = errors.SourceInfo | None

_lock = threading.Lock()
_kept: deque[Missed] = deque(maxlen=MOST_KEPT)
_total = 0
_by_subject: dict[str, int] = {}


class _Here(threading.local):
    unkept = False


_here = _Here()


class unkept:
    """Context manager: do not record this thread's misses in the block: tools cause them, not the user."""

    def __enter__(self) -> None:
        self.outer, _here.unkept = _here.unkept, True

    def __exit__(self, *exc: object) -> None:
        _here.unkept = self.outer


def add(cache: str, name: str, subject: str, reason: str) -> Missed:
    """Record a miss of a cache of the kind ``cache``. The caller is about to trace or compile."""
    global _total
    place = errors.source_info(2)
    if _here.unkept:
        return Missed(_total, cache, name, subject, reason, place)
    with _lock:
        entry = Missed(_total, cache, name, subject, reason, place)
        _total += 1
        _kept.append(entry)
        if subject in _by_subject or len(_by_subject) < MOST_NAMES:
            _by_subject[subject] = _by_subject.get(subject, 0) + 1
    return entry


def total() -> int:
    """The number of misses so far, which is the number of the next one."""
    return _total


def since(number: int = 0) -> tuple[Missed, ...]:
    """The kept misses with this ``number`` or a higher one, the earliest first. Older misses may have been dropped."""
    with _lock:
        return tuple([entry for entry in _kept if entry.number >= number])


def counts() -> dict[str, int]:
    """The number of misses of each function. Only the first ``MOST_NAMES`` functions are counted."""
    with _lock:
        return dict(_by_subject)
