"""The linearization of a primitive, derived from its jvp rule by partial evaluation.

In: a jvp rule and a signature (the operands' types, the active operands, the parameters). Out: three programs, for
operands that vmaps have batched (``interpreters.physical``). The *known* program computes the result and the residuals.
The *linear* program computes the result's tangent from residuals and tangents. The *backward* program is its transpose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijax.core import observe
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.trace import state
from minijax.interpreters.cached_programs import CachedProgram
from minijax.interpreters.jvp_rules import staged_rule
from minijax.interpreters.partial_eval import partial_eval_jaxpr
from minijax.interpreters.physical import Type, logical, stage_on, staged_on
from minijax.interpreters.program import backward_function, forward_function, linear_function
from minijax.interpreters.transpose import Arrivals, transpose_eqn
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Literal


class BackwardProgram(NamedTuple):
    """A transposed linear program.

    ``function(*cts, packed residuals)`` runs on NumPy values. It returns cotangents of active operands (one alone, or a
    tuple). ``slots`` are the indices of these operands among the active ones, ``types`` the types of the cotangents.
    ``program(*residuals, *cts)`` runs on any values; cotangent ``i`` arrives after ``arrivals[i]`` equations.
    ``binds``: see ``core.counting``.
    """

    function: Callable[..., Any]
    slots: tuple[int, ...]
    types: tuple[Type, ...]
    program: CachedProgram
    arrivals: tuple[int, ...]
    binds: dict[Any, Any]


# ``Derived.forward`` returns this in place of residuals if the result's tangent is just the tangent of an operand.
PASSED_ON = object()


class Derived:
    """How a primitive is linearized at one signature: the known program, the linear program and its transposes.

    ``types`` are the operands' physical types. ``forward(*NumPy values)`` gives the result and the packed residuals.
    ``stageable``: whether a jaxpr with these programs inlined has the equations that the rule itself would stage.
    """

    stageable: bool

    def __init__(self, name: str, known: ClosedJaxpr, linear: ClosedJaxpr, types: Sequence[Type]) -> None:
        self.name = name
        # (residuals, tangents) -> tangent, on logical values
        self.linear = linear
        (self.tangent,) = linear.jaxpr.outvars
        self.out_aval, *residuals = known.out_avals
        self.n_res = len(residuals)
        # the known program on physical values
        self.known, (self.out_type, *self.residual_types) = staged_on(known, types, name)
        # type of the cotangent -> the backward program on NumPy values
        self.backward: dict[Any, BackwardProgram] = {}
        # counts of the operations that the rule binds: see ``core.counting``
        self.binds: dict[Any, Any] = {}
        # the active operand whose tangent is the tangent of the result, if any
        operands = linear.jaxpr.invars[self.n_res :]
        self.passes_on = operands.index(self.tangent) if self.tangent in operands else None
        self.forward = forward_function(self.known, None if self.passes_on is None else PASSED_ON)
        # type or types of the tangents -> (linear program on NumPy values, type of its result)
        self.pushes: dict[Any, tuple[Callable[..., Any], Type]] = {}

    @functools.cached_property
    def typed_alike(self) -> bool:
        """Whether the tangent has the result's type and weak type: the operations of rules depend on that."""
        return bool(self.tangent.aval == self.out_aval.to_tangent_aval())

    @functools.cached_property
    def numbered(self) -> list[tuple[Primitive, dict[str, Any], list[Any], list[Any]]]:
        """The linear equations: (primitive, parameters, operands, types of results).

        Operands are literals or numbers. Constants, residuals, tangents and earlier results are numbered together. If a
        result is the program's tangent, None stands in place of its type.
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
    def distinct(self) -> tuple[CachedProgram | None, list[int]]:
        """The known program with each result once. Also, for each original result, its index among the operands and
        results of this program. The program is None if nothing is computed.
        """
        jaxpr = self.known.jaxpr
        number: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
        numbers = [number.setdefault(v, len(number)) for v in jaxpr.outvars]
        distinct = [*number][len(jaxpr.invars) :]
        if not distinct:
            return None, numbers
        return CachedProgram(ClosedJaxpr(jaxpr.replace(outvars=distinct), self.known.consts)), numbers

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The result and the residuals, on any values."""
        program, numbers = self.distinct
        found = values if program is None else [*values, *program.run(values)]
        return [found[i] for i in numbers]

    def transposed(self, ct_type: Type) -> BackwardProgram:
        """The backward program for this cotangent type, whose weak type and batch axes need not be the result's."""
        closed, slots, types, arrivals = self._transposed(ct_type)
        function = backward_function(closed, self.n_res)
        made = BackwardProgram(function, tuple(slots), tuple(types), CachedProgram(closed), tuple(arrivals), {})
        self.backward[ct_type] = made
        return made

    def _transposed(self, ct_type: Type) -> tuple[ClosedJaxpr, list[int], list[Type], list[int]]:
        """The transposed linear program; for each result of it the slot, type, and number of equations before it."""
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
        """``function(packed residuals, *tangents)`` and its result's type; ``key`` is the type or types of tangents."""
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
    """The linearization of ``primitive`` on operands of these physical types.

    None if the result's tangent is zero or constant, or if the rule depends on more than the signature.
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
    # false if there are constants, which would be residuals if the rule itself ran
    made.stageable = not staged.stages_values and names_all(known) and names_all(linear)
    return made


def names_all(closed: ClosedJaxpr) -> bool:
    """Whether a program has no constants, and no literals among its results."""
    return not closed.consts and not any(type(v) is Literal for v in closed.jaxpr.outvars)
