"""Commands that draw programs: %diff %graph.

The drawing modules are imported when a command runs, to keep the start of a session fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from minijax.api.flat import fun_name
from minijax.errors import did_you_mean
from minijax.tools import files
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.origins import origin_of
from minijax.tools.commands.transform import EXPR, STATIC
from minijax.tools.documents.document import Block, Document, Fitted, Picture, Row, Text, joined, line
from minijax.tools.documents.words import bytes_text, plural, shortened
from minijax.tools.session import targets
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.ir.jaxpr import ClosedJaxpr, Var
    from minijax.tools.compare.diff import Printed
    from minijax.tools.compare.graph import Graph
    from minijax.tools.compare.passes import Passes
    from minijax.tools.session.session import Session

T = TypeVar("T")

# --- %diff
# ------------------------------------------------------------------------------------------------------


def run_diff(session: Session, args: Arguments) -> Result:
    from minijax.tools.compare import diff, passes

    if (args["by"] is None) == (args["with"] is None):
        raise UsageError("%diff needs either --by grad (or another transformation), or --with and a second expression")
    if args["tutorial"]:
        return _both_ways(session, args)
    if args["stage"] != "jaxpr":
        return _lowered_both(session, args)
    target = targets.traceable("diff", targets.typed(session, "diff", args["expr"], args.cell), args["static"])
    found = None
    if args["with"] is not None:
        other = targets.traceable("diff", targets.from_expression(session, "diff", args["with"]))
        (before, after), called = _named(args, lambda: (targets.stage(target), targets.stage(other)))
        names = (shortened(target.title, 60), shortened(other.title, 60))
    else:
        by = _transformations(args["by"], passes.TRANSFORMATIONS)
        argnums = args["argnums"]
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        made, called = _named(args, lambda: passes.Transformed(target, by, numbers, args["axis_size"]))
        before, after, found = made.before, made.after, made.passes
        name = shortened(target.title, 40) if target.loose else fun_name(target.fun)
        names = (name, "".join(f"{each}(" for each in by) + name + ")" * len(by))
    titles = [
        line(("heading", name), ("muted", f" · {plural(len(closed.eqns), 'equation')}"))
        for name, closed in zip(names, (before, after), strict=True)
    ]
    derived, most = args["by"] is not None, args["most"]
    named = _within(before, called), _within(after, called)
    blocks: list[Block] = [diff.side_by_side(before, after, (titles[0], titles[1]), found, most, derived, named)]
    cut = most < max(len(before.eqns), len(after.eqns))
    blocks.append(_tally(diff.counts(before, after, most, derived, found), most if cut else 0))
    if found is not None:
        blocks += _legend(found, diff.Printed(after, most, named[1]))
    return Result(Document(tuple(blocks)), (before, after))


def _lowered_both(session: Session, args: Arguments) -> Result:
    """Compare the programs of two calls, before or after XLA's optimizations."""
    from minijax.tools.compare import diff
    from minijax.tools.programs import arguments, hlo

    stage = args["stage"]
    if args["with"] is None:
        raise UsageError(f"%diff --stage {stage} compares two calls: give the other by --with. --by is for jaxprs")
    titles, texts, keys = [], [], []
    for command_text in (args["expr"], args["with"]):
        target = targets.from_expression(session, "diff", command_text)
        lowered = targets.jitted(target).lower(*target.args, **target.kwargs)
        names = arguments.parameter_names(lowered.compile().program, targets.input_names(target))
        text = hlo.folded(lowered.compile().as_text()) if stage == "optimized" else lowered.as_text()
        counts = hlo.hlo_counts(text) if stage == "optimized" else hlo.stablehlo_counts(text)
        size = plural(counts.total(), "operation")
        titles.append(line(("heading", shortened(target.title, 50)), ("muted", f" · {size}")))
        lines = text.strip("\n").split("\n")
        texts.append(arguments.named(lines, names, stage == "optimized"))
        # number the arguments in the compared texts, so that their names make no difference
        numbered = [f"argument {i}" for i in range(len(names))]
        keys.append(arguments.named(lines, numbered, stage == "optimized"))
    shown = diff.texts_side_by_side(texts[0], texts[1], (titles[0], titles[1]), (keys[0], keys[1]))
    return Result(Document((shown,)), tuple("\n".join(each) for each in texts))


def _named(args: Arguments, stage: Callable[[], T]) -> tuple[T, dict[Var, str]]:
    """The result of ``stage`` and, with --names, the user's names of the staged variables."""
    if not args["names"]:
        return stage(), {}
    from minijax.tools.recording.variables import recorded_names

    return recorded_names(stage)


def _within(closed: ClosedJaxpr, known: dict[Var, str]) -> dict[Var, str]:
    """Names for the variables of one program; a name is not given twice."""
    if not known:
        return {}
    from minijax.tools.recording.variables import names_within

    return names_within(closed, known)


def _both_ways(session: Session, args: Arguments) -> Result:
    """Compare the two ways to a gradient: linearize, and the tutorial's two interpreters (jvp and partial_eval)."""
    from minijax.tools.compare import passes, ways

    by = [] if args["by"] is None else _transformations(args["by"], passes.TRANSFORMATIONS)
    if set(by) != {"grad"}:
        raise UsageError("%diff --tutorial puts the two ways of reverse mode beside each other: give it --by grad")
    target = targets.traceable("diff", targets.from_expression(session, "diff", args["expr"]), args["static"])
    argnums = args["argnums"]
    made = passes.Transformed(target.concrete("diff"), by, (argnums,) if isinstance(argnums, int) else argnums)
    blocks, recordings = ways.ways(lambda: made.fun(*made.args), args["most"])
    return Result(Document(tuple(blocks)), recordings)


def _transformations(text: str, known: tuple[str, ...]) -> list[str]:
    names = [piece.strip() for piece in text.split(",")]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"%diff --by takes {', '.join(known)}, or several with commas, not {name!r}.{hint}")
    return names


def _tally(counts: dict[str, int], first: int) -> Row:
    """A row with the number of changes. ``first``: how many equations of each program were compared, or 0 for all."""
    words = (("+", "good", "new"), ("-", "error", "gone"), ("~", "warning", "changed"), (" ", "muted", "the same"))
    parts = [(role, f"{mark} {counts[mark]} {word}".strip()) for mark, role, word in words if counts[mark]]
    if not any(counts[mark] for mark in "+-~"):
        parts = [("good", "none: the equations are the same")]
    of = (line(("muted", f"of the first {first} equations of each; --most compares more")),) if first else ()
    return Row("changes", (joined(" · ", parts), *of))


def _legend(found: Passes, printed: Printed) -> list[Block]:
    names = [f"{printed.names.get(v, '_')}:{v.aval.str_short(short_dtypes=True)}" for v in found.residuals[:8]]
    more = len(found.residuals) - len(names)
    kept = " ".join(names) + (f" and {more} more" if more else "") if names else "none"
    right = f"{bytes_text(found.bytes)} kept for the backward pass" if names else ""
    if found.arguments:
        right += f", {plural(len(found.arguments), 'argument')} among them"
    return [
        Row("forward", (line(("forward", plural(len(found.forward), "equation"))),)),
        Row("residual", (line(("residual", kept)),), line(("muted", right))),
        Row("backward", (line(("backward", plural(len(found.backward), "equation"))),)),
    ]


# --- %graph
# -----------------------------------------------------------------------------------------------------


def run_graph(session: Session, args: Arguments) -> Result:
    from minijax.tools.compare import graph, graph_svg, graph_text

    if args["of"] is not None:
        made, value = _slice(session, args)
    else:
        target = targets.typed(session, "graph", args["expr"], args.cell)
        target = targets.traceable("graph", target, args["static"])
        closed, known = _named(args, lambda: targets.stage(target))
        names = _within(closed, known)
        value = closed
        title = f"{shortened(target.title, 60)} · {plural(len(closed.eqns), 'equation')}"
        made = graph.build(closed, title, targets.input_names(target), args["most"], names)
    blocks: list[Block] = [Text((line(("heading", made.title)),))]
    if args["file"] is None:
        drawn = Fitted(lambda width: graph_text.drawing(made, args["depth"]))
        return Result(Document((*blocks, Picture(graph_svg.markup(made), drawn, lambda: graph_svg.page(made)))), value)
    size = _write(args["file"], graph_svg.page(made), args["force"])
    blocks.append(Row("written", (line(("place", args["file"])),), line(("muted", bytes_text(size)))))
    return Result(Document(tuple(blocks)), value)


def _slice(session: Session, args: Arguments) -> tuple[Graph, Any]:
    """The graph of the operations that led to a variable in a run of the expression, and the expression's value."""
    from minijax.tools.explain import origin

    if args["static"] is not None:
        raise UsageError("%graph --of runs the call as it is: --static is for staging it")
    asked = origin_of(session, "graph", args["expr"], args["of"])
    found = asked.lane.found
    title = f"{args['of']} in {shortened(args['expr'].strip())} · {found.operations} of "
    return origin.graph_of(list(asked.lane.rows(args["most"])), title + plural(found.total, "operation")), asked.value


def _write(path: str, text: str, force: bool) -> int:
    """Write a picture to the file ``path``. Returns the size of the file in bytes."""
    if not path.endswith(".svg"):
        raise UsageError(f"%graph --file writes SVG: give it a name that ends in .svg, not {path!r}")
    try:
        return files.write(path, text, force)
    except FileExistsError:
        raise UsageError(f"%graph: there is a file {path} already; --force writes over it") from None
    except OSError as error:
        raise UsageError(f"%graph cannot write {path}: {error.strerror}") from None


COMMANDS: tuple[Command, ...] = (
    Command(
        "diff",
        (
            EXPR,
            Param("by", "word", "grad, vjp, jvp, vmap or jit; several with commas, the outermost first"),
            Param("with", "expression", "another expression, in place of a transformation"),
            Param(
                "stage",
                "word",
                "with --with: compare the jaxprs, or the programs before or after XLA's optimizations",
                default="jaxpr",
                choices=("jaxpr", "stablehlo", "optimized"),
            ),
            Param("argnums", "ints", "the arguments to differentiate by, counted from 0"),
            STATIC,
            Param("axis_size", "int", "the size of the axis that vmap adds to each argument", default=4),
            Param("most", "int", "how many equations to compare at most", default=300),
            Param("names", "flag", "call variables as your program does, where it has names for them", default=False),
            Param("tutorial", "flag", "compare grad by linearize with grad by jvp and partial_eval", default=False),
        ),
        "The jaxpr of a call before and after a transformation, beside each other, with what changed marked.\n\n"
        "Equations are paired by their primitive and by the line they come from. A gradient is shown in three "
        "colours: the forward pass, the residuals that it keeps, and the backward pass. --by vmap,grad is "
        "vmap(grad(f)). vmap gives every argument a further axis in front; so write the call without it.\n\n"
        "--by grad --tutorial compares the steps of two implementations, not jaxprs: the one interpreter of grad in "
        "JAX and minijax, and the tutorial's two, jvp and partial evaluation (jax_use_direct_linearize off).",
        "%diff f(3.0) --by grad",
        run_diff,
        cell=True,
        group="programs",
    ),
    Command(
        "graph",
        (
            EXPR,
            STATIC,
            Param("of", "word", "draw only what this variable of the program came from: the call is run, and recorded"),
            Param("most", "int", "how many equations of each jaxpr to draw at most", default=100),
            Param("names", "flag", "call variables as your program does, where it has names for them", default=False),
            Param("depth", "int", "how many levels of jaxprs inside jaxprs a terminal shows", default=3),
            Param("file", "word", "write the picture to this file, which ends in .svg"),
            Param("force", "flag", "overwrite an existing file", default=False),
        ),
        "The jaxpr of a call as a picture: what is computed from what.\n\n"
        "A terminal draws a line for each equation, with a lane on the left for each value that a later line reads; "
        "a notebook and --file draw boxes and arrows, and fold the jaxprs inside equations. Drawing takes time in "
        "proportion to the equations drawn.",
        "%graph f(3.0)",
        run_graph,
        cell=True,
        group="programs",
    ),
)
