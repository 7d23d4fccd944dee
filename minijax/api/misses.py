"""Explain cache misses of staged functions.

At a miss of ``jit``, ``pmap`` or a control flow body, ``api.differences`` compares the call with the nearest earlier
signature. The reason goes to ``core.miss_log``, observers and guards. This module remembers the definition sites of
staged functions, and why signatures left their caches.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any

from minijax.api import closed_over
from minijax.api.differences import ADVICE, CallSignature, Difference, Miss, advice_about, differences, nearest
from minijax.api.flat import describe, fun_name
from minijax.core import miss_log, observe
from minijax.core.guards import check, guards
from minijax.ir.jaxpr import ClosedJaxpr

# Maximum number of remembered definition sites. If there are more, all are dropped.
MOST_PLACES = 1024
# A miss is compared with at most this many earlier signatures: the latest ones.
MOST_COMPARED = 128
# Maximum number of remembered reasons why signatures left one cache. If there are more, all are dropped.
MOST_LOST = 4096

RETRACED = Miss([Difference("retraced", "", "", observe.RETRACED)], ADVICE["retraced"], 1)


# fun -> {hash of a key: why this signature left the cache, None: why the cache is empty}
_lost: weakref.WeakKeyDictionary[Any, dict[int | None, Difference]] = weakref.WeakKeyDictionary()
_CLEARED = Difference("cleared", "", "", "its cache was cleared")
_EVICTED = Difference("evicted", "", "", "it was cached, and had to make room for other signatures")


class _Seen:
    """The functions with the same code in one kind of cache: how many were staged, and the last of them."""

    def __init__(self, codes: tuple[CodeType, ...], last: Callable[[], Any]) -> None:
        # the id of a freed code object may be reused, so weak references check that the codes are still alive
        self.codes = [weakref.ref(code) for code in codes]
        self.count = 1
        self.last = last


# (kind of cache, kind of function, ids of its codes) -> the functions staged there
_seen: dict[tuple[Any, ...], _Seen] = {}
# (id of the globals, name) of a function -> the site of its last definition
_named: dict[tuple[int, str], tuple[str, int]] = {}


def _note_lost(fun: Any, key: int | None, reason: Difference) -> None:
    try:
        lost = _lost.setdefault(fun, {})
    except TypeError:  # ``fun`` cannot be weakly referenced or hashed
        return
    if len(lost) >= MOST_LOST:
        lost.clear()
    lost[key] = reason


def _lost_of(fun: Any) -> dict[int | None, Difference]:
    try:
        return _lost.get(fun, {})
    except TypeError:  # ``fun`` cannot be weakly referenced or hashed
        return {}


def _code(fun: Any) -> Any:
    """The code of ``fun``, or of the function in a partial."""
    code = getattr(fun, "__code__", None)
    while code is None and isinstance(fun, functools.partial):
        fun = fun.func
        code = getattr(fun, "__code__", None)
    return code


def _codes(fun: Any) -> tuple[CodeType, ...]:
    """The code objects of ``fun`` and of the function it wraps: the same for all functions of one definition."""
    if type(fun) is FunctionType and not fun.__dict__:
        return (fun.__code__,)
    wrapped = getattr(fun, "__wrapped__", fun)
    codes = (_code(fun),) if wrapped is fun else (_code(wrapped), _code(fun))
    return tuple([code for code in codes if isinstance(code, CodeType)])


def _find_seen(fun: Any, cache: str) -> tuple[tuple[Any, ...], _Seen | None]:
    codes = _codes(fun)
    key = (cache, type(fun).__name__, *map(id, codes))
    seen = _seen.get(key)
    if seen is not None:
        for ref, code in zip(seen.codes, codes, strict=True):
            if ref() is not code:
                _seen.pop(key, None)  # another thread may have removed it already
                return key, None
    return key, seen


def _named_key(fun: Any) -> tuple[int, str] | None:
    """The key in ``_named`` for a function defined at module level or at a prompt; else None."""
    if type(fun) is not FunctionType or not fun.__qualname__.isidentifier():
        return None
    return id(fun.__globals__), fun.__qualname__


def _last_defined(fun: Any) -> tuple[str, int] | None:
    """The previous definition site of a function with this name and module, or None."""
    key = _named_key(fun)
    if key is None or key not in _named:
        return None
    file, line = _named[key]
    space = fun.__globals__
    # the id of a freed dict may be reused, so the site counts only if these globals are certainly still alive: they
    # belong to a loaded module, or to a prompt, whose list of inputs, ``In``, contains the definition
    module = sys.modules.get(getattr(fun, "__module__", None) or "")
    inputs = space.get("In")
    typed = isinstance(inputs, list) and any(
        f"-{number}>" in file and fun.__name__ in each for number, each in enumerate(inputs) if isinstance(each, str)
    )
    return (file, line) if typed or getattr(module, "__dict__", None) is space else None


def _remember(fun: Any, cache: str) -> None:
    """Record that ``fun`` was staged when its ``cache`` ('jit', 'scan', ...) was empty."""
    _lost_of(fun).pop(None, None)
    try:
        last: Callable[[], Any] = weakref.ref(fun)
    except TypeError:  # ``fun`` cannot be weakly referenced or hashed
        last = _nothing
    if len(_seen) >= MOST_PLACES or len(_named) >= MOST_PLACES:
        _seen.clear()
        _named.clear()
    key, seen = _find_seen(fun, cache)
    if seen is None:
        _seen[key] = _Seen(_codes(fun), last)
    elif seen.last() is not fun:  # the same function is staged again if its cache was cleared
        seen.count += 1
        seen.last = last
    named = _named_key(fun)
    if named is not None:
        _named[named] = (fun.__code__.co_filename, fun.__code__.co_firstlineno)


def _nothing() -> None:
    return None


# ``explain(key, reprs)`` returns the reason for a miss
Explain = Callable[[Any, bool], Miss]

# A miss whose function is not yet traced: the entry in ``core.miss_log``, if any, and the values that ``fun`` reads.
Begun = tuple[miss_log.Missed | None, closed_over.Noted]


def announce(cache: str, fun: Any, key: Any, found: ClosedJaxpr | None, explain: Explain) -> Begun | None:
    """Tell observers whether ``key`` was ``found`` in the ``cache`` of ``fun``. Tell guards only of a miss.

    Returns the argument ``begun`` of ``store``; None for a hit. The miss log omits minijax's own loop and branch
    bodies, and retraces that the user requested.
    """
    if found is not None:
        if cache != "body" or " at " in describe(fun):
            observe.emit(observe.on_cache, cache, fun_name(fun), True, key, stale(found))
        return None
    subject = describe(fun)
    shown = cache != "body" or " at " in subject
    if not (shown or guards):
        return None, closed_over.note(fun)
    # reprs of user classes run only for observers and guards
    reason = _safely(explain, key, bool(observe.on_cache or guards))
    if observe.on_cache and shown:
        observe.emit(observe.on_cache, cache, fun_name(fun), False, key, reason)
    if guards:
        check("traced", fun_name(fun), lambda: reason)
    entry = miss_log.add(cache, fun_name(fun), subject, reason) if shown and reason is not RETRACED else None
    return entry, closed_over.note(fun)


def stale(closed: ClosedJaxpr) -> str:
    """A text that lists the values that changed after the cached program was traced with them; '' if none changed."""
    recorded = closed.memo.get("noted")
    return closed_over.changes(recorded) if recorded else ""


def _safely(explain: Explain, key: Any, reprs: bool) -> Miss:
    """The reason for a miss; an exception from user code (``__eq__`` of a static argument, say) becomes the reason."""
    try:
        return explain(key, reprs)
    except Exception as error:
        what = f"not known: comparing with earlier calls raised {type(error).__name__}"
        return Miss([Difference("first", "", "", what)], "", 0)


def explain_hit(closed: ClosedJaxpr) -> tuple[str, tuple[str, ...]]:
    """The text from ``stale``, and the names of values that may have changed undetected."""
    return stale(closed), closed_over.unknowable(closed.memo.get("noted", ()))


def store(
    cache: dict[Any, Any],
    key: Any,
    staged: Any,
    closed: ClosedJaxpr,
    outer: Sequence[Any],
    fun: Any,
    kind: str,
    most: int,
    begun: Begun | None,
) -> None:
    """Cache ``staged``, with jaxpr ``closed``, unless it closes over tracers (``outer``). ``begun`` is from
    ``announce``.

    Beyond ``most`` signatures the earliest is removed; ``kind`` names the cache.
    """
    assert begun is not None  # it was a miss
    entry, closed.memo["noted"] = begun
    if entry is not None:
        entry.traced()
        closed.memo["missed"] = entry
    if not cache:
        _remember(fun, kind)
    if outer:
        what = f"{outer[0]._trace.main!r} tracer of type {outer[0].aval.str_short()}"
        text = f"it closed over a {what} before, so that trace was not kept"
        _note_lost(fun, hash(key), Difference("closed over", "", "", text))
        return
    if len(cache) >= most:
        oldest = next(iter(cache))
        cache.pop(oldest, None)
        _note_lost(fun, hash(oldest), _EVICTED)
    cache[key] = staged
    _lost_of(fun).pop(hash(key), None)


def note_cleared(fun: Any) -> None:
    """Record that the cache of ``fun`` was cleared on demand."""
    _note_lost(fun, None, _CLEARED)


def explain(
    fun: Callable[..., Any],
    key: Any,
    signature: CallSignature | None,
    earlier: Iterable[CallSignature],
    cache: str,
    with_static: Callable[..., Any] | None = None,
    other_options: bool = False,
    reprs: bool = True,
    known: int = 0,
) -> Miss:
    """Explain why the cache of ``fun`` has no entry for ``signature``, which is None if the cache is empty.

    ``earlier``: the latest cached signatures. ``known``: how many are cached. ``cache``: 'jit', 'scan', ...
    ``with_static``: ``fun`` with its static arguments bound. ``other_options``: ``fun`` was transformed with other
    options before. ``reprs``: whether to call repr on static arguments.
    """
    others = list(earlier)[-MOST_COMPARED:][::-1]
    lost = _lost_of(fun)
    gone = lost.get(hash(key)) or (None if others else lost.get(None))
    if gone is None and others and signature is not None:
        found, advice = differences(fun, with_static or fun, nearest(signature, others), signature, reprs)
    else:
        found = [gone or _first(fun, cache, other_options)]
        advice = advice_about(found[0])
    return Miss(found, advice, len(others), known)


def latest(cache: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The (key, staged) entries of ``cache`` to compare with a new key: the latest ``MOST_COMPARED``, oldest first."""
    return list(cache.items())[-MOST_COMPARED:]


def _first(fun: Any, cache: str, other_options: bool) -> Difference:
    """Explain why the cache of ``fun`` is empty."""
    if other_options:
        return Difference("options", "", "", f"{fun_name(fun)} was transformed with other options before")
    _, seen = _find_seen(fun, cache)
    if seen is not None and seen.last() is not fun:
        kind = {"partial": "functools.partial of ", "method": "bound method "}.get(type(fun).__name__, "function ")
        return Difference("function", "", "", f"a new {kind}{describe(fun)}, number {seen.count + 1} made there")
    was = _last_defined(fun)
    if was is not None and was != (fun.__code__.co_filename, fun.__code__.co_firstlineno):
        return Difference("redefined", "", "", f"{fun_name(fun)} was defined again, before at {was[0]}:{was[1]}")
    return Difference("first", "", "", "first call")
