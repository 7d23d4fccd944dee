"""The linearization of a primitive, derived from its jvp rule by partial evaluation.

In: a jvp rule and a signature: the operands' types, which of them have a tangent, the parameters. Out: three programs.
Where vmaps map the operands, these are the programs as the vmaps' rules make them (``interpreters.bottom``).
The *known* one computes the result and what is to be kept (the residuals), the *linear* one the result's tangent from
residuals and tangents, and the *backward* one is the transpose of that: from residuals and a cotangent to what the
operands' cotangents get. Which primitives' rules are so run once, ``interpreters.jvp_rules`` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.named import NamedTuple
from minijax.core.primitive import Primitive
from minijax.core.trace import state
from minijax.interpreters.bottom import Type, logical, stage_on, staged_on
from minijax.interpreters.flat_code import backward_function, forward_function, linear_function
from minijax.interpreters.jvp_rules import staged_rule
from minijax.interpreters.partial_eval import partial_eval_jaxpr
from minijax.interpreters.recording_code import recording_backward, recording_function
from minijax.interpreters.transpose import Arrivals, transpose_eqn
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class BackwardProgram(NamedTuple):
    """A backward program on NumPy values.

    ``function(ct, residuals)`` gives what arrives at the operands, one value as it is, several as a tuple; ``slots``
    says at which of the active operands, in the order in which it arrives; ``types`` are the types.
    """

    function: Callable[..., Any]
    slots: tuple[int, ...]
    types: tuple[Type, ...]


# What ``Derived.forward`` gives in place of residuals where the result's tangent is an operand's own.
PASSED_ON = object()


class Derived:
    """How a primitive of one result is linearized at one signature, of types ``types``.

    ``forward(*values)`` gives the result and the residuals packed, on NumPy values; ``backward`` has the program for
    each type of cotangent.
    """

    def __init__(
        self, primitive: Primitive, known: ClosedJaxpr, linear: ClosedJaxpr, n_res: int, types: Sequence[Type]
    ) -> None:
        self.primitive = primitive
        # residuals and tangents -> the tangent, as operations see them
        self.linear = linear
        self.n_res = n_res
        self.out_aval = known.out_avals[0]
        # the known program at the bottom
        self.known, out_types = staged_on(known, types, primitive.name)
        self.out_type, *self.residual_types = out_types
        # which active operand's tangent the result's is, if it is one of these
        jaxpr = linear.jaxpr
        self.passes_on = next((i for i, v in enumerate(jaxpr.invars[n_res:]) if v is jaxpr.outvars[0]), None)
        self.forward = forward_function(self.known, None if self.passes_on is None else PASSED_ON)
        # the tangent's type, or types, as a tuple -> the linear program on NumPy values, and the result's type
        self.pushes: dict[Any, tuple[Callable[..., Any], Type]] = {}
        self.backward: dict[Any, BackwardProgram | None] = {}
        # for each type of cotangent what records the backward program
        self.recorded: dict[Any, Callable[..., Any] | None] = {}

    @functools.cached_property
    def record(self) -> Callable[..., Any] | None:
        """Records the equations of the known program: see ``interpreters.recording_code``."""
        return recording_function(self.known, self.linear)

    def push(self, key: Any) -> tuple[Callable[..., Any], Type]:
        """``function(residuals packed, *tangents)`` and its result's type, for tangents of types ``key``.

        That is one type if there is one tangent, else a tuple. They may differ in weakness from those of the rule.
        """
        tangent_types = key if type(key) is tuple else (key,)
        with observe.unobserved():
            closed, (out_type,) = stage_on(
                lambda *values: eval_closed(self.linear, *values),
                [*self.residual_types, *tangent_types],
                self.primitive.name,
                "rule linear part",
            )
        made = self.pushes[key] = linear_function(closed, self.n_res), out_type
        return made

    def transposed(self, ct_type: Type) -> BackwardProgram:
        """The backward program for a cotangent of this type.

        It may differ from the result's in weakness, and in what is mapped.
        """
        closed, slots, types, _ = self._transposed(ct_type)
        made = BackwardProgram(backward_function(closed, self.n_res), tuple(slots), tuple(types))
        self.backward[ct_type] = made
        return made

    def recording_backward(self, ct_type: Type) -> Callable[..., Any] | None:
        """What records the backward program for a cotangent of this type, None where the rules must be run."""
        made = None
        if self.record is not None:
            single = len(self.linear.in_avals) == self.n_res + 1
            made = recording_backward(*self._transposed(ct_type), self.n_res, single)
        self.recorded[ct_type] = made
        return made

    def _transposed(self, ct_type: Type) -> tuple[ClosedJaxpr, list[int], list[Type], list[int]]:
        """The transposed linear program.

        For each result the slot, the type, and after how many equations it arrives there.
        """
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
            closed, types = stage_on(
                transpose, [*self.residual_types, ct_type], self.primitive.name, "rule transpose"
            )
        return closed, slots, types, arrivals


def derive(
    primitive: Primitive, types: Sequence[Type], active: Sequence[bool], params: dict[str, Any]
) -> Derived | None:
    """The linearization of ``primitive`` at a signature, on operands of these types at the bottom.

    None where the result has no tangent, or one that its operands' tangents have no part in, and where what the rule
    does depends on more than the signature.
    """
    avals = [*map(logical, types)]
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
    made = Derived(primitive, known, linear, n_res, types)
    if staged.stages_values:  # which are residuals where the rule is run
        made.record = None
    return made
