"""Commands that measure programs and compare them with JAX: %time %compare."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from minijax.backend.profiling import ProfilerBusy
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.pytree import tree_leaves
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.transform import EXPR, STATIC, value_rows
from minijax.tools.documents.document import Block, Document, Fitted, Printout, Row, line
from minijax.tools.documents.words import plural
from minijax.tools.recording import preview
from minijax.tools.session import targets
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.compare.measure import Figures, Side
    from minijax.tools.session.session import Session
    from minijax.tools.session.targets import Target
    from minijax.tools.xla.step_time import StepTime

# The measuring modules are imported when a command runs: few sessions need them, and they may import jax.


def _target(session: Session, command: str, args: Arguments) -> Target:
    target = targets.traceable(command, targets.from_expression(session, command, args["expr"], True), args["static"])
    for x in tree_leaves((target.args, target.kwargs)):
        if isinstance(x, Tracer):
            raise UsageError(
                f"%{command} runs a program from outside all transformations, and an argument of {target.title} is "
                f"{preview.value_text(x)}. Give it values, or close that level with %pop."
            )
    return target


def _staged(target: Target) -> ClosedJaxpr | Exception:
    """The program's jaxpr, or the error if it cannot be staged. Such a program may still run."""
    try:
        return targets.stage(target)
    except Exception as error:  # the program may raise any error
        if target.abstract:
            raise
        return error


def run_time(session: Session, args: Arguments) -> Result:
    from minijax.tools.compare import measure

    target = _target(session, "time", args)
    once = measure.has_effects(_staged(target))
    side = measure.ours(target)
    found = measure.measured(side, target.abstract, once)
    if found.jitted is None and (args["lines"] or args["timeline"]):
        option = "--lines" if args["lines"] else "--timeline"
        watching = f"%time {option} measures a compiled call over many runs"
        raise UsageError(f"{watching}. Leave {option} out here: {found.notes[0]}")
    figures = {"minijax": found.seconds}
    notes = found.notes
    unlike = _unlike(session)
    if unlike:
        notes.append("JAX traces a library's functions once; minijax's times do not include these traces")
    if not args["alone"]:
        try:
            figures["jax"] = measure.measured(measure.theirs(target), target.abstract, once).seconds
        except Exception as error:  # JAX may raise any error for the program
            notes.append(measure.why_not(error))
    step, parts = (None, "") if found.jitted is None else _step(side, found)
    blocks = [_bars(figures, unlike), *(_step_blocks(step, args) if step is not None else ())]
    blocks += [Row("note", (line(("muted", note)),)) for note in (*notes, *filter(None, [parts]))]
    named = {
        name if library == "minijax" else f"{library} {name}": seconds
        for library, each in figures.items()
        for name, seconds in each.items()
    }
    named |= step.parts if step is not None else {}
    return Result(Document(tuple(blocks)), named)


def _step(side: Side, found: Figures) -> tuple[StepTime | None, str]:
    """``(how a compiled call spends its time, '')``, or ``(None, reason)`` if this is unknown."""
    from minijax.tools.compare import measure
    from minijax.tools.xla import step_time

    def call() -> Any:
        return side.wait(found.jitted(*side.args, **side.kwargs))

    with contextlib.redirect_stdout(measure.Nowhere()):
        try:
            return step_time.timed_step(found.jitted.lower(*side.args, **side.kwargs), call, found.seconds["jit"]), ""
        except ProfilerBusy as error:
            return None, f"where a call's time goes is not known: {measure.first_line(error)}"
        except UsageError as error:
            return None, str(error)


def _step_blocks(step: StepTime, args: Arguments) -> Iterator[Block]:
    from minijax.tools.xla import step_time_view

    yield step_time_view.parts(step, not (args["lines"] or args["timeline"]))
    if args["lines"]:
        yield from step_time_view.by_line(step.linked, step.rows, args["most"])
        yield from step_time_view.together(step)
    if args["timeline"]:
        yield from step_time_view.timeline(step, args["most"])


def _unlike(session: Session) -> tuple[str, ...]:
    """The phases in which minijax does less than JAX: it takes functions of a library that JAX has traced already."""
    return ("trace",) if any(each.kept or each.reason for each in session.watched) else ()


def _bars(figures: dict[str, dict[str, float]], unlike: tuple[str, ...]) -> Block:
    from minijax.tools.compare import measure

    def blocks(width: int) -> tuple[Block, ...]:
        made = (
            measure.bar_block("once", figures, measure.PHASES, width, unlike),
            measure.bar_block("each call", figures, measure.CALLS, width),
        )
        return tuple(block for block in made if block is not None)

    return Fitted(blocks)


def run_compare(session: Session, args: Arguments) -> Result:
    from minijax.tools.compare import measure

    target = _target(session, "compare", args)
    closed = _staged(target)
    our_side = measure.ours(target)
    value: Any = NOTHING if target.abstract else our_side.call()
    is_jaxpr = isinstance(value, ClosedJaxpr)
    blocks: list[Block] = []
    if value is not NOTHING and not is_jaxpr:
        blocks += value_rows(session, "minijax", value)
    try:
        their_side = measure.theirs(target)
        their_value = None if target.abstract else their_side.call()
        theirs: Any = their_value if is_jaxpr else their_side.jaxpr() if isinstance(closed, ClosedJaxpr) else None
        # in a notebook, JAX adds colour codes to the text of a jaxpr
        their_text = "" if theirs is None else theirs.pretty_print(use_color=False)
    except Exception as error:  # JAX may raise any error for the program
        blocks.append(Row("jax", (line(("warning", measure.why_not(error))),)))
        return Result(Document(tuple(blocks)), value)
    if value is not NOTHING and not is_jaxpr:
        blocks += [*value_rows(session, "jax", their_value, None), measure.value_row(value, their_value)]
    if isinstance(closed, ClosedJaxpr):
        blocks += _jaxprs(closed, their_text)
    else:
        blocks.append(Row("jaxpr", (line(("muted", f"none: {measure.first_line(closed)}")),)))
    if not is_jaxpr:
        once = measure.has_effects(closed)
        blocks += _figures(our_side, their_side, target.abstract, once, _unlike(session))
    return Result(Document(tuple(blocks)), value)


def _figures(our_side: Side, their_side: Side, abstract: bool, once: bool, unlike: tuple[str, ...]) -> list[Block]:
    from minijax.tools.compare import measure

    ours = measure.measured(our_side, abstract, once)
    try:
        theirs = measure.measured(their_side, abstract, once)
    except Exception as error:  # JAX may raise any error for the program
        theirs = measure.Figures({}, measure.why_not(error))
    notes = dict.fromkeys((*ours.notes, *theirs.notes))
    rows = [Row("note", (line(("muted", note)),)) for note in notes]
    return [_bars({"minijax": ours.seconds, "jax": theirs.seconds}, unlike), *rows]


def _jaxprs(closed: ClosedJaxpr, their_text: str) -> list[Block]:
    from minijax.tools.compare import diff, measure

    read = measure.read_back(their_text)
    count = plural(len(closed.eqns), "equation")
    closed = closed if read is None else measure.comparable(closed)
    if str(closed) == (their_text if read is None else str(read)):
        same = Row("jaxpr", (line(("good", "the same"), ("muted", f" · {count}")),))
        return [same, Printout(jaxpr_document(closed))]
    if read is None:
        note = line(("warning", "they differ; JAX's jaxpr is shown as JAX prints it, because minijax cannot read it"))
        titles = (line(("heading", "minijax")), line(("heading", "jax")))
        return [Row("jaxpr", (note,)), diff.texts_side_by_side(str(closed).split("\n"), their_text.split("\n"), titles)]
    titles = (
        line(("heading", "minijax"), ("muted", f" · {count}")),
        line(("heading", "jax"), ("muted", f" · {plural(len(read.eqns), 'equation')}")),
    )
    return [Row("jaxpr", (line(("warning", "they differ")),)), diff.side_by_side(closed, read, titles, derived=False)]


COMMANDS: tuple[Command, ...] = (
    Command(
        "time",
        (
            EXPR,
            STATIC,
            Param("alone", "flag", "leave JAX out", default=False),
            Param("lines", "flag", "show the time of each of your lines in a compiled call", default=False),
            Param("timeline", "flag", "show a compiled call on a time axis", default=False),
            Param("most", "int", "how many lines or instructions to show at most", default=20),
        ),
        "Time a call: tracing, lowering, compiling, the first run, then further eager and jitted calls; also in JAX."
        "\n\n"
        "The time of a compiled call has four parts. Dispatch is the work of Python and the runtime before the first "
        "instruction runs. Transfer copies arguments to the device. Compute runs instructions. The rest is the time "
        "between instructions and after the last one. "
        "JAX runs the same program with its own functions in place of minijax's; if it cannot, the reason is shown. "
        "Times are the best of several runs. In IPython use %minijax_time, because IPython has its own %time.",
        "%time f(3.0)",
        run_time,
        group="programs",
    ),
    Command(
        "compare",
        (EXPR, STATIC),
        "Compare a call with real JAX: its value, its jaxpr and its times.\n\n"
        "JAX runs the same program with its own functions in place of minijax's, also inside your functions. The "
        "comparison of jaxprs leaves out parameters that only concern sharding.",
        "%compare f(3.0)",
        run_compare,
        group="programs",
    ),
)
