"""The seam between the engine and whoever watches it.

The engine announces what it does through the hook lists of this module; the microscope subscribes an
``Observer``. Each hook is a module-level list that is only ever mutated in place, so the engine can import the
list itself and test its truth: that test is the whole cost when nobody listens. No argument of a hook is
built before the test has succeeded.

Observers get live engine objects and must not keep them: they copy what they want to show (avals, ids,
previews). What an observer itself binds is not observed, and an observer that raises is removed, with one
warning, while the user's program goes on.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijax.core.missed import Missed

Hook = list[Callable[..., None]]

# One list per hook; ``if on_bind_enter:`` is what the engine tests.
on_main_push: Hook = []
on_main_pop: Hook = []
on_bind_enter: Hook = []
on_bind_exit: Hook = []
on_bind_raise: Hook = []
on_rule: Hook = []
on_equation: Hook = []
on_jaxpr: Hook = []
on_cache: Hook = []
on_phase: Hook = []
on_lowered: Hook = []
on_compiled: Hook = []
on_executed: Hook = []
on_transfer: Hook = []
# ``rule`` again, for the rules that users gave their functions: few, so that who counts can afford to listen.
on_custom_rule: Hook = []
# for who counts: see ``Observer.counted``
on_counted: Hook = []
# Linear programs run backwards: one begins, an equation of it begins and is done, it has ended.
on_backward: Hook = []
on_transposing: Hook = []
on_transposed: Hook = []
on_backward_end: Hook = []
# A program that was imported whole is evaluated; it has been.
on_imported: Hook = []
on_imported_end: Hook = []
# A program's variables got values, as it is run under interpreters: its inputs, then the results of each equation.
on_run: Hook = []
# Everybody who overrides a bind hook or ``rule``: the one list that ``bind`` tests.
bind_watched: Hook = []
_BIND_HOOKS = ("bind_enter", "bind_exit", "bind_raise", "rule")


class Observer:
    """Base class of whoever watches the engine: override the hooks of interest, then ``subscribe``.

    Only overridden hooks are called, so an observer of compilations costs nothing on ``bind``.
    """

    # Of one who does not want to see operations, but counts those of a thread: that thread. See ``counts_suffice``.
    counting_thread: int | None = None

    def main_push(self, main: Any) -> None:
        """``main`` (a ``MainTrace``) is now the innermost interpreter of this thread."""

    def main_pop(self, main: Any) -> None:
        """``main`` has left the stack, also when an exception unwinds it."""

    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        """``primitive`` is about to be processed by ``trace`` on ``args``."""

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        """The innermost entered bind returned ``out`` (one value, or a list if it has multiple results)."""

    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        """The innermost entered bind raised ``error``."""

    def counted(self, binds: Any, times: int) -> None:
        """Programs that stand for rules have run so many times; ``binds`` (``counting.Binds``) is what each replaces.

        For an observer whom counts suffice; they come before whatever happens next.
        """

    def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
        """The rule of ``primitive`` in the table named ``table`` is about to be applied."""

    def equation(self, main: Any, eqn: Any) -> None:
        """``eqn`` was appended to the jaxpr that ``main`` builds."""

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        """A jaxpr was finished: ``kind`` says by what ('staged', 'linear', 'jvp', 'vmap', 'transpose', ...).

        ``closed`` is a ``ClosedJaxpr``; or, for those whom counts suffice, an ``interpreters.outline.Outline`` of it.
        """

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        """A staging or compilation cache was asked; ``reason`` explains a miss."""

    def phase(self, phase: str, name: str, seconds: float) -> None:
        """A phase ('trace', 'lower', 'compile', 'run', 'transpose', ...) of function ``name`` took ``seconds``."""

    def lowered(self, name: str, text: str) -> None:
        """``name`` was lowered to the StableHLO module ``text``."""

    def compiled(self, name: str, executable: Any) -> None:
        """``executable`` was compiled by XLA for ``name``."""

    def executed(self, name: str, executable: Any, n_in: int, n_out: int) -> None:
        """``executable`` was run."""

    def transfer(self, direction: str, aval: Any) -> None:
        """An array moved: 'to_device' or 'to_host'."""

    def custom_rule(self, table: str, rule: Callable[..., Any]) -> None:
        """A rule that a user wrote for a function is about to be applied: 'custom_jvp rule', 'custom_vjp fwd', ..."""

    def backward(
        self,
        jaxpr: Any,
        known: Mapping[Any, Any],
        outs: Sequence[Any],
        cts: Sequence[Any],
        sums: Sequence[tuple[Any, Any]],
    ) -> None:
        """The linear program ``jaxpr`` is about to be run backwards, from the cotangents ``cts`` of ``outs``.

        ``known`` holds the values of its variables that are not linear: residuals and constants; ``sums`` are the
        variables that have a cotangent now, each with it: what is several outputs has several.
        """

    def transposing(self, eqn: Any, ct: Any) -> None:
        """The transpose rule of ``eqn`` is about to be applied to the cotangents of its results."""

    def transposed(self, eqn: Any, found: Sequence[tuple[Any, Any, Any]]) -> None:
        """It has been: for each cotangent found the operand, what it was given, and the sum of what it has so far."""

    def backward_end(self) -> None:
        """The linear program that began last, and has not ended, has: all is done, or an exception unwinds it."""

    def imported(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """The program of a function that was imported is evaluated: its equations are what the function's lines ask
        for. ``names`` are those of its arguments, ``values``."""

    def imported_end(self) -> None:
        """It has been evaluated."""

    def run(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        """Of a program that is run under interpreters, these variables have these values now."""


HOOKS: dict[str, Hook] = {
    "main_push": on_main_push,
    "main_pop": on_main_pop,
    "bind_enter": on_bind_enter,
    "bind_exit": on_bind_exit,
    "bind_raise": on_bind_raise,
    "counted": on_counted,
    "rule": on_rule,
    "equation": on_equation,
    "jaxpr": on_jaxpr,
    "cache": on_cache,
    "phase": on_phase,
    "lowered": on_lowered,
    "compiled": on_compiled,
    "executed": on_executed,
    "transfer": on_transfer,
    "custom_rule": on_custom_rule,
    "backward": on_backward,
    "transposing": on_transposing,
    "transposed": on_transposed,
    "backward_end": on_backward_end,
    "imported": on_imported,
    "imported_end": on_imported_end,
    "run": on_run,
}

# Everybody who is subscribed: nobody, most of the time, and then shortcuts may be taken that announce nothing.
observers: list[tuple[Observer, dict[str, Callable[..., None]]]] = []
# Those of them who are to see every operation that rules bind: while there are any, rules are run.
followers: list[Observer] = []
_lock = threading.Lock()


class _WatchedThread:
    """Of one thread: whether an observer is at work, or nobody is to watch (then hooks are not called), and the
    ``counting.Tally``s of which something has not been told.
    """

    __slots__ = ("busy", "untold")

    def __init__(self) -> None:
        self.busy = False
        self.untold: list[Any] = []


class _PerThread(threading.local):
    """``here`` is this thread's, one object for all that a hook asks."""

    def __init__(self) -> None:
        self.here = _WatchedThread()


_threads = _PerThread()


def untold() -> list[Any]:
    """This thread's tallies that are to be told before its next event."""
    return _threads.here.untold


def tell_counts() -> None:
    """Tell what has been counted on this thread."""
    untold = _threads.here.untold
    while untold:
        untold.pop().tell()


def only_counted() -> bool:
    """Whether all who watch count the operations of this thread."""
    here = threading.get_ident()
    return all([observer.counting_thread == here for observer, _ in observers])


def counts_suffice(observer: Observer) -> None:
    """From now on ``observer`` need not see the operations that rules bind, but is told how many there are."""
    with _lock:
        if observer in followers:
            followers.remove(observer)


def _guarded(observer: Observer, method: Callable[..., None]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        here = _threads.here
        if here.busy:
            return
        if here.untold:
            tell_counts()
        here.busy = True
        try:
            method(*args)
        except Exception as error:
            unsubscribe(observer)
            warnings.warn(
                f"the observer {type(observer).__name__} raised {type(error).__name__}: {error}; "
                "it was removed and the program goes on",
                RuntimeWarning,
                stacklevel=3,
            )
        finally:
            here.busy = False

    return call


def subscribe(observer: Observer) -> Observer:
    """Start calling the hooks that ``observer`` overrides, on every thread. Returns ``observer``."""
    methods = {
        name: _guarded(observer, getattr(observer, name))
        for name in HOOKS
        if getattr(type(observer), name) is not getattr(Observer, name)
    }
    tell_counts()
    with _lock:
        observers.append((observer, methods))
        followers.append(observer)
        for name, method in methods.items():
            HOOKS[name].append(method)
        bind_watched.extend(methods[name] for name in _BIND_HOOKS if name in methods)
    return observer


def unsubscribe(observer: Observer) -> None:
    """Stop calling ``observer``; unknown observers are ignored."""
    tell_counts()
    with _lock:
        for entry in [e for e in observers if e[0] is observer]:
            observers.remove(entry)
            followers[:] = [each for each in followers if each is not observer]
            for name, method in entry[1].items():
                HOOKS[name].remove(method)
                if method in bind_watched:
                    bind_watched.remove(method)


class watching:
    """Context manager: ``with watching(observer): ...`` subscribes for the block."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def __enter__(self) -> Observer:
        return subscribe(self.observer)

    def __exit__(self, *exc: object) -> None:
        unsubscribe(self.observer)


class unobserved:
    """Context manager: what this thread does in the block is nobody's to watch: the engine prepares its own rule."""

    def __enter__(self) -> None:
        here = _threads.here
        self.outer, here.busy = here.busy, True

    def __exit__(self, *exc: object) -> None:
        _threads.here.busy = self.outer


# --- recording cached traces anew -------------------------------------------------------------------------------


class _Retracing(threading.local):
    """Of one thread: id of a staging cache -> the cache, and what stands in for it; None while nobody retraces."""

    def __init__(self) -> None:
        self.caches: dict[int, tuple[Any, Any]] | None = None


_retracing = _Retracing()


class retracing:
    """Context manager: on this thread every staging cache looks empty, once, to whoever asks ``staging_cache``.

    What is staged in the block is kept until its end, and the caches themselves stay as they are.
    """

    def __enter__(self) -> None:
        self.outer, _retracing.caches = _retracing.caches, {}

    def __exit__(self, *exc: object) -> None:
        _retracing.caches = self.outer


# Why a cache missed that was made to look empty.
RETRACED = "traced anew for the recording"


def staging_cache(cache: Any) -> Any:
    """``cache``, or what stands in for it in ``retracing``: a dictionary that was empty when the block began.

    To be asked by ``if observers:``, so that a cache that nobody watches is found as fast as ever.
    """
    caches = _retracing.caches
    if caches is None:
        return cache
    # the cache is kept along, so that its id stays its own
    return caches.setdefault(id(cache), (cache, {}))[1]


def emit(hook: Hook, *args: Any) -> None:
    """Call every subscriber of ``hook``. Callers test ``if hook:`` first."""
    for method in tuple(hook):
        method(*args)


class timed:
    """Context manager: announces how long phase ``phase`` of function ``name`` took, if anybody listens.

    ``blamed`` is the miss of a cache that it follows from, which keeps what it took.
    """

    __slots__ = ("phase", "name", "blamed", "start")

    def __init__(self, phase: str, name: str, blamed: Missed | None = None) -> None:
        self.phase = phase
        self.name = name
        self.blamed = blamed

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        if self.blamed is not None:
            self.blamed.took(self.phase, time.perf_counter() - self.start)
        if on_phase and exc[0] is None:
            emit(on_phase, self.phase, self.name, time.perf_counter() - self.start)
