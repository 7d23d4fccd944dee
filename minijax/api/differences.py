"""Compare signatures of staged functions, and describe a ``Miss``: what differs, where, and what to change."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from minijax.api.flat import describe, leaf_names, parameters_of
from minijax.config import TraceKey
from minijax.core import dtypes
from minijax.core.avals import ShapedArray, dtype_name
from minijax.core.records import NamedTuple
from minijax.pytree import keystr, tree_diff, tree_leaves_with_path, tree_unflatten

MOST_DIFFERENCES = 6
_LONGEST_VALUE = 60


class CallSignature(NamedTuple):
    """What a cache compares: the tree of ``(args, kwargs)``, leaf types, static arguments, settings and mapped axes.

    Each static argument is a triple: its name or position, its type and its value.
    """

    tree: Any
    avals: tuple[ShapedArray, ...]
    static: tuple[tuple[Any, type, Any], ...]
    settings: TraceKey
    axes: tuple[tuple[Any, int], ...]


class Difference(NamedTuple):
    """One difference between two signatures. ``kind`` is a key of ``ADVICE``, ``where`` an argument's path (or '')."""

    kind: str
    where: str
    before: str
    after: str

    def __str__(self) -> str:
        change = f"{self.before} became {self.after}" if self.before else self.after
        return f"{self.where}: {change}" if self.where else change


class Miss(str):
    """The reason for a cache miss, with ``differences`` and ``advice``.

    ``known``: the number of cached signatures. ``earlier``: how many of them were compared.
    """

    differences: tuple[Difference, ...]
    advice: str
    earlier: int
    known: int

    def __new__(cls, differences: Sequence[Difference], advice: str, earlier: int, known: int = 0) -> Miss:
        shown = [str(each) for each in differences[:MOST_DIFFERENCES]]
        if len(differences) > MOST_DIFFERENCES:
            shown.append(f"and {len(differences) - MOST_DIFFERENCES} more")
        made = super().__new__(cls, "; ".join(shown))
        made.differences, made.advice, made.earlier = tuple(differences), advice, earlier
        made.known = max(known, earlier)
        return made


# kind of difference -> what to do about it; ``{where}`` is the argument. The suggested conversions lose no value.
ADVICE = {
    "first": "The first call traces and compiles; calls with arguments of the same types are cached after it.",
    "function": "Make the function once, outside of the loop or function that makes it again: every evaluation of "
    "a lambda, a def, a partial or a wrapper such as grad(f) is a new function, whose cache is empty.",
    "redefined": "A function that is defined again begins with an empty cache: define it once to keep its programs.",
    "options": "Each set of options (static_argnums, donate_argnums) has a cache of its own: use one jitted function.",
    "shape": "Pad {where} to one shape, or to few, and mask what is padded: each shape is traced and compiled for "
    "itself.",
    "rank": "Give {where} the same number of dimensions every time (x[None] adds one, vmap maps over one). Or keep "
    "both: each is compiled once, then cached.",
    "dtype": "Convert {where} to one dtype before every call, as in jnp.asarray({where}, jnp.{dtype}), which keeps "
    "every value.",
    "python number": "Write {where} as the same kind of Python number every time (1.0 for 1, where a float is meant): "
    "each of bool, int, float and complex is traced separately.",
    "other dtype": "Make {where} of one dtype from the start: no conversion between {before} and {after} keeps every "
    "value. Or keep both: each is compiled once, then cached.",
    "truth values": "Make {where} of one dtype from the start: a conversion between {before} and {after} changes what "
    "is computed (True + True is True, 1 + 1 is 2). Or keep both: each is compiled once, then cached.",
    "other data": "Keep both: {before} and {after} are different kinds of data, and no conversion turns one into the "
    "other. Each is compiled once, then cached.",
    "weak_type": "Pass jnp.{dtype}(...) for {where}, every time: a Python number is weakly typed, an array is not.",
    "sharding": "Shard {where} in one way before every call, as with sharding.reshard. Or keep both: each is "
    "compiled once, then cached.",
    "varying": "Let {where} vary along the same axes every time: lax.pcast can make it vary. Or keep both: each is "
    "compiled once, then cached.",
    "static": "Each value of a static argument is compiled separately: make {where} dynamic if no shape and no Python "
    "control flow depends on it, or call with few different values.",
    "static object": "Each value of a static argument is compiled separately: call with few values of {where}, and "
    "pass equal objects wherever you mean the same value.",
    "static function": "Make the function that is passed for {where} once, and pass it in every call: every evaluation "
    "of a lambda or partial is a new value, which is compiled separately.",
    "unequal static": "Give the class of {where} __eq__ and __hash__: two objects that print alike were not equal.",
    "tree": "Pass the same arguments, in the same containers, every time.",
    "settings": "Change the setting once, before the first call: the compiled program depends on it.",
    "axes": "Call the function under the same mapped axes every time, with equal names and sizes.",
    "evicted": "A cache holds a limited number of signatures: call with fewer, for example by padding to few shapes.",
    "cleared": "Do not call clear_cache() where time matters.",
    "retraced": "Change nothing: the call is cached, and was traced again only for the recording.",
    "closed over": "Pass it as an argument: a trace that contains a tracer of another transformation is valid only in "
    "that run of the transformation, and is not cached.",
}


# The weight of each kind of difference. A changed dtype weighs less than a changed shape; a changed tree weighs most.
_WEAK_TYPE = 1
_DTYPE = 4
_OTHER_KIND = 2
_MESH = 8  # types that differ only in their mesh
_SHAPE = 16
_STATIC = 64
_SETTINGS = 64
_RANK = 256
_TREE = 1 << 20


def nearest(new: CallSignature, known: Iterable[CallSignature]) -> CallSignature:
    """The signature in ``known`` whose differences from ``new`` weigh least. In a tie, the nearest sizes win."""
    return min(known, key=lambda old: _distance(new, old))


def _distance(new: CallSignature, old: CallSignature) -> tuple[int, int]:
    far = _SETTINGS * ((old.settings is not new.settings) + (old.axes != new.axes))
    if old.static != new.static:
        was, now = ({where: rest for where, *rest in each.static} for each in (old, new))
        far += _STATIC * sum([not was.get(where) == now.get(where) for where in {**was, **now}])
    if old.tree != new.tree:
        before, after = _leaves(old), _leaves(new)
        both = [(before[path], after[path]) for path in before.keys() & after.keys()]
        changes = [_type_distance(*pair) for pair in both if pair[0] is not pair[1]]
        return far + _TREE * max(1, len(before.keys() ^ after.keys())) + sum(changes), 0
    changed = [(was, now) for was, now in zip(old.avals, new.avals, strict=True) if was is not now]
    gap = sum([sum(map(abs, map(int.__sub__, was.shape, now.shape))) for was, now in changed if was.ndim == now.ndim])
    return far + sum([_type_distance(was, now) for was, now in changed]), gap


def _leaves(signature: CallSignature) -> dict[str, ShapedArray]:
    """Path of an argument's leaf -> its type."""
    tree = tree_unflatten(signature.tree, range(signature.tree.num_leaves))
    return {keystr(path): signature.avals[i] for path, i in tree_leaves_with_path(tree)}


def _type_distance(was: ShapedArray, now: ShapedArray) -> int:
    far = _WEAK_TYPE if was.weak_type != now.weak_type else 0
    if was.dtype != now.dtype:
        far += _DTYPE + (_OTHER_KIND if dtypes.kind(was.dtype) != dtypes.kind(now.dtype) else 0)
    if was.ndim != now.ndim:
        far += _RANK
    elif was.shape != now.shape:
        far += _SHAPE + sum(map(int.__ne__, was.shape, now.shape))
    return far or _MESH


def differences(
    fun: Any, with_static: Any, old: CallSignature, new: CallSignature, reprs: bool = True
) -> tuple[list[Difference], str]:
    """All differences from ``old`` to ``new``, and advice on the first. ``reprs``: show static values by their repr."""
    out: list[Difference] = []
    advice = ""
    if old.tree != new.tree:
        out += _tree_differences(with_static, old.tree, new.tree)
    elif old.avals != new.avals:
        names = leaf_names(with_static, new.tree)
        for name, was, now in zip(names, old.avals, new.avals, strict=True):
            if was is not now:
                out.append(Difference(_type_kind(was, now), name, *_type_texts(was, now)))
                advice = advice or type_advice(out[0].where, was, now)
    if old.static != new.static:
        out += _static_differences(fun, old.static, new.static, reprs)
    if old.settings is not new.settings:
        out += [Difference("settings", "", "", each) for each in new.settings.changes_from(old.settings)]
    if old.axes != new.axes:
        out.append(Difference("axes", "mapped axes", _axes_text(old.axes), _axes_text(new.axes)))
    if not out:
        out.append(Difference("first", "", "", "first call"))
    return out, advice or advice_about(out[0])


def advice_about(difference: Difference) -> str:
    """Advice on a difference that does not concern types."""
    return ADVICE[difference.kind].format(where=difference.where or "the arguments")


def type_text(aval: ShapedArray) -> str:
    """The text of a type: ``f32[3]``, or ``f32[3] (weak_type)``."""
    return aval.str_short() + (" (weak_type)" if aval.weak_type else "")


def _type_texts(was: ShapedArray, now: ShapedArray) -> list[str]:
    """The texts of two types. If the texts are equal, only the meshes differ, and the texts get the mesh axes."""
    texts = [type_text(was), type_text(now)]
    if texts[0] != texts[1]:
        return texts
    sizes = [", ".join(f"{name}={size}" for name, size in each.sharding.mesh.shape.items()) for each in (was, now)]
    return [f"{each} over {size}" for each, size in zip(texts, sizes, strict=True)]


def _type_kind(was: ShapedArray, now: ShapedArray) -> str:
    if was.ndim != now.ndim:
        return "rank"
    if was.shape != now.shape:
        return "shape"
    if was.dtype != now.dtype:
        return "dtype"
    return "weak_type" if was.weak_type != now.weak_type else "varying" if was.vma != now.vma else "sharding"


def type_advice(where: str, was: ShapedArray, now: ShapedArray) -> str:
    """Advice on giving an argument the same type in every call. A suggested conversion keeps every value."""
    names = {"where": where or "the arguments", "before": was.str_short(), "after": now.str_short(), "dtype": ""}
    kinds: list[str] = []
    if was.dtype != now.dtype:
        common = _common_dtype(was.dtype, now.dtype)
        if common is not None:
            kinds, names["dtype"] = ["dtype"], dtype_name(common)
        elif was.weak_type and now.weak_type and not was.ndim and not now.ndim:
            kinds = ["python number"]
        else:
            truth = dtypes.is_bool(was.dtype) or dtypes.is_bool(now.dtype)
            kind = "other data" if was.shape != now.shape else "truth values" if truth else "other dtype"
            return ADVICE[kind].format(**names)
    if was.ndim != now.ndim:
        kinds.append("rank")
    elif was.shape != now.shape:
        kinds.append("shape")
    if not kinds:
        kinds, names["dtype"] = [_type_kind(was, now)], dtype_name(now.dtype)
    return " ".join(ADVICE[kind].format(**names) for kind in kinds)


def _common_dtype(was: np.dtype, now: np.dtype) -> np.dtype | None:
    """The one of the two dtypes that holds every value of the other. None if neither does, or one is boolean."""
    if dtypes.is_bool(was) or dtypes.is_bool(now):
        return None
    try:
        if np.can_cast(was, now, "safe"):
            return now
        return was if np.can_cast(now, was, "safe") else None
    except TypeError:  # a dtype unknown to NumPy, such as a key's
        return None


def _axes_text(axes: tuple[tuple[Any, int], ...]) -> str:
    return ", ".join(f"{name!r} of size {size}" for name, size in axes) or "none"


def _tree_differences(fun: Any, old: Any, new: Any) -> list[Difference]:
    """List added, removed and changed parts of the argument tree, by parameter names."""
    out = []
    for each in tree_diff(old, new):
        where = _path_name(fun, new, each.path)
        if where and "types differ" in each.reason:
            out.append(Difference("tree", where, _kind_text(each.first), _kind_text(each.second)))
    seen = tuple(each.where for each in out)
    # a changed container is one difference: do not list the leaves in it
    inside = tuple(where + mark for where in seen for mark in "[.")
    was, now = leaf_names(fun, old), leaf_names(fun, new)
    for names, others, what in ((now, set(was), "it is new"), (was, set(now), "it is gone")):
        left = [n for n in names if n not in others and n not in seen and not n.startswith(inside)]
        out += [Difference("tree", n, "", what) for n in left]
    return out or [Difference("tree", "", "", "a container's static data changed, or an argument was given by keyword")]


def _kind_text(text: str) -> str:
    """Turn ``tree_diff``'s text for a subtree into words such as ``list of length 2``."""
    return text.replace("<class '", "").replace("'>", "").replace("a pytree leaf", "an array")


def _path_name(fun: Any, tree: Any, path: Sequence[Any]) -> str:
    """``path`` into ``(args, kwargs)`` as text: the parameter's name, then the rest. '' if ``path`` is too short."""
    if len(path) < 2:
        return ""
    args, kwargs = tree_unflatten(tree, range(tree.num_leaves))
    if path[0].idx:
        return str(path[1].key) + keystr(tuple(path[2:]))
    return _positional_name(fun, path[1].idx) + keystr(tuple(path[2:]))


def _positional_name(fun: Any, index: int) -> str:
    parameters = parameters_of(fun)
    return parameters[index].name if -len(parameters) <= index < len(parameters) else f"args[{index}]"


def _static_differences(fun: Any, old: Sequence[Any], new: Sequence[Any], reprs: bool) -> Iterator[Difference]:
    was = {where: (kind, value) for where, kind, value in old}
    now = {where: (kind, value) for where, kind, value in new}
    for where in dict.fromkeys([*was, *now]):
        if where in was and where in now and was[where] == now[where]:
            continue
        before, after = _static_text(was.get(where), reprs), _static_text(now.get(where), reprs)
        kind = _static_kind([pair[1] for pair in (was.get(where), now.get(where)) if pair is not None])
        if before == after and was[where][0] is now[where][0]:
            alike = reprs and kind == "static object"
            kind = "unequal static" if alike else kind
            after = f"another object that prints as {after}" if alike else f"another {after.removeprefix('a ')}"
        elif before == after:
            before, after = (f"{text} of type {d[where][0].__name__}" for text, d in ((before, was), (after, now)))
        name = where if isinstance(where, str) else _positional_name(fun, where)
        yield Difference(kind, name, before, after)


def _static_kind(values: Sequence[Any]) -> str:
    """The kind of difference for a static argument with these values: it decides which advice is given."""
    if all([isinstance(value, (bool, int, float, complex, np.generic)) for value in values]):
        return "static"
    if any([isinstance(value, (FunctionType, functools.partial)) for value in values]):
        return "static function"
    return "static object"


def _static_text(given: tuple[type, Any] | None, reprs: bool) -> str:
    """The text of a static argument; without ``reprs`` no method of a user class is called."""
    if given is None:
        return "not given"
    kind, value = given
    if isinstance(value, (FunctionType, functools.partial)):
        return describe(value)
    if not reprs and not _prints_itself(value):
        return f"a {kind.__name__}"
    try:
        text = repr(value)
    except Exception:
        text = f"a {kind.__name__}"
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def _prints_itself(value: Any) -> bool:
    """Whether the repr of ``value`` is Python's own, and fast."""
    if type(value) is tuple:
        return len(value) <= _LONGEST_VALUE and all(map(_prints_itself, value))
    return type(value) in (bool, int, float, complex, str, bytes, NoneType)
