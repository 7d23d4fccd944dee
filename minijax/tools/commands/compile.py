"""Commands that compile: %jit %hlo."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from minijax.api import block_until_ready
from minijax.ir.jaxpr import is_effectful
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.transform import EXPR, value_rows
from minijax.tools.documents.document import Block, Code, Document, Highlighter, Interactive, Row, line, text
from minijax.tools.documents.words import bytes_text, seconds_text
from minijax.tools.programs import arguments, hlo
from minijax.tools.recording import panels
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session import targets
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.session.targets import Target
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# The runs after the first one are timed for this many seconds.
_TIMED_SECONDS = 0.05
# A program whose first run took longer than this, in seconds, is not timed again.
_LONG_RUN = 1.0


def run_jit(session: Session, args: Arguments) -> Result:
    target = targets.typed(session, "jit", args["expr"], args.cell)
    jitted = targets.jitted(target)
    recorder = Recorder("summary", args["expr"])
    blocks: list[Block] = []
    value: Any = NOTHING
    with recorder:
        if target.abstract:
            jitted.lower(*target.args, **target.kwargs).compile()
        else:
            value = block_until_ready(jitted(*target.args, **target.kwargs))
    if value is not NOTHING:
        blocks += value_rows(session, "value", value)
    for rows in (panels.hlo_rows, panels.cache_rows, panels.time_rows):
        blocks += rows(recorder.recording)
    if value is not NOTHING and _acts(jitted, target):
        blocks.append(Row("note", (line(("muted", "run once only: it has effects")),)))
    elif value is not NOTHING and panels.phase_totals(recorder.recording).get("run", 0.0) < _LONG_RUN:
        # imported late: the module brings the profiler
        from minijax.tools.xla.roofline import best_of

        best, runs = best_of(lambda: jitted(*target.args, **target.kwargs), _TIMED_SECONDS)
        blocks.append(
            Row(
                "again",
                (line(("time", seconds_text(best)), ("muted", f" a call, the best of {runs}")),),
            )
        )
    elif value is NOTHING:
        blocks.append(Row("note", (line(("muted", "compiled and not run: an argument is only a type")),)))
    return Result(Document(tuple(blocks)), value, recorder.recording)


def _acts(jitted: Any, target: Target) -> bool:
    """Whether the program has side effects, such as printing or callbacks."""
    return any(map(is_effectful, jitted.trace(*target.args, **target.kwargs).jaxpr.eqns))


def run_hlo(session: Session, args: Arguments) -> Result:
    if args["line"] is not None and args["eqn"] is not None:
        raise UsageError("%hlo takes --line or --eqn, not both")
    other = next((name for name in ("links", "line", "eqn", "metadata") if args[name] not in (None, False)), "")
    if args["partitioned"] and other:
        raise UsageError(f"%hlo --partitioned lists what devices send, by line: --{other} is for the program's text")
    target = targets.typed(session, "hlo", args["expr"], args.cell)
    recorder = Recorder("summary", args["expr"])
    optimized = args["stage"] == "optimized" or args["partitioned"]
    with recorder:
        lowered = targets.jitted(target).lower(*target.args, **target.kwargs)
        compiled = lowered.compile() if optimized else None
    text = lowered.as_text() if compiled is None else compiled.as_text()
    value: Any = text
    if args["partitioned"]:
        return Result(Document(tuple(_partitioned(lowered))), text, recorder.recording)
    if args["links"] or args["line"] is not None or args["eqn"] is not None:
        blocks, value = _linked(args, lowered, compiled)
    elif compiled is not None:
        # the value is XLA's text unchanged; the displayed text names the arguments as the user does
        names = arguments.parameter_names(compiled.program, targets.input_names(target))
        lines = (text if args["metadata"] else hlo.folded(text)).strip("\n").split("\n")
        blocks = [Code("\n".join(arguments.named(lines, names, True)), "hlo")]
        blocks += _fused(lowered) if any(map(hlo.holds, text.split("\n"))) else []
    else:
        blocks = [Code(lowered.as_text(debug_info=args["metadata"]).strip("\n"), "stablehlo")]
    if args["line"] is None and args["eqn"] is None:
        if compiled is None:
            counts = hlo.stablehlo_counts(text)
            parts = ", ".join(f"{op.partition('.')[2] or op} {n}" for op, n in counts.most_common())
            blocks.append(Row("ops", (line(parts or "none"),)))
        blocks += _costs(lowered if compiled is None else compiled, text)
    return Result(Document(tuple(blocks)), value, recorder.recording)


def _fused(lowered: Any) -> list[Block]:
    """For each fusion, its equations and their source lines."""
    # imported late: only programs with fusions need these
    from minijax.tools.programs import link_views, links

    return [*link_views.fused_rows(links.of_lowered(lowered, most=sys.maxsize))]


def _partitioned(lowered: Any) -> Iterator[Block]:
    """The data that devices send to each other."""
    # imported late: only programs for several devices need these
    from minijax.tools.programs import links
    from minijax.tools.xla import collectives

    placement = lowered.placement
    if placement is None or len(placement.devices) == 1:
        yield text("the program runs on one device: nothing is sent", role="muted")
        return
    programs = links.of_lowered(lowered, optimized=True, most=sys.maxsize)
    found = collectives.of_lowered(lowered, programs)
    yield from collectives.blocks(found, len(placement.devices), len(programs.python) > 1, placement.simulated)


def _linked(args: Arguments, lowered: Any, compiled: Any) -> tuple[list[Block], Any]:
    """Blocks that show the linked programs, or only one line or equation in them. Also returns the linked programs."""
    # imported late: 700 lines that only these options need
    from minijax.tools.programs import link_views, links

    programs = links.of_lowered(lowered, optimized=compiled is not None, most=sys.maxsize)
    if args["eqn"] is not None:
        most = len(programs.equations)
        if not 1 <= args["eqn"] <= most:
            there_are = f"the jaxpr has equations 1 to {most}" if most else "the jaxpr has no equations"
            raise UsageError(f"%hlo --eqn {args['eqn']}: {there_are}")
        return [*link_views.became(programs, (args["eqn"],))], programs
    if args["line"] is not None:
        numbers = programs.at_line(args["line"])
        if not numbers:
            lines = link_views.places_text(programs.equations) or "no line that is known"
            raise UsageError(f"%hlo --line {args['line']}: no equation comes from that line; they come from {lines}")
        return [*link_views.became(programs, numbers)], programs
    pane = programs.stablehlo if compiled is None else programs.hlo
    shown = None
    if args["metadata"]:
        full = lowered.as_text(debug_info=True) if compiled is None else compiled.as_text()
        every = full.strip("\n").split("\n")
        shown = [every[number - 1] for number in pane.numbers]

    def markup(highlight: Highlighter | None) -> str:
        # imported late: only a page needs it
        from minijax.tools.pages.links import programs_html

        return programs_html(programs, highlight)

    drawn = link_views.annotated(programs, pane, shown)
    blocks: list[Block] = [Interactive(markup, drawn), *link_views.missing_rows(programs)]
    if compiled is None:
        blocks.append(text("--stage optimized also shows the program that XLA made of it", role="muted"))
    return blocks, programs


def _costs(program: Any, printed: str) -> list[Block]:
    """XLA's cost estimates for a lowered or compiled program. ``printed``: its text."""
    blocks: list[Block] = []
    costs = program.cost_analysis()
    # XLA returns -1 for an unknown cost, for example of a Python callback
    parts = []
    if costs.get("flops", -1) >= 0:
        parts.append(f"{costs['flops']:,.0f} flops")
    if costs.get("transcendentals", 0) > 0:
        parts.append(f"{costs['transcendentals']:,.0f} transcendentals")
    if costs.get("bytes accessed", -1) >= 0:
        parts.append(f"{bytes_text(costs['bytes accessed'])} accessed")
    if parts and re.search(r"stablehlo\.while|= .* while\(", printed):
        parts.append("one iteration of each loop counted")
    if parts:
        blocks.append(Row("cost", (line(" · ".join(parts)),)))
    memory = program.memory_analysis() if hasattr(program, "memory_analysis") else None
    if memory is not None:
        sizes = [
            (name, getattr(memory, f"{field}_size_in_bytes", None))
            for name, field in (
                ("arguments", "argument"),
                ("outputs", "output"),
                ("temporaries", "temp"),
                ("shared by both", "alias"),
                ("code", "generated_code"),
            )
        ]
        known = [f"{name} {bytes_text(size)}" for name, size in sizes if size]
        if known:
            blocks.append(Row("memory", (line(" · ".join(known)),)))
    return blocks


COMMANDS = (
    Command(
        "jit",
        (EXPR,),
        "Compile a call's function with XLA and run it: phases, operations, cache hit or miss.\n\n"
        "The cell form compiles the cell as a function of the inputs on its first line. If an input is "
        "only a type, such as f32[3], the program is compiled and not run.",
        "%jit f(3.0)\n%%jit x=3.0\nsin(x) * 2.0",
        run_jit,
        cell=True,
        group="compile",
    ),
    Command(
        "hlo",
        (
            EXPR,
            Param(
                "stage",
                "word",
                "the program before or after XLA's optimisations",
                default="stablehlo",
                choices=("stablehlo", "optimized"),
            ),
            Param("partitioned", "flag", "list the data that devices send each other, by line, and why", default=False),
            Param("links", "flag", "show the equation and the source line of each operation", default=False),
            Param("line", "int", "only the operations of this line of Python"),
            Param("eqn", "int", "only the operations of this equation, counted as the jaxpr prints them"),
            Param("metadata", "flag", "keep the metadata (left out by default)", default=False),
        ),
        "The program that a call compiles to, before XLA has optimised it or after.\n\n"
        "XLA's estimates of the program's cost are shown too, and of its memory after optimisation. Nothing is run. "
        "--links shows for each operation its equation in the jaxpr and the equation's line of Python. "
        "--line and --eqn show one line or equation in all of the programs. The value is then the linked programs, "
        "which a notebook displays side by side.",
        "%hlo f(3.0) --stage optimized --links",
        run_hlo,
        cell=True,
        group="compile",
    ),
)
