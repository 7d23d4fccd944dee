"""The values of a staged program, computed on demand from the call's own arguments: ``replay``.

A ``Frame`` is one evaluation of one jaxpr. It computes a value when one is requested, with only the equations that the
value depends on. Frames of inner programs, iterations and branches are created on demand too. Found values are kept
within a memory bound, and computed again after they are evicted.

Jaxprs are evaluated with the engine's rules. The user's Python does not run again, except to stage derivative rules if
``rules=True``. A value that depends on a callback is an ``Unknown`` with the reason. Refs are evaluated on copies
(``references``). Operations run on NumPy as outside of ``jit``, so the last digits may differ from XLA's.
"""

from __future__ import annotations

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
from minijax.tools.values.feeds import Feed, Given
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
    """One evaluation of one jaxpr.

    Attributes:
      jaxpr: the recorded program: its variables are the keys for values.
      path: the path to this frame, outermost first: ``("jit f", "scan, iteration 3 of 10")``.
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
        # for the backward pass of a custom_vjp call: a flag for each input, set if it gets no cotangent
        self.zeros_out: Sequence[bool] = ()
        # the variables with a cotangent, known after the backward pass
        self.reached: set[Var] | None = None

    # ------------------------------------------------------------------------------------------ public methods

    def value(self, var: Any) -> Value:
        """The value of a variable or literal: an Array, with a leading axis for each vmap that ``mapped`` marks."""
        return self._shown("primal", self.primal_of, var)

    def tangent(self, var: Any) -> Value | None:
        """The tangent of a variable or literal; None if it is zero, or if no tangents were given."""
        return self._shown("tangent", self.tangent_of, var)

    def cotangent(self, var: Any) -> Value | None:
        """The cotangent, summed over all uses of ``var``; None if no cotangent arrives, or if none were given."""
        return self._shown("cotangent", self.cotangent_of, var)

    def mapped(self, var: Any, of: str = "value") -> tuple[bool, ...]:
        """For each vmap, outermost first: whether ``of`` ('value', 'tangent', 'cotangent') has an axis for its
        examples. Without such an axis, it is the same for all examples.
        """
        find = {"value": self.primal_of, "tangent": self.tangent_of, "cotangent": self.cotangent_of}[of]
        with self.root.at_work():
            found = find(var)
        return found.mapped if isinstance(found, Stacked) else (False,) * len(self.levels.axes)

    def count(self, eqn: JaxprEqn) -> Any:
        """The number of iterations of ``eqn``; 1 if ``eqn`` is no loop; an Unknown if the number is unknown.

        For a batched ``while`` this is the largest number among the examples.
        """
        with self.root.at_work():
            found = self.steps.counts(eqn)
        return found if isinstance(found, (int, Unknown)) else int(np.max(np.asarray(found.array._value())))

    def counts(self, eqn: JaxprEqn) -> Any:
        """``count`` for each example, including the examples of vmaps inside the recorded program.

        An integer if the number is the same for all examples, otherwise an Array; an Unknown if it is unknown.
        """
        with self.root.at_work():
            found = self.steps.counts(eqn)
        return found.array if isinstance(found, Stacked) else found

    def branch(self, eqn: JaxprEqn) -> Any:
        """The branch that a ``cond`` takes: a number, an Unknown, or an Array if examples take different branches."""
        with self.root.at_work():
            found = self.steps.branch(eqn)
        return found.array if isinstance(found, Stacked) else found

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
          part: one of ``parts``: 'condition' of a ``while``, before iteration ``index``; 'rule' of a custom_jvp call;
            'fwd' and 'bwd' of a custom_vjp call; 'solve' and 'matvec' of a linear solve.

        Raises:
          IndexError: if there is no such iteration, branch or device.
        """
        with self.root.at_work():
            return self.steps.inside(eqn, index, part)

    def example(self, *index: int | None) -> Example:
        """The evaluation of one example: ``index`` has the example's number in each vmap, or None for all examples."""
        return Example(self, index)

    def _shown(self, kind: str, find: Any, var: Any) -> Any:
        kept = self._kept(kind, var)
        if kept is not None:
            found = kept[0]
        else:
            with self.root.at_work():
                found = find(var)
        return found.array if isinstance(found, Stacked) else found

    # ------------------------------------------------------------------------------------------ primals and tangents

    def primal_of(self, atom: Any) -> Any:
        """The value as a ``Stacked`` or an ``Unknown``."""
        if type(atom) is Literal:
            return self.levels.same(Array(np.asarray(atom.val, atom.aval.dtype), atom.aval))
        if is_reference(atom) and atom not in self.place_of:
            return Unknown(REFERENCE)
        if atom in self.consts:
            return self._constant(atom)
        if atom in self.place_of:
            return self.feed.primal(self.place_of[atom])
        return self._demanded("primal", atom)

    def tangent_of(self, atom: Any) -> Any:
        """The tangent as a ``Stacked`` or an ``Unknown``; None for zero."""
        if type(atom) is Literal or atom in self.consts or not self.feed.has_tangents:
            return None
        if is_reference(atom) and atom not in self.place_of:
            return Unknown(REFERENCE)
        if self.feed.no_tangents:
            return Unknown(self.feed.no_tangents)
        if atom in self.place_of:
            return self.feed.tangent(self.place_of[atom])
        return self._demanded("tangent", atom)

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
        evaluate = self.steps.forward if kind == "primal" else self.steps.pushed
        for at in eqns:
            eqn = self.eqns[at]
            outs = evaluate(eqn, [self._operand(kind, v, env) for v in eqn.invars])
            for v, x in zip(eqn.outvars, outs, strict=True):
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

    def _operand(self, kind: str, v: Any, env: dict[Any, Any]) -> Any:
        if type(v) is not Literal and v in env:
            return env[v]
        return self.primal_of(v) if kind == "primal" else self.tangent_of(v)

    # ------------------------------------------------------------------------------------------ cotangents

    def cotangent_of(self, atom: Any) -> Any:
        """The cotangent as a ``Stacked`` or an ``Unknown``; None if none arrives."""
        if type(atom) is Literal or not self.feed.has_cotangents:
            return None
        if self.feed.no_cotangents:
            return Unknown(self.feed.no_cotangents)
        if self.reached is not None and atom not in self.reached:
            return None
        found = self._kept("cotangent", atom)
        return self._backward().get(atom) if found is None else found[0]

    def _backward(self) -> dict[Any, Any]:
        """Run the backward pass over the whole jaxpr; return the cotangent of each variable."""
        arrived: dict[Any, Any] = {}
        for i, v in enumerate(self.jaxpr.outvars):
            self._arrive(arrived, v, self.feed.cotangent(i))
        for eqn in reversed(self.eqns):
            cts = [arrived.get(v) for v in eqn.outvars]
            if all(ct is None for ct in cts):
                continue
            for v, ct in zip(eqn.invars, self.steps.pulled(eqn, cts), strict=True):
                self._arrive(arrived, v, ct)
        for v, ct in arrived.items():
            self.root.keeper.keep((self, "cotangent", v), [ct])
        self.reached = set(arrived)
        return arrived

    def _arrive(self, arrived: dict[Any, Any], v: Any, ct: Any) -> None:
        if type(v) is not Literal:
            arrived[v] = self.steps.added(arrived.get(v), ct)


class Example:
    """One example of a frame under vmaps: the same methods, for this example only.

    Attributes:
      index: the example's number in each vmap; None for a vmap whose examples are all kept, as an axis in front.
    """

    def __init__(self, frame: Frame, index: Sequence[int | None]) -> None:
        sizes = [axis.size for axis in frame.levels.axes]
        if len(index) != len(sizes) or not all(i is None or 0 <= i < n for i, n in zip(index, sizes, strict=True)):
            raise IndexError(f"an example of vmaps of sizes {sizes} has an index for each; got {list(index)}")
        self.frame = frame
        self.index = tuple(index)
        self.jaxpr = frame.jaxpr
        self.path = (*frame.path, *self._title())

    def value(self, var: Any) -> Value:
        """``Frame.value`` for this example."""
        return self._picked(self.frame.primal_of, var)

    def tangent(self, var: Any) -> Value | None:
        """``Frame.tangent`` for this example."""
        return self._picked(self.frame.tangent_of, var)

    def cotangent(self, var: Any) -> Value | None:
        """``Frame.cotangent`` for this example."""
        return self._picked(self.frame.cotangent_of, var)

    def mapped(self, var: Any, of: str = "value") -> tuple[bool, ...]:
        """``Frame.mapped``, only for the vmaps whose examples are all kept."""
        return tuple(m for m, i in zip(self.frame.mapped(var, of), self.index, strict=True) if i is None)

    def count(self, eqn: JaxprEqn) -> Any:
        """The number of iterations of this example."""
        found = self.counts(eqn)
        return int(np.max(np.asarray(found._value()))) if isinstance(found, Array) else found

    def counts(self, eqn: JaxprEqn) -> Any:
        """``Frame.counts`` for this example."""
        return self._number(self.frame.steps.counts, eqn)

    def branch(self, eqn: JaxprEqn) -> Any:
        """The branch of this example."""
        return self._number(self.frame.steps.branch, eqn)

    def parts(self, eqn: JaxprEqn) -> tuple[str, ...]:
        """The same as ``Frame.parts``."""
        return self.frame.parts(eqn)

    def inside(self, eqn: JaxprEqn, index: int = 0, part: str = "") -> Any:
        """``Frame.inside``, only for the branch that this example takes and the iterations that it runs."""
        if eqn.primitive.name == "cond" and isinstance(taken := self.branch(eqn), int):
            index = taken
        if eqn.primitive.name == "while":
            count = self.count(eqn)
            if isinstance(count, int) and not 0 <= index < count + (part == "condition"):
                raise IndexError(f"this example runs {count} iterations; there is no iteration {index}")
        found = self.frame.inside(eqn, index, part)
        if isinstance(found, Example):  # a device is itself an example
            return Example(found.frame, (*self.index, *found.index[len(self.index) :]))
        if not isinstance(found, Frame):
            return found
        return Example(found, (*self.index, *[None] * (len(found.levels.axes) - len(self.index))))

    def example(self, *index: int | None) -> Example:
        """One of the kept examples."""
        given = iter(index)
        return Example(self.frame, [next(given) if i is None else i for i in self.index])

    def _title(self) -> Iterator[str]:
        for i, axis in zip(self.index, self.frame.levels.axes, strict=True):
            if i is not None:
                yield f"example {i} of {axis.size}" if axis.name is None else f"{axis.name} {i} of {axis.size}"

    def _number(self, find: Any, eqn: JaxprEqn) -> Any:
        with self.frame.root.at_work():
            found = find(eqn)
            if not isinstance(found, Stacked):
                return found
            array = of_example(found, self.index).array
        return array if array.ndim else int(np.asarray(array._value()))

    def _picked(self, find: Any, var: Any) -> Any:
        with self.frame.root.at_work():
            found = find(var)
            return of_example(found, self.index).array if isinstance(found, Stacked) else found


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
    name: str = "",
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
      name: the first item of ``path``; '' for no such item.
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
    feed = Given(primals, moving, arriving)
    return Frame(root, levels, closed.jaxpr, closed.consts, feed, (name,) if name else ())


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
