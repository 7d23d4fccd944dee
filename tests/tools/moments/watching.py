"""A program run by minijax while it is recorded, with a print behind each statement of its functions.

Python itself tells when a line begins and a function ends (``sys.settrace``): what a variable holds then that it did
not hold before is what a print would have been given. The source is not changed, and so not what is recorded of it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording
from tests.tools.moments.printing import SET, Function, Site


class Print:
    """A variable that holds something else: ``began`` and ``at`` are the events before and after its statement, in the
    so manyth ``call`` of a function. The value is what has the ``number``.
    """

    __slots__ = ("site", "call", "began", "at", "value", "number")

    def __init__(self, site: Site, call: int, began: int, at: int, value: Any) -> None:
        self.site, self.call, self.began, self.at, self.value = site, call, began, at, value
        self.number = 0


class Watch:
    """What is seen of the functions of one file.

    Attributes:
      prints: in order.
      calls: how often each function was called.
      returned: the event at which each call ended.
      stood: (event, function, line) at the beginning of each line.
    """

    # no dictionary: a recorder would look into it, as it does into what variables hold
    __slots__ = ("file", "events", "prints", "calls", "stood", "returned", "_held", "_began", "_call")

    def __init__(self, file: str, events: Callable[[], int]) -> None:
        self.file = file
        self.events = events
        self.prints: list[Print] = []
        self.calls: Counter[Function] = Counter()
        self.stood: list[tuple[int, Function, int]] = []
        self.returned: dict[int, int] = {}
        # what the variables of a frame held, the event at which its line began, and which call it is
        self._held: dict[FrameType, dict[str, Any]] = {}
        self._began: dict[FrameType, int] = {}
        self._call: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """A trace function for ``sys.settrace``."""
        code = frame.f_code
        if code.co_filename != self.file:
            return None
        function = (code.co_firstlineno, code.co_qualname)
        now = self.events()
        if event == "call":
            self.calls[function] += 1
            self._held[frame], self._began[frame], self._call[frame] = {}, now, self.calls.total()
        self._look(frame, function, now)
        if event == "return":
            self.returned[self._call[frame]] = now
            del self._held[frame], self._began[frame], self._call[frame]
        elif event == "line":
            self._began[frame] = now
            self.stood.append((now, function, frame.f_lineno))
        return self

    def _look(self, frame: FrameType, function: Function, now: int) -> None:
        code, held = frame.f_code, self._held[frame]
        found = {}
        for variable in (*code.co_varnames, *code.co_cellvars):
            if variable in frame.f_locals and variable != "_":
                found.update(leaves(frame.f_locals[variable], variable))
        for name, value in found.items():
            if held.get(name) is not value:
                site = function, name, SET
                self.prints.append(Print(site, self._call[frame], self._began[frame], now, value))
        self._held[frame] = found


def leaves(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The arrays and tracers in a variable, with the paths to them."""
    if isinstance(value, (Array, Tracer)):
        yield name, value
    elif depth > 8 or isinstance(value, type):
        return
    elif isinstance(value, dict):
        for key, each in list(value.items()):
            yield from leaves(each, f"{name}[{key!r}]", depth + 1)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, each in zip(value._fields, value, strict=True):
            yield from leaves(each, f"{name}.{key}", depth + 1)
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from leaves(each, f"{name}[{i}]", depth + 1)
    elif hasattr(value, "__dataclass_fields__"):
        for key, each in list(vars(value).items()):
            yield from leaves(each, f"{name}.{key}", depth + 1)


class Recorded:
    """A full recording with its prints, the functions that were called, and the error that ended it."""

    def __init__(self, recording: Recording, watch: Watch, error: Exception | None) -> None:
        self.recording, self.watch, self.error = recording, watch, error
        # number -> the event at which an operation was first given it
        self.used: dict[int, int] = {}
        for _, node in recording.walk():
            for number in getattr(node, "operands", ()):
                self.used.setdefault(number, node.at)  # type: ignore[union-attr]
        self.made = {number for _, node in recording.walk() for number in getattr(node, "results", ())}


def record(call: Callable[[], Any], file: str) -> Recorded:
    """A recording of ``call``, of whose functions those in ``file`` are watched."""
    recorder = Recorder("full")
    error = None
    with recorder:
        observer = recorder._observer
        watch = Watch(file, lambda: observer.events)  # type: ignore[union-attr]
        before = sys.gettrace()
        sys.settrace(watch)
        try:
            call()
        except Exception as raised:
            error = raised
        finally:
            sys.settrace(before)
        for each in watch.prints:
            life = observer.lives.known.get(id(each.value))  # type: ignore[union-attr]
            each.number = 0 if life is None else life.number
    for each in watch.prints:
        each.value = None
    return Recorded(recorder.recording, watch, error)


def calls(call: Callable[[], Any], file: str) -> Counter[Function]:
    """How often ``call`` calls each function of a file."""
    counts: Counter[Function] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename == file:
            counts[code.co_firstlineno, code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    except Exception:
        pass
    finally:
        sys.setprofile(before)
    return counts
