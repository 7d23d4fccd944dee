"""Replay of loops: a whole scan or ``while``, and the carry before each iteration.

A whole loop is replayed as one operation: the engine's own rules compute its tangents, cotangents and examples, on
NumPy. To find the carry of an iteration, part of the loop runs from the nearest kept carry (``keeping.Course``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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
from minijax.tools.values.derivatives import (
    applied,
    cotangent_operation,
    primal_operation,
    spread,
    tangent_operation,
)
from minijax.tools.values.examples import Stacked, Unknown, row, why, zeros_of
from minijax.tools.values.feeds import Asked
from minijax.tools.values.keeping import Course
from minijax.tools.values.loops import operands, scan_title, while_title

FOREVER = np.iinfo(np.int32).max
# A while loop may never end: its first part has ``FIRST_TURNS`` iterations. It is given up after ``PATIENCE`` seconds.
FIRST_TURNS = 4096
PATIENCE = 20.0
# The backward pass of a scan with at most this many steps runs in one piece.
SHORT = 256


class LoopRun:
    """The common base of scan and ``while``."""

    def __init__(self, steps: Any, eqn: JaxprEqn) -> None:
        self.steps = steps
        self.eqn = eqn
        self.frame = steps.frame
        self.n_levels = len(self.frame.levels.axes)
        self.courses: dict[str, Any] = {}
        self.frames: dict[Any, Any] = {}
        self._made: tuple[Any, list[str]] | None = None
        # the reasons why operands are unknown; the same operands may be known in other iterations
        self.reasons: tuple[str, ...] = ()

    def pure(self) -> tuple[Any, list[str]]:
        """The parameters without effects (None if all results are unknown). Then why each result is unknown, or ''."""
        if self._made is None:
            ins = [self.frame.primal_of(v) for v in self.eqn.invars]
            self.reasons = tuple(x.reason if isinstance(x, Unknown) else "" for x in ins)
            self._made = self.frame.root.purifier.params(self.eqn, self.reasons)
        return self._made

    def known(self, ins: Sequence[Any] | None = None) -> list[Stacked]:
        """The operands, with zeros in place of unknown ones."""
        if ins is None:
            ins = [self.frame.primal_of(v) for v in self.eqn.invars]
        return [
            zeros_of(v.aval, self.n_levels) if isinstance(x, Unknown) else x
            for v, x in zip(self.eqn.invars, ins, strict=True)
        ]

    def run(self, key: Any, operation: Any, values: Sequence[Stacked], times: int = 1) -> tuple[list[Stacked], Any]:
        """Run ``operation`` on ``values`` by a program that is made once for each ``key``."""
        found: tuple[list[Stacked], Any] = self.frame.levels.staged(
            (id(self.eqn), self.reasons, key), operation, values, times
        )
        return found

    def unknown_tangent(self) -> Unknown | None:
        """The reason why the tangents are unknown, if an operand's tangent is unknown."""
        return next((t for t in map(self.frame.tangent_of, self.eqn.invars) if isinstance(t, Unknown)), None)

    def child(self, key: Any, closed: ClosedJaxpr, feed: Asked, title: str) -> Any:
        """The frame of an iteration. The latest 32 frames are kept."""
        found = self.frames.pop(key, None)
        if found is None:
            found = self.steps.child(closed.jaxpr, closed.consts, feed, title)
        self.frames[key] = found
        while len(self.frames) > 32:
            del self.frames[next(iter(self.frames))]
        return found


class ScanRun(LoopRun):
    """A scan that is replayed. Steps are numbered as they run, iterations by their index in the scanned arrays."""

    def __init__(self, steps: Any, eqn: JaxprEqn) -> None:
        super().__init__(steps, eqn)
        params = eqn.params
        self.n_consts, self.n_carry = params["num_consts"], params["num_carry"]
        self.length, self.reverse = params["length"], params["reverse"]
        self.first_x = self.n_consts + self.n_carry

    def count(self) -> int:
        return int(self.length)

    def part(self, length: int) -> Any:
        """The scan as a function, with ``length`` steps."""
        return applied(scan_p, {**self.pure()[0], "length": length})

    def times(self, steps: int) -> int:
        """How often a program of ``steps`` steps runs: once, unless ``steps`` is the distance between kept states."""
        return self.length // steps if steps == self.course("primal").stretch > 1 else 1

    def rows(self, xs: Sequence[Any], at: int, steps: int) -> list[Any]:
        """For each scanned array, the ``steps`` rows that begin at step ``at``."""
        start = self.length - at - steps if self.reverse else at
        return [row(x, slice(start, start + steps)) if isinstance(x, Stacked) else x for x in xs]

    # ---------------------------------------------------------------------------------------- as a whole

    def whole(self, ins: Sequence[Any]) -> list[Any]:
        """All results."""
        params, reasons = self.pure()
        if params is None:
            return list(map(Unknown, reasons))
        outs, _ = self.run(("whole", self.length), primal_operation(self.part(self.length)), self.known(ins))
        return [Unknown(r) if r else x for x, r in zip(outs, reasons, strict=True)]

    def whole_tangents(self, ins: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of all results."""
        unknown = next((t for t in tangents if isinstance(t, Unknown)), None)
        params, reasons = self.pure()
        if unknown is not None or params is None:
            return [unknown or Unknown(r) for r in reasons]
        nonzero = tuple(t is not None for t in tangents)
        operation = tangent_operation(self.part(self.length), nonzero)
        values = [*self.known(ins), *[t for t in tangents if t is not None]]
        outs, flags = self.run(("tangents", self.length, nonzero), operation, values)
        return [t if t is None or not r else Unknown(r) for t, r in zip(spread(outs, flags), reasons, strict=True)]

    def whole_cotangents(self, ins: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """The cotangents of all operands: the backward pass runs part by part, and runs each part forward again."""
        unknown = next((x for x in (*cts, *ins) if isinstance(x, Unknown)), None)
        if unknown is not None:
            return [unknown] * len(ins)
        carry, ys = operands(cts, self.n_carry)
        at = self.length
        consts: list[Any] = [None] * self.n_consts
        xs: list[tuple[int, list[Any]]] = []
        course = self.course("primal")
        step = self.length if self.length <= SHORT else course.stretch
        while at > 0:
            steps = (at - 1) % step + 1
            at -= steps
            found = self.back(at, steps, carry, self.rows(ys, at, steps))
            added, carry, piece = operands(found, self.n_consts, self.n_carry)
            consts = [self.steps.added(a, b) for a, b in zip(consts, added, strict=True)]
            xs.append((steps, piece))
        if not self.reverse:
            xs.reverse()
        places = range(len(ins) - self.first_x)
        return [*consts, *carry, *[self._joined([(n, piece[i]) for n, piece in xs]) for i in places]]

    def back(self, at: int, steps: int, carry_cts: Sequence[Any], y_cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the inputs of ``steps`` steps from ``at`` on, given the cotangents of their outputs."""
        ins = self.known()
        values = [*ins[: self.n_consts], *self.course("primal").state(at), *self.rows(ins[self.first_x :], at, steps)]
        cts = [*carry_cts, *y_cts]
        nonzero = tuple(ct is not None for ct in cts)
        operation = cotangent_operation(self.part(steps), len(values), nonzero)
        values += [ct for ct in cts if ct is not None]
        outs, flags = self.run(("back", steps, nonzero), operation, values, self.times(steps))
        return spread(outs, flags)

    def _joined(self, parts: Sequence[tuple[int, Any]]) -> Any:
        """Concatenate cotangents of parts of an array. Each pair has the number of steps and a cotangent or None."""
        given = [p for _, p in parts if p is not None]
        if not given:
            return None
        sizes = [axis.size for axis in self.frame.levels.axes]
        mapped = tuple(any(flags) for flags in zip(*[p.mapped for p in given], strict=True))
        n = sum(mapped)
        some = _spread_out(given[0], mapped, sizes)
        arrays = [
            np.zeros((*some.shape[:n], steps, *some.shape[n + 1 :]), some.dtype)
            if p is None
            else _spread_out(p, mapped, sizes)
            for steps, p in parts
        ]
        value = np.concatenate(arrays, axis=n)
        return Stacked(Array(value, given[0].array.aval.update(shape=value.shape)), mapped)

    # ---------------------------------------------------------------------------------------- by iteration

    def course(self, kind: str) -> Course:
        """The course of the carry, of the carry and its tangents, or of its cotangents from the last step backwards."""
        if kind not in self.courses:
            keeper = self.frame.root.keeper
            start, advance = {
                "primal": (self._carries, self._advance),
                "tangent": (self._moving, self._advance_tangents),
                "cotangent": (self._arriving, self._retreat),
            }[kind]
            self.courses[kind] = Course(keeper, start(), self.length, advance)
        return self.courses[kind]

    def _carries(self) -> list[Any]:
        return self.known()[self.n_consts : self.first_x]

    def _advance(self, at: int, state: list[Any], steps: int) -> list[Any]:
        ins = self.known()
        values = [*ins[: self.n_consts], *state, *self.rows(ins[self.first_x :], at, steps)]
        outs, _ = self.run(("on", steps), primal_operation(self._carry_only(steps)), values, self.times(steps))
        return outs

    def _carry_only(self, steps: int) -> Any:
        function = self.part(steps)
        return lambda *values: function(*values)[: self.n_carry]

    def _moving(self) -> list[Any]:
        tangents = [self.frame.tangent_of(v) for v in self.eqn.invars[self.n_consts : self.first_x]]
        return [*self._carries(), *tangents]

    def _advance_tangents(self, at: int, state: list[Any], steps: int) -> list[Any]:
        carry, moving = operands(state, self.n_carry)
        ins = self.known()
        all_tangents = [self.frame.tangent_of(v) for v in self.eqn.invars]
        tangents = [*all_tangents[: self.n_consts], *moving, *self.rows(all_tangents[self.first_x :], at, steps)]
        values = [*ins[: self.n_consts], *carry, *self.rows(ins[self.first_x :], at, steps)]
        nonzero = tuple(t is not None for t in tangents)
        operation = tangent_operation(self._carry_only(steps), nonzero, with_primals=True)
        values += [t for t in tangents if t is not None]
        outs, flags = self.run(("push", steps, nonzero), operation, values, self.times(steps))
        return [*outs[: self.n_carry], *spread(outs[self.n_carry :], flags)]

    def _arriving(self) -> list[Any]:
        return [self.frame.cotangent_of(v) for v in self.eqn.outvars[: self.n_carry]]

    def _retreat(self, done: int, state: list[Any], steps: int) -> list[Any]:
        at = self.length - done - steps
        ys = [self.frame.cotangent_of(v) for v in self.eqn.outvars[self.n_carry :]]
        return self.back(at, steps, state, self.rows(ys, at, steps))[self.n_consts : self.first_x]

    def frame_of(self, index: int) -> Any:
        """The frame of an iteration."""
        if not 0 <= index < self.length:
            raise IndexError(f"this scan has {self.length} iterations; there is no iteration {index}")
        step = self.length - 1 - index if self.reverse else index
        invars, outer = self.eqn.invars, self.frame

        def primal(i: int) -> Any:
            if i < self.n_consts or (step == 0 and i < self.first_x):
                return outer.primal_of(invars[i])
            if i >= self.first_x:
                x = outer.primal_of(invars[i])
                return row(x, index) if isinstance(x, Stacked) else x
            params, reasons = self.pure()
            reason = reasons[i - self.n_consts]
            if reason or params is None:
                return Unknown(reason)
            return _tried(lambda: self.course("primal").state(step)[i - self.n_consts])

        def tangent(i: int) -> Any:
            if i < self.n_consts or (step == 0 and i < self.first_x):
                return outer.tangent_of(invars[i])
            if i >= self.first_x:
                t = outer.tangent_of(invars[i])
                return row(t, index) if isinstance(t, Stacked) else t
            value, unknown = primal(i), self.unknown_tangent()
            if isinstance(value, Unknown) or unknown is not None:
                return unknown or value
            return _tried(lambda: self.course("tangent").state(step)[self.n_carry + i - self.n_consts])

        def cotangent(i: int) -> Any:
            unknown = self.unknown_cotangent()
            if unknown is not None:
                return unknown
            if i < self.n_carry:
                return _tried(lambda: self.course("cotangent").state(self.length - 1 - step)[i])
            ct = outer.cotangent_of(self.eqn.outvars[i])
            return row(ct, index) if isinstance(ct, Stacked) else ct

        feed = _feed(outer, primal, tangent, cotangent)
        return self.child(index, self.eqn.params["jaxpr"], feed, scan_title(index, self.length))

    def unknown_cotangent(self) -> Unknown | None:
        """The reason why cotangents inside are unknown, if an arriving cotangent or an operand is unknown."""
        values = (*map(self.frame.cotangent_of, self.eqn.outvars), *map(self.frame.primal_of, self.eqn.invars))
        return next((x for x in values if isinstance(x, Unknown)), None)

    def inside(self, index: int, part: str) -> Any:
        """See ``Frame.inside``."""
        return self.frame_of(index)


class WhileRun(LoopRun):
    """A ``while`` that is replayed, with an iteration count for each example that ends separately."""

    def __init__(self, steps: Any, eqn: JaxprEqn) -> None:
        super().__init__(steps, eqn)
        self.n_cond, self.n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        self.first = self.n_cond + self.n_body
        self._counting: dict[str, Any] | None = None
        # the number of iterations after which the loop was given up; 0 if it was not
        self.unended = 0

    def counting(self) -> dict[str, Any]:
        """The parameters of a loop that counts its iterations up to a limit: ``(limit, count, *carry)``."""
        if self._counting is None:
            params = self.pure()[0]
            cond, body = params["cond_jaxpr"], params["body_jaxpr"]
            number = get_aval(np.zeros(self.shape(), np.int32))
            n_cond, n_body = self.n_cond, self.n_body

            def goes_on(*values: Any) -> list[Any]:
                limit, consts, (count, *carry) = values[0], values[1 : 1 + n_cond], values[1 + n_cond :]
                (going,) = eval_closed(cond, *consts, *carry)
                return [and_p.bind(lt_p.bind(count, limit), going)]

            def turn(*values: Any) -> list[Any]:
                consts, (count, *carry) = values[:n_body], values[n_body:]
                return [add_p.bind(count, np.ones(self.shape(), np.int32)), *eval_closed(body, *consts, *carry)]

            of_cond = [number, *cond.in_avals[:n_cond], number, *cond.in_avals[n_cond:]]
            of_body = [*body.in_avals[:n_body], number, *body.in_avals[n_body:]]
            with bound_axes(self.frame.levels.named):
                goes, turned = stage(goes_on, of_cond, "goes_on"), stage(turn, of_body, "turn")
            counts = {"cond_nconsts": n_cond + 1, "body_nconsts": n_body}
            self._counting = {"cond_jaxpr": goes, "body_jaxpr": turned, **counts}
        return self._counting

    def function(self) -> Any:
        """The loop as a function of ``(limit, cond consts, body consts, count, carry)``."""
        return applied(while_p, self.counting())

    def bounded(self, ins: Sequence[Stacked], carry: Sequence[Any], at: Stacked, limit: int) -> list[Stacked]:
        """The operands of ``function`` from iteration ``at`` on."""
        return [self._number(limit), *ins[: self.first], at, *carry]

    def _turned(self, ins: Sequence[Stacked], carry: Sequence[Any], at: Stacked, limit: int) -> list[Stacked]:
        """The count and the carry when the loop has ended or has reached ``limit``."""
        return self.run("whole", primal_operation(self.function()), self.bounded(ins, carry, at, limit))[0]

    def _number(self, n: int) -> Stacked:
        return self.frame.levels.same(np.full(self.shape(), n, np.int32))

    def shape(self) -> tuple[int, ...]:
        """The shape of elements that end separately: () unless vmap batched the loop before it was recorded."""
        return tuple(self.eqn.params["cond_jaxpr"].out_avals[0].shape)

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
        return int(np.max(np.asarray(count.array._value()), initial=0)) if isinstance(count, Stacked) else count

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
        while True:
            found = self._turned(ins, found[1:], found[0], limit)
            if limit == FOREVER or int(np.max(np.asarray(found[0].array._value()), initial=0)) < limit:
                return found
            if time.monotonic() > late:
                self.unended = limit
                return Unknown(f"the loop has not ended after {limit:,} iterations")
            limit = min(limit * 4, int(FOREVER))

    def whole(self, ins: Sequence[Any]) -> list[Any]:
        """All results."""
        found = self.ended(ins)
        if isinstance(found, Unknown):
            return [found] * len(self.eqn.outvars)
        return [Unknown(r) if r else x for x, r in zip(found[1:], self.pure()[1], strict=True)]

    def whole_tangents(self, ins: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of all results."""
        unknown = next((t for t in tangents if isinstance(t, Unknown)), None)
        params, reasons = self.pure()
        if unknown is not None or params is None:
            return [unknown or Unknown(r) for r in reasons]
        known = self.known(ins)
        moved = self._pushed(known, known[self.first :], tangents, tangents[self.first :], 0, FOREVER)
        found = moved[len(self.eqn.outvars) :]
        return [t if t is None or not r else Unknown(r) for t, r in zip(found, reasons, strict=True)]

    def _pushed(
        self, ins: Sequence[Any], carry: Sequence[Any], tangents: Sequence[Any], moving: Sequence[Any], at: int, to: int
    ) -> list[Any]:
        """The carry and its tangents before iteration ``to``, computed from those before iteration ``at``."""
        dots = [None, *tangents[: self.first], None, *moving]
        nonzero = tuple(t is not None for t in dots)
        operation = tangent_operation(self.function(), nonzero, with_primals=True)
        values = [*self.bounded(ins, carry, self._number(at), to), *[t for t in dots if t is not None]]
        outs, flags = self.run(("push", nonzero), operation, values)
        n = 1 + len(carry)
        return [*outs[1:n], *spread(outs[n:], flags)[1:]]

    def course(self, kind: str) -> Course:
        """The course of the carry, or of the carry and its tangents."""
        if kind not in self.courses:
            n = len(self.eqn.outvars)
            length = self.length()
            assert isinstance(length, int), "the caller has checked that the loop ends"
            start = self.known()[self.first :]

            def advance(at: int, state: list[Any], steps: int) -> list[Any]:
                ins = self.known()
                if kind == "primal":
                    return self._turned(ins, state, self._number(at), at + steps)[1:]
                tangents = [self.frame.tangent_of(v) for v in self.eqn.invars]
                return self._pushed(ins, state[:n], tangents, state[n:], at, at + steps)

            if kind == "tangent":
                start = [*start, *[self.frame.tangent_of(v) for v in self.eqn.invars[self.first :]]]
            self.courses[kind] = Course(self.frame.root.keeper, start, length, advance)
        return self.courses[kind]

    def inside(self, index: int, part: str) -> Any:
        """The frame of an iteration, or of the condition before it."""
        length = self.length()
        if isinstance(length, Unknown):
            return Unknown(f"the number of iterations is not known: {length.reason}")
        if not 0 <= index < length + (part == "condition"):
            raise IndexError(f"this while loop runs {length} iterations; there is no iteration {index}")
        n_own, offset = (self.n_cond, 0) if part == "condition" else (self.n_body, self.n_cond)
        invars, outer = self.eqn.invars, self.frame

        def operand(i: int) -> Any:
            return invars[offset + i] if i < n_own else invars[self.first + i - n_own]

        def primal(i: int) -> Any:
            if i < n_own or index == 0:
                return outer.primal_of(operand(i))
            reason = self.pure()[1][i - n_own]
            return Unknown(reason) if reason else _tried(lambda: self.course("primal").state(index)[i - n_own])

        def tangent(i: int) -> Any:
            if i < n_own or index == 0:
                return outer.tangent_of(operand(i))
            value, unknown = primal(i), self.unknown_tangent()
            if isinstance(value, Unknown) or unknown is not None:
                return unknown or value
            return _tried(lambda: self.course("tangent").state(index)[len(self.eqn.outvars) + i - n_own])

        closed = self.eqn.params["cond_jaxpr" if part == "condition" else "body_jaxpr"]
        feed = _feed(outer, primal, tangent, None, NOT_BACKWARD)
        title = while_title(index) + (", condition" if part == "condition" else "")
        return self.child((index, part), closed, feed, title)


NOT_BACKWARD = "a while loop has no reverse mode: its number of iterations is known only when it runs"


def _feed(outer: Any, primal: Any, tangent: Any, cotangent: Any, no_cotangents: str = "") -> Asked:
    own = outer.feed
    return Asked(
        primal,
        tangent if own.has_tangents else None,
        cotangent if own.has_cotangents else None,
        own.no_tangents,
        (no_cotangents or own.no_cotangents) if own.has_cotangents else "",
    )


def _tried(find: Any) -> Any:
    """The result of ``find``, or its exception as an Unknown."""
    try:
        return find()
    except Exception as error:
        return why(error)


def _spread_out(x: Stacked, mapped: Sequence[bool], sizes: Sequence[int]) -> np.ndarray:
    """The values of ``x`` with an axis for each vmap flagged in ``mapped``."""
    value = np.asarray(x.array._value())
    at = 0
    for own, wanted, size in zip(x.mapped, mapped, sizes, strict=True):
        if wanted and not own:
            value = np.broadcast_to(np.expand_dims(value, at), (*value.shape[:at], size, *value.shape[at:]))
        at += wanted
    return value
