"""The linearization of a primitive, derived from its jvp rule by partial evaluation.

In: a jvp rule and a signature: the operands' types, which of them have a tangent, the parameters. Out: three programs.
The *known* one computes the result and what is to be kept (the residuals), the *linear* one the result's tangent from
residuals and tangents, and the *backward* one is the transpose of that: from residuals and a cotangent to what the
operands' cotangents get. Which primitives' rules are so run once, ``interpreters.jvp_rules`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.avals import ShapedArray
from minijax.core.named import NamedTuple
from minijax.core.primitive import Primitive
from minijax.core.trace import state
from minijax.interpreters.flat_code import backward_function, forward_function, linear_function
from minijax.interpreters.jvp_rules import staged_rule
from minijax.interpreters.partial_eval import partial_eval_jaxpr
from minijax.interpreters.recording_code import recording_backward, recording_function
from minijax.interpreters.stage import stage
from minijax.interpreters.transpose import Arrivals, transpose_eqn
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class BackwardProgram(NamedTuple):
    """A backward program on NumPy values.

    ``function(ct, residuals)`` gives what arrives at the operands, one value as it is, several as a tuple; ``slots``
    says at which of the active operands, in the order in which it arrives; ``avals`` are the types.
    """

    function: Callable[..., Any]
    slots: tuple[int, ...]
    avals: tuple[ShapedArray, ...]


# What ``Derived.forward`` gives in place of residuals where the result's tangent is an operand's own.
PASSED_ON = object()


class Derived:
    """How a primitive of one result is linearized at one signature.

    ``forward(*values)`` gives the result and the residuals packed, on NumPy values; ``backward`` has the program for
    each type of cotangent.
    """

    __slots__ = (
        *("primitive", "out_aval", "known", "linear", "n_res"),
        *("forward", "pushes", "backward", "passes_on", "_record", "recorded"),
    )

    _record: Callable[..., Any] | None

    def __init__(self, primitive: Primitive, known: ClosedJaxpr, linear: ClosedJaxpr, n_res: int) -> None:
        self.primitive = primitive
        self.known = known
        # residuals and tangents -> the tangent
        self.linear = linear
        self.n_res = n_res
        self.out_aval: ShapedArray = known.out_avals[0]
        # which active operand's tangent the result's is, if it is one of these
        jaxpr = linear.jaxpr
        self.passes_on = next((i for i, v in enumerate(jaxpr.invars[n_res:]) if v is jaxpr.outvars[0]), None)
        self.forward = forward_function(known, None if self.passes_on is None else PASSED_ON)
        # the tangent's type, or types, as a tuple -> the linear program on NumPy values, and the result's type
        self.pushes: dict[Any, tuple[Callable[..., Any], ShapedArray]] = {}
        self.backward: dict[Any, BackwardProgram | None] = {}
        # for each type of cotangent what records the backward program
        self.recorded: dict[Any, Callable[..., Any] | None] = {}

    @property
    def record(self) -> Callable[..., Any] | None:
        """Records the equations of the known program: see ``interpreters.recording_code``."""
        try:
            return self._record
        except AttributeError:
            record = self._record = recording_function(self.known, self.linear)
            return record

    @property
    def residual_avals(self) -> Sequence[ShapedArray]:
        """The types of the residuals."""
        return self.known.out_avals[1:]

    def push(self, key: Any) -> tuple[Callable[..., Any], ShapedArray]:
        """``function(residuals packed, *tangents)`` and its result's type, for tangents of types ``key``.

        That is one type if there is one tangent, else a tuple. They may differ in weakness from those of the rule.
        """
        tangent_avals = key if type(key) is tuple else (key,)
        with observe.unobserved():
            closed = stage(
                lambda *values: eval_closed(self.linear, *values),
                [*self.residual_avals, *tangent_avals],
                self.primitive.name,
                "rule linear part",
            )
        made = self.pushes[key] = linear_function(closed, self.n_res), closed.out_avals[0]
        return made

    def transposed(self, ct_aval: ShapedArray) -> BackwardProgram:
        """The backward program for a cotangent of this type, which may differ from the result's in weakness."""
        closed, slots, _ = self._transposed(ct_aval)
        made = BackwardProgram(backward_function(closed, self.n_res), tuple(slots), tuple(closed.out_avals))
        self.backward[ct_aval] = made
        return made

    def recording_backward(self, ct_aval: ShapedArray) -> Callable[..., Any] | None:
        """What records the backward program for a cotangent of this type, None where the rules must be run."""
        made = None
        if self.record is not None:
            closed, slots, arrivals = self._transposed(ct_aval)
            made = recording_backward(closed, self.n_res, slots, arrivals, len(self.linear.in_avals) == self.n_res + 1)
        self.recorded[ct_aval] = made
        return made

    def _transposed(self, ct_aval: ShapedArray) -> tuple[ClosedJaxpr, list[int], list[int]]:
        """The transposed linear program; for each result the slot, and after how many equations it arrives there."""
        jaxpr, n_res = self.linear.jaxpr, self.n_res
        slot_of = {v: i for i, v in enumerate(jaxpr.invars[n_res:])}
        slots: list[int] = []
        arrivals: list[int] = []

        def transpose(*values: Any) -> list[Any]:
            known = dict(zip(jaxpr.constvars, self.linear.consts, strict=True))
            known.update(zip(jaxpr.invars, values[:-1], strict=False))
            arrived: list[Any] = []
            staging: Any = state.dynamic

            def arrive(slot: int, ct: Any) -> None:
                slots.append(slot)
                arrivals.append(len(staging.builder.eqns))
                arrived.append(ct)

            ct_of = Arrivals(slot_of, arrive)
            ct_of[jaxpr.outvars[0]] = values[-1]
            for eqn in reversed(jaxpr.eqns):
                transpose_eqn(eqn, known, ct_of)
            return arrived

        with observe.unobserved():
            closed = stage(transpose, [*self.residual_avals, ct_aval], self.primitive.name, "rule transpose")
        return closed, slots, arrivals


def derive(
    primitive: Primitive, avals: Sequence[ShapedArray], active: Sequence[bool], params: dict[str, Any]
) -> Derived | None:
    """The linearization of ``primitive`` at a signature.

    None where the result has no tangent, or one that its operands' tangents have no part in, and where what the rule
    does depends on more than the signature.
    """
    n = len(avals)
    tangent_avals = [aval if a else None for aval, a in zip(avals, active, strict=True)]
    staged = staged_rule(primitive, avals, tangent_avals, params)
    if staged is None:
        return None
    unknown_in = [False] * n + [True] * sum(active)
    known, linear, _, n_res = partial_eval_jaxpr(staged.closed, unknown_in, [False, True])
    jaxpr = linear.jaxpr
    computed = {v for eqn in jaxpr.eqns for v in eqn.outvars}.union(jaxpr.invars[n_res:])
    tangent_out = jaxpr.outvars[0]
    if type(tangent_out) is Literal or tangent_out not in computed:
        return None
    made = Derived(primitive, known, linear, n_res)
    if staged.stages_values:  # which are residuals where the rule is run
        made._record = None
    return made
