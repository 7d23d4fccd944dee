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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array, as_array
from minijax.core.structural import zero_of
from minijax.core.trace import Tracer
from minijax.interpreters.named_axes import bound_axes
from minijax.interpreters.vmap import AxisData
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijax.ops.custom_derivatives import zero_flags
from minijax.tools.values.courses import ScanRun, WhileRun
from minijax.tools.values.derivatives import applied, pulled, pushed, sum_operation
from minijax.tools.values.devices import Devices, device_count, device_of
from minijax.tools.values.examples import (
    Levels,
    Stacked,
    Unknown,
    apart,
    first_unknown,
    of_example,
    why,
    with_zeros,
    zeros_of,
)
from minijax.tools.values.feeds import COTANGENT, PRIMAL, TANGENT, Feed, given, of_operands
from minijax.tools.values.feeds import inside as inner_feed
from minijax.tools.values.keeping import Keeper
from minijax.tools.values.loops import branch_of, branch_title, called, operands
from minijax.tools.values.pure import REFERENCE, SILENT, Purifier, refused
from minijax.tools.values.references import equations, is_reference

# Memory bound for the kept values of all frames of one replay, in bytes.
MOST_BYTES = 256_000_000

WIDE = ("float64", "int64", "uint64", "complex128")

Value = Any  # an Array or an Unknown

INSTEAD = "inside the function of a custom_{} call there are no {}: the {} takes its place"
NO_CONDITION = "it is not known which branch is taken"
INSIDE_SOLVE = "a linear solve is differentiated by another solve, so this one has no derivatives inside"


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
        # equation, and perhaps a branch -> the frame inside; equation -> the run of a loop
        self.frames: dict[Any, Any] = {}
        self.loops: dict[int, Any] = {}
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
        return self._number(self.base._counts, eqn)

    def branch(self, eqn: JaxprEqn) -> Any:
        """The branch that a ``cond`` takes: a number, an Unknown, or an Array if examples take different branches."""
        return self._number(self.base._branch_taken, eqn)

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
            found = self.base._inside(eqn, index, part)
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
            for v, x in zip(eqn.outvars, self.results(kind, eqn, ins), strict=True):
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
                arrived[v] = self.added(arrived.get(v), ct)

        for i, v in enumerate(self.jaxpr.outvars):
            arrive(v, self.feed(COTANGENT, i))
        for eqn in reversed(self.eqns):
            cts = [arrived.get(v) for v in eqn.outvars]
            if any(ct is not None for ct in cts):
                for v, ct in zip(eqn.invars, self.pulled(eqn, cts), strict=True):
                    arrive(v, ct)
        for v, ct in arrived.items():
            self.root.keeper.keep((self, COTANGENT, v), [ct])
        self.reached = set(arrived)
        return arrived.get(atom)

    # ------------------------------------------------------------------------------------------ values and tangents

    def results(self, kind: str, eqn: JaxprEqn, ins: Sequence[Any]) -> Sequence[Any]:
        """The values or tangents of the results of ``eqn``, given those of its operands."""
        if kind == TANGENT and all(t is None for t in ins):
            return [None] * len(eqn.outvars)
        return self._all_or_why(lambda: self._results(kind, eqn, ins), len(eqn.outvars))

    def _all_or_why(self, find: Callable[[], Any], count: int) -> Sequence[Any]:
        """The result of ``find()``. An exception of a rule, or an Unknown, becomes each of ``count`` results."""
        try:
            found = find()
        except Exception as error:
            found = why(error)
        return [found] * count if isinstance(found, Unknown) else found

    def _results(self, kind: str, eqn: JaxprEqn, ins: Sequence[Any]) -> Any:
        moving, name = kind == TANGENT, eqn.primitive.name
        if eqn.primitive in SILENT:
            return Unknown("it is only printed")
        if refusal := refused(eqn):
            return Unknown(refusal)
        if moving and name == "custom_jvp_call":
            return self._by_rule(eqn)
        primals = self._values(eqn) if moving else ins
        inner = None if moving and name == "custom_vjp_call" else self._whole(eqn, primals)
        if inner is not None:
            return self._through(inner, kind, ins, inner.jaxpr.outvars) if not isinstance(inner, Unknown) else inner
        if name in ("scan", "while"):
            return self.loop(eqn).whole(kind, ins)
        if moving and (unknown := first_unknown([*ins, *[self.find(PRIMAL, v) for v in eqn.outvars]])):
            return unknown
        params, known, out = self._pure(eqn, primals)
        if params is None:
            return out
        tangents = ins if moving else [None] * len(ins)
        found = pushed(self.levels.run, applied(eqn.primitive, params), known, tangents)[moving]
        return [o if isinstance(o, Unknown) else x for x, o in zip(found, out, strict=True)]

    def _pure(self, eqn: JaxprEqn, ins: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
        """The parameters without effects (None if all results are unknown), the operands, and the unknown results."""
        reasons = [x.reason if isinstance(x, Unknown) else "" for x in ins]
        params, out = self.root.purifier.params(eqn, reasons)
        return params, with_zeros(eqn, ins, len(self.levels.axes)), [Unknown(r) if r else None for r in out]

    def _through(self, inner: Any, kind: str, now: Sequence[Any], wanted: Sequence[Any]) -> Sequence[Any]:
        """The values ``wanted`` of ``inner``, which takes its inputs from ``now``, not from its outer frame."""
        feed, back = inner.feed, kind == COTANGENT
        feed.now[kind] = now if back else now[len(now) - len(inner.jaxpr.invars) :]
        try:
            found = [inner.find(kind, v) for v in wanted]
            return feed.arrived(found) if back else feed.results(found)  # type: ignore[no-any-return]
        finally:
            del feed.now[kind]

    def _whole(self, eqn: JaxprEqn, ins: Sequence[Any]) -> Any:
        """The frame of the program that ``eqn`` runs once on its operands; None if there is no such program."""
        if called(eqn)[0]:
            return self._call(eqn)
        if eqn.primitive.name == "shard_map":
            return self._parts(eqn)
        if eqn.primitive.name == "cond":
            if isinstance(ins[0], Unknown):
                return ins[0]
            return None if any(ins[0].mapped) else self._branch(eqn, ins[0])
        return None

    def _values(self, eqn: JaxprEqn) -> list[Any]:
        return [self.find(PRIMAL, v) for v in eqn.invars]

    # ------------------------------------------------------------------------------------------ cotangents

    def pulled(self, eqn: JaxprEqn, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands, given the cotangents of the results; None means zero."""
        found = self._all_or_why(lambda: self._pulled(eqn, cts), len(eqn.invars))
        return [x if dtypes.is_inexact(v.aval.dtype) else None for v, x in zip(eqn.invars, found, strict=True)]

    def _pulled(self, eqn: JaxprEqn, cts: Sequence[Any]) -> Any:
        ins = self._values(eqn)
        name = eqn.primitive.name
        if name == "custom_vjp_call":
            return self._by_backward(eqn, cts)
        inner = None if name == "custom_jvp_call" else self._whole(eqn, ins)
        if isinstance(inner, Unknown):
            return inner
        if inner is not None:
            found = self._through(inner, COTANGENT, cts, inner.jaxpr.invars)
            return [*[None] * (len(eqn.invars) - len(found)), *found]
        if name == "scan":
            return self.loop(eqn).whole_cotangents(ins, cts)
        if unknown := first_unknown([*cts, *ins]):
            return unknown
        params, known, out = self._pure(eqn, ins)
        if params is None:
            return next(filter(None, out))
        return pulled(self.levels.run, applied(eqn.primitive, params), known, cts)

    def added(self, a: Any, b: Any) -> Any:
        """The sum of two cotangents."""
        if a is None or b is None:
            return b if a is None else a
        unknown = first_unknown([a, b])
        return unknown or self.levels.run(sum_operation, [a, b])[0][0]

    # ------------------------------------------------------------------------------------------ frames inside

    def parts(self, eqn: JaxprEqn) -> tuple[str, ...]:
        """The names of the programs inside ``eqn``, for the argument ``part`` of ``inside``. The default is first."""
        name = eqn.primitive.name
        if name == "while":
            return "", "condition"
        if name == "custom_vjp_call":
            return ("", "fwd") if COTANGENT in self.feed.kinds else ("",)
        if name == "custom_linear_solve":
            return "", "solve", "matvec"
        return ("",) if called(eqn)[0] or name in ("scan", "cond", "shard_map") else ()

    def _inside(self, eqn: JaxprEqn, index: int | None, part: str) -> Any:
        """``inside`` for all examples."""
        if any(map(is_reference, eqn.invars)):
            return Unknown("it uses references of the program around it, so it is evaluated as a whole")
        name = eqn.primitive.name
        if part not in self.parts(eqn):
            return Unknown(f"{name} has no program {part!r} inside")
        try:
            if name in ("scan", "while"):
                return self.loop(eqn).inside(index, part)
            if part == "fwd":
                return self._forward_frame(eqn)[0]
            if name == "custom_linear_solve":
                return self._solving(eqn, part or "solve")
            if name == "shard_map":
                return device_of(self, eqn, index, self._parts)
            if name == "cond":
                which = self.find(PRIMAL, eqn.invars[0])
                if isinstance(which, Unknown):
                    return Unknown(f"{NO_CONDITION}: {which.reason}")
                return self._branch(eqn, which, index or 0)
            return self._call(eqn)
        except IndexError:
            raise
        except Exception as error:
            return why(error)

    def child(self, jaxpr: Any, consts: Sequence[Any], feed: Any, title: str, levels: Levels | None = None) -> Any:
        """A frame for a program inside this frame's program."""
        return Frame(self.root, levels or self.levels, jaxpr, consts, feed, (*self.path, title))

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self.frames:
            self.frames[key] = make()
        return self.frames[key]

    def _call(self, eqn: JaxprEqn) -> Any:
        def make() -> Any:
            key, title = called(eqn)
            name, missing = eqn.primitive.name, {}
            if name.startswith("custom_"):
                kind = name[len("custom_") : -len("_call")]
                rule = "rule" if kind == "jvp" else "backward pass"
                missing = {each: INSTEAD.format(kind, f"{each}s", rule) for each in (TANGENT, COTANGENT)}
            closed = eqn.params[key]
            feed = inner_feed(self, of_operands(self, eqn.invars, eqn.outvars), missing)
            return self.child(closed.jaxpr, closed.consts, feed, title)

        return self._once(id(eqn), make)

    def _branch(self, eqn: JaxprEqn, which: Stacked, index: int = 0) -> Any:
        branches = eqn.params["branches"]
        if any(which.mapped):
            if not 0 <= index < len(branches):
                raise IndexError(f"this cond has {len(branches)} branches; there is no branch {index}")
        else:
            index = branch_of(which.array, len(branches))

        def make() -> Any:
            closed = branches[index]
            no = "the examples take different branches; look at one example" if any(which.mapped) else ""
            find = of_operands(self, eqn.invars[1:], eqn.outvars)
            feed = inner_feed(self, find, {COTANGENT: no} if no else None)
            return self.child(closed.jaxpr, closed.consts, feed, branch_title(index, len(branches)))

        return self._once((id(eqn), index), make)

    def _branch_taken(self, eqn: JaxprEqn) -> Any:
        """The number of the branch that ``eqn`` takes."""
        which = self.find(PRIMAL, eqn.invars[0])
        if isinstance(which, Unknown):
            return which
        count = len(eqn.params["branches"])
        if not any(which.mapped):
            return branch_of(which.array, count)
        return which._replace(array=Array(np.clip(which.array._value(), 0, count - 1), which.array.aval))

    def _counts(self, eqn: JaxprEqn) -> Any:
        """How many iterations ``eqn`` has: an integer, a Stacked or an Unknown."""
        if eqn.primitive.name in ("scan", "while"):
            return self.loop(eqn).count()
        return device_count(eqn) if eqn.primitive.name == "shard_map" else 1

    def loop(self, eqn: JaxprEqn) -> Any:
        """The run of a scan or a ``while``."""
        found = self.loops.get(id(eqn))
        if found is None:
            found = self.loops[id(eqn)] = (ScanRun if eqn.primitive.name == "scan" else WhileRun)(self, eqn)
        return found

    # ------------------------------------------------------------------------------------------ custom rules

    def _closed_rule(self, function: Any, side: Any, avals: Sequence[Any], ins: Sequence[Any]) -> tuple[Any, Any, Any]:
        """The jaxpr of a rule, the values of the jaxpr's inputs (from ``ins``), and the rule's side result."""
        known = self.root.purifier.rule(function)
        with bound_axes(self.levels.named):
            closed = known.close(side, avals)
        over = known.closed_over
        operand_of = {id(c): x for c, x in zip(over, ins, strict=False) if c is not None}
        consts = [self._rule_constant(c, operand_of) for c in closed.consts]
        return closed.jaxpr, [*consts, *ins[len(over) :]], closed.side

    def _rule_constant(self, const: Any, operand_of: dict[int, Any]) -> Any:
        if id(const) in operand_of:
            return operand_of[id(const)]
        if isinstance(const, Tracer):
            return Unknown("a derivative rule closes over a value of a transformation that has ended")
        return self.levels.same(const)

    def _by_rule(self, eqn: JaxprEqn) -> list[Any]:
        """The tangents from a custom_jvp rule."""
        params, n = eqn.params, eqn.params["num_consts"]
        ins = self._values(eqn)
        tangents = [self.find(TANGENT, v) for v in eqn.invars[n:]]
        avals = [v.aval for v in eqn.invars]
        filled = [zero_of(a) if t is None else t for a, t in zip(avals[n:], tangents, strict=True)]
        zeros = zero_flags(filled, params["symbolic_zeros"])
        moving = [self._instantiated(a, t) for a, t, z in zip(avals[n:], tangents, zeros, strict=True) if not z]
        taken = [*avals, *[a.to_tangent_aval() for a, z in zip(avals[n:], zeros, strict=True) if not z]]
        closed, values, zeros_out = self._closed_rule(params["jvp_jaxpr_fun"], zeros, taken, [*ins, *moving])
        frame = self.child(closed.jaxpr, closed.consts, given(values), "custom_jvp rule")
        found = iter(frame.jaxpr.outvars[len(zeros_out) :])
        return [None if zero else frame.find(PRIMAL, next(found)) for zero in zeros_out]

    def _instantiated(self, aval: Any, t: Any) -> Any:
        return zeros_of(aval.to_tangent_aval(), len(self.levels.axes)) if t is None else t

    def _forward_frame(self, eqn: JaxprEqn) -> tuple[Any, Any]:
        """The frame of a custom_vjp call's forward pass, and the side result of its fwd rule."""
        params = eqn.params
        avals = [v.aval for v in eqn.invars]
        perturbed = None
        if params["symbolic_zeros"]:
            perturbed = tuple(dtypes.is_inexact(a.dtype) for a in avals[params["num_consts"] :])
        closed, values, side = self._closed_rule(params["fwd_jaxpr_thunk"], perturbed, avals, self._values(eqn))
        return self.child(closed.jaxpr, closed.consts, given(values), "custom_vjp fwd"), side

    def _by_backward(self, eqn: JaxprEqn, cts: Sequence[Any]) -> list[Any]:
        """The cotangents from the backward pass of a custom_vjp call."""
        fwd, side = self._forward_frame(eqn)
        params = eqn.params
        out_avals = [v.aval for v in eqn.outvars]
        filled = [zero_of(a.to_tangent_aval()) if ct is None else ct for a, ct in zip(out_avals, cts, strict=True)]
        zeros = zero_flags(filled, params["symbolic_zeros"])
        arriving = [self._instantiated(a, ct) for a, ct, z in zip(out_avals, cts, zeros, strict=True) if not z]
        residuals = fwd.jaxpr.outvars[: side.n_res]
        avals = [*[v.aval for v in residuals], *[a for a, z in zip(out_avals, zeros, strict=True) if not z]]
        ins = [*[fwd.find(PRIMAL, v) for v in residuals], *arriving]
        closed, values, zeros_out = self._closed_rule(params["bwd"], (side, zeros), avals, ins)
        bwd = self.child(closed.jaxpr, closed.consts, given(values), "custom_vjp bwd")
        found = iter(bwd.jaxpr.outvars)
        arrived = [None if zero else bwd.find(PRIMAL, next(found)) for zero in zeros_out]
        return [*[None] * params["num_consts"], *arrived]

    # ------------------------------------------------------------------------------------------ others

    def _solving(self, eqn: JaxprEqn, part: str) -> Any:
        """The frame of the solver of a linear solve, or of its linear function applied to the solution."""
        jaxprs, lengths = eqn.params["jaxprs"], eqn.params["const_lengths"]
        *consts, b = operands(eqn.invars, *lengths)
        own = consts[list(jaxprs._fields).index(part)]
        closed: ClosedJaxpr = getattr(jaxprs, part)
        rest = b if part == "solve" else eqn.outvars[: len(b)]
        missing = {TANGENT: INSIDE_SOLVE, COTANGENT: INSIDE_SOLVE}
        feed = inner_feed(self, of_operands(self, [*own, *rest], ()), missing)
        return self.child(closed.jaxpr, closed.consts, feed, f"linear solve, {part}")

    def _parts(self, eqn: JaxprEqn) -> Any:
        """The frame of a shard_map's program, in which each device is an example."""

        def make() -> Any:
            closed, feed = eqn.params["jaxpr"], Devices(self, eqn)
            return self.child(closed.jaxpr, closed.consts, feed, "shard_map", feed.levels)

        return self._once(id(eqn), make)


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
