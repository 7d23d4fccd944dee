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
from minijax.interpreters.jvp_rules import staged_rule
from minijax.interpreters.kept import KeptProgram
from minijax.interpreters.partial_eval import partial_eval_jaxpr
from minijax.interpreters.program import backward_function, forward_function, linear_function
from minijax.interpreters.transpose import Arrivals, transpose_eqn
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class BackwardProgram(NamedTuple):
    """A backward program.

    ``function(*cts, residuals packed)`` gives what arrives at the operands, on NumPy values: one value as it is,
    several as a tuple. ``slots`` says at which of the active operands, in the order in which it arrives; ``types`` are
    the types. ``program(*residuals, *cts)`` is the same on any values; ``arrivals`` says after how many of its
    equations each arrives. ``binds`` is what is known of the operations that the transpose rules bind: see
    ``core.counting``.
    """

    function: Callable[..., Any]
    slots: tuple[int, ...]
    types: tuple[Type, ...]
    program: KeptProgram
    arrivals: tuple[int, ...]
    binds: dict[Any, Any]


# What ``Derived.forward`` gives in place of residuals where the result's tangent is an operand's own.
PASSED_ON = object()


class Derived:
    """How a primitive is linearized at one signature: the known program, the linear one, transposes.

    ``known`` computes the result and the residuals, ``linear`` the result's tangent, from residuals and the tangents of
    operands. ``types`` are those of the operands at the bottom of the stack. ``forward(*values)`` gives the result and
    the residuals packed, on NumPy values.
    """

    def __init__(self, name: str, known: ClosedJaxpr, linear: ClosedJaxpr, types: Sequence[Type]) -> None:
        self.name = name
        # residuals and tangents -> the tangent, as operations see them
        self.linear = linear
        (self.tangent,) = linear.jaxpr.outvars
        self.out_aval, *residuals = known.out_avals
        self.n_res = len(residuals)
        # the known program at the bottom
        self.known, (self.out_type, *self.residual_types) = staged_on(known, types, name)
        # for each type of cotangent, the program on NumPy values
        self.backward: dict[Any, BackwardProgram] = {}
        # what is known of the operations that the rule binds: see ``core.counting``
        self.binds: dict[Any, Any] = {}
        # whether its equations, written into a jaxpr, are what running the rule writes there
        self.stageable = False
        # which active operand's tangent the result's is, if it is one of these
        operands = linear.jaxpr.invars[self.n_res :]
        self.passes_on = operands.index(self.tangent) if self.tangent in operands else None
        self.forward = forward_function(self.known, None if self.passes_on is None else PASSED_ON)
        # the tangent's type, or types, as a tuple -> the linear program on NumPy values, and the result's type
        self.pushes: dict[Any, tuple[Callable[..., Any], Type]] = {}

    @functools.cached_property
    def typed_alike(self) -> bool:
        """Whether the tangent has the type of the result, weakness included: what rules bind for it depends on it."""
        return bool(self.tangent.aval == self.out_aval.to_tangent_aval())

    @functools.cached_property
    def numbered(self) -> list[tuple[Primitive, dict[str, Any], list[Any], list[Any]]]:
        """The linear equations, each as primitive, parameters, operands and results, to be written with new variables.

        An operand is a literal, or a number: constants, residuals, tangents and earlier results are numbered together.
        A result is its type, or None if it is the tangent.
        """
        jaxpr = self.linear.jaxpr
        number = {v: i for i, v in enumerate([*jaxpr.constvars, *jaxpr.invars])}
        eqns = []
        for eqn in jaxpr.eqns:
            operands = [v if type(v) is Literal else number[v] for v in eqn.invars]
            number.update(zip(eqn.outvars, range(len(number), len(number) + len(eqn.outvars)), strict=True))
            results = [None if v is self.tangent else v.aval for v in eqn.outvars]
            eqns.append((eqn.primitive, eqn.params, operands, results))
        return eqns

    @functools.cached_property
    def distinct(self) -> tuple[KeptProgram | None, list[int]]:
        """The known program, of results that are neither operands nor one another; and which each result is.

        That is its number among the operands and the program's results.
        """
        jaxpr = self.known.jaxpr
        number: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
        numbers = [number.setdefault(v, len(number)) for v in jaxpr.outvars]
        distinct = [*number][len(jaxpr.invars) :]
        if not distinct:
            return None, numbers
        return KeptProgram(ClosedJaxpr(jaxpr.replace(outvars=distinct), self.known.consts)), numbers

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The result and the residuals, on any values."""
        program, numbers = self.distinct
        found = values if program is None else [*values, *program.run(values)]
        return [found[i] for i in numbers]

    def transposed(self, ct_type: Type) -> BackwardProgram:
        """The backward program for a cotangent of this type.

        It may differ from that of the result in weakness, and in what is mapped.
        """
        closed, slots, types, arrivals = self._transposed(ct_type)
        function = backward_function(closed, self.n_res)
        made = BackwardProgram(function, tuple(slots), tuple(types), KeptProgram(closed), tuple(arrivals), {})
        self.backward[ct_type] = made
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
            *residuals, ct = values
            known.update(zip(jaxpr.invars, residuals, strict=False))
            arrived: list[Any] = []
            staging: Any = state.dynamic

            def arrive(slot: int, ct: Any) -> None:
                slots.append(slot)
                arrivals.append(len(staging.builder.eqns))
                arrived.append(ct)

            ct_of = Arrivals(slot_of, arrive)
            ct_of[self.tangent] = ct
            for eqn in reversed(jaxpr.eqns):
                transpose_eqn(eqn, known, ct_of)
            return arrived

        with observe.unobserved():
            closed, types = stage_on(transpose, [*self.residual_types, ct_type], self.name, "rule transpose")
        return closed, slots, types, arrivals

    def push(self, key: Any) -> tuple[Callable[..., Any], Type]:
        """``function(residuals packed, *tangents)`` and its result's type, for tangents of types ``key``.

        That is one type if there is one tangent, else a tuple. They may differ in weakness from those of the rule.
        """
        tangent_types = key if type(key) is tuple else (key,)
        with observe.unobserved():
            closed, (out_type,) = stage_on(
                lambda *values: eval_closed(self.linear, *values),
                [*self.residual_types, *tangent_types],
                self.name,
                "rule linear part",
            )
        made = self.pushes[key] = linear_function(closed, self.n_res), out_type
        return made


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
    made = Derived(primitive.name, known, linear, types)
    # constants that the rule makes are residuals where it is run
    made.stageable = not staged.stages_values and names_all(known) and names_all(linear)
    return made


def names_all(closed: ClosedJaxpr) -> bool:
    """Whether a program has no constants, and no result that is a literal."""
    return not closed.consts and not any(type(v) is Literal for v in closed.jaxpr.outvars)
