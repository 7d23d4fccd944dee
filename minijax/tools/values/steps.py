"""The effect of one equation on values, tangents and cotangents, and the frames of its inner programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import Array
from minijax.core.structural import zero_of
from minijax.core.trace import Tracer
from minijax.interpreters.named_axes import bound_axes
from minijax.ir.jaxpr import ClosedJaxpr, JaxprEqn
from minijax.ops.custom_derivatives import zero_flags
from minijax.tools.values.courses import ScanRun, WhileRun
from minijax.tools.values.derivatives import applied, pulled, pushed, sum_operation
from minijax.tools.values.devices import Devices, device_count, device_of
from minijax.tools.values.examples import Levels, Stacked, Unknown, first_unknown, why, with_zeros, zeros_of
from minijax.tools.values.feeds import COTANGENT, PRIMAL, TANGENT, given, inside, of_operands
from minijax.tools.values.loops import branch_of, branch_title, called, operands
from minijax.tools.values.pure import SILENT, refused
from minijax.tools.values.references import is_reference

INSTEAD = "inside the function of a custom_{} call there are no {}: the {} takes its place"
NO_CONDITION = "it is not known which branch is taken"


class Steps:
    """Evaluates the equations of one frame."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.frames: dict[Any, Any] = {}
        self.loops: dict[int, Any] = {}

    @property
    def levels(self) -> Levels:
        return self.frame.levels

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
        if moving and (unknown := first_unknown([*ins, *[self.frame.find(PRIMAL, v) for v in eqn.outvars]])):
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
        params, out = self.frame.root.purifier.params(eqn, reasons)
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
        return [self.frame.find(PRIMAL, v) for v in eqn.invars]

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
        """The names of the programs inside ``eqn``; '' is the main one."""
        name = eqn.primitive.name
        if name == "while":
            return "", "condition"
        if name == "custom_vjp_call":
            return ("", "fwd") if COTANGENT in self.frame.feed.kinds else ("",)
        if name == "custom_linear_solve":
            return "", "solve", "matvec"
        return ("",) if called(eqn)[0] or name in ("scan", "cond", "shard_map") else ()

    def inside(self, eqn: JaxprEqn, index: int | None, part: str) -> Any:
        """The frame of a program inside ``eqn``: see ``Frame.inside``."""
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
                return device_of(self.frame, eqn, index, self._parts)
            if name == "cond":
                which = self.frame.find(PRIMAL, eqn.invars[0])
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
        frame = self.frame
        return type(frame)(frame.root, levels or frame.levels, jaxpr, consts, feed, (*frame.path, title))

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
            feed = inside(self.frame, of_operands(self.frame, eqn.invars, eqn.outvars), missing)
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
            find = of_operands(self.frame, eqn.invars[1:], eqn.outvars)
            feed = inside(self.frame, find, {COTANGENT: no} if no else None)
            return self.child(closed.jaxpr, closed.consts, feed, branch_title(index, len(branches)))

        return self._once((id(eqn), index), make)

    def branch(self, eqn: JaxprEqn) -> Any:
        """The number of the branch that ``eqn`` takes."""
        which = self.frame.find(PRIMAL, eqn.invars[0])
        if isinstance(which, Unknown):
            return which
        count = len(eqn.params["branches"])
        if not any(which.mapped):
            return branch_of(which.array, count)
        return which._replace(array=Array(np.clip(which.array._value(), 0, count - 1), which.array.aval))

    def counts(self, eqn: JaxprEqn) -> Any:
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
        known = self.frame.root.purifier.rule(function)
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
        tangents = [self.frame.find(TANGENT, v) for v in eqn.invars[n:]]
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
        feed = inside(self.frame, of_operands(self.frame, [*own, *rest], ()), missing)
        return self.child(closed.jaxpr, closed.consts, feed, f"linear solve, {part}")

    def _parts(self, eqn: JaxprEqn) -> Any:
        """The frame of a shard_map's program, in which each device is an example."""

        def make() -> Any:
            closed, feed = eqn.params["jaxpr"], Devices(self.frame, eqn)
            return self.child(closed.jaxpr, closed.consts, feed, "shard_map", feed.levels)

        return self._once(id(eqn), make)


INSIDE_SOLVE = "a linear solve is differentiated by another solve, so this one has no derivatives inside"
