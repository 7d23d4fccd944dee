"""The linearization of jaxprs into a known and a linear part, for calls, branches and loops.

The interpreter ``linearize`` is imported at first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax.core.lazy import HigherModule
from minijax.core.lists import partition
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import Rule
from minijax.core.structural import Zero, instantiate_zeros
from minijax.core.trace import Tracer
from minijax.interpreters.partial_eval import LinearProgram, Residual, dce_jaxpr
from minijax.interpreters.stage import stage
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr

_linearization = HigherModule("linearization")

# rule(is_vjp, nonzero, *primals, **params) -> (out, nonzero out, residuals, linear), where linear(residuals, *tangents)
# gives the tangent, or a list of tangents. Primitives without such a rule use their jvp rule.
linearize_rules: dict[Primitive, Rule] = {}


class LinearizedJaxpr(NamedTuple):
    """A jaxpr's derivative in two parts.

    ``known`` maps its inputs to its outputs and ``n_res`` residuals. ``linear`` maps residuals and nonzero tangents to
    the tangents of the outputs that ``nonzero_out`` selects. Values that depend on no input are constants of
    ``linear``, not residuals.
    """

    known: ClosedJaxpr
    linear: ClosedJaxpr
    nonzero_out: list[bool]
    n_res: int


def linearize_jaxpr(
    closed: ClosedJaxpr, nonzero: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> LinearizedJaxpr:
    """The derivative of a jaxpr in its ``nonzero`` inputs, as two jaxprs.

    ``instantiate`` selects outputs: if the tangent of one is zero, it becomes an array of zeros.
    """
    forced = [instantiate] * len(closed.out_avals) if isinstance(instantiate, bool) else list(instantiate)
    key = ("linearize", tuple(nonzero), tuple(forced))
    found: LinearizedJaxpr | None = closed.memo.get(key)
    if found is None:
        found = closed.memo[key] = _linearize_jaxpr(closed, nonzero, forced)
    return found


def _linearize_jaxpr(closed: ClosedJaxpr, nonzero: Sequence[bool], forced: Sequence[bool]) -> LinearizedJaxpr:
    name = closed.jaxpr.debug_name
    made: list[Any] = []

    def value_and_residuals(*args: Any) -> list[Any]:
        outs, tape = _linearization.linearize(lambda *xs: eval_closed(closed, *xs), args, nonzero, name)
        program = tape.program()
        tangents = [
            Residual(instantiate_zeros(t)) if type(t) is Zero and f else t
            for t, f in zip(program.outs, forced, strict=True)
        ]
        nonzero_out = [type(t) is not Zero for t in tangents]
        linear = LinearProgram(program.in_vars, program.recorded, tangents, name, program.mixed).closed()
        made.extend([linear, nonzero_out])
        return [*outs, *[x for x in linear.consts if isinstance(x, Tracer)]]

    known = stage(value_and_residuals, closed.in_avals, name, "known part")
    linear, nonzero_out = made
    pruned, _ = dce_jaxpr(known.jaxpr, [True] * len(known.out_avals), keep_inputs=True)
    known = ClosedJaxpr(pruned, known.consts)
    # the tracers are dead now, so the linear part takes the residuals as inputs
    jaxpr = linear.jaxpr
    is_residual = [isinstance(x, Tracer) for x in linear.consts]
    const_vars, res_vars = partition(is_residual, jaxpr.constvars)
    consts, residuals = partition(is_residual, linear.consts)
    linear = ClosedJaxpr(jaxpr.replace(constvars=const_vars, invars=[*res_vars, *jaxpr.invars]), consts)
    known.memo["made_by"], linear.memo["made_by"] = "known part", "linear part"
    return LinearizedJaxpr(known, linear, nonzero_out, len(residuals))
