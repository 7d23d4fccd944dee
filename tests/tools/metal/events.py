"""What a profiler tells, made up; and a profiler that is at work."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any


class Event:
    def __init__(self, name: str, begin: float, end: float, **stats: Any) -> None:
        self.name, self.start_ns, self.duration_ns, self.stats = name, begin, end - begin, [*stats.items()]


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Another profiler, of which there can be one."""
    session = importlib.import_module("jaxlib._profiler").ProfilerSession()
    try:
        yield
    finally:
        session.stop()
