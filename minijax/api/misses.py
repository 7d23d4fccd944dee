"""Why a cache of staged functions missed: what differs from the nearest signature it has, and what to change.

``jit``, ``pmap`` and the bodies of control flow (``api.bodies``) stage a function once per signature. The reason for a
miss is worked out only when somebody asks: an observer, a guard (``core.guards``) or ``tools.explain_cache_miss``. Of
what is gone by then little is remembered here, at a miss and never at a hit: where functions were defined that have
been staged, and why a signature is no longer in its cache.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any

from minijax.api.flat import describe, fun_name, leaf_names
from minijax.config import TraceKey
from minijax.core import dtypes, observe
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.guards import check, guards
from minijax.core.named import NamedTuple
from minijax.pytree import keystr, tree_diff, tree_unflatten

# Places of functions that are remembered; beyond it all are forgotten.
MOST_PLACES = 1024
# Of many signatures the latest are compared.
MOST_COMPARED = 256
MOST_DIFFERENCES = 6
_LONGEST_VALUE = 60


class CallSignature(NamedTuple):
    """What a call must agree in with an earlier one: the tree of ``(args, kwargs)``, the types of its leaves, its
    static arguments as (position or name, type, value), the settings, and the names and sizes of mapped axes."""

    tree: Any
    avals: tuple[ShapedArray, ...]
    static: tuple[tuple[Any, type, Any], ...]
    settings: TraceKey
    axes: tuple[tuple[Any, int], ...]


class Difference(NamedTuple):
    """One thing that is not as it was. ``kind`` is one of ``ADVICE``'s keys, ``where`` an argument's path (or '')."""

    kind: str
    where: str
    before: str
    after: str

    def __str__(self) -> str:
        change = f"{self.before} became {self.after}" if self.before else self.after
        return f"{self.where}: {change}" if self.where else change


class Miss(str):
    """The reason for a miss, as text; its parts are ``differences``, ``advice`` (a sentence) and ``earlier``, the
    number of signatures of the cache that it was compared with."""

    differences: tuple[Difference, ...]
    advice: str
    earlier: int

    def __new__(cls, differences: Sequence[Difference], advice: str, earlier: int) -> Miss:
        shown = [str(each) for each in differences[:MOST_DIFFERENCES]]
        if len(differences) > MOST_DIFFERENCES:
            shown.append(f"and {len(differences) - MOST_DIFFERENCES} more")
        made = super().__new__(cls, "; ".join(shown))
        made.differences, made.advice, made.earlier = tuple(differences), advice, earlier
        return made


# What to do about a difference of each kind; ``{where}`` is the argument.
ADVICE = {
    "first": "The first call traces and compiles; calls with arguments of the same types are cached after it.",
    "function": "Make it once, outside of the loop or function that makes it anew, and call that: every evaluation of "
    "a lambda, a def, a partial or a wrapper such as grad(f) is a new function, whose cache is empty.",
    "redefined": "A function that is defined again begins with an empty cache: define it once to keep what it has.",
    "options": "Each set of options (static_argnums, donate_argnums) has a cache of its own: use one jitted function.",
    "shape": "Pad {where} to one shape, or to few: each shape is traced and compiled for itself.",
    "dtype": "Convert {where} to one dtype before the call, as in jnp.asarray({where}, jnp.{dtype}).",
    "weak_type": "Pass jnp.{dtype}(...) for {where}, every time: a Python number is weakly typed, an array is not.",
    "static": "Each value of a static argument is compiled for itself: make {where} dynamic if no shape and no Python "
    "control flow depends on it, or call with few values.",
    "unequal static": "Give the class of {where} __eq__ and __hash__: two objects that print alike were not equal.",
    "tree": "Pass the same arguments, in the same containers, every time.",
    "settings": "Set it once, before the first call: what is compiled depends on it.",
    "axes": "Call it under the same axis names and sizes.",
    "evicted": "A cache holds so many signatures and no more: round shapes up to few sizes.",
    "cleared": "Leave clear_cache() out where time matters.",
    "retraced": "Nothing is to be changed: it is cached, and was traced to be watched.",
    "closed over": "Pass it as an argument: what was traced with a tracer of another transformation inside belongs to "
    "one run of that and is not kept.",
}


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
    try:
        return _histories.setdefault(fun, _History())
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
    """The codes of ``fun`` and of the function it wraps: the same for all functions that a loop makes anew."""
    wrapped = getattr(fun, "__wrapped__", fun)
    codes = (_code(fun),) if wrapped is fun else (_code(wrapped), _code(fun))
    return tuple([code for code in codes if isinstance(code, CodeType)])


def _find_seen(fun: Any, cache: str) -> tuple[tuple[Any, ...], _Seen | None]:
    codes = _codes(fun)
    key = (cache, type(fun).__name__, *map(id, codes))
    seen = _seen.get(key)
    if seen is not None and any([ref() is not code for ref, code in zip(seen.codes, codes, strict=True)]):
        _seen.pop(key, None)  # another thread may have been faster
        seen = None
    return key, seen


def _named_key(fun: Any) -> tuple[int, str] | None:
    """For a function that a statement of a module defined, or an input at a prompt."""
    if not isinstance(fun, FunctionType) or not fun.__qualname__.isidentifier():
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


def remember(fun: Any, cache: str) -> None:
    """``fun`` was staged for the first time, as far as its ``cache`` ('jit', 'scan', ...) knows."""
    try:
        if fun in _histories:
            _histories[fun].cleared = False
        last: Callable[[], Any] = weakref.ref(fun)
    except TypeError:  # no weak reference, or no hash
        last = _nothing
    if len(_seen) >= MOST_PLACES:
        _seen.clear()
        _named.clear()
    key, seen = _find_seen(fun, cache)
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


def announce(cache: str, fun: Any, key: Any, found: bool, explain: Callable[[Any], str]) -> None:
    """Tell observers whether ``key`` was ``found`` in the ``cache`` of ``fun``, and guards if it was not.

    ``explain(key)`` gives the reason, once it is needed. To be asked where there is an observer, or nothing was found.
    """
    # bodies may be the engine's own, which have no place in the user's program
    if observe.on_cache and (cache != "body" or " at " in describe(fun)):
        observe.emit(observe.on_cache, cache, fun_name(fun), found, key, "" if found else explain(key))
    if guards and not found:
        check("traced", fun_name(fun), lambda: explain(key))


def store(
    cache: dict[Any, Any], key: Any, staged: Any, outer: Sequence[Any], fun: Any, kind: str, most: int
) -> None:
    """Put what ``fun`` was ``staged`` to into a ``cache`` of the ``kind`` 'jit', 'scan', ...

    Not if it closes over the tracers ``outer``: they belong to one run of an outer transformation, and so does what
    was staged. Where there are ``most`` signatures already, the earliest makes room.
    """
    if outer:
        _note_closed_over(fun, key, outer)
        return
    if not cache:
        remember(fun, kind)
    elif len(cache) >= most:
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
    try:
        history = _histories.get(fun)
    except TypeError:  # no weak reference, or no hash
        return
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


# --- what differs -------------------------------------------------------------------------------------------


def explain(
    fun: Callable[..., Any],
    key: Any,
    signature: CallSignature,
    earlier: Iterable[CallSignature],
    cache: str,
    with_static: Callable[..., Any] | None = None,
    other_options: bool = False,
) -> Miss:
    """Why ``signature``, kept under ``key``, is not among the ``earlier`` ones of ``fun``.

    ``cache`` says what staged it ('jit', 'scan', ...). ``with_static`` is ``fun`` without its static parameters, for
    the names of the others; ``other_options`` says that it has been transformed with other options before.
    """
    known = list(earlier)[-MOST_COMPARED:]
    gone = _gone(fun, key, bool(known))
    if gone is not None:
        found = [gone]
    elif not known:
        found = [_first(fun, cache, other_options)]
    else:
        nearest = min(reversed(known), key=functools.partial(_distance, signature))
        found = differences(fun, with_static or fun, nearest, signature)
    return Miss(found, _advice(found[0]), len(known))


def latest(cache: dict[Any, Any]) -> list[Any]:
    """The keys of ``cache`` that are compared."""
    return list(cache)[-MOST_COMPARED:]


def _distance(new: CallSignature, old: CallSignature) -> int:
    """How far apart two signatures are, found quickly: there may be hundreds to choose from."""
    others = (old.static != new.static) + (old.settings is not new.settings) + (old.axes != new.axes)
    if old.tree != new.tree:
        return others + len(new.avals) + abs(len(new.avals) - len(old.avals)) + 1
    return others + sum(a is not b for a, b in zip(old.avals, new.avals, strict=True))


def _gone(fun: Any, key: Any, others: bool) -> Difference | None:
    """Why ``key`` is missing although it has been seen."""
    try:
        history = _histories.get(fun)
    except TypeError:
        return None
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
        kind = {"partial": "functools.partial of ", "method": "bound method "}.get(type(fun).__name__, "function ")
        return Difference("function", "", "", f"a new {kind}{describe(fun)}, number {seen.count + 1} made there")
    was = _last_defined(fun)
    if was is not None and was != (fun.__code__.co_filename, fun.__code__.co_firstlineno):
        return Difference("redefined", "", "", f"{fun_name(fun)} was defined again, before at {was[0]}:{was[1]}")
    return Difference("first", "", "", "first call")


def differences(fun: Any, with_static: Any, old: CallSignature, new: CallSignature) -> list[Difference]:
    """Everything in which ``new`` differs from ``old``."""
    out: list[Difference] = []
    if old.tree != new.tree:
        out += _tree_differences(with_static, old.tree, new.tree)
    elif old.avals != new.avals:
        names = leaf_names(with_static, new.tree)
        for name, was, now in zip(names, old.avals, new.avals, strict=True):
            if was is not now:
                out.append(Difference(_type_kind(was, now), name, type_text(was), type_text(now)))
    if old.static != new.static:
        out += _static_differences(fun, old.static, new.static)
    if old.settings is not new.settings:
        out += [Difference("settings", "", "", each) for each in new.settings.changes_from(old.settings)]
    if old.axes != new.axes:
        out.append(Difference("axes", "mapped axes", _axes_text(old.axes), _axes_text(new.axes)))
    return out or [Difference("first", "", "", "first call")]


def type_text(aval: ShapedArray) -> str:
    """``f32[3]``, and whether it is weakly typed: what can differ between two signatures."""
    return aval.str_short() + (" (weak_type)" if aval.weak_type else "")


def _type_kind(was: ShapedArray, now: ShapedArray) -> str:
    if was.shape != now.shape:
        return "shape"
    return "dtype" if was.dtype != now.dtype else "weak_type"


def _axes_text(axes: tuple[tuple[Any, int], ...]) -> str:
    return ", ".join(f"{name!r} of size {size}" for name, size in axes) or "none"


def _tree_differences(fun: Any, old: Any, new: Any) -> list[Difference]:
    """By the parameters' names: what came, what went, and what is another kind of container."""
    out = []
    for each in tree_diff(old, new):
        where = _path_name(fun, new, each.path)
        if where and "types differ" in each.reason:
            out.append(Difference("tree", where, _kind_text(each.first), _kind_text(each.second)))
    seen = tuple(each.where for each in out)
    # what is inside of these is told with them
    inside = tuple(where + mark for where in seen for mark in "[.")
    was, now = leaf_names(fun, old), leaf_names(fun, new)
    for names, others, what in ((now, set(was), "it is new"), (was, set(now), "it is gone")):
        left = [n for n in names if n not in others and n not in seen and not n.startswith(inside)]
        out += [Difference("tree", n, "", what) for n in left]
    return out or [Difference("tree", "", "", "its containers hold other data, or an argument came by keyword")]


def _kind_text(text: str) -> str:
    """``list of length 2`` for what ``tree_diff`` says of a subtree."""
    return text.replace("<class '", "").replace("'>", "").replace("a pytree leaf", "an array")


def _path_name(fun: Any, tree: Any, path: Sequence[Any]) -> str:
    """The parameter at ``path`` of ``(args, kwargs)``, with the rest of the path; '' for the roots themselves."""
    if len(path) < 2:
        return ""
    args, kwargs = tree_unflatten(tree, range(tree.num_leaves))
    if path[0].idx:
        return str(path[1].key) + keystr(tuple(path[2:]))
    try:
        parameters = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        parameters = []
    index = path[1].idx
    name = parameters[index] if index < len(parameters) else f"args[{index}]"
    return name + keystr(tuple(path[2:]))


def _static_differences(fun: Any, old: Sequence[Any], new: Sequence[Any]) -> list[Difference]:
    was = {where: (kind, value) for where, kind, value in old}
    now = {where: (kind, value) for where, kind, value in new}
    out = []
    for where in dict.fromkeys([*was, *now]):
        if where in was and where in now and was[where] == now[where]:
            continue
        before, after = _static_text(was.get(where)), _static_text(now.get(where))
        kind = "static"
        if before == after and was[where][0] is now[where][0]:
            kind, after = "unequal static", f"another object that prints as {after}"
        elif before == after:
            before, after = (f"{text} of type {d[where][0].__name__}" for text, d in ((before, was), (after, now)))
        out.append(Difference(kind, _static_name(fun, where), before, after))
    return out


def _static_name(fun: Any, where: Any) -> str:
    if isinstance(where, str):
        return where
    try:
        return list(inspect.signature(fun).parameters)[where]
    except (TypeError, ValueError, IndexError):
        return f"args[{where}]"


def _static_text(given: tuple[type, Any] | None) -> str:
    if given is None:
        return "not given"
    try:
        text = repr(given[1])
    except Exception:
        text = f"a {given[0].__name__}"
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def _advice(difference: Difference) -> str:
    """The one thing to change about ``difference``."""
    dtype = ""
    if difference.kind in ("dtype", "weak_type"):
        dtype = dtype_name(dtypes.from_short_name(difference.before.partition("[")[0]))
    return ADVICE[difference.kind].format(where=difference.where or "the arguments", dtype=dtype)
