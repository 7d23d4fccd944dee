"""What a jitted function does when it is called again with arguments of types it has been called with.

The first call of each kind is made the ordinary way, by ``api.compile``: it stages, compiles, and has the program
remembered here. Another call of this kind then finds the program with as little work as can be:

- for arguments that are all arrays on the device, by their types alone (``JitFunction.__call__`` does this itself);
- for trees of such arrays, taken apart by jaxlib;
- for trees of arrays over a mesh, taken apart by a function that is written for their structure (``taken_apart``);
- anything with NumPy values in it is left to jaxlib's dispatch altogether, which takes them in half the time.

A call that none of these can make is made the ordinary way, which also raises the errors. All are for calls under
ordinary circumstances, where a call is nothing but running its program: no interpreter that has a say in it is on the
stack, nobody observes, and all arrays are on one device.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.api.taken_apart import Taker, taker
from minijax.backend import fastcall, pjrt
from minijax.config import preferred_device
from minijax.core.array import HELD, Array, Kind, get_aval, kind_of
from minijax.ops.call import Compiled
from minijax.pytree import PyTreeDef, tree_structure, tree_unflatten, treedef_is_leaf

_new = object.__new__

# Classes of arguments that a call over a mesh may be repeated with, beside arrays.
_ON_HOST = frozenset((np.ndarray, float, complex, *(dtype.type for dtype in map(np.dtype, "?bhilqBHILQefdFD"))))

# What ``Known.tree_call`` returns if it cannot make a call.
MISSED: Any = object()

# Beyond this many kinds of calls, all are forgotten.
MAX_KINDS = 4096
# Of structures with leaves of the same types, the latest are remembered.
MAX_STRUCTURES = 16
# For so many structures a function is written that takes them apart; the others are left to jaxlib.
MAX_WRITTEN = 4


def places_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Where those of ``leaves`` lie that are held there; None for the others."""
    return tuple([x.device if type(x) in HELD else None for x in leaves])


# A call of a program over a mesh: of its leaves the value.
_PlacedRun = Callable[[Sequence[Any]], Any]


def _placed(program: Any, out_tree: Any, places: tuple[Any, ...]) -> _PlacedRun:
    """What calls ``program`` on leaves that lie at ``places`` and makes a tree of its results."""
    taken = range(len(places)) if program.kept is None else program.kept
    moved = {i: program.mover(k) for k, i in enumerate(taken) if places[i] is None}
    build = None if treedef_is_leaf(out_tree) and out_tree.num_leaves == 1 else _builder(out_tree)
    run = _placed_run(program, build, taken if program.kept is not None else None, moved)
    return _giving_away(run, [taken[i] for i in program.donated]) if program.donated else run


def _placed_run(
    program: Any,
    build: Callable[[Any], Any] | None,
    taken: Sequence[int] | None,
    moved: dict[int, Callable[[Any], Any]],
) -> _PlacedRun:
    """``moved`` are the leaves that lie elsewhere, each with what brings it where it is to lie.

    Without ``build`` the value is the one result.
    """
    execute, arrays, consts = program.executable.execute, program.arrays, program.const_buffers

    def run_on_some(leaves: Sequence[Any]) -> Any:
        places = range(len(leaves)) if taken is None else taken
        buffers = [moved[i](leaves[i]) if i in moved else leaves[i]._buffer for i in places]
        outs = arrays(execute([*consts, *buffers]))
        return outs[0] if build is None else build(outs)

    def run(leaves: Sequence[Any]) -> Any:
        return build(arrays(execute([x._buffer for x in leaves])))  # type: ignore[misc]

    def run_one_to_one(leaves: Sequence[Any]) -> Any:
        return arrays(execute([leaves[0]._buffer]))[0]

    def run_to_one(leaves: Sequence[Any]) -> Any:
        return arrays(execute([x._buffer for x in leaves]))[0]

    if moved or taken is not None or consts:
        return run_on_some
    if build is None:
        return run_one_to_one if len(program.ins) == 1 else run_to_one
    return run


def _not_placed(repeat: Repeat) -> _PlacedRun:
    """What runs a program that is for the default device, on arrays that may be anywhere; it may return MISSED."""

    def run(leaves: Sequence[Any]) -> Any:
        if preferred_device() is not None:
            return MISSED
        try:
            buffers = [x._buffer for x in leaves]
        except AttributeError:  # one is on the host
            return MISSED
        return repeat.run(buffers, leaves)

    return run


def _giving_away(run: _PlacedRun, donated: Sequence[int]) -> _PlacedRun:
    """``run`` of a program that makes use of the memory of these leaves."""

    def run_and_forget(leaves: Sequence[Any]) -> Any:
        value = run(leaves)
        for i in donated:
            leaves[i].forget_host_copy()
        return value

    return run_and_forget


class Repeat:
    """A program of a jitted function and what makes a call's value of its results.

    ``run(buffers, leaves)`` gives the value of a call with arguments ``leaves``, which are in the list ``buffers``.
    """

    __slots__ = ("aval", "avals", "build", "consts", "donated", "program", "run")

    def __init__(self, program: Compiled, out_tree: Any, one_leaf: bool) -> None:
        self.program = program
        self.consts = program.const_buffers
        self.donated = program.donated
        self.avals = program.out_avals
        # the type of the result, if it is a single array
        self.aval = self.avals[0] if one_leaf else None
        self.build = _builder(out_tree)
        execute = program.executable.execute
        if self.consts or program.kept is not None:
            execute = _taking(execute, self.consts, program.kept)
        self.run = _one_array(execute, self.aval) if one_leaf else _tree(execute, self.avals, self.build)
        if self.donated:
            self.run = _donating(self.run, self.donated, program.kept)


# Functions that have at hand what they need, one inside the other where a program needs more: what a small call costs
# beside its program are attributes to look up, questions to ask and calls to make.

_Execute = Callable[[list[Any]], list[Any]]
_Run = Callable[[list[Any], Sequence[Any]], Any]


def _one_array(execute: _Execute, aval: Any) -> _Run:
    """``Repeat.run`` for a single array. What it does is ``device_array``, without another call."""

    def run(buffers: list[Any], leaves: Sequence[Any]) -> Any:
        (buffer,) = execute(buffers)
        out: Array = _new(Array)
        out._buffer = buffer
        out.aval = aval
        return out

    return run


def _tree(execute: _Execute, avals: Sequence[Any], build: Callable[[Any], Any]) -> _Run:
    """``Repeat.run`` for a tree of arrays."""

    def run(buffers: list[Any], leaves: Sequence[Any]) -> Any:
        return build(_arrays(execute(buffers), avals))

    return run


def _arrays(buffers: Sequence[Any], avals: Sequence[Any]) -> list[Array]:
    """``device_array`` of each, which takes a fifth longer called for each."""
    outs = []
    for buffer, aval in zip(buffers, avals, strict=True):
        out: Array = _new(Array)
        out._buffer = buffer
        out.aval = aval
        outs.append(out)
    return outs


def _taking(execute: _Execute, consts: list[Any], kept: Sequence[int] | None) -> _Execute:
    """``execute`` of a program that takes constants first, and of the arguments those at the positions ``kept``."""

    def execute_on_taken(buffers: list[Any]) -> list[Any]:
        return execute([*consts, *(buffers if kept is None else [buffers[i] for i in kept])])

    return execute_on_taken


def _donating(run: _Run, donated: Sequence[int], kept: Sequence[int] | None) -> _Run:
    """``run`` of a program that makes use of the memory of arguments: which of those it takes."""
    places = donated if kept is None else [kept[i] for i in donated]

    def run_and_forget(buffers: list[Any], leaves: Sequence[Any]) -> Any:
        value = run(buffers, leaves)
        for i in places:
            leaves[i].forget_host_copy()
        return value

    return run_and_forget


def _builder(out_tree: Any) -> Callable[[Any], Any]:
    """What makes a tree of structure ``out_tree`` of an iterable of leaves."""
    if out_tree == tree_structure((0,) * out_tree.num_leaves):
        return tuple
    if type(out_tree) is PyTreeDef:  # of builtin containers only, which jaxlib puts together as we do
        leaves = [object() for _ in range(out_tree.num_leaves)]
        found, structure = fastcall.flatten()(tree_unflatten(out_tree, leaves))
        if list(map(id, found)) == list(map(id, leaves)):
            return structure.unflatten
    return out_tree.unflatten


class Known:
    """The kinds of calls a jitted function has been called with, under one configuration and with the same static
    arguments.

    ``owner`` is the function, whose ``call(args, kwargs, static)`` is the ordinary way: it returns the value, the flat
    dynamic arguments, their types, and the ``Repeat`` or None if the program cannot be repeated here.
    """

    __slots__ = (
        "arrays",
        "flatten",
        "host_call",
        "meshes",
        "refused",
        "name",
        "owner",
        "placed_trees",
        "static",
        "trees",
        "written",
        "x64",
        "__weakref__",
    )

    def __init__(self, owner: Any, static: tuple[Any, ...], name: str, x64: bool) -> None:
        self.owner = weakref.ref(owner)
        self.static = static
        self.name = name
        self.x64 = x64
        self.flatten = fastcall.flatten()
        # types of positional arguments, or the type of the only one -> program
        self.arrays: dict[Any, Repeat] = {}
        # types of the leaves -> the structures that have been met of them, each with its program
        self.trees: dict[tuple[Any, ...], list[tuple[Any, Repeat]]] = {}
        # the same two, once arrays are held at several devices: by the kinds of positional arguments that all lie over
        # a mesh, or the kind of the only one; by the kinds of the leaves, wherever they lie
        self.meshes: dict[Any, _PlacedRun] = {}
        self.placed_trees: dict[tuple[object, ...], list[tuple[Any, _PlacedRun]]] = {}
        # the latest structures of which all leaves lie over a mesh, each with its function and, by the kinds of the
        # leaves, its programs
        self.written: list[tuple[Any, Taker, dict[tuple[Kind, ...], _PlacedRun]]] = []
        # jaxlib's dispatch, for NumPy arguments
        self.host_call: Callable[..., Any] | None = None
        # whether that is not to be used: no such thing, or a program was seen to read its arguments after the call
        self.refused = False

    def tree_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a call whose leaves are all arrays on the device, or MISSED."""
        try:
            leaves, tree = self.flatten((args, kwargs))
            buffers = [x._buffer for x in leaves]
            # types first: jaxlib takes longer for the hash of a structure than for telling that two are equal
            for structure, program in self.trees[tuple([x.aval for x in leaves])]:
                if structure == tree:
                    repeat = program
                    break
            else:
                return MISSED
        except Exception:  # of whatever kind, the ordinary way says it better
            return MISSED
        return repeat.run(buffers, leaves)

    def placed_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a call whose leaves are arrays, some of which are held where they lie; or MISSED."""
        for _, take, runs in self.written:
            taken = take(args, kwargs)
            if taken is not None:
                written = runs.get(taken[1])
                if written is not None:
                    return written(taken[0])
                break
        try:
            leaves, tree = self.flatten((args, kwargs))
            # what is on the host is asked for first: an exception would take a tenth of a small call
            key = tuple([_kind(x) if type(x) in _ON_HOST else x.kind or _kind(x) for x in leaves])
            for structure, remembered in self.placed_trees[key]:
                if structure == tree:
                    run = remembered
                    break
            else:
                return MISSED
        except Exception:  # of whatever kind, the ordinary way says it better
            return MISSED
        return run(leaves)

    def learn_placed(
        self, args: Any, kwargs: Any, leaves: Sequence[Any], places: tuple[Any, ...], program: Any, out_tree: Any
    ) -> None:
        """Remember ``program`` for calls like this one, of leaves that are held at ``places``."""
        found, tree = self.flatten((args, kwargs))
        if not all([isinstance(x, Array) or type(x) in _ON_HOST for x in leaves]):
            return
        if not all(map(operator.is_, found, leaves)):
            return
        if program.donated and not all([isinstance(x, Array) for x in leaves]):
            return
        if hasattr(program, "arrays"):
            run = _placed(program, out_tree, places)
        elif any(places) or not all([type(x) is Array for x in leaves]):
            return
        else:
            run = _not_placed(Repeat(program, out_tree, treedef_is_leaf(out_tree) and out_tree.num_leaves == 1))
        key = tuple([*map(_kind, leaves)])
        flat = len(args) == len(leaves) and not kwargs and all(map(operator.is_, args, leaves))
        if leaves and all([getattr(x, "kind", None) for x in leaves]):
            if flat:
                _remember(self.meshes, key[0] if len(args) == 1 else key, run)
            else:
                self._learn_written(args, kwargs, tree, key, run)
        others = [each for each in self.placed_trees.get(key, ()) if each[0] != tree]
        _remember(self.placed_trees, key, [(tree, run), *others[: MAX_STRUCTURES - 1]])

    def _learn_written(self, args: Any, kwargs: Any, tree: Any, key: tuple[Kind, ...], run: _PlacedRun) -> None:
        """Remember ``run`` for calls of this structure, taken apart by a function that is written for it."""
        runs = next((runs for structure, _, runs in self.written if structure == tree), None)
        if runs is None:
            take = taker(args, kwargs)
            if take is None:
                return
            runs = {}
            self.written = [(tree, take, runs), *self.written[: MAX_WRITTEN - 1]]
        _remember(runs, key, run)

    def learn(self, args: Any, kwargs: Any, leaves: Sequence[Any], avals: Any, repeat: Repeat) -> None:
        """Remember ``repeat`` for calls like this one, of flat arguments ``leaves`` of types ``avals``."""
        if not all([isinstance(x, Array) for x in leaves]):
            if self.host_call is None and not self.refused and not repeat.donated:
                self.host_call = fastcall.host_call(self.name, self._misses())
                self.refused = self.host_call is None
        elif not kwargs and len(args) == len(leaves) and all(map(operator.is_, args, leaves)):
            _remember(self.arrays, avals[0] if len(avals) == 1 else tuple(avals), repeat)
        else:
            found, tree = self.flatten((args, kwargs))
            if len(found) == len(leaves) and all(map(operator.is_, found, leaves)):
                others = [each for each in self.trees.get(tuple(avals), ()) if each[0] != tree]
                _remember(self.trees, tuple(avals), [(tree, repeat), *others[: MAX_STRUCTURES - 1]])

    def _misses(self) -> Callable[..., tuple[Any, fastcall.FastPath | None, bool]]:
        """What jaxlib's dispatch asks; it must not keep us alive, since we keep the dispatch."""
        known = weakref.ref(self)

        def miss(*args: Any, **kwargs: Any) -> tuple[Any, fastcall.FastPath | None, bool]:
            me: Any = known()
            agrees = fastcall.x64_agrees(me.x64)
            value, leaves, avals, repeat = me.owner().call(args, kwargs, me.static)
            if repeat is None or repeat.donated:
                return value, None, False
            finish, program = _finisher(repeat, known), repeat.program.executable
            return value, fastcall.fast_path(program, repeat.consts, leaves, avals, agrees, finish), False

        return miss


def _kind(x: Any) -> Kind:
    """One object for all arrays of the type of ``x`` that lie where it does; AttributeError for what is none.

    Values that are not JAX's arrays lie nowhere yet, as arrays do that nobody put anywhere.
    """
    if type(x) in _ON_HOST:
        return kind_of(get_aval(x), None)
    return x.kind or kind_of(x.aval, x.device if type(x) in HELD else None)


def _remember(table: dict[Any, Any], key: Any, found: Any) -> None:
    if len(table) >= MAX_KINDS:
        table.clear()
    table[key] = found


def _finisher(repeat: Repeat, known: weakref.ref[Known]) -> Callable[[Sequence[Any]], Any]:
    """What makes a call's value of result buffers, when the program may be reading the user's NumPy arrays still.

    The user may write to them once the call returns. Small programs have ended by then, and nothing more is needed:
    that is looked at first, since copying ten small arguments costs a seventh of the call. When a program is seen
    to run on, it is waited for, and from then on the function is called the ordinary way, which copies.
    """
    aval: Any = repeat.aval
    avals, build = repeat.avals, repeat.build

    def wait(outs: Sequence[Any]) -> None:
        me = known()
        if me is not None:
            me.host_call, me.refused = None, True
        pjrt.block_until_ready(outs)

    # One event marks all results of a program as ready.
    def finish(outs: Sequence[Any]) -> Any:
        if not outs[0].is_ready():
            wait(outs)
        return build(_arrays(outs, avals))

    def finish_one(outs: Sequence[Any]) -> Any:
        (buffer,) = outs
        if not buffer.is_ready():
            wait(outs)
        out: Array = _new(Array)
        out._buffer = buffer
        out.aval = aval
        return out

    return finish if aval is None else finish_one
