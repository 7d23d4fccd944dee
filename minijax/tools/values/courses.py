"""Replay of loops: a whole scan or ``while``, and the carry before each iteration.

A whole loop is replayed as one operation: the engine's own rules compute its tangents, cotangents and examples, on
NumPy. To find the carry of an iteration, part of the loop runs from the nearest kept carry (``keeping.Course``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from minijax.core.array import Array, get_aval
from minijax.interpreters.named_axes import bound_axes
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn
from minijax.ops.elementwise import add_p, and_p, lt_p
from minijax.ops.scan import scan_p
from minijax.ops.while_loop import while_p
from minijax.tools.values.derivatives import applied, pulled, pushed
from minijax.tools.values.examples import Stacked, Unknown, first_unknown, row, spread_out, why, with_zeros
from minijax.tools.values.feeds import COTANGENT, PRIMAL, TANGENT, inside
from minijax.tools.values.keeping import Course
from minijax.tools.values.loops import operands, scan_title, while_title

FOREVER = int(np.iinfo(np.int32).max)
# A while loop may never end: its first part has ``FIRST_TURNS`` iterations. It is given up after ``PATIENCE`` seconds.
FIRST_TURNS = 4096
PATIENCE = 20.0
# The backward pass of a scan with at most this many steps runs in one piece.
SHORT = 256
NOT_BACKWARD = "a while loop has no reverse mode: its number of iterations is known only when it runs"


class LoopRun:
    """The common base of scan and ``while``. Operands are constants, then from ``first`` on the carry."""

    first: int
    n_carry: int

    def __init__(self, frame: Any, eqn: JaxprEqn) -> None:
        self.eqn = eqn
        self.frame = frame
        self.courses: dict[str, Course] = {}
        self.frames: dict[Any, Any] = {}
        self._made: tuple[Any, list[str]] | None = None
        # the reasons why operands are unknown; the same operands may be known in other iterations
        self.reasons: tuple[str, ...] = ()

    def operands(self, kind: str) -> list[Any]:
        """The values or tangents of the operands."""
        return [self.frame.find(kind, v) for v in self.eqn.invars]

    def pure(self) -> tuple[Any, list[str]]:
        """The parameters without effects (None if all results are unknown). Then why each result is unknown, or ''."""
        if self._made is None:
            self.reasons = tuple(x.reason if isinstance(x, Unknown) else "" for x in self.operands(PRIMAL))
            self._made = self.frame.root.purifier.params(self.eqn, self.reasons)
        return self._made

    def known(self, ins: Sequence[Any] | None = None) -> list[Stacked]:
        """The operands, with zeros in place of unknown ones."""
        return with_zeros(self.eqn, self.operands(PRIMAL) if ins is None else ins, len(self.frame.levels.axes))

    def run(self, key: Any, times: int = 1) -> Any:
        """A function that runs operations on values, by a program that is made once for each ``key``."""
        return partial(self.frame.levels.staged, (id(self.eqn), self.reasons, key), times=times)

    def whole(self, kind: str, ins: Sequence[Any]) -> Sequence[Any]:
        """The values or tangents of all results, given those of the operands."""
        params, reasons = self.pure()
        unknown = first_unknown(ins) if kind == TANGENT else None
        if unknown is not None or params is None:
            return [unknown or Unknown(r) for r in reasons]
        found = self._whole(kind, ins)
        if isinstance(found, Unknown):
            return [found] * len(reasons)
        return [Unknown(r) if r and x is not None else x for x, r in zip(found, reasons, strict=True)]

    def _whole(self, kind: str, ins: Sequence[Any]) -> Any:
        raise NotImplementedError

    def advance(self, kind: str, at: int, state: list[Any], steps: int) -> list[Any]:
        """The state of the course after ``steps`` more steps."""
        raise NotImplementedError

    def length(self) -> Any:
        """The number of iterations, or an Unknown."""
        raise NotImplementedError

    def course(self, kind: str) -> Course:
        """The course of the carry, or of the carry and its tangents."""
        if kind not in self.courses:
            start = self.known()[self.first :][: self.n_carry]
            if kind == TANGENT:
                start = [*start, *self.operands(TANGENT)[self.first :][: self.n_carry]]
            self.courses[kind] = Course(self.frame.root.keeper, start, self.length(), partial(self.advance, kind))
        return self.courses[kind]

    def moving(self, kind: str, state: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The operands and their tangents, with the carry and tangents of ``state``."""
        carry, dots = operands(state, self.n_carry)
        last = self.first + self.n_carry
        ins, tangents = self.known(), [None] * len(self.eqn.invars)
        if kind == TANGENT:
            tangents = self.operands(TANGENT)
        return (
            [*ins[: self.first], *carry, *ins[last:]],
            [*tangents[: self.first], *(dots or [None] * self.n_carry), *tangents[last:]],
        )

    def carried(self, kind: str, place: int, step: int) -> Any:
        """The value or tangent of the carry with index ``place`` before ``step``."""
        if kind == TANGENT and (unknown := first_unknown(self.operands(TANGENT))):
            return unknown
        if reason := self.pure()[1][place]:
            return Unknown(reason)
        return _tried(lambda: self.course(kind).state(step)[place + (self.n_carry if kind == TANGENT else 0)])

    def child(self, key: Any, closed: ClosedJaxpr, feed: Any, title: str) -> Any:
        """The frame of an iteration. The latest 32 frames are kept."""
        found = self.frames.pop(key, None)
        if found is None:
            found = self.frame.child(closed.jaxpr, closed.consts, feed, title)
        self.frames[key] = found
        while len(self.frames) > 32:
            del self.frames[next(iter(self.frames))]
        return found


class ScanRun(LoopRun):
    """A scan that is replayed. Steps are numbered as they run, iterations by their index in the scanned arrays."""

    def __init__(self, frame: Any, eqn: JaxprEqn) -> None:
        super().__init__(frame, eqn)
        params = eqn.params
        self.first, self.n_carry, self.reverse = params["num_consts"], params["num_carry"], params["reverse"]
        self.first_x = self.first + self.n_carry

    def count(self) -> int:
        """The number of iterations."""
        return int(self.eqn.params["length"])

    length = count

    def part(self, length: int) -> Any:
        """The scan as a function, with ``length`` steps."""
        return applied(scan_p, {**self.pure()[0], "length": length})

    def times(self, steps: int) -> int:
        """How often a program of ``steps`` steps runs: once, unless ``steps`` is the distance between kept states."""
        return self.count() // steps if steps == self.course(PRIMAL).stretch > 1 else 1

    def rows(self, xs: Sequence[Any], at: int, steps: int) -> list[Any]:
        """For each scanned array, the ``steps`` rows that begin at step ``at``."""
        start = self.count() - at - steps if self.reverse else at
        return [row(x, slice(start, start + steps)) if isinstance(x, Stacked) else x for x in xs]

    def _whole(self, kind: str, ins: Sequence[Any]) -> Any:
        moving = kind == TANGENT
        length, tangents = self.count(), ins if moving else [None] * len(ins)
        run = self.run(("whole", *[t is None for t in tangents]))
        return pushed(run, self.part(length), self.known(None if moving else ins), tangents)[moving]

    def advance(self, kind: str, at: int, state: list[Any], steps: int) -> list[Any]:
        ins, tangents = self.moving(kind, state)
        values, dots = ([*x[: self.first_x], *self.rows(x[self.first_x :], at, steps)] for x in (ins, tangents))
        function = self.part(steps)
        run = self.run(("on", steps, *[t is None for t in dots]), self.times(steps))
        outs, found = pushed(run, lambda *xs: function(*xs)[: self.n_carry], values, dots)
        return [*outs, *found] if kind == TANGENT else outs

    # ---------------------------------------------------------------------------------------- cotangents

    def whole_cotangents(self, ins: Sequence[Any], cts: Sequence[Any]) -> Any:
        """The cotangents of all operands: the backward pass runs part by part, and runs each part forward again."""
        if unknown := first_unknown([*cts, *ins]):
            return unknown
        carry, ys = operands(cts, self.n_carry)
        at = self.count()
        consts: list[Any] = [None] * self.first
        xs: list[tuple[int, list[Any]]] = []
        step = at if at <= SHORT else self.course(PRIMAL).stretch
        while at > 0:
            steps = (at - 1) % step + 1
            at -= steps
            added, carry, piece = operands(self.back(at, steps, carry, ys), self.first, self.n_carry)
            consts = [self.frame.added(a, b) for a, b in zip(consts, added, strict=True)]
            xs.append((steps, piece))
        if not self.reverse:
            xs.reverse()
        places = range(len(ins) - self.first_x)
        return [*consts, *carry, *[self._joined([(n, piece[i]) for n, piece in xs]) for i in places]]

    def back(self, at: int, steps: int, carry_cts: Sequence[Any], y_cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs of ``steps`` steps from ``at`` on, given the cotangents of their outputs."""
        ins = self.known()
        values = [*ins[: self.first], *self.course(PRIMAL).state(at), *self.rows(ins[self.first_x :], at, steps)]
        cts = [*carry_cts, *self.rows(y_cts, at, steps)]
        run = self.run(("back", steps, *[ct is None for ct in cts]), self.times(steps))
        return pulled(run, self.part(steps), values, cts)

    def _joined(self, parts: Sequence[tuple[int, Any]]) -> Any:
        """Concatenate cotangents of parts of an array. Each pair has the number of steps and a cotangent or None."""
        known = [p for _, p in parts if p is not None]
        if not known:
            return None
        sizes = [axis.size for axis in self.frame.levels.axes]
        mapped = tuple(any(flags) for flags in zip(*[p.mapped for p in known], strict=True))
        n, some = sum(mapped), spread_out(known[0], mapped, sizes)
        arrays = [
            np.zeros((*some.shape[:n], steps, *some.shape[n + 1 :]), some.dtype)
            if p is None
            else spread_out(p, mapped, sizes)
            for steps, p in parts
        ]
        value = np.concatenate(arrays, axis=n)
        return Stacked(Array(value, known[0].array.aval.update(shape=value.shape)), mapped)

    # ---------------------------------------------------------------------------------------- by iteration

    def course(self, kind: str) -> Course:
        """``LoopRun.course``; or the course of the carry's cotangents, from the last step backwards."""
        if kind == COTANGENT and kind not in self.courses:
            start = [self.frame.find(kind, v) for v in self.eqn.outvars[: self.n_carry]]
            self.courses[kind] = Course(self.frame.root.keeper, start, self.count(), self._retreat)
        return super().course(kind)

    def _retreat(self, done: int, state: list[Any], steps: int) -> list[Any]:
        ys = [self.frame.find(COTANGENT, v) for v in self.eqn.outvars[self.n_carry :]]
        return self.back(self.count() - done - steps, steps, state, ys)[self.first : self.first_x]

    def inside(self, index: int, part: str) -> Any:
        """The frame of an iteration: see ``Frame.inside``."""
        length, invars, outer = self.count(), self.eqn.invars, self.frame
        if not 0 <= index < length:
            raise IndexError(f"this scan has {length} iterations; there is no iteration {index}")
        step = length - 1 - index if self.reverse else index

        def find(kind: str, i: int) -> Any:
            if kind == COTANGENT:
                return self._arriving(i, index, length - 1 - step)
            if self.first + (step == 0) * self.n_carry <= i < self.first_x:
                return self.carried(kind, i - self.first, step)
            x = outer.find(kind, invars[i])
            return row(x, index) if i >= self.first_x and isinstance(x, Stacked) else x

        title = scan_title(index, length)
        return self.child(index, self.eqn.params["jaxpr"], inside(outer, find), title)

    def _arriving(self, i: int, index: int, done: int) -> Any:
        """The cotangent of an output of iteration ``index``, after ``done`` steps of the backward pass."""
        arrived = [self.frame.find(COTANGENT, v) for v in self.eqn.outvars]
        if unknown := first_unknown([*arrived, *self.operands(PRIMAL)]):
            return unknown
        if i < self.n_carry:
            return _tried(lambda: self.course(COTANGENT).state(done)[i])
        return row(arrived[i], index) if isinstance(arrived[i], Stacked) else arrived[i]


class WhileRun(LoopRun):
    """A ``while`` that is replayed, with an iteration count for each example that ends separately."""

    def __init__(self, frame: Any, eqn: JaxprEqn) -> None:
        super().__init__(frame, eqn)
        self.n_cond, self.n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        self.first, self.n_carry = self.n_cond + self.n_body, len(eqn.outvars)
        # the shape of elements that end separately: () unless vmap batched the loop before it was recorded
        self.shape = tuple(eqn.params["cond_jaxpr"].out_avals[0].shape)
        self._function: Any = None
        # the number of iterations after which the loop was given up; 0 if it was not
        self.unended = 0

    def function(self) -> Any:
        """The loop as a function of ``(limit, cond consts, body consts, count, carry)``.

        It counts its iterations, up to the limit, and returns ``(count, carry)``.
        """
        if self._function is None:
            params = self.pure()[0]
            cond, body = params["cond_jaxpr"], params["body_jaxpr"]
            number = get_aval(np.zeros(self.shape, np.int32))
            n_cond, n_body = self.n_cond, self.n_body

            def goes_on(*values: Any) -> list[Any]:
                limit, consts, (count, *carry) = values[0], values[1 : 1 + n_cond], values[1 + n_cond :]
                (going,) = eval_closed(cond, *consts, *carry)
                return [and_p.bind(lt_p.bind(count, limit), going)]

            def turn(*values: Any) -> list[Any]:
                consts, (count, *carry) = values[:n_body], values[n_body:]
                return [add_p.bind(count, np.ones(self.shape, np.int32)), *eval_closed(body, *consts, *carry)]

            of_cond = [number, *cond.in_avals[:n_cond], number, *cond.in_avals[n_cond:]]
            of_body = [*body.in_avals[:n_body], number, *body.in_avals[n_body:]]
            with bound_axes(self.frame.levels.named):
                goes, turned = stage(goes_on, of_cond, "goes_on"), stage(turn, of_body, "turn")
            counts = {"cond_nconsts": n_cond + 1, "body_nconsts": n_body}
            self._function = applied(while_p, {"cond_jaxpr": goes, "body_jaxpr": turned, **counts})
        return self._function

    def turned(
        self, ins: Sequence[Any], tangents: Sequence[Any], at: Stacked, limit: int
    ) -> tuple[list[Any], list[Any]]:
        """The count and the carry, and their tangents, when the loop has ended or has reached ``limit``."""
        values = [self._number(limit), *ins[: self.first], at, *ins[self.first :]]
        dots = [None, *tangents[: self.first], None, *tangents[self.first :]]
        return pushed(self.run(("on", *[t is None for t in dots])), self.function(), values, dots)

    def _number(self, n: int) -> Stacked:
        return self.frame.levels.same(np.full(self.shape, n, np.int32))  # type: ignore[no-any-return]

    def count(self) -> Any:
        """The number of iterations: an integer; a Stacked if examples or batched elements end separately."""
        found = self.ended(None)
        if isinstance(found, Unknown):
            return found
        return found[0] if found[0].array.ndim else int(np.asarray(found[0].array._value()))

    def length(self) -> Any:
        """The maximum iteration count of all elements, or how many iterations ran before giving up. Else an Unknown."""
        count = self.count()
        if isinstance(count, Unknown) and self.unended:
            return self.unended
        return _greatest(count) if isinstance(count, Stacked) else count

    def ended(self, ins: Sequence[Any] | None) -> Any:
        """The count and the last carry, or an Unknown."""
        kept = self.frame.root.keeper.get((self, "ended"))
        if kept is not None:
            return kept
        params, reasons = self.pure()
        if params is None:
            return Unknown(reasons[0] if reasons else "it has no results")
        if self.unended:
            return Unknown(f"the loop has not ended after {self.unended:,} iterations")
        known = self.known(ins)
        found = _tried(lambda: self._to_the_end(known))
        if not isinstance(found, Unknown):
            self.frame.root.keeper.keep((self, "ended"), found)
        return found

    def _to_the_end(self, ins: Sequence[Stacked]) -> Any:
        """The count and the last carry; an Unknown if the loop runs for too long."""
        limit, late = FIRST_TURNS, time.monotonic() + PATIENCE
        found = [self._number(0), *ins[self.first :]]
        still = [None] * len(ins)
        while True:
            found, _ = self.turned([*ins[: self.first], *found[1:]], still, found[0], limit)
            if limit == FOREVER or _greatest(found[0]) < limit:
                return found
            if time.monotonic() > late:
                self.unended = limit
                return Unknown(f"the loop has not ended after {limit:,} iterations")
            limit = min(limit * 4, FOREVER)

    def _whole(self, kind: str, ins: Sequence[Any]) -> Any:
        found = self.ended(ins if kind == PRIMAL else None)
        if kind == TANGENT and not isinstance(found, Unknown):
            found = self.turned(self.known(), ins, self._number(0), FOREVER)[1]
        return found if isinstance(found, Unknown) else found[1:]

    def advance(self, kind: str, at: int, state: list[Any], steps: int) -> list[Any]:
        outs, found = self.turned(*self.moving(kind, state), self._number(at), at + steps)
        return [*outs[1:], *found[1:]] if kind == TANGENT else outs[1:]

    def inside(self, index: int, part: str) -> Any:
        """The frame of an iteration, or of the condition before it."""
        length = self.length()
        if isinstance(length, Unknown):
            return Unknown(f"the number of iterations is not known: {length.reason}")
        if not 0 <= index < length + (part == "condition"):
            raise IndexError(f"this while loop runs {length} iterations; there is no iteration {index}")
        n_own, offset = (self.n_cond, 0) if part == "condition" else (self.n_body, self.n_cond)
        invars, outer = self.eqn.invars, self.frame

        def find(kind: str, i: int) -> Any:
            place = i - n_own
            if place >= 0 and index > 0:
                return self.carried(kind, place, index)
            return outer.find(kind, invars[offset + i] if place < 0 else invars[self.first + place])

        closed = self.eqn.params["cond_jaxpr" if part == "condition" else "body_jaxpr"]
        feed = inside(outer, find, {COTANGENT: NOT_BACKWARD})
        title = while_title(index) + (", condition" if part == "condition" else "")
        return self.child((index, part), closed, feed, title)


def _greatest(counts: Stacked) -> int:
    return int(np.max(np.asarray(counts.array._value()), initial=0))


def _tried(find: Any) -> Any:
    """The result of ``find``, or its exception as an Unknown."""
    try:
        return find()
    except Exception as error:
        return why(error)
