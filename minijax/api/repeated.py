"""The fast path for repeated calls of a jitted function.

``api.compile`` makes the first call of each kind and records the program here. If all arguments are positional arrays,
a later call finds the program in ``flat``, by the arrays' kinds; else in ``trees``, by the leaves' kinds and jaxlib's
tree structure. A kind is a type and a placement. On one device, calls with NumPy values go to jaxlib's dispatch
(``backend.fastcall``), which takes half the time.

Other calls take the ordinary path, which raises the errors. All calls take it while an interpreter on the stack
processes every operation, while observers are subscribed, and while ``default_device`` is set.
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

# Classes of non-array arguments that the fast path accepts over a mesh.
_ON_HOST = frozenset((np.ndarray, float, complex, *(dtype.type for dtype in map(np.dtype, "?bhilqBHILQefdFD"))))

# A ``Run`` returns this if it cannot make the call.
MISSED: Any = object()

# Beyond this many kinds of calls, all are dropped.
MAX_KINDS = 4096
# For leaves of the same kinds, the latest structures are remembered, at most this many.
MAX_STRUCTURES = 16

Run = Callable[[Sequence[Any]], Any]
_Execute = Callable[[list[Any]], list[Any]]


def places_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The device or sharding of each committed leaf; None for each uncommitted leaf."""
    return tuple([x.device if type(x) in HELD else None for x in leaves])


class Repeat:
    """A compiled program: ``run`` makes a call, ``value`` converts result buffers to the call's value."""

    __slots__ = ("program", "run", "value")

    def __init__(self, program: Any, out_tree: Any, places: Sequence[Any]) -> None:
        self.program: Compiled = program
        one_leaf = treedef_is_leaf(out_tree) and out_tree.num_leaves == 1
        arrays = getattr(program, "arrays", None)  # set for a program over a mesh
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


# These closures avoid attribute lookups, tests and calls, which dominate the time of a small call.


def _value(avals: Sequence[Any], arrays: Any, build: Callable[[Any], Any] | None) -> Callable[[Sequence[Any]], Any]:
    """Return a function from result buffers to a call's value. Without ``build`` the value is the single result."""

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
    """Return a function that calls a program with one argument."""

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [leaves[0]._buffer]
        except AttributeError:  # the value is on the host
            return MISSED
        return value(execute(buffers))

    return run


def _run(execute: _Execute, value: Callable[[Sequence[Any]], Any]) -> Run:
    """Return a function that calls a program with all leaves, unchanged."""

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [x._buffer for x in leaves]
        except AttributeError:  # a value is on the host
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
    """Return a function that calls a program with ``consts`` and the leaves at ``taken``.

    ``moved`` has the functions that move leaves to the program's devices, by position.
    """

    def run(leaves: Sequence[Any]) -> Any:
        try:
            buffers = [moved[i](leaves[i]) if i in moved else leaves[i]._buffer for i in taken]
        except AttributeError:
            return MISSED
        return value(execute([*consts, *buffers]))

    return run


def _donating(run: Run, donated: Sequence[int]) -> Run:
    """Like ``run``, for a program that reuses the memory of the leaves at ``donated``."""

    def run_and_forget(leaves: Sequence[Any]) -> Any:
        value = run(leaves)
        if value is not MISSED:
            for i in donated:
                leaves[i].forget_host_copy()
        return value

    return run_and_forget


def _builder(out_tree: Any) -> Callable[[Any], Any]:
    if out_tree == tree_structure((0,) * out_tree.num_leaves):
        return tuple
    if type(out_tree) is PyTreeDef:  # builtin containers only: jaxlib rebuilds them identically
        leaves = [object() for _ in range(out_tree.num_leaves)]
        found, structure = fastcall.flatten()(tree_unflatten(out_tree, leaves))
        if list(map(id, found)) == list(map(id, leaves)):
            return structure.unflatten
    return out_tree.unflatten


class Known:
    """The kinds of calls of a jitted function ``owner``, under one configuration and one set of static arguments."""

    __slots__ = ("flat", "flatten", "host_call", "name", "owner", "refused", "static", "trees", "x64", "__weakref__")

    def __init__(self, owner: Any, static: tuple[Any, ...], name: str, x64: bool) -> None:
        self.owner = weakref.ref(owner)
        self.static = static
        self.name = name
        self.x64 = x64
        self.flatten = fastcall.flatten()
        # the kinds of positional arguments, or the kind of the only argument -> program
        self.flat: dict[Any, Run] = {}
        # the kinds of the leaves -> their known structures, each with its program
        self.trees: dict[tuple[Any, ...], list[tuple[Any, Run]]] = {}
        # jaxlib's dispatch, for NumPy arguments on one device
        self.host_call: Callable[..., Any] | None = None
        # True: do not use jaxlib's dispatch, because there is none, or a program read its arguments after the call
        self.refused = False

    def tree_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a call whose leaves are arrays (over a mesh also NumPy values), or MISSED."""
        try:
            leaves, tree = self.flatten((args, kwargs))
            try:
                key = tuple([x.kind for x in leaves])
            except AttributeError:
                if not pjrt.others_in_use:
                    return MISSED
                key = tuple(map(_kind, leaves))
            # kinds first: jaxlib hashes a structure more slowly than it compares two
            for structure, remembered in self.trees[key]:
                if structure == tree:
                    run = remembered
                    break
            else:
                return MISSED
        except Exception:  # the ordinary path has the better message
            return MISSED
        return run(leaves)

    def learn(self, args: Any, kwargs: Any, leaves: Sequence[Any], repeat: Repeat) -> None:
        """Store ``repeat`` for calls like this one, with flat arguments ``leaves``."""
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
        """The function that jaxlib's dispatch calls for new kinds. It refers to ``self`` weakly, to avoid a cycle."""
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
    """An array's kind; for a NumPy value or a Python number its type."""
    return get_aval(x) if type(x) in _ON_HOST else x.kind


def _remember(table: dict[Any, Any], key: Any, found: Any) -> None:
    if len(table) >= MAX_KINDS:
        table.clear()
    table[key] = found


def _finisher(repeat: Repeat, known: weakref.ref[Known]) -> Callable[[Sequence[Any]], Any]:
    """A ``value`` that waits while the program may read NumPy arrays. After a wait, jaxlib's dispatch is given up."""
    value = repeat.value

    # one event marks all results of a program as ready
    def finish(outs: Sequence[Any]) -> Any:
        if not outs[0].is_ready():
            me = known()
            if me is not None:
                me.host_call, me.refused = None, True
            pjrt.block_until_ready(outs)
        return value(outs)

    return finish
