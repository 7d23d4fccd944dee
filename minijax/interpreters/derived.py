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
from minijax.core.structural import add_tangents
from minijax.core.trace import state
from minijax.interpreters.bottom import Type, logical, stage_on, staged_on
from minijax.interpreters.jvp_rules import staged_rule
from minijax.interpreters.kept import KeptProgram
from minijax.interpreters.linear_parts import linearize_jaxpr
from minijax.interpreters.partial_eval import partial_eval_jaxpr
from minijax.interpreters.program import backward_function, forward_function, linear_function, results_function
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
    """How a primitive or a kept program is linearized at one signature: the known program, the linear one, transposes.

    ``known`` computes the ``n_out`` results and the residuals, ``linear`` the tangents ``tangents`` of results, from
    residuals and the tangents of operands. ``types`` are those of the operands at the bottom of the stack.
    ``forward(*values)`` gives the results, as a tuple if there are several, and the residuals packed, on NumPy values.
    ``places`` says where the tangent of each result is: the ``i``-th that ``linear`` computes (``i``), that of the
    ``i``-th active operand (``-1 - i``), or None if it has none.
    """

    def __init__(
        self, name: str, known: ClosedJaxpr, linear: ClosedJaxpr, nonzero_out: Sequence[bool], types: Sequence[Type]
    ) -> None:
        self.name = name
        # residuals and tangents -> the tangents, as operations see them
        self.linear = linear
        self.n_out = n_out = len(nonzero_out)
        self.n_res = len(known.out_avals) - n_out
        inputs = {v: -1 - i for i, v in enumerate(linear.jaxpr.invars[self.n_res :])}
        # the variables of the tangents that it computes
        self.tangents = [*dict.fromkeys(v for v in linear.jaxpr.outvars if v not in inputs)]
        place_of = inputs | {v: i for i, v in enumerate(self.tangents)}
        tangents = iter(linear.jaxpr.outvars)
        self.places = [place_of[next(tangents)] if nonzero else None for nonzero in nonzero_out]
        self.out_avals = known.out_avals[:n_out]
        # the known program at the bottom
        self.known, out_types = staged_on(known, types, name)
        self.out_types, self.residual_types = out_types[:n_out], out_types[n_out:]
        # for each type of cotangent, or the types of several, the program on NumPy values
        self.backward: dict[Any, BackwardProgram] = {}
        # what is known of the operations that the rule binds: see ``core.counting``
        self.binds: dict[Any, Any] = {}
        # whether its equations, written into a jaxpr, are what running the rule writes there
        self.stageable = False
        if n_out == 1:
            (self.out_aval,), (self.out_type,), (place,) = self.out_avals, self.out_types, self.places
            # which active operand's tangent the result's is, if it is one of these
            self.passes_on = -1 - place if place is not None and place < 0 else None
            self.forward = forward_function(self.known, None if self.passes_on is None else PASSED_ON)
        else:
            self.forward = results_function(self.known, n_out)
        # the tangent's type, or types, as a tuple -> the linear program on NumPy values, and the result's type
        self.pushes: dict[Any, tuple[Callable[..., Any], Type]] = {}
        # whether the linear equations can be written from places alone, where somebody has asked: interpreters.outline
        self.plain: bool | None = None

    @functools.cached_property
    def typed_alike(self) -> bool:
        """Whether tangents have the types of the results, weakness included: what rules bind for them depends on it."""
        return [v.aval for v in self.linear.jaxpr.outvars] == [aval.to_tangent_aval() for aval in self.out_avals]

    @functools.cached_property
    def primitives(self) -> list[Primitive]:
        """Those of the linear equations."""
        return [eqn.primitive for eqn in self.linear.jaxpr.eqns]

    @functools.cached_property
    def numbered(self) -> list[tuple[Primitive, dict[str, Any], list[Any], list[Any]]]:
        """The linear equations, each as primitive, parameters, operands and results, to be written with new variables.

        An operand is the number of what constants, residuals, tangents and the results so far are together, or a
        literal; a result is its number among ``tangents``, or a type.
        """
        jaxpr = self.linear.jaxpr
        number = {v: i for i, v in enumerate([*jaxpr.constvars, *jaxpr.invars])}
        tangents = {v: i for i, v in enumerate(self.tangents)}
        eqns = []
        for eqn in jaxpr.eqns:
            operands = [v if type(v) is Literal else number[v] for v in eqn.invars]
            number.update(zip(eqn.outvars, range(len(number), len(number) + len(eqn.outvars)), strict=True))
            eqns.append((eqn.primitive, eqn.params, operands, [tangents.get(v, v.aval) for v in eqn.outvars]))
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
        """The results and the residuals, on any values."""
        program, numbers = self.distinct
        found = values if program is None else [*values, *program.run(values)]
        return [found[i] for i in numbers]

    def transposed(self, ct_types: Any) -> BackwardProgram:
        """The backward program for a cotangent of this type; or for several of these, None for one that is zero.

        They may differ from those of the results in weakness, and in what is mapped.
        """
        closed, slots, types, arrivals = self._transposed(ct_types if type(ct_types) is tuple else (ct_types,))
        function = backward_function(closed, self.n_res)
        made = BackwardProgram(function, tuple(slots), tuple(types), KeptProgram(closed), tuple(arrivals), {})
        self.backward[ct_types] = made
        return made

    def _transposed(
        self, ct_types: Sequence[Type | None]
    ) -> tuple[ClosedJaxpr, list[int], list[Type], list[int]]:
        """The transposed linear program.

        For each result the slot, the type, and after how many equations it arrives there.
        """
        jaxpr, n_res = self.linear.jaxpr, self.n_res
        slot_of = {v: i for i, v in enumerate(jaxpr.invars[n_res:])}
        given = [v for v, t in zip(self.tangents, ct_types, strict=True) if t is not None]
        slots: list[int] = []
        arrivals: list[int] = []

        def transpose(*values: Any) -> list[Any]:
            known = dict(zip(jaxpr.constvars, self.linear.consts, strict=True))
            known.update(zip(jaxpr.invars, values[:n_res], strict=False))
            arrived: list[Any] = []
            staging: Any = state.dynamic

            def arrive(slot: int, ct: Any) -> None:
                slots.append(slot)
                arrivals.append(len(staging.builder.eqns))
                arrived.append(ct)

            ct_of = Arrivals(slot_of, arrive)
            for v, ct in zip(given, values[n_res:], strict=True):
                ct_of[v] = add_tangents(ct_of[v], ct) if v in ct_of else ct
            for eqn in reversed(jaxpr.eqns):
                transpose_eqn(eqn, known, ct_of)
            return arrived

        in_types = [*self.residual_types, *[t for t in ct_types if t is not None]]
        with observe.unobserved():
            closed, types = stage_on(transpose, in_types, self.name, "rule transpose")
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
    made = Derived(primitive.name, known, linear, [True], types)
    # constants that the rule makes are residuals where it is run
    made.stageable = not staged.stages_values and names_all(known) and names_all(linear)
    return made


def names_all(closed: ClosedJaxpr) -> bool:
    """Whether a program has no constants, and no result that is a literal."""
    return not closed.consts and not any(type(v) is Literal for v in closed.jaxpr.outvars)


def derive_program(program: KeptProgram, types: Sequence[Type], kind: int) -> Derived | None:
    """The linearization of a program on operands of these types; those have tangents whose bit in ``kind`` is set.

    None where some of the linear part depends on no tangent.
    """
    active = [bool(kind >> i & 1) for i in range(len(types))]
    with observe.unobserved():
        known, linear_part, nonzero_out, n_res = linearize_jaxpr(program.closed, active)
    jaxpr = linear_part.jaxpr
    linear = set(jaxpr.invars[n_res:])
    for eqn in jaxpr.eqns:
        if linear.isdisjoint([v for v in eqn.invars if type(v) is not Literal]):
            return None
        linear.update(eqn.outvars)
    if any(type(v) is Literal or v not in linear for v in jaxpr.outvars):
        return None
    return Derived("program", known, linear_part, nonzero_out, types)
