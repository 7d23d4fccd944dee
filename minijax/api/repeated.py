"""Repeated calls of a jitted function.

``api.compile`` makes the first call of each kind and records the program here. A later call finds it in ``flat``, by
the arrays' kinds, if all arguments are arrays given by position, else in ``trees``, by the leaves' kinds and the
structure that jaxlib finds. A kind is a type and a placement. On one device, NumPy values go to jaxlib's dispatch
(``backend.fastcall``), in half the time.

Other calls are made the ordinary way, which raises the errors: also while an interpreter that processes every operation
is on the stack, while observers are subscribed, and while ``default_device`` is set.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.backend import fastcall, pjrt
from minijax.core.array import HELD, Array, get_aval
from minijax.ops.call import Compiled
from minijax.pytree import PyTreeDef, tree_structure, tree_unflatten, treedef_is_leaf

_new = object.__new__

# Classes of arguments, beside arrays, that a call over a mesh may be repeated with.
_ON_HOST = frozenset((np.ndarray, float, complex, *(dtype.type for dtype in map(np.dtype, "?bhilqBHILQefdFD"))))

# What a ``Run`` returns if it cannot make the call.
MISSED: Any = object()

# Beyond this many kinds of calls, all are forgotten.
MAX_KINDS = 4096
# Of structures with leaves of the same kinds, the latest are remembered.
MAX_STRUCTURES = 16

# Make a call with these leaves: its value, or MISSED.
Run = Callable[[Sequence[Any]], Any]
_Execute = Callable[[list[Any]], list[Any]]


def places_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Where those of ``leaves`` lie that are held there; None for the others."""
    return tuple([x.device if type(x) in HELD else None for x in leaves])


class Repeat:
    """A compiled program: ``run`` makes a call, ``value`` makes the call's value of result buffers."""

    __slots__ = ("program", "run", "value")

    def __init__(self, program: Any, out_tree: Any, places: Sequence[Any]) -> None:
        self.program: Compiled = program
        one_leaf = treedef_is_leaf(out_tree) and out_tree.num_leaves == 1
        arrays = getattr(program, "arrays", None)  # of a program over a mesh
        self.value = _value(program.out_avals, arrays, None if one_leaf else _builder(out_tree))
        taken = range(len(places)) if program.kept is None else program.kept
        moved = {i: program.mover(k) for k, i in enumerate(taken) if places[i] is None} if arrays is not None else {}
        execute, consts = program.executable.execute, program.const_buffers
        if moved or consts or program.kept is not None:
            self.run = _run_on_some(execute, self.value, taken, consts, moved)
        elif len(taken) == 1:
            self.run = _run_on_one(execute, self.value)
        else:
            self.run = _run(execute, self.value)
        if program.donated:
            self.run = _donating(self.run, [taken[i] for i in program.donated])


# These functions hold what they need in closures. A small call spends its time on attribute look-ups, tests and calls.


def _value(avals: Sequence[Any], arrays: Any, build: Callable[[Any], Any] | None) -> Callable[[Sequence[Any]], Any]:
    """The function from result buffers to a call's value; without ``build`` the value is the only result."""

    def one_array(buffers: Sequence[Any]) -> Any:
        (buffer,) = buffers
        out: Array = _new(Array)
        out._buffer = buffer
        out.aval = aval
        return out

    def one_over_mesh(buffers: Sequence[Any]) -> Any:
        return arrays(buffers)[0]

    def tree(buffers: Sequence[Any]) -> Any:
        outs = []
        for buffer, aval in zip(buffers, avals, strict=True):
            out: Array = _new(Array)
            out._buffer = buffer
            out.aval = aval
            outs.append(out)
        return build(outs)  # type: ignore[misc]

    def tree_over_mesh(buffers: Sequence[Any]) -> Any:
        return build(arrays(buffers))  # type: ignore[misc]

    if build is None:
        aval = avals[0]
        return one_array if arrays is None else one_over_mesh
    return tree if arrays is None else tree_over_mesh


def _run_on_one(execute: _Execute, value: Callable[[Sequence[Any]], Any]) -> Run:
    """A call of a program with one argument."""

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [leaves[0]._buffer]
        except AttributeError:  # it is on the host
            return MISSED
        return value(execute(buffers))

    return run


def _run(execute: _Execute, value: Callable[[Sequence[Any]], Any]) -> Run:
    """A call of a program that takes all leaves as they are."""

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [x._buffer for x in leaves]
        except AttributeError:  # one is on the host
            return MISSED
        return value(execute(buffers))

    return run


def _run_on_some(
    execute: _Execute,
    value: Callable[[Sequence[Any]], Any],
    taken: Sequence[int],
    consts: list[Any],
    moved: dict[int, Callable[[Any], Any]],
) -> Run:
    """A call of a program that takes ``consts`` and the leaves at ``taken``; ``moved`` brings some to its devices."""

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [moved[i](leaves[i]) if i in moved else leaves[i]._buffer for i in taken]
        except AttributeError:
            return MISSED
        return value(execute([*consts, *buffers]))

    return run


def _donating(run: Run, donated: Sequence[int]) -> Run:
    """``run`` of a program that uses the memory of the leaves at ``donated``."""

    def run_and_forget(leaves: Sequence[Any]) -> Any:
        value = run(leaves)
        if value is not MISSED:
            for i in donated:
                leaves[i].forget_host_copy()
        return value

    return run_and_forget


def _builder(out_tree: Any) -> Callable[[Any], Any]:
    """The function from leaves to a tree of structure ``out_tree``."""
    if out_tree == tree_structure((0,) * out_tree.num_leaves):
        return tuple
    if type(out_tree) is PyTreeDef:  # of builtin containers only, which jaxlib puts together as we do
        leaves = [object() for _ in range(out_tree.num_leaves)]
        found, structure = fastcall.flatten()(tree_unflatten(out_tree, leaves))
        if list(map(id, found)) == list(map(id, leaves)):
            return structure.unflatten
    return out_tree.unflatten


class Known:
    """The kinds of calls of a jitted function ``owner``, under one configuration and with the same static arguments.

    Its ``call(args, kwargs, static)`` returns the value, flat arguments, types, and the ``Repeat`` or None.
    """

    __slots__ = ("flat", "flatten", "host_call", "name", "owner", "refused", "static", "trees", "x64", "__weakref__")

    def __init__(self, owner: Any, static: tuple[Any, ...], name: str, x64: bool) -> None:
        self.owner = weakref.ref(owner)
        self.static = static
        self.name = name
        self.x64 = x64
        self.flatten = fastcall.flatten()
        # the kinds of positional arguments, or the kind of the only one -> program
        self.flat: dict[Any, Run] = {}
        # the kinds of the leaves -> the structures that have been met of them, each with its program
        self.trees: dict[tuple[Any, ...], list[tuple[Any, Run]]] = {}
        # jaxlib's dispatch, for NumPy arguments on one device
        self.host_call: Callable[..., Any] | None = None
        # whether jaxlib's dispatch must not be used: there is none, or a program read its arguments after the call
        self.refused = False

    def tree_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a call whose leaves are arrays, and over a mesh also NumPy values; or MISSED."""
        try:
            leaves, tree = self.flatten((args, kwargs))
            try:
                key = tuple([x.kind for x in leaves])
            except AttributeError:
                if not pjrt.others_in_use:
                    return MISSED
                key = tuple(map(_kind, leaves))
            # kinds first: jaxlib takes longer for the hash of a structure than to compare two
            for structure, remembered in self.trees[key]:
                if structure == tree:
                    run = remembered
                    break
            else:
                return MISSED
        except Exception:  # the ordinary way has the better message
            return MISSED
        return run(leaves)

    def learn(self, args: Any, kwargs: Any, leaves: Sequence[Any], repeat: Repeat) -> None:
        """Remember ``repeat`` for calls like this one, of flat arguments ``leaves``."""
        program = repeat.program
        if not all([isinstance(x, Array) for x in leaves]):
            if program.donated:
                return
            if not hasattr(program, "arrays"):
                if self.host_call is None and not self.refused and not pjrt.others_in_use:
                    self.host_call = fastcall.host_call(self.name, self._misses())
                    self.refused = self.host_call is None
                return
            if not all([isinstance(x, Array) or type(x) in _ON_HOST for x in leaves]):
                return
        key = tuple(map(_kind, leaves))
        if len(args) == len(leaves) and not kwargs and all([isinstance(x, Array) for x in args]):
            _remember(self.flat, key[0] if len(args) == 1 else key, repeat.run)
        else:
            found, tree = self.flatten((args, kwargs))
            if len(found) == len(leaves) and all(map(operator.is_, found, leaves)):
                others = [each for each in self.trees.get(key, ()) if each[0] != tree]
                _remember(self.trees, key, [(tree, repeat.run), *others[: MAX_STRUCTURES - 1]])

    def _misses(self) -> Callable[..., tuple[Any, fastcall.FastPath | None, bool]]:
        """What jaxlib's dispatch asks; it must not keep us alive, since we keep the dispatch."""
        known = weakref.ref(self)

        def miss(*args: Any, **kwargs: Any) -> tuple[Any, fastcall.FastPath | None, bool]:
            me: Any = known()
            agrees = fastcall.x64_agrees(me.x64)
            value, leaves, avals, repeat = me.owner().call(args, kwargs, me.static)
            if repeat is None or repeat.program.donated or pjrt.others_in_use:
                return value, None, False
            program, finish = repeat.program, _finisher(repeat, known)
            path = fastcall.fast_path(program.executable, program.const_buffers, leaves, avals, agrees, finish)
            return value, path, False

        return miss


def _kind(x: Any) -> Any:
    """The kind of an array; of a NumPy value or a Python number its type."""
    return get_aval(x) if type(x) in _ON_HOST else x.kind


def _remember(table: dict[Any, Any], key: Any, found: Any) -> None:
    if len(table) >= MAX_KINDS:
        table.clear()
    table[key] = found


def _finisher(repeat: Repeat, known: weakref.ref[Known]) -> Callable[[Sequence[Any]], Any]:
    """What makes a call's value of result buffers, when the program may still be reading the user's NumPy arrays.

    Small programs have ended by then. If one still runs, wait, and call the function the ordinary way, which copies,
    from then on.
    """
    value = repeat.value

    # One event marks all results of a program as ready.
    def finish(outs: Sequence[Any]) -> Any:
        if not outs[0].is_ready():
            me = known()
            if me is not None:
                me.host_call, me.refused = None, True
            pjrt.block_until_ready(outs)
        return value(outs)

    return finish
