"""The backward pass of a call, step by step: %backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from minijax.api import vjp
from minijax.core.array import get_aval
from minijax.ir.evaluate import eval_closed
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from minijax.ops.call import jit_p
from minijax.ops.checkpoint import remat_p
from minijax.ops.shape import full_like
from minijax.pytree import tree_leaves, tree_map
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.transform import EXPR, as_tangent, named_rows, ones, value_rows, with_arguments
from minijax.tools.commands.values import choose_iterations, integers_given
from minijax.tools.documents.document import Block, Line, Row, document, line
from minijax.tools.documents.words import plural
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import Recording
from minijax.tools.session import targets
from minijax.tools.session.result import Result
from minijax.tools.session.source import parse_expression
from minijax.tools.session.targets import Target

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def run_backward(session: Session, args: Arguments) -> Result:
    # imported late: few sessions look at a backward pass
    from minijax.tools.stepper import backward_table
    from minijax.tools.values.moment import ledger as ledger_of

    target = _target(session, args["expr"])
    recorder = Recorder("full", args["expr"], retrace=True)
    with recorder:
        out, pullback = vjp(target.fun, *target.args)
        if args["cotangent"] is None:
            # a weak value has a weak gradient, as with grad
            cotangent = tree_map(lambda x: full_like(x, 1) if _is_weak_float(x) else ones(x), out)
        else:
            value = session.evaluate(parse_expression("backward", args["cotangent"]), {})
            cotangent = as_tangent("backward --cotangent", "the cotangent of the value", out, value)
        cotangents = pullback(cotangent)
    recording = recorder.recording
    choose_iterations(
        "backward", ledger_of(recording), backward_table.in_loops(recording), integers_given(args["iteration"])
    )
    blocks = value_rows(session, "value", out, "[0]")
    if backward_table.outermost(recording) > 1:
        note = "the call itself differentiates: the inner backward pass comes first, and the pass of the result last"
        blocks.append(Row("note", (line(("muted", note)),)))
    blocks += backward_table.steps_blocks(recording, args["most"], args["names"])
    places = [f"[1][{i}]" for i in range(len(cotangents))]
    blocks += named_rows(session, "gradient", target.names, cotangents, places)
    blocks += backward_table.kept_blocks(recording)
    blocks += _checkpoint_blocks(target, recording)
    return Result(document(*blocks), (out, cotangents), recording)


def _is_weak_float(x: Any) -> bool:
    aval = get_aval(x)
    return aval.weak_type and aval.dtype == aval.to_tangent_aval().dtype


def _target(session: Session, expression: str) -> Target:
    target = targets.from_expression(session, "backward", expression).concrete("backward")
    target = targets.traceable("backward", target)
    target = with_arguments(target if target.args else targets.positional(target), "backward")
    return targets.positional(target) if target.kwargs else target


# --- what checkpoint saves


def _checkpoint_blocks(target: Target, recording: Recording) -> Iterator[Block]:
    """The recomputed equations, and the size of the residuals with and without checkpoint."""
    from minijax.tools.stepper import backward_table

    closed = targets.stage(target)
    calls = list(_checkpoints(closed.jaxpr))
    if not calls:
        return
    leaves = tree_leaves((target.args, target.kwargs))
    with_it, without = (residual_bytes(each, leaves) for each in (closed, without_checkpoint(closed)))
    saved = without - with_it
    sizes: Line = line(("value", f"{with_it:,} bytes"), ("muted", f" of residuals, {without:,} without it: "))
    verdict = ("good", f"{saved:,} saved") if saved > 0 else ("warning", f"{-saved:,} more" if saved else "the same")
    rows = [(*sizes, verdict)]
    for names in backward_table.recomputed(recording):
        rows.append(line(("muted", f"{plural(len(names), 'equation')} run again: "), ("primitive", " ".join(names))))
    yield Row("saved", tuple(rows))


def _checkpoints(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The calls of ``checkpoint`` in a program and its inner programs."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is remat_p:
            yield eqn
        for value in eqn.params.values():
            for each in value if type(value) is tuple else (value,):
                if isinstance(each, ClosedJaxpr):
                    yield from _checkpoints(each.jaxpr)


def without_checkpoint(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with ``jit`` instead of each ``checkpoint``."""
    eqns = []
    for eqn in closed.jaxpr.eqns:
        params = {name: _without(value) for name, value in eqn.params.items()}
        if eqn.primitive is remat_p:
            eqns.append(eqn.replace(primitive=jit_p, params={"jaxpr": params["jaxpr"], "name": "checkpoint"}))
        else:
            eqns.append(eqn.replace(params=params))
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _without(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return without_checkpoint(value)
    if type(value) is tuple and any(isinstance(each, ClosedJaxpr) for each in value):
        return tuple([_without(each) for each in value])
    return value


def residual_bytes(closed: ClosedJaxpr, leaves: Sequence[Any]) -> int:
    """The size in bytes of the residuals of the program at ``leaves``, from their types; each array counts once."""
    _, pullback = vjp(lambda *xs: eval_closed(closed, *xs), *leaves)
    held = {id(x): get_aval(x) for x in pullback.jaxpr.consts}
    return sum(aval.size * aval.dtype.itemsize for aval in held.values())


COMMANDS = (
    Command(
        "backward",
        (
            EXPR,
            Param("cotangent", "expression", "the cotangent of the value, ones if not given"),
            Param("iteration", "ints", "the loop iteration to show, from 0; 2,0 for a loop inside a loop"),
            Param("most", "int", "how many steps of a pass to list at most", default=60),
            Param("names", "flag", "show your program's variable names where there are any"),
        ),
        "The backward pass of a call's function, from the result back to the arguments.\n\n"
        "Each step is an equation of the linear program, below the source line that it belongs to. It shows the "
        "cotangent that arrives at the equation's result, and the cotangents that go on to its operands. A cotangent "
        "is named after its value: ct of h. Below the steps are the gradients of the arguments, the residuals that the "
        "forward pass keeps for each line, and the memory that checkpoint saves.",
        "%backward f(3.0)",
        run_backward,
        group="transform",
    ),
)
