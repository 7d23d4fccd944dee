"""The pushed levels as documents: their tracers, and the programs that they record."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.array import Array
from minijax.core.trace import MainTrace, Tracer, state
from minijax.interpreters.jvp import DualTracer, JVPTracer
from minijax.interpreters.partial_eval import PartialEvalTracer
from minijax.interpreters.stage import JaxprTracer
from minijax.interpreters.vmap import BatchTracer
from minijax.ir import doc as pp
from minijax.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from minijax.ir.pretty import Printer
from minijax.tools.documents.document import Block, Document, Indent, Line, Printout, Row, Segment, Text, document, line
from minijax.tools.documents.words import plural
from minijax.tools.live.kinds import sizes_text
from minijax.tools.live.level import is_tracer
from minijax.tools.recording import panels, preview

if TYPE_CHECKING:
    from minijax.tools.live.level import Level
    from minijax.tools.live.stack import Live, Returned

# A value that is wrapped more deeply than this is shown as its type.
_DEEPEST = 6
# At most this many lines of a recorded program are shown after each input line. %stack shows all lines.
MOST_LINES = 24
# %tracers --all shows at most this many tracers without a name.
MOST_UNNAMED = 20


# Name of a tracer class -> the name that is printed.
_CALLED = {"JaxprTracer": "JitTracer", "BatchTracer": "VmapTracer", "LinearizeTracer": "GradTracer"}


# --- one value


def tracer_text(x: Any, names: dict[Any, str] | None = None, depth: int = 0) -> str:
    """The text for a tracer, such as ``JVPTracer<jvp:1>(primal=0.14112, tangent=-0.98999)``, or for another value.

    In ``GradTracer<linearize:1>(primal=0.14112, tangent=c:f32[])`` the tangent is a variable. ``names``: variable of a
    jaxpr -> its name.
    """
    if not isinstance(x, Tracer):
        small = isinstance(x, Array) and x.aval.size <= preview.MOST_ELEMENTS
        return preview.value_text(np.asarray(x) if small else x)
    main = x._trace.main
    head = f"{_CALLED.get(type(x).__name__, type(x).__name__)}<{main!r}>"
    ended = "" if main.alive else " (its level is closed)"
    if depth >= _DEEPEST:
        return f"{head} {x.aval.str_short()}{ended}"
    if isinstance(x, JVPTracer):
        primal, tangent = (tracer_text(each, names, depth + 1) for each in (x.primal, x.tangent))
        return f"{head}(primal={primal}, tangent={tangent}){ended}"
    if isinstance(x, BatchTracer):
        inner = tracer_text(x.val, names, depth + 1)
        return f"{head}({x.aval.str_short()} from axis {x.batch_dim} of {inner}){ended}"
    variable: Any = getattr(x, "variable", None)
    name = (names or {}).get(variable, "")
    shown = f"{name}:{variable.aval.str_short()}" if name else x.aval.str_short()
    if isinstance(x, DualTracer):
        return f"{head}(primal={tracer_text(x.primal, names, depth + 1)}, tangent={shown}){ended}"
    return f"{head}({'unknown ' if isinstance(x, PartialEvalTracer) else ''}{shown}){ended}"


def tracer_document(live: Live, x: Tracer) -> Document:
    """What the prompt shows for a tracer."""
    text = tracer_text(x, variable_names(live))
    head, opening, rest = text.partition("(")
    return document(Text((line(("level", head), ("value", opening + rest)),), hanging=4))


def _parts(x: Tracer, names: dict[Any, str]) -> Iterator[tuple[str, Any]]:
    """The values inside a tracer, each after its description."""
    if isinstance(x, JVPTracer):
        yield "primal", x.primal
        yield "tangent", x.tangent
    elif isinstance(x, DualTracer):
        yield "primal", x.primal
    elif isinstance(x, BatchTracer):
        physical = x.val.aval.str_short() if hasattr(x.val, "aval") else preview.type_text(x.val)
        yield f"physical {physical}, batch axis {x.batch_dim}", x.val


def _unwrapped(x: Any, names: dict[Any, str], indent: int) -> Iterator[Line]:
    """The values inside a tracer, one per line. If such a value is a tracer, the values inside it follow."""
    for title, part in _parts(x, names):
        if isinstance(part, Tracer):
            yield line(" " * indent, ("muted", f"{title}  "), *_described(part, names))
            if indent < 4 + 2 * _DEEPEST:
                yield from _unwrapped(part, names, indent + 2)
        else:
            yield line(" " * indent, ("muted", f"{title}  "), ("value", preview.value_text(part)))


def _described(x: Tracer, names: dict[Any, str]) -> Line:
    """The level, type and variable of a tracer: ``jaxpr:2 f32[3]  variable b``."""
    out: list[Segment] = [("level", repr(x._trace.main)), ("", " "), ("type", x.aval.str_short())]
    if isinstance(x, JaxprTracer):
        out += [("muted", "  variable "), ("var", names.get(x.variable, "?"))]
    elif isinstance(x, PartialEvalTracer):
        out += [("muted", "  unknown "), ("var", names.get(x.variable, ""))]
    elif isinstance(x, DualTracer) and hasattr(x, "variable"):
        out += [("muted", "  tangent "), ("var", names.get(x.variable, "?"))]
    elif isinstance(x, BatchTracer):
        out += [("muted", "  logical")]
    return tuple(out)


# --- programs as they grow


class _Growing(Printer):
    """Prints a jaxpr that is still being recorded. Unused results have names too, and equations may have notes.

    Names are assigned in the order of recording. In the order of printing, where constants come first, a variable's
    name could change while the program grows.
    """

    def __init__(self, jaxpr: Jaxpr, notes: dict[int, str]) -> None:
        super().__init__(jaxpr)
        self.names = {}
        self.said = notes
        for var in jaxpr.invars:
            self.name(var)
        for eqn in jaxpr.eqns:
            for atom in (*eqn.invars, *eqn.outvars):
                if type(atom) is not Literal:
                    self.name(atom)

    def equation(self, eqn: JaxprEqn) -> pp.Doc:
        """The equation, with its note."""
        shown = super().equation(eqn)
        note = self.said.get(id(eqn))
        return shown if note is None else pp.concat((shown, pp.note(note)))


def variable_names(live: Live) -> dict[Any, str]:
    """variable -> its name in the printed program, for the programs that the pushed levels record."""
    names: dict[Any, str] = {}
    for level in live.levels:
        program = level.program()
        if program is not None:
            printer = _Growing(program.jaxpr, {})
            printer.document()
            names.update(printer.names)
    return names


def _user_names(live: Live, level: Level) -> dict[Any, str]:
    """variable of a level -> the user's name for it."""
    found: dict[Any, str] = {}
    for name, value in live.namespace.items():
        if name.startswith("_"):
            continue
        if level.owns(value) and isinstance(value, DualTracer):
            value, name = value.tangent, f"tangent of {name}"
        if level.owns(value) and hasattr(value, "variable"):
            found.setdefault(value.variable, name)
    return found


def program_blocks(live: Live, level: Level, most: int = MOST_LINES) -> Iterator[Block]:
    """The program that ``level`` records, if it records one. Notes mark new equations and give the user's names."""
    program = level.program()
    if program is None:
        return
    jaxpr = program.jaxpr
    called = _user_names(live, level)
    notes: dict[int, str] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        words = [called[v] for v in eqn.outvars if v in called] + ["new"] * (i >= level.shown)
        if words:
            notes[id(eqn)] = ", ".join(words)
    new = len(jaxpr.eqns) - level.shown
    printer = _Growing(jaxpr, notes)
    doc = printer.document()
    count = f" · {plural(len(jaxpr.eqns), 'equation')}" + (f", {new} new" if new > 0 else "")
    inputs = ", ".join(f"{called[v]} is {printer.names[v]}" for v in jaxpr.invars if v in called and v in printer.names)
    title = line(("heading", f"{level.label} so far"), ("muted", count + (f" · {inputs}" if inputs else "")))
    yield Row("jaxpr", (title,))
    yield Indent(Printout(doc), most=most, rest="(%stack shows all)")


def growth(live: Live) -> Document:
    """The programs to which the last line added equations. Afterwards these equations count as shown."""
    blocks: list[Block] = []
    for level in live.levels:
        program = level.program()
        if program is None:
            continue
        if len(program.jaxpr.eqns) > level.shown:
            blocks += program_blocks(live, level)
        level.shown = len(program.jaxpr.eqns)
    return Document(tuple(blocks))


# --- the levels


def live_tracers() -> list[Tracer]:
    """All live tracers of this thread's pushed interpreters, oldest first."""
    mains = {id(main) for main in state.stack[1:]}
    found = []
    for each in gc.get_objects():
        if is_tracer(each):
            trace = getattr(each, "_trace", None)
            if trace is not None and id(trace.main) in mains:
                found.append(each)
    return found


def _counts(live: Live, tracers: Sequence[Tracer], main: MainTrace) -> str:
    mine = [x for x in tracers if x._trace.main is main]
    named = [name for name, value in live.namespace.items() if any(value is x for x in mine) and name[:1] != "_"]
    return plural(len(mine), "live tracer") + (f" ({', '.join(named)})" if named else "")


def stack_blocks(live: Live) -> Iterator[Block]:
    """The current stack, then each pushed level with a description, its tracers and the program that it records."""
    yield Row("now", (panels.stack_line(repr(main) for main in state.stack),))
    tracers = live_tracers() if live.levels else []
    for level in live.levels:
        about = line(("level", level.label), f"  {level.kind} of {sizes_text(level)}", ("muted", _about(level)))
        lines = [about]
        for main in level.mains:
            program = level.program() if main.records else None
            count = "" if program is None else f" · {plural(len(program.jaxpr.eqns), 'equation')}"
            name = "" if len(level.mains) == 1 else f"{main!r}  "
            lines.append(line("  ", ("level", name), ("muted", _counts(live, tracers, main) + count)))
        yield Row("pushed", tuple(lines))
        yield from program_blocks(live, level, most=0)


def _about(level: Level) -> str:
    size = getattr(level, "size", 0)
    axis = getattr(level, "axis_name", None)
    return (f" · {size} at once" if size else "") + (f" · axis {axis!r}" if axis else "")


def tracer_blocks(live: Live, everything: bool = False) -> Iterator[Block]:
    """The live tracers of the pushed levels, with the values inside them. Without ``everything``, only named ones."""
    names = variable_names(live)
    tracers = live_tracers()
    named: dict[int, list[str]] = {}
    for name, value in live.namespace.items():
        if is_tracer(value) and not name.startswith("_"):
            named.setdefault(id(value), []).append(name)
    for main in reversed(state.stack[1:]):
        mine = [x for x in tracers if x._trace.main is main]
        shown = sorted((x for x in mine if id(x) in named), key=lambda x: named[id(x)])
        others = [x for x in mine if id(x) not in named]
        cut = others[:MOST_UNNAMED] if everything else []
        lines: list[Line] = [line(("heading", f"{main!r}"), ("muted", f"  {plural(len(mine), 'live tracer')}"))]
        for x in [*shown, *cut]:
            called = " ".join(named.get(id(x), ["(no name)"]))
            lines.append(line(("var", called), "  ", *_described(x, names)))
            lines += _unwrapped(x, names, 4)
        rest = len(others) - len(cut)
        if rest:
            hint = "" if everything else ": %tracers --all"
            lines.append(line(("muted", f"{rest} more without a name of yours{hint}")))
        yield Row("tracers", tuple(lines))


def returned_lines(done: Returned, label: str) -> tuple[Line, ...]:
    """Show which user names changed when a level was closed."""
    lines: list[Line] = []
    by_words: dict[str, list[str]] = {}
    for name, words in done.kept.items():
        by_words.setdefault(words, []).append(name)
    for words, group in by_words.items():
        lines.append(line(("var", ", ".join(group)), ("muted", f"  now {words}")))
    if done.back:
        lines.append(line(("var", ", ".join(done.back)), ("muted", "  what it was before %push")))
    if done.removed:
        lines.append(line(("var", ", ".join(done.removed)), ("muted", f"  gone: worth nothing outside {label}")))
    return tuple(lines)
