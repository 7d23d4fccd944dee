"""Partial evaluation under a policy: values that the unknown side needs are saved or recomputed.

In: a jaxpr with known and unknown inputs, and a policy that decides for each known equation whether its results may be
saved. Out: two jaxprs, as from ``partial_eval_jaxpr``, but the unknown one recomputes values that the policy does not
save. Invariant: all inputs are available to the unknown side, and each saved value is the result of an equation that
the policy allows or that has a side effect, because a side effect must happen only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijax.core.lists import partition
from minijax.core.primitive import Primitive
from minijax.core.records import NamedTuple
from minijax.core.rules import RuleTable
from minijax.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr_rules
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, is_effectful, matters

Policy = Callable[..., Any]

# rule(eqn, unknown_in, policy) -> (known equations, staged equations). An outvar of eqn that only staged equations
# define is unknown, one that only known equations define is saved, and one that both define is recomputed.
recompute_rules = RuleTable(
    "recompute", "Rule under a checkpoint policy for '{name}' not implemented", "most primitives need none"
)


class Saveable:
    """A policy may return this class, or an instance, in place of True."""


class Recompute:
    """A policy may return this class, or an instance, in place of False."""


class Offloadable(NamedTuple):
    """A policy's answer that moves a value to another memory. minijax refuses it with an error."""

    src: str
    dst: str


class Split(NamedTuple):
    """A jaxpr in two parts.

    ``known`` maps the inputs ``known_used`` to the known outputs and ``n_res`` residuals; ``staged`` maps residuals and
    the inputs ``staged_used`` to the outputs ``staged_out``.
    """

    known: ClosedJaxpr
    known_used: list[bool]
    staged: ClosedJaxpr
    staged_used: list[bool]
    unknown_out: list[bool]
    staged_out: list[bool]
    n_res: int


def allows(policy: Policy, eqn: JaxprEqn) -> bool:
    """Whether ``policy`` saves ``eqn``'s results. Raises NotImplementedError or TypeError for other answers."""
    answer = policy(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
    if isinstance(answer, bool):
        return answer
    for case, saves in ((Saveable, True), (Recompute, False)):
        if answer is case or isinstance(answer, case):
            return saves
    if isinstance(answer, Offloadable):
        raise NotImplementedError(
            f"The policy {policy} offloads the result of '{eqn.primitive.name}' to {answer.dst!r}: devices have one "
            "memory here. Save the value or recompute it."
        )
    hint = "; did you return Offloadable instead of Offloadable(...)?" if answer is Offloadable else ""
    raise TypeError(
        "Value returned by a remat policy should be a bool or `ad_checkpoint.Recompute`, `ad_checkpoint.Saveable` or "
        f"`ad_checkpoint.Offloadable(...)`. Got {answer!r} of type {type(answer)}{hint}."
    )


def split_by_policy(
    closed: ClosedJaxpr,
    unknown_in: Sequence[bool],
    policy: Policy,
    recompute_outputs: bool = False,
    force_unknown: Sequence[bool] = (),
    force_staged: Sequence[bool] = (),
) -> Split:
    """Split ``closed`` by its unknown inputs and by the values that ``policy`` saves; cached in ``closed``.

    ``recompute_outputs``: the staged part also computes known outputs that are not saved. ``force_unknown`` and
    ``force_staged`` select outputs to treat as unknown, or to stage even if they are saved.
    """
    no = (False,) * len(closed.out_avals)
    forced = tuple(force_unknown) or no, tuple(force_staged) or no
    key = ("recompute", tuple(unknown_in), policy, recompute_outputs, forced)
    try:
        found = closed.memo.get(key)
    except TypeError:  # a policy that cannot be hashed is called each time
        return _split(closed, unknown_in, policy, recompute_outputs, *forced)
    if found is None:
        found = closed.memo[key] = _split(closed, unknown_in, policy, recompute_outputs, *forced)
    return found


def _split(
    closed: ClosedJaxpr,
    unknown_in: Sequence[bool],
    policy: Policy,
    recompute_outputs: bool,
    force_unknown: Sequence[bool],
    force_staged: Sequence[bool],
) -> Split:
    jaxpr = closed.jaxpr
    unknown: set[Any] = {v for v, u in zip(jaxpr.invars, unknown_in, strict=True) if u}
    known_eqns: list[JaxprEqn] = []
    staged_eqns: list[JaxprEqn] = []
    known: set[Any] = set()  # results of known equations
    for eqn in jaxpr.eqns:
        now, later = _split_eqn(eqn, [type(v) is not Literal and v in unknown for v in eqn.invars], policy)
        known_eqns.extend(now)
        staged_eqns.extend(later)
        known.update(v for e in now for v in e.outvars)
        unknown.update(v for e in later for v in e.outvars if v not in known)
    staged = {v for e in staged_eqns for v in e.outvars}
    unknown_out = [
        f or (type(v) is not Literal and v in unknown) for f, v in zip(force_unknown, jaxpr.outvars, strict=True)
    ]
    staged_out = [
        u or f or (recompute_outputs and (type(v) is Literal or v in staged or v not in known))
        for u, f, v in zip(unknown_out, force_staged, jaxpr.outvars, strict=True)
    ]
    staged_outs = [v for v, s in zip(jaxpr.outvars, staged_out, strict=True) if s]
    # residuals are in the order in which the staged side first reads them
    read = [v for e in staged_eqns for v in e.invars] + staged_outs
    saved = list(dict.fromkeys(v for v in read if type(v) is not Literal and v in known and v not in staged))
    staged_jaxpr, used_saved, staged_used = _live(closed, saved, jaxpr.invars, staged_outs, staged_eqns)
    residuals = [v for v, used in zip(saved, used_saved, strict=True) if used]
    known_outs = [v for v, u in zip(jaxpr.outvars, unknown_out, strict=True) if not u]
    known_ins = [v for v, u in zip(jaxpr.invars, unknown_in, strict=True) if not u]
    known_jaxpr, _, known_used = _live(closed, [], known_ins, [*known_outs, *residuals], known_eqns)
    return Split(known_jaxpr, known_used, staged_jaxpr, staged_used, unknown_out, staged_out, len(residuals))


def _split_eqn(eqn: JaxprEqn, unknown_in: Sequence[bool], policy: Policy) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
    own = recompute_rules.get(eqn.primitive)
    if own is not None:
        return own(eqn, unknown_in, policy)
    now, later = [eqn], []
    if any(unknown_in):
        rule = partial_eval_jaxpr_rules.get(eqn.primitive)
        now, later = rule(eqn, unknown_in) if rule is not None else ([], [eqn])
    again = [e for e in now if not is_effectful(e) and not allows(policy, e)]
    return list(now), [*again, *later]


def call_recompute(primitive: Primitive, known_params: Any, staged_params: Any, param: str = "jaxpr") -> Any:
    """The rule under a checkpoint policy for a primitive that calls the jaxpr in its parameter ``param``."""

    def rule(eqn: JaxprEqn, unknown_in: Sequence[bool], policy: Any) -> tuple[list[JaxprEqn], list[JaxprEqn]]:
        split = split_by_policy(eqn.params[param], unknown_in, policy, recompute_outputs=True)
        known_in = partition(split.known_used, partition(unknown_in, eqn.invars)[0])[1]
        known_out = partition(split.unknown_out, eqn.outvars)[0]
        residuals = [Var(a) for a in split.known.out_avals[len(known_out) :]]
        # a saved output must not be bound twice: the enclosing split takes it from the known side
        staged_out = partition(split.staged_out, eqn.outvars)[1]
        staged_in = [*residuals, *partition(split.staged_used, eqn.invars)[1]]
        now = JaxprEqn(primitive, known_in, known_params(eqn, unknown_in, split), [*known_out, *residuals], eqn.source)
        later = JaxprEqn(primitive, staged_in, staged_params(eqn, split), staged_out, eqn.source)
        return [e for e in (now,) if matters(e)], [e for e in (later,) if matters(e)]

    return rule


def _live(
    closed: ClosedJaxpr, leading: Sequence[Var], ins: Sequence[Var], outs: Sequence[Any], eqns: Sequence[JaxprEqn]
) -> tuple[ClosedJaxpr, list[bool], list[bool]]:
    """The program from ``leading`` and ``ins`` to ``outs`` without dead equations, and which inputs it reads."""
    jaxpr = closed.jaxpr
    whole = Jaxpr([], [*jaxpr.constvars, *leading, *ins], outs, eqns, jaxpr.debug_name)
    pruned, used = dce_jaxpr(whole, [True] * len(outs))
    n_consts, n_leading = len(jaxpr.constvars), len(leading)
    consts = [c for c, u in zip(closed.consts, used[:n_consts], strict=True) if u]
    invars = pruned.invars
    live = pruned.replace(constvars=invars[: len(consts)], invars=invars[len(consts) :])
    return ClosedJaxpr(live, consts), used[n_consts : n_consts + n_leading], used[n_consts + n_leading :]
