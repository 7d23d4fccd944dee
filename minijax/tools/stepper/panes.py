"""The panes of a stepper: each is a function from a cursor to a document.

The full-screen stepper, the notebook's widget and the tests use the same functions. A pane shows the state at the
cursor's moment, without later results. The line with the role 'current' must stay visible.
"""

from __future__ import annotations

import itertools
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from minijax import errors
from minijax.core.records import NamedTuple
from minijax.ir.jaxpr import Var
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.document import (
    MARK,
    Block,
    Code,
    Document,
    Line,
    Printout,
    Segment,
    Text,
    document,
    joined,
    line,
    text,
)
from minijax.tools.documents.words import plural
from minijax.tools.recording import panels
from minijax.tools.recording.cursor import END, ENTER, LEAVE, Cursor, JaxprSoFar, Moment, State
from minijax.tools.recording.log import linearizes, outcome, record_line
from minijax.tools.recording.naming import Naming, naming_of
from minijax.tools.recording.records import (
    CALL,
    BindRecord,
    CacheRecord,
    EquationRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    LifeRecord,
    ModuleRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
    place_parts,
)
from minijax.tools.recording.variables import letter_names, names_within, variable_names, with_names
from minijax.tools.stepper import idle
from minijax.tools.stepper.backward import backward_lines
from minijax.tools.stepper.devices import devices_pane
from minijax.tools.stepper.tree import FOLD, tree_rows
from minijax.tools.values.brief import brief
from minijax.tools.values.moment import Ledger, at_hand
from minijax.tools.values.table import values_pane

# The folder of the engine's files.
_ENGINE = os.path.dirname(os.path.abspath(errors.__file__)) + "/"
# Maximum number of tracers shown for a level: the newest. The others are counted.
MOST_TRACERS = 40
# Maximum number of equations shown for a jaxpr in progress: the newest. The others are counted.
MOST_EQUATIONS = 400
# Maximum number of characters of a value beside its type.
MOST_GLANCE = 40
# The texts of empty panes.
NO_LINE = line(("muted", "the engine ran no line of yours"))
NO_SOURCE = line(("muted", "its source was not kept"))
NO_OPERATION = line(("muted", "the call applied no operation"))


def tree_lines(cursor: Cursor, before: int = 8, after: int = 16, fold: int = FOLD) -> Document:
    """The tree of binds and scopes around the cursor: ``before`` lines above the current one, ``after`` below.

    Records deeper than ``fold`` are shown only around the cursor. Elsewhere they are counted.
    """
    return document(Text(tree_rows(cursor, before, after, fold).lines, wrap=False))


# --- the user's source
# -------------------------------------------------------------------------------------------------


def source_pane(cursor: Cursor) -> Document:
    """The user's source with the current line marked. If no line runs, the last or the next line is marked."""
    which, place = idle.near_place(cursor)
    file, number, function = place_parts(place)
    if not file:
        return document(Text((NO_LINE,)))
    heading = text(place_heading(which, file, number, function), wrap=False)
    code = kept_source(cursor.recording, file, number)
    if code is None:
        return document(heading, Text((NO_SOURCE,)))
    return document(heading, code)


def place_heading(said: str, file: str, number: int, function: str) -> Line:
    """The heading of the source: the place, and whether it is the last or the next one (``said``)."""
    return (*line(("muted", f"{said}: " if said else "")), *place_line(file, number, function))


def place_line(file: str, number: int, function: str = "") -> Line:
    """``model.py:12 in f  /home/me``: the file name comes first, because the right end may be cut."""
    folder, _, name = file.rpartition("/")
    if file.startswith(_ENGINE):
        folder, name = "", "minijax/" + file[len(_ENGINE) :]
    where = f" in {function}" if function else ""
    return line(("place", f"{name}:{number}"), ("muted", where + (f"  {folder}/" if folder else "")))


def kept_source(recording: Recording, file: str, number: int) -> Code | None:
    """The kept source lines of ``file`` that include line ``number``."""
    for source in recording.sources:
        if source.file == file and 0 <= number - source.first <= source.text.count("\n"):
            return Code(source.text.rstrip("\n"), "python", source.first, (number,))
    return None


# --- the stack
# ---------------------------------------------------------------------------------------------------------


class LevelShown(NamedTuple):
    """An interpreter in the stack pane: its heading, whether it is active, how many older live tracers are only
    counted, and the newest tracers, the newest last."""

    heading: Line
    working: bool
    older: int
    tracers: Sequence[LifeRecord]


def stack_levels(state: State) -> Iterator[LevelShown]:
    """The interpreters of a moment, innermost first."""
    subjects = {node.level: node.subject for node in state.path if isinstance(node, ScopeRecord)}
    for depth in range(len(state.stack) - 1, -1, -1):
        label = state.stack[depth]
        own = state.tracers[depth] if depth < len(state.tracers) else ()
        subject = subjects.get(label, "").partition(" at ")[0]
        heading = [("level", label)]
        if subject:
            heading.append(("muted", f" for {subject}"))
        if depth:
            heading.append(("muted", f" · {plural(len(own), 'tracer')} alive"))
        working = state.bind is not None and state.bind.level == label
        yield LevelShown(tuple(heading), working, max(len(own) - MOST_TRACERS, 0), own[-MOST_TRACERS:])


def stack_pane(cursor: Cursor) -> Document:
    """The interpreters, innermost first, each with its live tracers and the fields of these tracers."""
    state = cursor.state()
    used = used_tracers(state.bind)
    naming = naming_of(cursor.recording)
    known = at_hand(cursor.recording)
    lines: list[Line] = []
    for level in stack_levels(state):
        mark: Segment = ("current", MARK + " ") if level.working else ("", "  ")
        lines.append((mark, *level.heading))
        if level.older:
            lines.append((("", "    "), *older_line(level.older)))
        for life in level.tracers:
            bullet: Segment = ("linked", "  • " if life.tracer.id in used else "    ")
            lines.append((bullet, *life_line(life, naming, known)))
    return document(Text(tuple(lines), hanging=6))


def used_tracers(bind: BindRecord | None) -> set[int]:
    """The numbers of the current operation's tracers."""
    return set() if bind is None else {number for number in bind.operands if number}


def older_line(count: int) -> Line:
    """The line for the older tracers of a level."""
    return line(("muted", f"... {count} older ones"))


def life_line(life: LifeRecord, naming: Naming, known: Ledger | None = None) -> Line:
    """``y #4 f32[] (physically f32[3])  primal 3.0  tangent partial_eval:1 f32[]  from <minijax-1>:1``

    If the record has only a type, and the value is already ``known``, the line also shows the value.
    """
    record = life.tracer
    out: list[Segment] = []
    name = naming.name(record.id)
    tag = f"#{record.id}"
    if name and not name.endswith(tag):
        out += [("var", name), ("", " ")]
    if record.id:
        out += [("muted", f"{name} " if name.endswith(tag) else f"{tag} ")]
    out.append(("type", record.type))
    if record.physical and record.physical != record.type:
        out += [("muted", " physically "), ("type", record.physical)]
    for key, value in record.fields:
        if key != "name":
            out += [("muted", f"  {key} "), ("value", value)]
    if known is not None:
        out += _held_values(life, known)
    file, number, _ = place_parts(life.place)
    if file:
        out.append(("muted", f"  from {file.rpartition('/')[2]}:{number}"))
    return tuple(out)


# --- the jaxpr
# ---------------------------------------------------------------------------------------------------------


def program_pane(cursor: Cursor) -> Document:
    """The jaxprs in progress, innermost first, with the newest equation marked. At a moment that finishes a jaxpr, a
    StableHLO module or a compiled program, that program comes first."""
    state, node = cursor.state(), cursor.moment.node
    blocks: list[Block] = []
    backward = backward_lines(cursor)
    if backward:
        blocks.append(Text(tuple(backward), wrap=False))
    if isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
        blocks.append(text((("current", MARK + " "), *finished_title(node))))
        known = variable_names(cursor.recording) if cursor.named else None
        blocks += finished_program(node, names=known)
    newest = max((each.equations[-1].at for each in state.programs), default=-1)
    for program in growing_programs(state):
        scope = program.program.scope
        known_letters = letter_names(cursor.recording, scope) if cursor.named else {}
        blocks += _program(program, newest, known_letters)
    if not blocks:
        blocks.append(Text(tuple(idle.program_said(cursor)), wrap=False))
        last = idle.near_program(cursor)
        if last is not None:
            blocks.append(text(finished_title(last)))
            blocks += finished_program(last, names=variable_names(cursor.recording) if cursor.named else None)
    return document(*blocks)


def finished_title(node: JaxprRecord | ModuleRecord | ExecutableRecord) -> Line:
    """The heading of a finished program."""
    if isinstance(node, JaxprRecord):
        return panels.jaxpr_title(node)
    what = "StableHLO" if isinstance(node, ModuleRecord) else "optimised program"
    return line(("heading", f"{what} of {node.name}"))


def finished_program(
    node: JaxprRecord | ModuleRecord | ExecutableRecord,
    most: int | None = None,
    names: Mapping[Var, str] | None = None,
) -> Iterator[Printout | Code]:
    """A finished program, or nothing if it was dropped. ``most`` limits the equations of a jaxpr. ``names`` are the
    user's names of variables, in place of JAX's letters.
    """
    if names and isinstance(node, JaxprRecord) and node.program is not None:
        yield Printout(jaxpr_document(node.program, max_eqns=most, names=names_within(node.program, names)))
        return
    if isinstance(node, JaxprRecord):
        printed = node.document(most=most)
        if printed is not None:
            yield Printout(printed)
    else:
        yield Code(node.text.rstrip("\n"), "stablehlo" if isinstance(node, ModuleRecord) else "hlo")


class ProgramShown(NamedTuple):
    """A jaxpr in progress: its heading, the jaxpr so far, how many of its earlier equations are only counted, and
    whether the moment adds the last equation."""

    heading: Line
    program: JaxprSoFar
    earlier: int
    just_added: bool


def growing_programs(state: State) -> Iterator[ProgramShown]:
    """The jaxprs in progress at a moment, innermost first."""
    for program in reversed(state.programs):
        count = len(program.equations)
        heading = line(("level", program.level), ("muted", f" has recorded {plural(count, 'equation')}"))
        just_added = program.equations[-1].at == state.moment.at
        yield ProgramShown(heading, program, max(count - MOST_EQUATIONS, 0), just_added)


def earlier_line(count: int) -> Line:
    """The line for the earlier equations of a jaxpr."""
    return line(("muted", f"... {plural(count, 'earlier equation')}"))


def equation_text(equation: EquationRecord) -> str:
    """An equation on one line."""
    return " ".join(equation.text.split())


def _program(shown: ProgramShown, newest: int, names: Mapping[str, str]) -> Iterator[Block]:
    yield text(shown.heading)
    equations, cut = shown.program.equations, shown.earlier
    marked = (len(equations),) if equations[-1].at == newest else ()
    if cut:
        yield text(earlier_line(cut))
    texts = map(equation_text, equations[cut:])
    if names:
        primitives = [each.primitive for each in equations[cut:]]
        texts = map(with_names, texts, primitives, itertools.repeat(names))
    listing = "\n".join(texts)
    yield Code(listing, "jaxpr", cut + 1, marked if shown.just_added else (), frozenset(marked))


# --- the rule
# ----------------------------------------------------------------------------------------------------------


def rule_pane(cursor: Cursor) -> Document:
    """The current operation: why this interpreter processes it, its arguments, its rule's source, and its result."""
    state = cursor.state()
    node = state.moment.node
    bind = state.bind
    lines: list[Line] = []
    if isinstance(node, CacheRecord | ErrorRecord):
        lines += event_lines(node)
    if bind is not None:
        done = state.moment.kind == LEAVE and state.moment.node is bind
        lines += bind_lines(bind, done, naming_of(cursor.recording), at_hand(cursor.recording))
    elif state.rule is None and not lines:
        which, near, done = idle.near_operation(cursor)
        if near is None or not isinstance(near.node, BindRecord):
            lines.append(NO_OPERATION)
        else:
            lines.append(idle.operation_said(which))
            lines += bind_lines(near.node, done, naming_of(cursor.recording), at_hand(cursor.recording))
    blocks: list[Block] = [Text(tuple(lines), hanging=4)] if lines else []
    if state.rule is not None:
        blocks += _rule_blocks(state, cursor.recording)
    return document(*blocks)


def _held_values(life: LifeRecord, known: Ledger) -> Line:
    """``  -1.2 … 3.4  tangent 0.0 … 1.0``: the values that a tracer holds, if its record has only their types."""
    record = life.tracer
    out: list[Segment] = []
    for key, value in record.fields:
        typed = value.endswith((record.type, record.physical or record.type))
        if key == "variable" or (typed and key in ("value", "primal", "batched")):
            out += glance_line(known, record.id)
        elif key == "tangent" and typed and len(record.fields) > 1:
            if tangent := glance_line(known, record.id, "tangent"):
                out += [("muted", "  tangent"), *tangent]
    return tuple(out)


def glance_line(known: Ledger, number: int, what: str = "primal") -> Line:
    """``  -1.2 … 3.4 mean 0.2``: a value beside its type; () if the value is not known yet."""
    found = known.glance(number, what) if number else None
    summary = () if found is None else brief(found.array, MOST_GLANCE, len(found.axes), typed=False)
    return (("", "  "), *summary) if summary else ()


def bind_lines(bind: BindRecord, done: bool, naming: Naming, known: Ledger | None = None) -> Iterator[Line]:
    """An operation: why this interpreter processes it, its arguments and, if it is ``done``, its result.

    If the record has only a type, and the value is already ``known``, the line also shows the value.
    """
    names = naming.operands(bind)
    yield line(("primitive", bind.primitive), ("muted", " processed by "), ("level", bind.level))
    if bind.forced:
        yield line(("muted", "why    "), bind.forced)
    for index, argument in enumerate(bind.args):
        tracer: Line = ()
        if index == bind.forced_by:
            tracer = line(("linked", "  • forced it"))
        named: Line = (("var", names[index]), ("muted", " = ")) if names[index] != argument else ()
        number = bind.operands[index] if index < len(bind.operands) else 0
        kind = bind.in_types[index] if index < len(bind.in_types) else ""
        worth = glance_line(known, number) if known is not None and kind and argument.endswith(kind) else ()
        yield line(("muted", "given  "), *named, ("value", argument), *worth, *tracer)
    for tracer_record in bind.tracers:
        yield line(("muted", "       unwrapped "), *panels.tracer_line(tracer_record))
    for name, value in bind.params:
        yield line(("muted", "with   "), ("param-name", name), ("muted", "="), ("param-value", value))
    if bind.cached:
        yield line(
            ("warning", f"the trace of {bind.cached} came from a cache: its Python did not run. "),
            ("muted", "--retrace (key R) records a new trace"),
        )
    if done:
        result = ("error", f"raised {bind.error}") if bind.error else ("value", bind.out or "no result")
        name = "" if bind.error else ", ".join(filter(None, map(naming.name, bind.results)))
        only = known if len(bind.results) == 1 and bind.out.endswith(bind.types[:1]) else None
        worth = () if only is None else glance_line(only, bind.results[0])
        yield line(("muted", "gave   "), *((("var", name), ("muted", " = ")) if name else ()), result, *worth)
        if bind.types:
            yield line(("muted", "       of type "), ("type", ", ".join(bind.types)))
        if bind.nonfinite:
            yield line(("warning", "       a result holds a NaN or an infinity"))


def event_lines(node: CacheRecord | ErrorRecord) -> Iterator[Line]:
    """The lines for a cache look-up or for an error."""
    yield record_line(node)
    if isinstance(node, CacheRecord) and node.hit:
        yield line(("muted", "Python did not run again: --retrace (key R) records a new trace"))
    elif isinstance(node, CacheRecord) and node.advice:
        yield line(("muted", node.advice))


def rule_heading(state: State) -> Iterator[Line]:
    """The name and the place of the applied rule."""
    rule = state.rule
    if rule is None:
        return
    table = rule.table.removesuffix(" rule")
    yield line(("heading", f"{table} rule"), ("muted", " of "), ("primitive", rule.primitive), f"  {rule.name}")
    if rule.file:
        yield place_line(rule.file, rule.line)
    else:
        yield line(("muted", "written in C, or its source is not known"))
    if any(isinstance(node, BindRecord) and node.rule is rule and linearizes(node) for node in state.path):
        yield line(("muted", "linearize is derived from it: the known part is run, the linear part recorded"))


def _rule_blocks(state: State, recording: Recording) -> Iterator[Block]:
    yield text(*rule_heading(state), wrap=False)
    code = rule_source(recording, state.rule)
    if code is not None:
        yield code


def rule_source(recording: Recording, rule: RuleRecord | None) -> Code | None:
    """The source of a rule's function alone, without its indent; None if it was not kept."""
    kept = kept_source(recording, rule.file, rule.line) if rule is not None and rule.file else None
    if rule is None or kept is None:
        return None
    lines = kept.text.split("\n")[rule.line - kept.first :]
    return Code(textwrap.dedent("\n".join(lines[: _function_length(lines)])), "python", rule.line)


def _function_length(lines: list[str]) -> int:
    """How many of ``lines`` belong to the function with which they begin. It ends where its indent ends."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    headed = False
    end = 0
    for count, each in enumerate(lines, 1):
        if not each.strip():
            continue
        set_in = len(each) - len(each.lstrip()) > indent or each.lstrip().startswith(")")
        if headed and not set_in:
            break
        # decorators may precede the head
        headed = headed or not each.lstrip().startswith("@") and not set_in
        end = count
    return end


# --- the status line
# ---------------------------------------------------------------------------------------------------


def moment_line(moment: Moment, naming: Naming, cut: str = "") -> Line:
    """The moment in one line: ``into jvp:2 y = sin(x)``. ``cut`` says how the recording was cut."""
    return tuple(segment for part in moment_parts(moment, naming, cut) for segment in part)


def moment_parts(moment: Moment, naming: Naming, cut: str = "") -> Iterator[Line]:
    """The line of a moment as a sequence of parts."""
    node = moment.node
    if node is None:
        if cut and moment.kind == END:
            yield line(("warning", cut))
        else:
            yield line(("heading", "the end" if moment.kind == END else "the beginning"))
        return
    if moment.kind in (ENTER, LEAVE):
        yield line(("muted", "into " if moment.kind == ENTER else "done "))
    if isinstance(node, ScopeRecord):
        subject = node.subject.partition(" at ")[0]
        yield line(("level", node.level), ("muted", f" for {subject}" if subject else ""))
        return
    yield record_line(node, False, naming=naming, with_level=True)
    if moment.kind == LEAVE and isinstance(node, BindRecord) and (came := outcome(node, naming)):
        yield came


def status(cursor: Cursor) -> Document:
    """The cursor's position: its number, its moment in words, the times of the phases so far, the recording's error."""
    last = len(cursor.moments) - 1
    position: Segment = ("heading", f"{cursor.position}/{last}")
    first = (position, ("", "  "), *moment_line(cursor.moment, naming_of(cursor.recording), cursor.cut))
    last_error = cursor.recording.errors[-1] if cursor.recording.errors else None
    if last_error is not None and last_error.where == CALL and _says_all(cursor.moment, last_error):
        # show the whole message: its end may hold the important part, such as two shapes that differ
        return document(Text((first,)))
    second: list[Segment] = []
    totals: dict[str, float] = {}
    for phase in cursor.recording.phases:
        if phase.at <= cursor.moment.at:
            totals[phase.phase] = totals.get(phase.phase, 0.0) + phase.own
    if totals:
        second += panels.time_line(totals)
    if last_error is not None and last_error.where == CALL:
        second += [("muted", " · ")] if second else []
        second += [("muted", "ends in ")] if last_error.at > cursor.moment.at + 1 else []
        message = last_error.message.strip().partition("\n")[0]
        second += [("error", last_error.type), ("", f": {message}" if message else "")]
    if cursor.cut and cursor.moment.kind != END:
        second += [("muted", " · ")] if second else []
        second.append(("warning", cursor.cut.replace("here", "before the end")))
    lines = [first, tuple(second)] if second else [first]
    return document(Text(tuple(lines), wrap=False))


def _says_all(moment: Moment, error: ErrorRecord) -> bool:
    """Whether the moment's own line shows the error that ended the recording."""
    node = moment.node
    return isinstance(node, ErrorRecord) and (node.type, node.message) == (error.type, error.message)


def stack_text(cursor: Cursor) -> Line:
    """The interpreter stack in one line: ``eval ▸ partial_eval:1 ▸ jvp:2``."""
    return joined(" ▸ ", (("level", label) for label in cursor.state().stack))


# --- moves that start a session of stepping
# -----------------------------------------------------------------------------


def to_function(cursor: Cursor, name: str, backwards: bool = False) -> bool:
    """Go to the next moment that begins to trace or run the function ``name``; stay if there is none."""

    def wanted(moment: Moment) -> bool:
        node = moment.node
        if moment.kind != ENTER:
            return False
        if isinstance(node, ScopeRecord):
            return node.subject.partition(" at ")[0] == name
        assert isinstance(node, BindRecord)
        return ("name", name) in node.params or place_parts(node.place)[2] == name

    return cursor.find(wanted, backwards)


def to_failure(cursor: Cursor) -> None:
    """Go to the first record of the exception that ended the recording, or else to the end."""
    cursor.last()
    errors = cursor.recording.errors
    if not errors or errors[-1].where != CALL:
        return
    last = errors[-1]
    for error in reversed(errors):
        if (error.type, error.message) != (last.type, last.message):
            break
        last = error
    cursor.find(lambda moment: moment.node is last, backwards=True)


# The panes of a moment by name, in a stepper's order.
PANES: dict[str, Callable[[Cursor], Document]] = {
    "tree": tree_lines,
    "source": source_pane,
    "stack": stack_pane,
    "jaxpr": program_pane,
    "rule": rule_pane,
    "values": values_pane,
    "devices": devices_pane,
}
