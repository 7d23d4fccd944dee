"""Finds random keys that a program uses more than once, by running the program equation by equation.

Two keys with equal words are the same key. A primitive that makes bits from a key uses the key. ``split`` uses its key
too, but ``fold_in`` does not. A call of a function of ``minijax.random`` is one use. It does not matter whether a key
reaches two uses by a name, an index, an equal seed or a loop. ``random.clone`` allows one more use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from minijax import errors, random
from minijax.api.flat import FlatFun, avals_of, check_args, describe
from minijax.core import observe
from minijax.core.array import as_array, get_aval
from minijax.core.keys import THREEFRY, WORD, is_key
from minijax.core.records import Frozen
from minijax.interpreters.stage import stage
from minijax.ir.jaxpr import JaxprEqn, Literal
from minijax.pytree import tree_flatten
from minijax.tools.explain.walk import EvaluationWatch, JaxprWalk, as_called

# The primitives that use their keys -> the names to show for these uses.
USING = {
    "random_bits": "bits",
    "random_split": "split",
    "random_gamma": "gamma",
    "threefry2x32": "threefry2x32",
}
# At most this many keys are tracked. Uses of other keys are only counted.
MOST_KEYS = 100_000


class Use(Frozen):
    """One use of a key.

    Attributes:
      what: the function of ``minijax.random`` that uses the key: 'normal', 'split'.
      source: the place of this use in the user's program, see ``errors.source_info``.
      inside: the loops, branches and calls around the use, outermost first: 'scan, iteration 7 of 100'.
    """

    what: str
    source: Any
    inside: tuple[str, ...]


class Origin(Frozen):
    """How a key was made. ``parent``: the words of the key that it was derived from, or None.

    ``how`` is 'split [1]', 'fold_in 3', 'key(0)', or the name of an argument.
    """

    parent: bytes | None
    how: str
    source: Any


class KeySearch(Frozen):
    """The result of a search.

    Attributes:
      uses: the words of each used key -> its uses, in order of the first use.
      origins: the words of each key -> its derivation.
      allowed: the words of a key -> the number of extra uses from ``random.clone``.
      hurried: whether loops and calls ran as a whole after many equations. Uses inside these were not seen.
      unseen: the number of uses of keys that are not in ``uses``, because ``MOST_KEYS`` keys were tracked already.
    """

    uses: Mapping[bytes, list[Use]]
    origins: Mapping[bytes, Origin]
    allowed: Mapping[bytes, int]
    hurried: bool
    unseen: int = 0

    @property
    def reused(self) -> list[bytes]:
        """The keys that were used more often than allowed."""
        return [words for words, uses in self.uses.items() if len(uses) > 1 + self.allowed.get(words, 0)]


@cache
def _library_calls() -> dict[str, str]:
    """The name of a ``jit`` equation -> the function of ``minijax.random`` that it calls."""
    named = {form.format(name): name for name in dir(random) for form in ("_{}", "_{}_real")}
    return {"_shuffle": "permutation", "choice": "choice", **named}


def _words(x: Any) -> list[bytes]:
    """The words of each key of an array of keys."""
    value = as_array(x)._value()
    return [each.tobytes() for each in np.asarray(value).reshape(-1)]


def _maybe_keys(x: Any) -> tuple[tuple[int, ...], list[bytes]] | None:
    """The shape of the array of keys, and the words of each key. None if ``x`` holds no keys, not even raw ones."""
    aval = get_aval(x)
    if is_key(aval.dtype):
        return aval.shape, _words(x)
    if aval.dtype != WORD or aval.shape[-1:] != THREEFRY.key_shape:
        return None
    value = np.ascontiguousarray(as_array(x)._value())
    return aval.shape[:-1], [each.tobytes() for each in value.reshape(-1, *THREEFRY.key_shape)]


class _KeyWalk(JaxprWalk):
    """Runs a program and records the uses of its keys."""

    # inspect one device: all devices run the same program, often with the same key, which is no reuse
    most_devices = 1

    def __init__(self) -> None:
        super().__init__()
        self.uses: dict[bytes, list[Use]] = {}
        self.origins: dict[bytes, Origin] = {}
        self.allowed: dict[bytes, int] = {}
        # keys of finished elements of a batched loop: the loop uses these keys, but discards the results
        self.ended: set[bytes] = set()
        self.unseen = 0

    def given(self, name: str, x: Any) -> None:
        """Record the keys in an argument or constant of the program. It may hold raw keys."""
        shape, words = _maybe_keys(x) or ((0,), [])
        for index, each in zip(np.ndindex(shape), words[:MOST_KEYS], strict=False):
            self.origins.setdefault(each, Origin(None, f"{name}{list(index) or ''}", None))

    def runner(self, eqn: JaxprEqn) -> Callable[..., list[Any]] | None:
        if eqn.primitive.name == "jit" and eqn.params["name"] in _library_calls():
            return None
        # run a recomputation by checkpoint as a whole: the uses were recorded in the first computation
        if eqn.primitive.name == "remat2" and eqn.params.get("differentiated"):
            return None
        return super().runner(eqn)

    def turn(self, goes: np.ndarray, carry: Sequence[Any]) -> None:
        self.ended = set()
        if not goes.ndim or goes.all():
            return
        for x in carry:
            shape, words = _maybe_keys(x) or ((), [])
            if words and shape[: goes.ndim] == goes.shape:
                over = np.broadcast_to(~goes.reshape(goes.shape + (1,) * (len(shape) - goes.ndim)), shape)
                self.ended.update(each for each, still in zip(words, over.ravel().tolist(), strict=True) if still)

    def look(self, eqn: JaxprEqn, env: dict[Any, Any], inside: tuple[str, ...], level: str) -> None:
        name = eqn.primitive.name
        calls = _library_calls()
        args = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
        if name == "jit" and eqn.params["name"] in calls:
            for x in args:
                self.used(x, Use(calls[eqn.params["name"]], self.source, inside))
        elif name in USING:
            self.used(args[0], Use(USING[name], self.source, inside))
        if name in ("random_seed", "random_split", "random_fold_in"):
            self.derived(name, args, env[eqn.outvars[0]], self.source)
        elif name == "random_clone":
            for words in (_maybe_keys(args[0]) or ((), []))[1]:
                self.allowed[words] = self.allowed.get(words, 0) + 1

    def used(self, keys: Any, use: Use) -> None:
        """Record a use of ``keys``, if they are keys."""
        if not is_key(get_aval(keys).dtype):
            return
        for words in _words(keys):
            if self.has_ended(words):
                continue
            if words in self.uses or len(self.uses) < MOST_KEYS:
                self.uses.setdefault(words, []).append(use)
            else:
                self.unseen += 1

    def has_ended(self, words: bytes | None) -> bool:
        """Whether the key belongs to a finished loop element, or derives from such a key."""
        while self.ended and words is not None:
            if words in self.ended:
                return True
            origin = self.origins.get(words)
            words = None if origin is None else origin.parent
        return False

    def derived(self, name: str, args: Sequence[Any], made: Any, source: Any) -> None:
        """Record that the keys ``made`` were derived from ``args``."""
        if len(self.origins) >= MOST_KEYS:
            return
        shape = get_aval(made).shape
        parents: list[bytes | None]
        if name == "random_seed":
            seeds = np.asarray(as_array(args[0])).ravel().tolist()
            parents, hows = [None] * len(seeds), [f"key({seed})" for seed in seeds]
        elif name == "random_split":
            own = get_aval(args[0]).shape
            each = [f"split {list(index)}" for index in np.ndindex(shape[len(own) :])]
            parents = [words for words in _words(args[0]) for _ in each]
            hows = each * max(1, int(np.prod(own)))
        else:
            keys = np.broadcast_to(as_array(args[0])._value(), shape)
            parents = [key.tobytes() for key in keys.reshape(-1)]
            hows = [f"fold_in {i}" for i in np.broadcast_to(np.asarray(as_array(args[1])), shape).ravel().tolist()]
        for words, parent, how in zip(_words(made), parents, hows, strict=False):
            known = self.origins.setdefault(words, Origin(parent, how, source))
            # one key may have two derivations: fold_in 1 makes the same key as element 1 of split
            if known.parent == parent and how not in known.how.split(" = "):
                self.origins[words] = Origin(parent, f"{known.how} = {how}", known.source)


def find_reused(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], names: Mapping[int, str] | None = None
) -> KeySearch:
    """Run ``fun(*args, **kwargs)`` and record each use of a random key.

    The arguments are pytrees of arrays and numbers. ``names``: id of a closed-over value -> its name. A function whose
    Python code depends on values runs without staging. Exceptions of the function propagate.
    """
    __tracebackhide__ = True
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    leaves = check_args(leaves, "keys", fun, in_tree)
    flat = FlatFun(as_called(fun, args, kwargs), in_tree, "keys", subject=describe(fun))
    walk = _KeyWalk()
    values = [as_array(x) for x in leaves]
    for name, x in zip(FlatFun(fun, in_tree, "keys").input_names(), values, strict=True):
        walk.given(name, x)
    try:
        closed = stage(flat, avals_of(leaves), describe(fun), label="keys")
    except errors.JAXTypeError:  # the function's Python code depends on values
        with observe.watching(EvaluationWatch(walk)):
            flat(*values)
    else:
        for x in closed.consts:
            walk.given((names or {}).get(id(x), "a constant"), x)
        walk.closed(closed, values, (), "forward")
    return KeySearch(walk.uses, walk.origins, walk.allowed, walk.hurried, walk.unseen)
