"""Commands about compilation: %passes follows a program through XLA, %roofline measures the compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minijax.backend.profiling import ProfilerBusy
from minijax.errors import did_you_mean
from minijax.ir.jaxpr import is_effectful
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.transform import EXPR
from minijax.tools.documents.document import Document, Fitted, Highlighter, Interactive
from minijax.tools.session import targets
from minijax.tools.session.result import Browse, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session
    from minijax.tools.session.targets import Target
    from minijax.tools.xla.pipeline import Descent, Pass


def run_passes(session: Session, args: Arguments) -> Result:
    from minijax.tools.xla import pipeline, stages, views

    asked = [name for name in ("pass", "memory", "kernel", "open") if args[name]]
    if len(asked) > 1:
        raise UsageError(f"%passes shows one thing at a time: --{asked[0]} or --{asked[1]}, not both")
    if args["llvm"] and args["kernel"] is None:
        raise UsageError("%passes --llvm shows the LLVM IR of a kernel: name the kernel with --kernel NAME")
    target = targets.typed(session, "passes", args["expr"], args.cell)
    _, lowered = _lowered(target)
    try:
        found = pipeline.descent(lowered, targets.input_names(target))
    except FileNotFoundError as error:
        raise UsageError(f"%passes: {error}; %hlo shows the program before and after XLA") from None
    if args["pass"] is not None:
        blocks = views.one_pass(found, _pass(found, args["pass"]), args["most"])
    elif args["memory"]:
        blocks = views.memory(found, args["most"])
    elif args["kernel"] is not None:
        names = [each.name for each in found.kernels]
        if args["kernel"] not in names:
            known = ", ".join(names) or "none: XLA's own library does all the work"
            raise UsageError(f"%passes --kernel {args['kernel']}: the kernels are {known}")
        blocks = views.kernel(found, found.kernels[names.index(args["kernel"])], args["llvm"], args["most"])
    else:
        overview = tuple(views.overview(found))
        blocks = iter((Interactive(_page(found, args["expr"]), Fitted(lambda width: overview)),))
    opened = Browse(stages.stages(found), target.title) if args["open"] else None
    return Result(Document(tuple(blocks)), found, None, opened)


def _page(found: Descent, expression: str) -> Callable[[Highlighter | None], str]:
    """A function that makes the HTML for a notebook, in which the reader can select every stage of XLA."""

    def markup(highlight: Highlighter | None) -> str:
        # imported late: only a page needs these
        from minijax.tools.xla import stages, stages_page

        return stages_page.stages_html(stages.stages(found), highlight, expression.strip())

    return markup


def _lowered(target: Target) -> tuple[Any, Any]:
    """The jitted function of a target, and its lowered program at the target's arguments."""
    jitted = targets.jitted(target)
    return jitted, jitted.lower(*target.args, **target.kwargs)


def _pass(found: Descent, asked: str) -> Pass:
    """The pass with the number ``asked``, or the first pass with that name."""
    for each in found.passes:
        if asked in (str(each.number), each.name):
            return each
    if not found.passes:
        raise UsageError(f"%passes --pass {asked}: no pass changed this program")
    names = sorted({each.name for each in found.passes if each.name})
    raise UsageError(
        f"%passes --pass {asked}: the passes that changed it are 1 to {len(found.passes)}, or by name "
        f"{', '.join(names)}.{did_you_mean(asked, names)}"
    )


def run_roofline(session: Session, args: Arguments) -> Result:
    from minijax.tools.xla import roofline, roofline_view

    target = targets.typed(session, "roofline", args["expr"], args.cell).concrete("roofline")
    jitted, lowered = _lowered(target)
    if any(map(is_effectful, lowered.jaxpr.eqns)):
        raise UsageError("%roofline runs a call dozens of times, and this call has effects: %passes runs nothing")
    if lowered.compile().program.donated:
        why = "runs a call dozens of times, and this call can run once: it takes an argument's memory (donate_argnums)"
        raise UsageError(f"%roofline {why}: jit the function without donating, or use %passes, which runs nothing")
    try:
        found = roofline.measure(lowered, lambda: jitted(*target.args, **target.kwargs))
    except ProfilerBusy:
        raise UsageError("%roofline needs XLA's profiler, which is already active: stop that profile first") from None
    return Result(Document(tuple(roofline_view.blocks(found, args["most"]))), found)


COMMANDS = (
    Command(
        "passes",
        (
            EXPR,
            Param("pass", "word", "show the program before and after the pass with this number or name"),
            Param("memory", "flag", "show when each value is in memory, and the peak", default=False),
            Param("kernel", "word", "show the machine code of this kernel"),
            Param("llvm", "flag", "with --kernel: its LLVM IR in place of the machine code", default=False),
            Param("open", "flag", "browse all stages on a full screen, with one cursor through them", default=False),
            Param("most", "int", "how many lines to show at most", default=200),
        ),
        "What XLA does to the program of a call, pass by pass, down to memory and machine code.\n\n"
        "The program is compiled once more, and XLA dumps it after each pass; it is not run. Only passes that changed "
        "the program are shown, with the number of instructions before and after, their kinds, and the source lines "
        "that they belong to. --pass shows the program before and after a pass, side by side. --memory draws when each "
        "value lives, and which values are live at the peak. --kernel lists the machine code that the processor runs. "
        "In a terminal, --open browses Python, jaxpr, StableHLO, passes, LLVM IR and machine code, and shows the "
        "source line of each of their lines. A notebook, and a page from %export, show these beside your lines.",
        "%passes f(3.0)",
        run_passes,
        cell=True,
        group="compile",
    ),
    Command(
        "roofline",
        (EXPR, Param("most", "int", "how many instructions to show at most", default=20)),
        "The time of each instruction of a compiled call, and the fraction of the machine's limit that it reaches.\n\n"
        "The call is run some dozens of times. During a few of these runs, XLA's profiler reports when each "
        "instruction of the optimised program runs. XLA estimates the operations and bytes of each instruction. An "
        "instruction's limit is the speed of the processor or that of the memory, whichever is reached first, and 'of "
        "the limit' says how much of this speed the instruction reaches. 'cache' means that its data did not come from "
        "memory. The machine's speed is measured once.",
        "%roofline f(3.0)",
        run_roofline,
        cell=True,
        group="compile",
    ),
)
