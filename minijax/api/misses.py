"""Why a cache of staged functions missed, and what is remembered of that.

``jit``, ``pmap`` and the bodies of control flow (``api.bodies``) stage a function once per signature. At a miss, and
never at a hit, the reason is worked out (``api.differences`` compares with the nearest signature that the cache has),
kept in ``core.missed`` and told to observers and guards. Of what is gone by then little is remembered here: where
functions were defined that have been staged, and why a signature is no longer in its cache.
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
from minijax.core import missed, observe
from minijax.core.guards import check, guards
from minijax.ir.jaxpr import ClosedJaxpr

# Places of functions that are remembered; beyond it all are forgotten.
MOST_PLACES = 1024
# Of many signatures the latest are compared.
MOST_COMPARED = 128

_FIRST = Difference("first", "", "", "first call")
# The explanation of the most frequent miss, computed once.
_FIRST_MISS = Miss([_FIRST], ADVICE["first"], 0)
RETRACED = Miss([Difference("retraced", "", "", observe.RETRACED)], ADVICE["retraced"], 1)


# --- what is remembered -------------------------------------------------------------------------------------


class _History:
    """Why signatures of one function are not in its cache any more: hashes of keys."""

    __slots__ = ("evicted", "cleared", "closed_over")

    def __init__(self) -> None:
        self.evicted: set[int] = set()
        self.closed_over: dict[int, str] = {}
        self.cleared = False


_histories: weakref.WeakKeyDictionary[Any, _History] = weakref.WeakKeyDictionary()
# Whether there was ever one: most programs have none, and to look for one is the dearest part of a first miss.
_has_histories = False


class _Seen:
    """Functions made of one piece of code that one kind of cache has staged: how many, and the last one."""

    __slots__ = ("codes", "count", "last")

    def __init__(self, codes: tuple[CodeType, ...], last: Callable[[], Any]) -> None:
        # kept weakly: the id of a code is its own only as long as it lives
        self.codes = [weakref.ref(code) for code in codes]
        self.count = 1
        self.last = last


# (the kind of cache, the kind of function, the ids of its codes)
_seen: dict[tuple[Any, ...], _Seen] = {}
# id of the globals and name of a function -> where the last one of that name was defined
_named: dict[tuple[int, str], tuple[str, int]] = {}


def _history(fun: Any) -> _History | None:
    """The history of ``fun``, begun if it has none."""
    global _has_histories
    _has_histories = True
    try:
        return _histories.setdefault(fun, _History())
    except TypeError:  # no weak reference, or no hash
        return None


def _known_history(fun: Any) -> _History | None:
    """The history of ``fun`` if it has one."""
    if not _has_histories:
        return None
    try:
        return _histories.get(fun)
    except TypeError:  # no weak reference, or no hash
        return None


def _code(fun: Any) -> Any:
    """The code of ``fun`` itself, of what it is made of if it has none."""
    code = getattr(fun, "__code__", None)
    while code is None and isinstance(fun, functools.partial):
        fun = fun.func
        code = getattr(fun, "__code__", None)
    return code


def _codes(fun: Any) -> tuple[CodeType, ...]:
    """The codes of ``fun`` and of the function it wraps: the same for all functions made by one definition."""
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
                _seen.pop(key, None)  # another thread may have been faster
                return key, None
    return key, seen


def _named_key(fun: Any) -> tuple[int, str] | None:
    """For a function that a statement of a module defined, or an input at a prompt."""
    if type(fun) is not FunctionType or not fun.__qualname__.isidentifier():
        return None
    return id(fun.__globals__), fun.__qualname__


def _last_defined(fun: Any) -> tuple[str, int] | None:
    """Where a function of this name in this module was defined before; None if there was none."""
    key = _named_key(fun)
    if key is None or key not in _named:
        return None
    file, line = _named[key]
    space = fun.__globals__
    # the id of a dictionary is its own as long as it lives: a module's does, a prompt's has the inputs in it
    module = sys.modules.get(getattr(fun, "__module__", None) or "")
    inputs = space.get("In")
    typed = isinstance(inputs, list) and any(
        f"-{number}>" in file and fun.__name__ in each for number, each in enumerate(inputs) if isinstance(each, str)
    )
    return (file, line) if typed or getattr(module, "__dict__", None) is space else None


def remember(fun: Any, cache: str, seen_as: tuple[Any, ...] | None = None) -> None:
    """``fun`` was staged for the first time, as far as its ``cache`` ('jit', 'scan', ...) knows.

    ``seen_as`` is its key in ``_seen`` if it has been looked up already.
    """
    history = _known_history(fun)
    if history is not None:
        history.cleared = False
    try:
        last: Callable[[], Any] = weakref.ref(fun)
    except TypeError:  # no weak reference, or no hash
        last = _nothing
    if len(_seen) >= MOST_PLACES or len(_named) >= MOST_PLACES:
        _seen.clear()
        _named.clear()
    key, seen = _find_seen(fun, cache) if seen_as is None else (seen_as, _seen.get(seen_as))
    if seen is None:
        _seen[key] = _Seen(_codes(fun), last)
    elif seen.last() is not fun:  # the same one may come again: cleared, with other options, traced anew
        seen.count += 1
        seen.last = last
    named = _named_key(fun)
    if named is not None:
        _named[named] = (fun.__code__.co_filename, fun.__code__.co_firstlineno)


def _nothing() -> None:
    return None


# What gives the reason why a key was not found: ``explain(key, reprs)``, as the function ``explain`` below has it.
Explain = Callable[[Any, bool], Miss]


# A miss whose function is about to be traced: the entry that is kept of it, if one is; what was noted of what the
# function reads besides its arguments; and its key in ``_seen`` if that is known.
Begun = tuple[missed.Missed | None, closed_over.Noted, tuple[Any, ...] | None]


def announce_first(cache: str, kind: str, fun: Any, subject: str) -> Begun | None:
    """``announce`` where nobody watches and the cache of ``fun`` has no signature: nothing is to be compared.

    ``kind`` is what stages it ('jit', 'scan', ...), ``subject`` what ``describe`` says of it. None where more is to be
    said than that it is its first call or a new function of code that has been staged before: ``announce`` says it.
    """
    if observe.on_cache or guards or _known_history(fun) is not None:
        return None
    reason: missed.Reason = _FIRST_MISS
    seen_as, seen = _find_seen(fun, kind)
    if seen is not None and seen.last() is not fun:
        reason = functools.partial(_new_function_miss, type(fun).__name__, subject, seen.count + 1)
    elif _last_defined(fun) is not None:
        return None
    told = cache != "body" or " at " in subject
    return missed.add(cache, fun_name(fun), subject, reason) if told else None, closed_over.note(fun), seen_as


def announce(cache: str, fun: Any, key: Any, found: ClosedJaxpr | None, explain: Explain) -> Begun | None:
    """Tell observers whether ``key`` was ``found`` in the ``cache`` of ``fun``, and guards if it was not.

    ``explain(key)`` gives the reason, once it is needed. To be asked where there is an observer, or nothing was found.
    Returns None for a hit; of a miss, what ``store`` completes. No entry is kept of a body of the engine's own, which
    has no place in the user's program, nor where tracing again was asked for.
    """
    if found is not None:
        if cache != "body" or " at " in describe(fun):
            observe.emit(observe.on_cache, cache, fun_name(fun), True, key, stale(found))
        return None
    subject = describe(fun)
    told = cache != "body" or " at " in subject
    # reprs of user classes are called only for observers, not in a program that nothing watches
    reprs = bool(observe.on_cache or guards)
    reason = _safely(explain, key, reprs) if told or guards else ""
    if observe.on_cache and told:
        observe.emit(observe.on_cache, cache, fun_name(fun), False, key, reason)
    if guards:
        check("traced", fun_name(fun), lambda: reason)
    entry = missed.add(cache, fun_name(fun), subject, reason) if told and reason is not RETRACED else None
    return entry, closed_over.note(fun), None


def stale(closed: ClosedJaxpr) -> str:
    """The values that a cached program read while it was traced and that have changed, as text; '' if none is known."""
    noted = closed.memo.get("noted")
    return closed_over.changes(noted) if noted else ""


def _safely(explain: Explain, key: Any, reprs: bool) -> Miss:
    """The reason for a miss; an exception from user code (``__eq__`` of a static argument, say) becomes the reason."""
    try:
        return explain(key, reprs)
    except Exception as error:
        what = f"not known: comparing with earlier calls raised {type(error).__name__}"
        return Miss([Difference("first", "", "", what)], "", 0)


def explain_hit(closed: ClosedJaxpr) -> tuple[str, tuple[str, ...]]:
    """``stale``, and the names of what could have changed inside without being seen."""
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
    """Put what ``fun`` was ``staged`` to into a ``cache`` of the ``kind`` 'jit', 'scan', ...

    ``closed`` is its jaxpr, ``begun`` what ``announce`` returned: the miss that has now been traced.

    Not if it closes over the tracers ``outer``: they belong to one run of an outer transformation, and so does what
    was staged. Where there are ``most`` signatures already, the earliest makes room.
    """
    assert begun is not None  # nothing was found
    entry, noted, seen_as = begun
    if entry is not None:
        entry.traced()
        closed.memo["missed"] = entry
    closed.memo["noted"] = noted
    if not cache:
        remember(fun, kind, seen_as)
    if outer:
        _note_closed_over(fun, key, outer)
        return
    if len(cache) >= most:
        oldest = next(iter(cache))
        cache.pop(oldest, None)
        history = _history(fun)
        if history is not None:
            if len(history.evicted) >= most:
                history.evicted.clear()
            history.evicted.add(hash(oldest))
    cache[key] = staged
    _forget(fun, key)


def _forget(fun: Any, key: Any) -> None:
    """``key`` is cached again: why it was not before says nothing any more."""
    history = _known_history(fun)
    if history is not None:
        history.evicted.discard(hash(key))
        history.closed_over.pop(hash(key), None)


def note_cleared(fun: Any) -> None:
    """The cache was emptied on demand."""
    history = _history(fun)
    if history is not None:
        history.cleared = True


def _note_closed_over(fun: Any, key: Any, outer: Sequence[Any]) -> None:
    history = _history(fun)
    if history is not None:
        if len(history.closed_over) >= MOST_COMPARED:
            history.closed_over.clear()
        history.closed_over[hash(key)] = f"{outer[0]._trace.main!r} tracer of type {outer[0].aval.str_short()}"


# --- why ----------------------------------------------------------------------------------------------------


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
    """Why ``signature``, kept under ``key``, is not among the ``earlier`` ones of ``fun``; None will do if it has none.

    ``cache`` says what staged it ('jit', 'scan', ...). ``with_static`` is ``fun`` without its static parameters, for
    the names of the others; ``other_options`` says that it has been transformed with other options before; ``reprs``
    lets static arguments print themselves; ``known`` is how many signatures there are, where ``earlier`` has not all.
    """
    others = list(earlier)[-MOST_COMPARED:][::-1]
    gone = _gone(fun, key, bool(others))
    if gone is None and others and signature is not None:
        found, advice = differences(fun, with_static or fun, nearest(signature, others), signature, reprs)
    else:
        found = [gone or _first(fun, cache, other_options)]
        if found[0] is _FIRST and not others:
            return _FIRST_MISS
        advice = advice_about(found[0])
    return Miss(found, advice, len(others), known)


def latest(cache: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The keys of ``cache`` that are compared, the latest last, and what was staged for each."""
    return list(cache.items())[-MOST_COMPARED:]


def _gone(fun: Any, key: Any, others: bool) -> Difference | None:
    """Why ``key`` is missing although it has been seen."""
    history = _known_history(fun)
    if history is None:
        return None
    if hash(key) in history.closed_over:
        what = history.closed_over[hash(key)]
        return Difference(
            "closed over", "", "", f"it closed over a {what} before, so what was traced then was not kept"
        )
    if hash(key) in history.evicted:
        return Difference("evicted", "", "", "it was cached, and had to make room for other signatures")
    if history.cleared and not others:
        return Difference("cleared", "", "", "its cache was cleared")
    return None


def _first(fun: Any, cache: str, other_options: bool) -> Difference:
    """Why the cache of ``fun`` is empty."""
    if other_options:
        return Difference("options", "", "", f"{fun_name(fun)} was transformed with other options before")
    _, seen = _find_seen(fun, cache)
    if seen is not None and seen.last() is not fun:
        return _new_function(type(fun).__name__, describe(fun), seen.count + 1)
    was = _last_defined(fun)
    if was is not None and was != (fun.__code__.co_filename, fun.__code__.co_firstlineno):
        return Difference("redefined", "", "", f"{fun_name(fun)} was defined again, before at {was[0]}:{was[1]}")
    return _FIRST


def _new_function(kind: str, subject: str, number: int) -> Difference:
    """A new function object, of the type named ``kind``, has code that was staged before."""
    what = {"partial": "functools.partial of ", "method": "bound method "}.get(kind, "function ")
    return Difference("function", "", "", f"a new {what}{subject}, number {number} made there")


def _new_function_miss(kind: str, subject: str, number: int) -> Miss:
    return Miss([_new_function(kind, subject, number)], ADVICE["function"], 0)
