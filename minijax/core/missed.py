"""The latest misses of the caches of staged functions, kept whether or not anybody watches.

A miss traces, and mostly compiles: noting it is little beside that, and what is noted is put into words when somebody
asks. A hit knows nothing of this module. Only text, numbers and the code that called are kept, so no function and no
value of the user's lives longer for it. All misses are counted; of the entries the latest
``MOST_KEPT`` are there, and of the functions the first ``MOST_NAMES`` are counted one by one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from minijax import errors

MOST_KEPT = 1000
MOST_NAMES = 1000


class Missed:
    """One miss.

    Attributes:
      number: its place among all misses of this process, from 0.
      cache: the kind of cache: 'staging', 'body', 'compilation'.
      name: the function's name.
      subject: the function as errors call it: ``f at file.py:12``.
      reason: why it missed; an ``api.differences.Miss`` has parts besides its text.
      place: the user's line that made the call: ``/home/me/file.py:12 (f)``.
      began: when tracing began, by ``time.perf_counter``.
      costs: phase ('trace', 'lower', 'compile') -> seconds, each as it ends. What is traced or compiled within
        tracing counts there as well.
    """

    __slots__ = ("number", "cache", "name", "subject", "costs", "began", "_reason", "_place")

    def __init__(self, number: int, cache: str, name: str, subject: str, reason: Reason, place: Place) -> None:
        self.number = number
        self.cache = cache
        self.name = name
        self.subject = subject
        self._reason = reason
        self._place = place
        self.costs: dict[str, float] = {}
        self.began = time.perf_counter()

    @property
    def reason(self) -> str:
        """Put into words when it is first asked for: most misses nobody asks about."""
        if not isinstance(self._reason, str):
            self._reason = self._reason()
        return self._reason

    @property
    def place(self) -> str:
        """The file, the line and the function: the line is counted when asked for, since that takes a while."""
        if self._place is None:
            return "<unknown>"
        code = self._place[0]
        return f"{code.co_filename}:{errors.position(self._place)[0]} ({code.co_qualname})"

    def traced(self) -> None:
        """Tracing, which began when this was made, has ended."""
        self.took("trace", time.perf_counter() - self.began)

    def took(self, phase: str, seconds: float) -> None:
        """A phase has ended that this miss is to blame for."""
        self.costs[phase] = self.costs.get(phase, 0.0) + seconds

    @property
    def seconds(self) -> float:
        """What it cost so far."""
        return sum(self.costs.values())

    def __repr__(self) -> str:
        verb = "compiled" if self.cache == "compilation" else "traced"
        cost = f" ({self.seconds * 1000:.1f} ms)" if self.costs else ""
        return f"{self.subject} was {verb} at {self.place}{cost}: {self.reason}"


# The reason for a miss, or what makes it of what it keeps: text and numbers, nothing of the user's.
Reason = str | Callable[[], str]
# The user's code that made the call, and where in it; None if none of it was running.
Place = errors.SourceInfo | None

_lock = threading.Lock()
_kept: deque[Missed] = deque(maxlen=MOST_KEPT)
_total = 0
_by_subject: dict[str, int] = {}


class _Here(threading.local):
    unkept = False


_here = _Here()


class unkept:
    """Context manager: the misses of this thread in the block are of tools, not of the user's, and are not kept."""

    def __enter__(self) -> None:
        self.outer, _here.unkept = _here.unkept, True

    def __exit__(self, *exc: object) -> None:
        _here.unkept = self.outer


def add(cache: str, name: str, subject: str, reason: Reason) -> Missed:
    """Keep a miss of this kind of ``cache``; the caller is about to trace or compile."""
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
    """How many misses there have been, which is the number of the next one."""
    return _total


def since(number: int = 0) -> tuple[Missed, ...]:
    """The misses from ``number`` on that are kept, the earliest first: ``total() - number`` of them, or fewer."""
    with _lock:
        return tuple([entry for entry in _kept if entry.number >= number])


def counts() -> dict[str, int]:
    """How often each function missed, as far as they are counted one by one: see ``MOST_NAMES``."""
    with _lock:
        return dict(_by_subject)
