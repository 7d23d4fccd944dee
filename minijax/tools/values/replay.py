"""The values of a staged program, computed on demand from the call's own arguments: ``replay``.

A ``Frame`` is one evaluation of one jaxpr. It computes a value when one is requested, with only the equations that the
value depends on. Frames of inner programs, iterations and branches are created on demand too. Found values are kept
within a memory bound, and computed again after they are evicted.

Jaxprs are evaluated with the engine's rules. The user's Python does not run again, except to stage derivative rules if
``rules=True``. A value that depends on a callback is an ``Unknown`` with the reason. Refs are evaluated on copies
(``references``). Operations run on NumPy as outside of ``jit``, so the last digits may differ from XLA's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array, as_array
from minijax.core.trace import Tracer
from minijax.interpreters.vmap import AxisData
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.tools.values.examples import Levels, Stacked, Unknown, apart, of_example, why
from minijax.tools.values.feeds import COTANGENT, PRIMAL, TANGENT, Feed, given
from minijax.tools.values.keeping import Keeper
from minijax.tools.values.pure import REFERENCE, Purifier
from minijax.tools.values.references import equations, is_reference
from minijax.tools.values.steps import Steps

# Memory bound for the kept values of all frames of one replay, in bytes.
MOST_BYTES = 256_000_000

WIDE = ("float64", "int64", "uint64", "complex128")

Value = Any  # an Array or an Unknown


class Replay:
    """State shared by the frames of one replay."""

    def __init__(self, most_bytes: int, rules: bool, wide: bool) -> None:
        self.wide = wide
        self.keeper = Keeper(most_bytes)
        self.purifier = Purifier(rules)
        # ids of the threads that are evaluating
        self.within: set[int] = set()
        self.layouts: dict[Jaxpr, Any] = {}

    def layout(self, jaxpr: Jaxpr) -> tuple[Sequence[JaxprEqn], dict[Var, int], dict[Var, int]]:
        """The shared part of all frames of one jaxpr: its equations, each input's index, each result's equation."""
        found = self.layouts.get(jaxpr)
        if found is None:
            with self.at_work():
                eqns = equations(jaxpr)
            places = {v: i for i, v in enumerate(jaxpr.invars)}
            found = self.layouts[jaxpr] = eqns, places, {v: i for i, eqn in enumerate(eqns) for v in eqn.outvars}
        return found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Evaluate inside this block, without observers: see ``apart``. Blocks may nest."""
        thread = get_ident()
        if thread in self.within:
            yield
            return
        self.within.add(thread)
        try:
            with apart(self.wide):
                yield
        finally:
            self.within.discard(thread)


class Frame:
    """One evaluation of one jaxpr, for all examples of the vmaps around it, or for some of them.

    Attributes:
      jaxpr: the recorded program: its variables are the keys for values.
      path: the path to this frame, outermost first: ``("jit f", "scan, iteration 3 of 10")``.
      index: the number of the chosen example in each vmap; None if all of them are kept, as an axis in front.
      base: the frame for all examples, which computes the values.
    """

    def __init__(
        self, root: Replay, levels: Levels, jaxpr: Jaxpr, consts: Sequence[Any], feed: Feed, path: tuple[str, ...]
    ) -> None:
        self.root = root
        self.levels = levels
        self.jaxpr = jaxpr
        self.path = path
        self.feed = feed
        self.consts = dict(zip(jaxpr.constvars, consts, strict=True))
        # the equations to evaluate, without refs; input -> its index; result -> the index of its equation
        self.eqns, self.place_of, self.made_by = root.layout(jaxpr)
        self.steps = Steps(self)
        # the variables with a cotangent, known after the backward pass
        self.reached: set[Var] | None = None
        self.index: tuple[int | None, ...] = (None,) * len(levels.axes)
        self.base = self

    # ------------------------------------------------------------------------------------------ public methods

    def value(self, var: Any) -> Value:
        """The value of a variable or literal: an Array, with a leading axis for each vmap that ``mapped`` marks."""
        return self._shown(PRIMAL, var)

    def tangent(self, var: Any) -> Value | None:
        """The tangent of a variable or literal; None if it is zero, or if no tangents were given."""
        return self._shown(TANGENT, var)

    def cotangent(self, var: Any) -> Value | None:
        """The cotangent, summed over all uses of ``var``; None if no cotangent arrives, or if none were given."""
        return self._shown(COTANGENT, var)

    def mapped(self, var: Any, of: str = "value") -> tuple[bool, ...]:
        """For each vmap whose examples are all kept, outermost first: whether ``of`` ('value', 'tangent', 'cotangent')
        has an axis for its examples. Without such an axis, it is the same for all examples.
        """
        with self.root.at_work():
            found = self.base.find(PRIMAL if of == "value" else of, var)
        flags = found.mapped if isinstance(found, Stacked) else (False,) * len(self.index)
        return tuple(flag for flag, i in zip(flags, self.index, strict=True) if i is None)

    def count(self, eqn: JaxprEqn) -> Any:
        """The number of iterations of ``eqn``; 1 if ``eqn`` is no loop; an Unknown if the number is unknown.

        For a batched ``while`` this is the largest number among the examples.
        """
        found = self.counts(eqn)
        return int(np.max(np.asarray(found._value()))) if isinstance(found, Array) else found

    def counts(self, eqn: JaxprEqn) -> Any:
        """``count`` for each example, including the examples of vmaps inside the recorded program.

        An integer if the number is the same for all examples, otherwise an Array; an Unknown if it is unknown.
        """
        return self._number(self.steps.counts, eqn)

    def branch(self, eqn: JaxprEqn) -> Any:
        """The branch that a ``cond`` takes: a number, an Unknown, or an Array if examples take different branches."""
        return self._number(self.steps.branch, eqn)

    def parts(self, eqn: JaxprEqn) -> tuple[str, ...]:
        """The names of the programs inside ``eqn``, for the argument ``part`` of ``inside``. The default is first."""
        return self.steps.parts(eqn)

    def inside(self, eqn: JaxprEqn, index: int | None = 0, part: str = "") -> Any:
        """The frame of a program inside ``eqn``, or an Unknown with the reason why there is none.

        Args:
          eqn: an equation of this frame's jaxpr.
          index: for a scan, the index of the iteration in the scanned arrays; for a ``while``, the iteration; for a
            ``cond`` whose examples take different branches, the branch; for a ``shard_map``, the device, or None for
            all devices: these become examples of one more vmap for each mesh axis. Other operations ignore ``index``.
          part: one of ``parts``: 'condition' of a ``while``, before iteration ``index``; 'fwd' of a custom_vjp call;
            'solve' and 'matvec' of a linear solve.

        Raises:
          IndexError: if there is no such iteration, branch or device.
        """
        if self.base is not self:  # only the branch that this example takes, and the iterations that it runs
            if eqn.primitive.name == "cond" and isinstance(taken := self.branch(eqn), int):
                index = taken
            if eqn.primitive.name == "while":
                count = self.count(eqn)
                if isinstance(count, int) and not 0 <= (index or 0) < count + (part == "condition"):
                    raise IndexError(f"this example runs {count} iterations; there is no iteration {index}")
        with self.root.at_work():
            found = self.steps.inside(eqn, index, part)
        if self.base is self or not isinstance(found, Frame):
            return found
        return found.base.example(*self.index, *found.index[len(self.index) :])

    def example(self, *index: int | None) -> Frame:
        """This frame for one example: ``index`` has its number in each vmap, or None for all its examples.

        For a frame of some examples, ``index`` chooses among these.
        """
        given = iter(index)
        chosen = [next(given, -1) if i is None else i for i in self.index]
        sizes = [axis.size for axis in self.levels.axes]
        if [*given] or not all(i is None or 0 <= i < n for i, n in zip(chosen, sizes, strict=True)):
            raise IndexError(f"an example of vmaps of sizes {sizes} has an index for each; got {list(index)}")
        found = copy.copy(self.base)
        found.index = tuple(chosen)
        found.path = (*found.path, *found._title())
        return found

    def _title(self) -> Iterator[str]:
        for i, axis in zip(self.index, self.levels.axes, strict=True):
            if i is not None:
                yield f"example {i} of {axis.size}" if axis.name is None else f"{axis.name} {i} of {axis.size}"

    def _number(self, find: Any, eqn: JaxprEqn) -> Any:
        with self.root.at_work():
            found = find(eqn)
            if not isinstance(found, Stacked):
                return found
            array = of_example(found, self.index).array
        return array if array.ndim else int(np.asarray(array._value()))

    def _shown(self, kind: str, var: Any) -> Any:
        kept = self.base._kept(kind, var)
        if kept is not None:
            found = kept[0]
        else:
            with self.root.at_work():
                found = self.base.find(kind, var)
        return of_example(found, self.index).array if isinstance(found, Stacked) else found

    # ------------------------------------------------------------------------------------------ evaluation

    def find(self, kind: str, atom: Any) -> Any:
        """The value, tangent or cotangent as a ``Stacked`` or an ``Unknown``; None for a zero tangent or cotangent."""
        literal = type(atom) is Literal
        if kind != PRIMAL and (literal or kind not in self.feed.kinds or kind == TANGENT and atom in self.consts):
            return None
        if literal:
            return self.levels.same(Array(np.asarray(atom.val, atom.aval.dtype), atom.aval))
        if kind != COTANGENT and is_reference(atom) and atom not in self.place_of:
            return Unknown(REFERENCE)
        if self.feed.missing.get(kind):
            return Unknown(self.feed.missing[kind])
        if kind == COTANGENT:
            return self._pulled_to(atom)
        if atom in self.consts:
            return self._constant(atom)
        return self.feed(kind, self.place_of[atom]) if atom in self.place_of else self._demanded(kind, atom)

    def _constant(self, var: Var) -> Any:
        const = self.consts[var]
        if isinstance(const, Tracer):
            return Unknown("it is a value of the transformation in which this program was recorded")
        try:
            return self.levels.same(const)
        except Exception as error:  # the array was donated, or cannot be read
            return why(error)

    def _demanded(self, kind: str, var: Var) -> Any:
        """Compute ``var`` with the equations that it depends on. Equations whose results are kept do not run again."""
        found = self._kept(kind, var)
        if found is not None:
            return found[0]
        env: dict[Any, Any] = {}
        eqns = self._slice(kind, var, env)
        last_use = {v: at for at in eqns for v in self.eqns[at].invars if type(v) is not Literal}
        for at in eqns:
            eqn = self.eqns[at]
            ins = [env[v] if type(v) is not Literal and v in env else self.find(kind, v) for v in eqn.invars]
            for v, x in zip(eqn.outvars, self.steps.results(kind, eqn, ins), strict=True):
                env[v] = x
                self.root.keeper.keep((self, kind, v), [x])
            for v in eqn.invars:
                if type(v) is not Literal and last_use[v] == at and v is not var:
                    env.pop(v, None)
        return env[var]

    def _kept(self, kind: str, var: Var) -> list[Any] | None:
        """The kept value in a list, because a tangent may be None; None if nothing is kept."""
        found: list[Any] | None = self.root.keeper.get((self, kind, var))
        return found

    def _slice(self, kind: str, var: Var, env: dict[Any, Any]) -> list[int]:
        """The equations to evaluate for ``var``, in order; kept operand values are put into ``env``."""
        todo, found = [self.made_by[var]], set()
        while todo:
            at = todo.pop()
            if at in found:
                continue
            found.add(at)
            for v in self.eqns[at].invars:
                if type(v) is Literal or v not in self.made_by or v in env:
                    continue
                kept = self._kept(kind, v)
                if kept is not None:
                    env[v] = kept[0]
                else:
                    todo.append(self.made_by[v])
        return sorted(found)

    def _pulled_to(self, atom: Any) -> Any:
        """The cotangent of ``atom``, from a backward pass over the whole jaxpr."""
        if self.reached is not None and atom not in self.reached:
            return None
        found = self._kept(COTANGENT, atom)
        if found is not None:
            return found[0]
        arrived: dict[Any, Any] = {}

        def arrive(v: Any, ct: Any) -> None:
            if type(v) is not Literal:
                arrived[v] = self.steps.added(arrived.get(v), ct)

        for i, v in enumerate(self.jaxpr.outvars):
            arrive(v, self.feed(COTANGENT, i))
        for eqn in reversed(self.eqns):
            cts = [arrived.get(v) for v in eqn.outvars]
            if any(ct is not None for ct in cts):
                for v, ct in zip(eqn.invars, self.steps.pulled(eqn, cts), strict=True):
                    arrive(v, ct)
        for v, ct in arrived.items():
            self.root.keeper.keep((self, COTANGENT, v), [ct])
        self.reached = set(arrived)
        return arrived.get(atom)


def replay(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    tangents: Sequence[Any] | None = None,
    cotangents: Sequence[Any] | None = None,
    *,
    axes: Sequence[tuple[Any, int]] = (),
    mapped: Sequence[Sequence[bool]] | None = None,
    rules: bool = False,
    most_bytes: int = MOST_BYTES,
) -> Frame:
    """A frame for ``closed`` on ``args``; nothing is evaluated yet.

    Args:
      closed: a staged program.
      args: an array or number for each input. An argument is unknown if it is a tracer, an Unknown, no longer readable,
        or not of the input's type.
      tangents: the tangents of the inputs; None means zero.
      cotangents: the cotangents of the outputs, for each example as in ``vmap(grad(f))``; None means zero.
      axes: name (or None) and size of each vmap around the program, outermost first.
      mapped: for each argument, a flag for each of these vmaps. The argument and its tangent have a leading axis for
        each flag that is set, in the order of the vmaps. Cotangents have an axis for each vmap or for none.
      rules: allow staging of derivative rules that are not staged yet; the Python of each rule then runs once.
      most_bytes: memory bound for kept values.
    """
    levels = Levels([AxisData(n, size) for n, size in axes])
    flags = [(False,) * len(axes)] * len(args) if mapped is None else [tuple(m) for m in mapped]
    types: Sequence[Any] = closed.in_avals
    wide = any(v.aval.dtype.name in WIDE for v in _variables(closed.jaxpr))
    root = Replay(most_bytes, rules, wide)
    with root.at_work():
        primals = [_argument(x, aval, m, levels) for x, aval, m in zip(args, types, flags, strict=True)]
        moving, arriving = None, None
        if tangents is not None:
            moving = [_moving(t, aval, m, levels) for t, aval, m in zip(tangents, types, flags, strict=True)]
        if cotangents is not None:
            arriving = _cotangents(closed, cotangents, levels)
    feed = given(primals, moving, arriving)
    return Frame(root, levels, closed.jaxpr, closed.consts, feed, ())


def _variables(jaxpr: Jaxpr) -> Iterator[Any]:
    yield from jaxpr.invars
    yield from jaxpr.constvars
    for eqn in jaxpr.eqns:
        yield from eqn.outvars
        for sub in subjaxprs(eqn.params):
            yield from _variables(sub)


def _cotangents(closed: ClosedJaxpr, cotangents: Sequence[Any], levels: Levels) -> list[Any]:
    found = []
    for aval, ct in zip(closed.out_avals, cotangents, strict=True):
        every = ct is not None and np.ndim(ct) > aval.ndim
        found.append(_moving(ct, aval, (every,) * len(levels.axes), levels))
    return found


def _moving(x: Any, aval: Any, mapped: tuple[bool, ...], levels: Levels) -> Any:
    """A tangent or cotangent for a value of type ``aval``; None for zero, or for an integer type."""
    tangent = aval.to_tangent_aval()
    return None if x is None or tangent.dtype == dtypes.float0 else _argument(x, tangent, mapped, levels)


def _argument(x: Any, aval: Any, mapped: tuple[bool, ...], levels: Levels) -> Any:
    if isinstance(x, Unknown):
        return x
    if isinstance(x, Tracer):
        return Unknown("it is a value of a transformation that is still active")
    try:
        array = as_array(np.asarray(x, aval.dtype) if isinstance(x, (bool, int, float, complex)) else x)
        array._value()
    except Exception as error:  # the array was donated, or ``x`` is no array
        return why(error)
    sizes = tuple(axis.size for axis, m in zip(levels.axes, mapped, strict=True) if m)
    if array.aval.shape != (*sizes, *aval.shape) or array.aval.dtype != aval.dtype:
        wanted = aval.update(shape=(*sizes, *aval.shape))
        return Unknown(f"the argument is {array.aval.str_short()}, but the program takes {wanted.str_short()}")
    return Stacked(array, mapped)
