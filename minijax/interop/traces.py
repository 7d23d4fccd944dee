"""What was traced of a function that one library calls and the other wrote, by signature, as long as it lives.

In: a function, and the leaves and tree of a call. Out: what tracing it gave, and which leaves are its arrays. In a
signature arrays are by their types, other leaves as they are. A number is a constant of the program, as it is for a
function that is called eagerly; where numbers keep changing from call to call they are traced, if the function can do
without their values: else a loop over learning rates would never stop tracing. Integers and truth values stay
constants: they are sizes, counts and flags, by which Python chooses.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.core.array import get_aval
from minijax.core.avals import ShapedArray

# Beyond this many signatures of one function, all are forgotten.
MAX_SIGNATURES = 1024
# A position that has had more different numbers than this is traced.
MAX_NUMBERS = 4

_NUMBERS = (bool, int, float, complex)

# trace(positions of the leaves that are arrays) -> what is kept
Trace = Callable[[list[int]], Any]


class Static:
    """What a leaf that is no array is in a signature: the same for equal leaves, or for one object without a hash."""

    __slots__ = ("key", "x")

    def __init__(self, x: Any) -> None:
        self.x = x
        if is_number(x):
            self.key: Any = _number_key(x)
            return
        try:
            hash(x)
            self.key = (type(x), x)
        except TypeError:  # its contents may change: a call with such a container is not like an earlier one
            self.key = object() if type(x) in (set, bytearray, np.ndarray) else id(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


def is_number(x: Any) -> bool:
    """Whether a leaf is a number of Python's or NumPy's."""
    return type(x) in _NUMBERS or isinstance(x, np.generic)


def _number_key(x: Any) -> Any:
    """A number such that equal keys mean the same one: 0.0 is not -0.0, and NaN is itself."""
    if isinstance(x, (float, complex, np.inexact)):
        return type(x), repr(x)
    return type(x), x


class Traces:
    """What was traced of one function."""

    __slots__ = ("found", "numbers", "traced_numbers", "__weakref__")

    def __init__(self) -> None:
        # signature -> what was traced, and the positions of the leaves that it takes
        self.found: dict[Any, tuple[Any, list[int]]] = {}
        # (tree, position of a leaf, type) -> the numbers met there; None where one cannot be traced
        self.numbers: dict[Any, set[Any] | None] = {}
        # such places at which numbers are traced
        self.traced_numbers: set[Any] = set()

    def find(
        self, leaves: list[Any], tree: Any, kinds: list[Any], settings: Any, trace: Trace
    ) -> tuple[Any, list[int]]:
        """What ``trace`` gives for a call, and the leaves that are its arrays; traced if the signature is new.

        ``kinds`` has the type of each leaf that is an array, a ``Static`` of any other; ``settings`` is whatever else
        tracing depends on.
        """
        if self.traced_numbers:
            for i, x in enumerate(leaves):
                if is_number(x) and (tree, i, type(x)) in self.traced_numbers:
                    kinds[i] = get_aval(x)
        key: Any = (settings, tree, *kinds)
        try:
            found = self.found.get(key)
        except (TypeError, ValueError):  # the tree holds something without a hash, or that does not compare
            return self._trace(leaves, tree, kinds, trace)
        if found is None:
            found = self._trace(leaves, tree, kinds, trace)
            # which numbers are traced may be another choice by now
            for i, x in enumerate(leaves):
                if is_number(x):
                    kinds[i] = get_aval(x) if i in found[1] else Static(x)
            if len(self.found) >= MAX_SIGNATURES:
                self.found.clear()
            self.found[settings, tree, *kinds] = found
        return found

    def _trace(self, leaves: list[Any], tree: Any, kinds: list[Any], trace: Trace) -> tuple[Any, list[int]]:
        arrays = [i for i, kind in enumerate(kinds) if isinstance(kind, ShapedArray) and not is_number(leaves[i])]
        varying = self._varying(leaves, tree)
        if varying:
            # all of them, or else those that can be
            for wanted in [varying, *[[i] for i in varying if len(varying) > 1]]:
                positions = sorted({*arrays, *wanted})
                try:
                    found = trace(positions)
                except Exception:  # whatever the function says to an array where it had a number
                    if len(wanted) == 1:
                        place = (tree, wanted[0], type(leaves[wanted[0]]))
                        self.numbers[place] = None
                        self.traced_numbers.discard(place)
                else:
                    self.traced_numbers.update((tree, i, type(leaves[i])) for i in wanted)
                    return found, positions
        return trace(arrays), arrays

    def _varying(self, leaves: list[Any], tree: Any) -> list[int]:
        """The positions of numbers that have come to vary with this call, or had before."""
        varying = []
        for i, x in enumerate(leaves):
            if is_number(x) and not isinstance(x, (int, np.integer, np.bool_)):
                met = self.numbers.setdefault((tree, i, type(x)), set())
                if met is not None:
                    met.add(_number_key(x))
                    if len(met) > MAX_NUMBERS:
                        varying.append(i)
        return varying


# The function that traces belong to, by its id: it need not have a hash, but must be able to be referred to weakly. A
# bound method is found by its instance, since each look-up of ``x.method`` is another object.
_known: dict[int, tuple[weakref.ref[Any], dict[Any, Traces]]] = {}


def traces_of(fun: Any, use: str) -> Traces:
    """What is known of ``fun`` for a ``use`` of it; forgotten when that dies, new if nobody can know when that is."""
    owner, part = (fun.__self__, fun.__func__) if type(fun) is types.MethodType else (fun, None)
    found = _known.get(id(owner))
    if found is None:
        try:
            ref = weakref.ref(owner, functools.partial(_forget, _known, id(owner)))
        except TypeError:
            return Traces()
        found = _known.setdefault(id(owner), (ref, {}))
    return found[1].setdefault((use, part), Traces())


def _forget(known: dict[int, tuple[weakref.ref[Any], Any]], key: int, ref: weakref.ref[Any]) -> None:
    """``known`` is handed over: a function may die when Python has ended and this module's names are gone."""
    found = known.get(key)
    if found is not None and found[0] is ref:
        del known[key]
