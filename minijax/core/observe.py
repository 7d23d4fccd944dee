"""The seam between the engine and its observers.

The engine announces its work through the hook lists of this module. A tool subscribes an ``Observer``. Each hook is a
module-level list that is only changed in place, so the engine can import it and test whether it is empty. Without
observers, that test is the whole cost: the arguments of hooks are built after it.

Observers get live engine objects and must not keep them; they copy avals, ids and previews. Operations that an observer
binds itself are not observed. An observer that raises is removed, with one warning, and the user's program goes on.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijax.core.miss_log import Missed

Hook = list[Callable[..., None]]

# One list per hook. The engine tests ``if on_bind_enter:``.
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
# Like ``rule``, for rules of users' functions. Such rules are few, so observers that only count may subscribe.
on_custom_rule: Hook = []
# for observers that only count: see ``Observer.counted``
on_counted: Hook = []
# Backward passes: start of a pass, start and end of the transposition of an equation, end of the pass.
on_backward: Hook = []
on_transposing: Hook = []
on_transposed: Hook = []
on_backward_end: Hook = []
# The evaluation of an imported program: start and end.
on_imported: Hook = []
on_imported_end: Hook = []
# The variables of a program that runs under interpreters get values: first its inputs, then each equation's results.
on_run: Hook = []
# The observers' own methods for the bind hooks and for ``rule``. ``bind`` tests only this list.
bind_watched: Hook = []
_BIND_HOOKS = ("bind_enter", "bind_exit", "bind_raise", "rule")


class Observer:
    """Base class of observers: override some hooks, then ``subscribe``. Only overridden hooks are called."""

    # Set by observers that only count the operations of one thread: that thread's id. See ``counts_suffice``.
    counting_thread: int | None = None

    def main_push(self, main: Any) -> None:
        """``main`` (a ``MainTrace``) is now the innermost interpreter of this thread."""

    def main_pop(self, main: Any) -> None:
        """``main`` has left the stack, normally or because of an exception."""

    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        """``trace`` is about to apply ``primitive`` to ``args``."""

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        """The innermost running bind returned ``out`` (one value, or a list if it has multiple results)."""

    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        """The innermost running bind raised ``error``."""

    def counted(self, binds: Any, times: int) -> None:
        """For observers that count: cached programs ran ``times`` times. Each run replaced the operations ``binds``."""

    def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
        """The rule of ``primitive`` in the table named ``table`` is about to be applied."""

    def equation(self, main: Any, eqn: Any) -> None:
        """``eqn`` was appended to the jaxpr that ``main`` builds."""

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        """A jaxpr was finished. ``kind`` names the step that made it: 'staged', 'linear', 'jvp', 'vmap', ..."""

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        """A staging or compilation cache was looked up; ``reason`` explains a miss."""

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
        """A user's rule for a function is about to be applied: 'custom_jvp rule', 'custom_vjp fwd', ..."""

    def backward(
        self,
        jaxpr: Any,
        known: Mapping[Any, Any],
        outs: Sequence[Any],
        cts: Sequence[Any],
        sums: Sequence[tuple[Any, Any]],
    ) -> None:
        """The linear program ``jaxpr`` will now run backwards, from the cotangents ``cts`` of ``outs``.

        ``known``: the values of non-linear variables. ``sums``: pairs of a variable and its cotangent so far.
        """

    def transposing(self, eqn: Any, ct: Any) -> None:
        """The transpose rule of ``eqn`` is about to be applied to the cotangents of its results."""

    def transposed(self, eqn: Any, found: Sequence[tuple[Any, Any, Any]]) -> None:
        """The rule was applied. ``found``: for each cotangent its operand, the new contribution and the sum so far."""

    def backward_end(self) -> None:
        """The innermost backward pass has ended, normally or because of an exception."""

    def imported(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """The evaluation of an imported function's program begins. The arguments ``values`` have these ``names``."""

    def imported_end(self) -> None:
        """The evaluation of the innermost imported program has ended."""

    def run(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        """The ``variables`` of a program that runs under interpreters now have the ``values``."""


# Method of an observer -> its hook.
HOOKS: dict[str, Hook] = {name[3:]: hook for name, hook in list(globals().items()) if name.startswith("on_")}

# All subscribed observers. Without any, the engine may take shortcuts that announce nothing.
observers: list[tuple[Observer, dict[str, Callable[..., None]]]] = []
# The observers that must see every operation that rules bind. If there are any, no cached program replaces a rule.
followers: list[Observer] = []
_lock = threading.Lock()


class _WatchedThread:
    """One thread's state: whether hooks are off (``busy``), and the ``counting.Tally``s with counts to report."""

    __slots__ = ("busy", "unreported")

    def __init__(self) -> None:
        self.busy = False
        self.unreported: list[Any] = []


class _PerThread(threading.local):
    """This thread's state, in one object ``here``."""

    def __init__(self) -> None:
        self.here = _WatchedThread()


_threads = _PerThread()


def unreported() -> list[Any]:
    """This thread's ``counting.Tally``s that must report their counts before the next event of this thread."""
    return _threads.here.unreported


def report_counts() -> None:
    unreported = _threads.here.unreported
    while unreported:
        unreported.pop().report()


def only_counted() -> bool:
    """Whether all observers only count the operations of this thread."""
    here = threading.get_ident()
    return all([observer.counting_thread == here for observer, _ in observers])


def counts_suffice(observer: Observer) -> None:
    """From now on, ``observer`` gets only the number of the operations that rules bind, not each operation."""
    with _lock:
        if observer in followers:
            followers.remove(observer)


def _guarded(observer: Observer, method: Callable[..., None]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        here = _threads.here
        if here.busy:
            return
        if here.unreported:
            report_counts()
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
    """Start calling the overridden hooks of ``observer``, on every thread. Returns ``observer``."""
    methods = {
        name: _guarded(observer, getattr(observer, name))
        for name in HOOKS
        if getattr(type(observer), name) is not getattr(Observer, name)
    }
    report_counts()
    with _lock:
        observers.append((observer, methods))
        followers.append(observer)
        for name, method in methods.items():
            HOOKS[name].append(method)
        bind_watched.extend(methods[name] for name in _BIND_HOOKS if name in methods)
    return observer


def unsubscribe(observer: Observer) -> None:
    """Stop calling ``observer``; unknown observers are ignored."""
    report_counts()
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
    """Context manager: do not observe this thread in the block. The engine uses it while it prepares rules."""

    def __enter__(self) -> None:
        here = _threads.here
        self.outer, here.busy = here.busy, True

    def __exit__(self, *exc: object) -> None:
        _threads.here.busy = self.outer


class _Retracing(threading.local):
    """One thread's state: id of a staging cache -> the cache and its replacement; None outside ``retracing``."""

    def __init__(self) -> None:
        self.caches: dict[int, tuple[Any, Any]] | None = None


_retracing = _Retracing()


class retracing:
    """Context manager: this thread finds its staging caches empty in the block, and drops what it stages at the end."""

    def __enter__(self) -> None:
        self.outer, _retracing.caches = _retracing.caches, {}

    def __exit__(self, *exc: object) -> None:
        _retracing.caches = self.outer


# The miss reason inside ``retracing``.
RETRACED = "traced again for the recording"


def staging_cache(cache: Any) -> Any:
    """``cache``, or inside ``retracing`` its replacement. Callers test ``if observers:`` first."""
    caches = _retracing.caches
    if caches is None:
        return cache
    # the tuple keeps the cache alive, so that no other cache gets its id
    return caches.setdefault(id(cache), (cache, {}))[1]


def emit(hook: Hook, *args: Any) -> None:
    """Call every subscriber of ``hook``. Callers test ``if hook:`` first."""
    for method in tuple(hook):
        method(*args)


class timed:
    """Context manager: report the time of ``phase`` of function ``name`` to observers and the cache miss ``blamed``."""

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
