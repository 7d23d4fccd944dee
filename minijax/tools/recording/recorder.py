"""The recorder: an observer of the engine that produces an immutable ``Recording``.

There are two levels. 'summary' counts events, and keeps the deepest stack, the first tracers, the jaxprs and the
phases. It is cheap enough for every line of a prompt. 'full' also keeps the tree of binds, rules and equations, the
lifetimes of tracers, and the source of all code that ran. Records hold only types, short strings and numbers. Beside
them, 'full' keeps the elements of arrays and the staged programs, up to a limit (``values``), but no tracer or array.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from minijax.core import observe
from minijax.core.collector import RARELY
from minijax.tools.recording.records import Recording
from minijax.tools.recording.summary import Summary


class Recorder:
    """Context manager that watches the engine on this thread. Afterwards ``recording`` has the result.

    Args:
      level: 'summary' or 'full'.
      source: the text of the recorded line or call.
      retrace: functions that are called in the block are traced again, even if their traces are cached. The new traces
          are kept until the end of the block. The caches of other calls do not change.
    """

    def __init__(self, level: str = "summary", source: str = "", retrace: bool = False) -> None:
        if level not in ("summary", "full"):
            raise ValueError(f"level must be 'summary' or 'full', got {level!r}")
        self.level = level
        self.source = source
        self.recording = Recording(level, source)
        self._retracing = observe.retracing() if retrace else None
        self._observer: Summary | None = None
        self._began = 0.0

    def __enter__(self) -> Recorder:
        if self._retracing is not None:
            self._retracing.__enter__()
        self._thresholds = new, _, all_ = gc.get_threshold()
        if self.level == "full":
            gc.set_threshold(new, RARELY, all_)  # a recording makes many objects that stay alive
        self._observer = self._new_observer()
        self._began = time.perf_counter()
        observe.subscribe(self._observer)
        return self

    def _new_observer(self) -> Summary:
        if self.level == "summary":
            return Summary()
        # imported here, because every session begins with summaries, and most sessions never need ``Full``
        from minijax.tools.recording.full import Full

        return Full()

    def numbers(self, values: Iterable[Any]) -> list[int]:
        """The numbers of arrays and tracers in a full recording, which follows them from now on; 0 for other objects.
        Call this only inside the ``with`` block.
        """
        observer = self._observer
        return [] if observer is None else [observer.number(value) for value in values]

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        # a second Ctrl-C must not lose the recording of the call that the first one ended
        with _Uninterrupted(isinstance(error, KeyboardInterrupt)):
            self._finish(error)
            if error is not None:
                vars(error)[_KEPT] = (self._began, self.recording)

    def _finish(self, error: BaseException | None) -> None:
        seconds = time.perf_counter() - self._began
        observer, self._observer = self._observer, None
        assert observer is not None
        # an observer that raised was removed with a warning, so it saw only the beginning
        removed = all(each is not observer for each, _ in observe.observers)
        observe.unsubscribe(observer)
        if self.level == "full" and gc.get_threshold()[1] == RARELY:
            gc.set_threshold(*self._thresholds)
        if self._retracing is not None:
            self._retracing.__exit__()
        rest = observer.finish(error)
        self.recording = Recording(
            level=self.level,
            source=self.source,
            stack=observer.deepest,
            scopes=observer.scopes_pushed,
            binds=tuple((label, count[0]) for label, count in observer.bind_counts.items() if count[0]),
            tracers=tuple(observer.tracers),
            tracers_made=observer.tracers_made,
            jaxprs=tuple([each.counted() for each in observer.alike.values()]),
            jaxprs_made=observer.jaxprs_made,
            caches=observer.cache_records(),
            phases=observer.phase_records(),
            modules=tuple(observer.modules),
            executables=tuple(observer.executables),
            executions=observer.executions,
            custom_rules=tuple(observer.custom_rules.items()),
            errors=tuple(observer.errors),
            events=observer.events,
            truncated=observer.truncated() or removed,
            elsewhere=observer.elsewhere,
            tree=rest.tree,
            seconds=seconds,
            base=observer.base,
            lives=rest.lives,
            sources=rest.sources,
            cut=tuple(observer.left_out().items()),
            backward=rest.backward,
        ).holding(rest.kept, rest.moments)


# The attribute of an exception with the recorder's start time, and the recording until the exception.
_KEPT = "_minijax_recording"


def recorded_until(error: BaseException, since: float) -> Recording | None:
    """The recording of the call that ``error`` ended, by a recorder that began after ``since`` (``time.perf_counter``).
    None if there is none.
    """
    began, recording = vars(error).get(_KEPT, (-1.0, None))
    return recording if began >= since else None


class _Uninterrupted:
    """Context manager that delays an interrupt to the end of the block. ``dropped``: ignore the interrupt, because the
    block already handles one.
    """

    def __init__(self, dropped: bool) -> None:
        self.dropped = dropped
        self.came = False
        self.handler: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self.handler = signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.came = True

    def __exit__(self, *exc: object) -> None:
        if self.handler is None:
            return
        signal.signal(signal.SIGINT, self.handler)
        if self.came and not self.dropped:
            self.handler(signal.SIGINT, None)


def record(
    fun: Callable[..., Any], *args: Any, level: str = "full", retrace: bool = False, **kwargs: Any
) -> tuple[Any, Recording]:
    """Call ``fun(*args, **kwargs)`` and record it. Returns its result and the ``Recording``.

    ``level`` and ``retrace`` are those of ``Recorder``. An exception of the call is raised unchanged; use ``Recorder``
    for the recording of a call that fails.
    """
    recorder = Recorder(level, getattr(fun, "__name__", ""), retrace)
    with recorder:
        result = fun(*args, **kwargs)
    return result, recorder.recording
