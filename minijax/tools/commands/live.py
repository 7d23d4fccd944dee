"""Commands on the live interpreter stack: %push %pop %stack %tracers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minijax.core.trace import state
from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.panels import last_recording
from minijax.tools.documents.document import Block, Document, Row, document, line, text
from minijax.tools.recording import panels
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session.result import Result
from minijax.tools.session.source import parse_expression
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.live.level import Level
    from minijax.tools.session.session import Session

# The modules live.kinds and live.views are imported late, to keep the start of a prompt fast.


def run_push(session: Session, args: Arguments) -> Result:
    from minijax.tools.commands import push
    from minijax.tools.live import kinds

    kind, _, rest = args["what"].partition(" ")
    kind = {"make_jaxpr": "jaxpr", "remat": "checkpoint"}.get(kind, kind)
    if kind not in kinds.KINDS:
        hint = did_you_mean(kind, kinds.KINDS)
        raise UsageError(f"%push knows no transformation {kind!r}.{hint} It knows {', '.join(kinds.KINDS)}.")
    level = push.level(session, kind, rest, args["axis"], args["name"])
    session.live.push(level)
    return Result(Document(tuple(push.opened_blocks(session.live, level))))


def _value_blocks(session: Session, level: Level, result: Any) -> list[Block]:
    """The blocks that show ``result``, the result of closing ``level``, with a row for each of its parts."""

    def row(label: str, value: Any) -> list[Block]:
        lines = session.value_document(value).blocks
        return [Row(label), *lines] if len(lines) != 1 else _beside(label, lines[0])

    if level.kind == "jvp":
        return row("primal", result[0]) + row("tangent", result[1])
    if level.kind in ("vmap", "pmap"):
        return row("batched", result)
    if level.kind == "jaxpr":
        return list(session.value_document(result).blocks)
    if level.kind in ("linearize", "vjp"):
        forward = level.kind == "linearize"
        description = f"a function of {'tangents' if forward else 'the cotangent'}; its linear program:"
        title = Row("linear" if forward else "pullback", (line(description),))
        return [*row("value", result[0]), title, *session.value_document(result[1].jaxpr).blocks]
    if level.kind == "value_and_grad":
        return row("value", result[0]) + _gradients(row, level, result[1])
    if level.kind in ("grad", "jacfwd", "jacrev", "hessian"):
        return _gradients(row, level, result)
    return row("value", result)


def _beside(label: str, block: Block) -> list[Block]:
    if hasattr(block, "lines"):
        return [Row(label, block.lines)]
    return [Row(label), block]


def _gradients(row: Any, level: Level, found: Any) -> list[Block]:
    names = list(level.inputs)
    parts = (found,) if len(names) == 1 else found
    word = "gradient" if "grad" in level.kind else level.kind
    blocks: list[Block] = []
    for name, part in zip(names, parts, strict=True):
        blocks += row(f"{word} {name} ", part)
    return blocks


def run_pop(session: Session, args: Arguments) -> Result:
    live = session.live
    if not live.levels:
        raise UsageError("nothing is pushed: open a level first, for example %push jvp x=3. dx=1.")
    from minijax.tools.live.views import returned_lines

    expr = args["expr"]
    if (args["all"] or args["drop"]) and expr:
        raise UsageError("%pop takes an expression, or --all or --drop, which give no value; not both")
    if args["all"] or args["drop"]:
        blocks: list[Block] = []
        for _ in range(len(live.levels) if args["all"] else 1):
            level = live.levels[-1]
            lines = returned_lines(live.drop(), level.label)
            blocks += [Row("closed", (line(("level", level.label)), *lines))]
        return Result(Document(tuple(blocks)))
    level = live.levels[-1]
    if not expr and live.latest is None:
        raise UsageError(
            f"%pop needs EXPR, the value to return from {level.label}: nothing has been assigned or shown in it yet. "
            "%pop --drop closes it without a value."
        )
    recorder = Recorder("summary", f"%pop {expr}")
    with recorder:
        if expr:
            value, expression = session.evaluate(parse_expression("pop", expr), {}), expr
        else:
            assert live.latest is not None
            value, expression = live.latest
        label = level.label
        result, done = live.close(value)
    heading = line(("level", label), f"  {level.kind} of {', '.join(level.inputs)}", ("muted", f" ↦ {expression}"))
    names = returned_lines(done, label)
    blocks = [Row("closed", (heading,)), *_value_blocks(session, level, result)]
    blocks += [Row("names", names)] if names else []
    return Result(Document(tuple(blocks)), result, recorder.recording)


def run_stack(session: Session, args: Arguments) -> Result:
    blocks: list[Block] = []
    if session.live.levels:
        from minijax.tools.live.views import stack_blocks

        blocks += stack_blocks(session.live)
    else:
        blocks.append(Row("now", (panels.stack_line(repr(main) for main in state.stack),)))
    # skip full recordings of lines without transformations, which session.recordings may include
    known = [*session.recordings, *([] if session.recording is None else [session.recording])]
    recording = next((each for each in reversed(known) if each.traced), None)
    if recording is not None and recording.scopes:
        _, *others = panels.stack_rows(recording, everything=True)
        when = line(("muted", "in the last line that traced"))
        blocks.append(Row("deepest", (panels.stack_line(recording.stack),), when))
        blocks += others
    return Result(Document(tuple(blocks)))


def run_tracers(session: Session, args: Arguments) -> Result:
    if session.live.levels:
        from minijax.tools.live.views import tracer_blocks

        return Result(Document(tuple(tracer_blocks(session.live, args["all"]))))
    recording = last_recording(session)
    if not recording.tracers:
        return Result(document(text("the last line made no tracers", role="muted")))
    return Result(Document(tuple(panels.tracer_rows(recording, everything=True))))


COMMANDS = (
    Command(
        "push",
        (
            Param("what", "text", "a transformation and its inputs, such as jvp x=3. dx=1.", required=True),
            Param("axis", "word", "vmap: the mapped axis, such as 0 for all names, or x=1,w=None", default="0"),
            Param("name", "word", "vmap and pmap: a name for the mapped axis, for collectives such as lax.psum"),
        ),
        "Open a transformation at the prompt, and keep it open for the lines that follow.\n\n"
        "The inputs are names with values. Now these names hold tracers: type lines as if inside a function of them. "
        "%pop EXPR closes the innermost transformation and returns the value of EXPR outside it. "
        "Transformations nest in any order and to any depth.\n\n"
        "jvp takes tangents too: dx is the tangent of x, ones by default. vmap maps axis 0 of each name unless --axis "
        "says otherwise. jaxpr records each line as equations; its inputs may be types, as in z=f32[3]. linearize, "
        "vjp, grad and value_and_grad record the linear program of the backward pass. jit, checkpoint, pmap, jacfwd, "
        "jacrev, hessian, linear_transpose and eval_shape record your lines, and %pop applies them to the record.\n\n"
        "A name alone takes your variable's value. %pop restores the values that the names had before.",
        "%push jvp x=3. dx=1.\ny = jnp.sin(x) * x\n%pop y",
        run_push,
        group="watch",
    ),
    Command(
        "pop",
        (
            Param("expr", "text", "the value to return, by default the one last assigned or shown"),
            Param("all", "flag", "close every level, without a value"),
            Param("drop", "flag", "close the innermost level without a value"),
        ),
        "Close the innermost transformation, and return the value of EXPR outside it.\n\n"
        "This is the result of the transformation for a function of the pushed names that runs your lines and returns "
        "EXPR: (primal, tangent), the batched array, the jaxpr, (value, linear map) or the gradient. Other names that "
        "hold tracers of the level get the tracers' values outside it. The pushed names get back their earlier "
        "values. After an error the level stays open.",
        "%push grad x=3.\n%pop jnp.sin(x) * x",
        run_pop,
        group="watch",
    ),
    Command(
        "stack",
        (),
        "The interpreter stack now, what each pushed level holds, and the deepest stack that the last line reached.",
        "%stack",
        run_stack,
        group="watch",
    ),
    Command(
        "tracers",
        (Param("all", "flag", "also show tracers that none of your variables holds"),),
        "The live tracers of the pushed levels, unwrapped level by level; without levels, those of the last line.",
        "%tracers",
        run_tracers,
        group="watch",
    ),
)
