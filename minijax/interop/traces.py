"""Cache the traces of a function that is written for one library and called by the other, one for each signature.

In: a function, and the leaves and tree of a call. Out: its trace, and the positions of its array arguments. A signature
has the types of arrays and the values of other leaves. A number is a constant of the program.
A float that keeps changing from call to call is traced, if the function works without its value; otherwise a loop over
learning rates would retrace every time. Integers and booleans stay constants: they are sizes, counts and flags that
Python code branches on.
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

# Beyond this many signatures of one function, all are dropped.
MAX_SIGNATURES = 1024
# After this many different numbers at one position, the number there is traced.
MAX_NUMBERS = 4

_NUMBERS = (bool, int, float, complex)

# trace(positions of the array leaves) -> the result to cache
Trace = Callable[[list[int]], Any]


class Static:
    """A signature's leaf that is no array. Equal leaves give equal objects; an unhashable leaf equals only itself."""

    __slots__ = ("key", "x")

    def __init__(self, x: Any) -> None:
        self.x = x
        if is_number(x):
            self.key: Any = _number_key(x)
            return
        try:
            hash(x)
            self.key = (type(x), x)
        except TypeError:  # mutable contents: a call with such a container never matches an earlier one
            self.key = object() if type(x) in (set, bytearray, np.ndarray) else id(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is Static and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


def is_number(x: Any) -> bool:
    """Whether a leaf is a Python or NumPy number."""
    return type(x) in _NUMBERS or isinstance(x, np.generic)


def _number_key(x: Any) -> Any:
    """A key that is equal for identical numbers: 0.0 differs from -0.0, and NaN equals itself."""
    if isinstance(x, (float, complex, np.inexact)):
        return type(x), repr(x)
    return type(x), x


class Traces:
    """The traces of one function."""

    __slots__ = ("found", "numbers", "traced_numbers", "__weakref__")

    def __init__(self) -> None:
        # signature -> the trace, and the positions of its array leaves
        self.found: dict[Any, tuple[Any, list[int]]] = {}
        # (tree, position, type) -> the numbers seen there; None if tracing failed there
        self.numbers: dict[Any, set[Any] | None] = {}
        # keys of ``numbers`` whose numbers are traced
        self.traced_numbers: set[Any] = set()

    def find(
        self, leaves: list[Any], tree: Any, kinds: list[Any], settings: Any, trace: Trace
    ) -> tuple[Any, list[int]]:
        """Find or make the trace of a call: its result, and the positions of its array leaves.

        ``kinds``: for each leaf the type of the array, or a ``Static``. ``settings``: whatever else tracing depends on.
        """
        if self.traced_numbers:
            for i, x in enumerate(leaves):
                if is_number(x) and (tree, i, type(x)) in self.traced_numbers:
                    kinds[i] = get_aval(x)
        key: Any = (settings, tree, *kinds)
        try:
            found = self.found.get(key)
        except (TypeError, ValueError):  # the tree holds an unhashable or incomparable object
            return self._trace(leaves, tree, kinds, trace)
        if found is None:
            found = self._trace(leaves, tree, kinds, trace)
            # tracing may have changed which numbers are traced
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
            # first trace all varying numbers, then each alone
            for wanted in [varying, *[[i] for i in varying if len(varying) > 1]]:
                positions = sorted({*arrays, *wanted})
                try:
                    found = trace(positions)
                except Exception:  # any error of the function for an array in place of a number
                    if len(wanted) == 1:
                        place = (tree, wanted[0], type(leaves[wanted[0]]))
                        self.numbers[place] = None
                        self.traced_numbers.discard(place)
                else:
                    self.traced_numbers.update((tree, i, type(leaves[i])) for i in wanted)
                    return found, positions
        return trace(arrays), arrays

    def _varying(self, leaves: list[Any], tree: Any) -> list[int]:
        """The positions of floats that had more than ``MAX_NUMBERS`` different values, this call included."""
        varying = []
        for i, x in enumerate(leaves):
            if is_number(x) and not isinstance(x, (int, np.integer, np.bool_)):
                met = self.numbers.setdefault((tree, i, type(x)), set())
                if met is not None:
                    met.add(_number_key(x))
                    if len(met) > MAX_NUMBERS:
                        varying.append(i)
        return varying


# id of a function with traces (it may be unhashable, but needs weak references); a bound method has its instance's id
_known: dict[int, tuple[weakref.ref[Any], dict[Any, Traces]]] = {}


def traces_of(fun: Any, use: str) -> Traces:
    """The traces of ``fun`` for one ``use``. They die with ``fun``; they are not kept if it has no weak references."""
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
    """Drop the entry; ``known`` is a parameter because module globals may be gone at interpreter exit."""
    found = known.get(key)
    if found is not None and found[0] is ref:
        del known[key]
