"""What a stepper shows: for each of its panes a function from a cursor to a document.

The full-screen stepper, the notebook's widget and the tests use the same functions. A pane tells what held at the
cursor's moment: results that came later are left out. A line that carries the role 'current' is the one to keep in
sight.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator

from minijax import errors
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
from minijax.tools.recording.cursor import BEGIN, END, ENTER, LEAVE, Cursor, JaxprSoFar, Moment
from minijax.tools.recording.log import record_line
from minijax.tools.recording.records import (
    CALL,
    BindRecord,
    CacheRecord,
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
from minijax.tools.stepper.tree import FOLD, tree_rows

# The folder that the engine's own files are in.
_ENGINE = os.path.dirname(os.path.abspath(errors.__file__)) + "/"
# Tracers shown of one level, the newest; more are counted.
MOST_TRACERS = 40
# Equations shown of one jaxpr that is being built, the newest; more are counted.
MOST_EQUATIONS = 400


def tree_lines(cursor: Cursor, before: int = 8, after: int = 16, fold: int = FOLD) -> Document:
    """The tree of binds and scopes around the cursor: ``before`` lines above the current one, ``after`` below.

    What lies deeper than ``fold`` is shown where the cursor is inside it, and counted elsewhere.
    """
    return document(Text(tree_rows(cursor, before, after, fold).lines, wrap=False))


# --- the user's source
# -------------------------------------------------------------------------------------------------


def source_pane(cursor: Cursor) -> Document:
    """The user's source with the current line marked."""
    place = cursor.state().place
    file, number, function = place_parts(place)
    if not file:
        return _note("no line of yours is being run here")
    heading = text(place_line(file, number, function), wrap=False)
    code = kept_source(cursor.recording, file, number)
    if code is None:
        return document(heading, text("its source was not kept", role="muted"))
    return document(heading, code)


def place_line(file: str, number: int, function: str = "") -> Line:
    """``model.py:12 in f  /home/me``: what matters first, for it may be cut at the right."""
    folder, _, name = file.rpartition("/")
    if file.startswith(_ENGINE):
        folder, name = "", "minijax/" + file[len(_ENGINE) :]
    where = f" in {function}" if function else ""
    return line(("place", f"{name}:{number}"), ("muted", where + (f"  {folder}/" if folder else "")))


def kept_source(recording: Recording, file: str, number: int) -> Code | None:
    """The kept lines of ``file`` that line ``number`` is among."""
    for source in recording.sources:
        if source.file == file and 0 <= number - source.first <= source.text.count("\n"):
            return Code(source.text.rstrip("\n"), "python", source.first, (number,))
    return None


# --- the stack
# ---------------------------------------------------------------------------------------------------------


def stack_pane(cursor: Cursor) -> Document:
    """The interpreters, innermost first, and the tracers of each that are alive, unwrapped."""
    state = cursor.state()
    subjects = {node.level: node.subject for node in state.path if isinstance(node, ScopeRecord)}
    used = _used(state.bind)
    lines: list[Line] = []
    for depth in range(len(state.stack) - 1, -1, -1):
        label = state.stack[depth]
        own = state.tracers[depth] if depth < len(state.tracers) else ()
        working = state.bind is not None and state.bind.level == label
        mark: Segment = ("current", MARK + " ") if working else ("", "  ")
        subject = subjects.get(label, "").partition(" at ")[0]
        head: list[Segment] = [mark, ("level", label)]
        if subject:
            head.append(("muted", f" for {subject}"))
        if depth:
            head.append(("muted", f" · {plural(len(own), 'tracer')} alive"))
        lines.append(tuple(head))
        if len(own) > MOST_TRACERS:
            lines.append(line("    ", ("muted", f"... {len(own) - MOST_TRACERS} older ones")))
        lines += [life_line(life, life.tracer.id in used) for life in own[-MOST_TRACERS:]]
    return document(Text(tuple(lines), hanging=6))


def _used(bind: BindRecord | None) -> set[int]:
    """The numbers of the tracers that the current operation is given."""
    return set() if bind is None else {number for number in bind.operands if number}


def life_line(life: LifeRecord, used: bool) -> Line:
    """``•   y #4 f32[] (physically f32[3])  primal 3.0  tangent partial_eval:1 f32[]  from <minijax-1>:1``"""
    record = life.tracer
    out: list[Segment] = [("linked", "  • " if used else "    ")]
    if life.name:
        out += [("var", life.name), ("", " ")]
    if record.id:
        out += [("muted", f"#{record.id} ")]
    out.append(("type", record.type))
    if record.physical and record.physical != record.type:
        out += [("muted", " physically "), ("type", record.physical)]
    for key, value in record.fields:
        if key != "name":
            out += [("muted", f"  {key} "), ("value", value)]
    file, number, _ = place_parts(life.place)
    if file:
        out.append(("muted", f"  from {file.rpartition('/')[2]}:{number}"))
    return tuple(out)


# --- the jaxpr
# ---------------------------------------------------------------------------------------------------------


def program_pane(cursor: Cursor) -> Document:
    """The jaxprs as they stand at this moment, innermost first, the newest equation marked; the finished jaxpr, the
    StableHLO module or the compiled program where the moment is one's finishing."""
    state, node = cursor.state(), cursor.moment.node
    blocks: list[Block] = []
    if isinstance(node, JaxprRecord):
        printed = node.document()
        blocks.append(text((("current", MARK + " "), *panels.jaxpr_title(node))))
        if printed is not None:
            blocks.append(Printout(printed))
    elif isinstance(node, ModuleRecord):
        blocks += [text(line(("current", MARK + " "), ("heading", f"StableHLO of {node.name}")))]
        blocks += [Code(node.text.rstrip("\n"), "stablehlo")]
    elif isinstance(node, ExecutableRecord):
        blocks += [text(line(("current", MARK + " "), ("heading", f"optimised program of {node.name}")))]
        blocks += [Code(node.text.rstrip("\n"), "hlo")]
    newest = max((each.equations[-1].at for each in state.programs), default=-1)
    for program in reversed(state.programs):
        blocks += _program(program, newest, program.equations[-1].at == state.moment.at)
    return document(*blocks) if blocks else _note("no equation has been recorded here")


def _program(program: JaxprSoFar, newest: int, just_added: bool) -> Iterator[Block]:
    count = plural(len(program.equations), "equation")
    yield text(line(("level", program.level), ("muted", f" has recorded {count}")))
    last = len(program.equations)
    marked = (last,) if program.equations[-1].at == newest else ()
    cut = max(last - MOST_EQUATIONS, 0)
    if cut:
        yield text(f"... {plural(cut, 'earlier equation')}", role="muted")
    listing = "\n".join(" ".join(each.text.split()) for each in program.equations[cut:])
    yield Code(listing, "jaxpr", cut + 1, marked if just_added else (), frozenset(marked))


# --- the rule
# ----------------------------------------------------------------------------------------------------------


def rule_pane(cursor: Cursor) -> Document:
    """The operation under way: why this interpreter was given it, its arguments, the source of the rule that is
    applied, and what came of it."""
    state = cursor.state()
    node = state.moment.node
    bind = state.bind
    lines: list[Line] = []
    if isinstance(node, CacheRecord | ErrorRecord):
        lines += event_lines(node)
    if bind is not None:
        lines += bind_lines(bind, state.moment.kind == LEAVE and state.moment.node is bind)
    elif state.rule is None and not lines:
        lines.append(line(("muted", "no operation is under way here")))
    blocks: list[Block] = [Text(tuple(lines), hanging=4)] if lines else []
    if state.rule is not None:
        blocks += _rule_blocks(state.rule, cursor.recording)
    return document(*blocks)


def bind_lines(bind: BindRecord, done: bool) -> Iterator[Line]:
    """An operation: why this interpreter was given it, with what, and what came of it if it is ``done``."""
    yield line(("primitive", bind.primitive), ("muted", " processed by "), ("level", bind.level))
    if bind.forced:
        yield line(("muted", "why    "), bind.forced)
    for index, argument in enumerate(bind.args):
        tracer: Line = ()
        if index == bind.forced_by:
            tracer = line(("linked", "  • forced it"))
        yield line(("muted", "given  "), ("value", argument), *tracer)
    for tracer_record in bind.tracers:
        yield line(("muted", "       unwrapped "), *panels.tracer_line(tracer_record))
    for name, value in bind.params:
        yield line(("muted", "with   "), ("param-name", name), ("muted", "="), ("param-value", value))
    if bind.cached:
        yield line(
            ("warning", f"the trace of {bind.cached} came from a cache: no Python of it ran. "),
            ("muted", "Recording it anew with --retrace (key R) traces it again"),
        )
    if done:
        result = ("error", f"raised {bind.error}") if bind.error else ("value", bind.out or "no result")
        yield line(("muted", "gave   "), result)
        if bind.types:
            yield line(("muted", "       of type "), ("type", ", ".join(bind.types)))
        if bind.nonfinite:
            yield line(("warning", "       a result holds a NaN or an infinity"))


def event_lines(node: CacheRecord | ErrorRecord) -> Iterator[Line]:
    """What a cache answered, or an error said."""
    yield record_line(node)
    if isinstance(node, CacheRecord) and node.hit:
        yield line(("muted", "Python did not run again: --retrace (key R) records it traced anew"))


def rule_heading(rule: RuleRecord) -> Iterator[Line]:
    """What a rule is called, and where it is."""
    table = rule.table.removesuffix(" rule")
    yield line(("heading", f"{table} rule"), ("muted", " of "), ("primitive", rule.primitive), f"  {rule.name}")
    if rule.file:
        yield place_line(rule.file, rule.line)
    else:
        yield line(("muted", "written in C, or its source is not known"))


def _rule_blocks(rule: RuleRecord, recording: Recording) -> Iterator[Block]:
    yield text(*rule_heading(rule), wrap=False)
    code = rule_source(recording, rule)
    if code is not None:
        yield code


def rule_source(recording: Recording, rule: RuleRecord) -> Code | None:
    """The function that a rule is, without what stands around it in its file, not set in; None if it was not kept."""
    kept = kept_source(recording, rule.file, rule.line) if rule.file else None
    if kept is None:
        return None
    lines = kept.text.split("\n")[rule.line - kept.first :]
    return Code(textwrap.dedent("\n".join(lines[: _function_length(lines)])), "python", rule.line)


def _function_length(lines: list[str]) -> int:
    """How many of ``lines`` the function that begins with them takes: up to what is not set in further."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    headed = False
    end = 0
    for count, each in enumerate(lines, 1):
        if not each.strip():
            continue
        set_in = len(each) - len(each.lstrip()) > indent or each.lstrip().startswith(")")
        if headed and not set_in:
            break
        # above the head there may be decorators
        headed = headed or not each.lstrip().startswith("@") and not set_in
        end = count
    return end


# --- the status line
# ---------------------------------------------------------------------------------------------------


def moment_line(moment: Moment, cut: str = "") -> Line:
    """What the moment is, in one line: ``into jvp:2 sin(jvp:2 f32[])``; ``cut`` is the recording's."""
    node = moment.node
    if moment.kind == BEGIN or node is None and moment.kind != END:
        return line(("heading", "the beginning"))
    if moment.kind == END:
        return line(("warning", cut)) if cut else line(("heading", "the end"))
    assert node is not None
    if moment.kind in (ENTER, LEAVE):
        came: Segment = ("muted", "into " if moment.kind == ENTER else "done ")
        if isinstance(node, ScopeRecord):
            subject = node.subject.partition(" at ")[0]
            return line(came, ("level", node.level), ("muted", f" for {subject}" if subject else ""))
        return (came, *record_line(node, moment.kind == LEAVE))
    return record_line(node)


def status(cursor: Cursor) -> Document:
    """Where the cursor stands: its number, the moment in words, the phases so far, and the error if there was one."""
    last = len(cursor.moments) - 1
    position: Segment = ("heading", f"{cursor.position}/{last}")
    first = (position, ("", "  "), *moment_line(cursor.moment, cursor.cut))
    second: list[Segment] = []
    totals: dict[str, float] = {}
    for phase in cursor.recording.phases:
        if phase.at <= cursor.moment.at:
            totals[phase.phase] = totals.get(phase.phase, 0.0) + phase.own
    if totals:
        second += panels.time_line(totals)
    last_error = cursor.recording.errors[-1] if cursor.recording.errors else None
    if last_error is not None and last_error.where == CALL:
        second += [("muted", " · ")] if second else []
        second += [("muted", "ends in ")] if last_error.at > cursor.moment.at + 1 else []
        second += [("error", last_error.type), ("", f": {last_error.message.strip().partition(chr(10))[0]}")]
    if cursor.cut and cursor.moment.kind != END:
        second += [("muted", " · ")] if second else []
        second.append(("warning", cursor.cut.replace("here", "before the end")))
    lines = [first, tuple(second)] if second else [first]
    return document(Text(tuple(lines), wrap=False))


def stack_text(cursor: Cursor) -> Line:
    """``eval ▸ partial_eval:1 ▸ jvp:2``"""
    return joined(" ▸ ", (("level", label) for label in cursor.state().stack))


# --- moves that start a session of stepping
# -----------------------------------------------------------------------------


def to_function(cursor: Cursor, name: str, backwards: bool = False) -> bool:
    """To the next moment at which the function ``name`` begins to be traced, or is at work; stays if there is none."""

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
    """To where the exception that ended the recording was raised: the first record of it; else the end."""
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


def _note(said: str) -> Document:
    return document(text(said, role="muted"))


# The panes that show a moment, by name, in the order in which a stepper offers them.
PANES: dict[str, Callable[[Cursor], Document]] = {
    "tree": tree_lines,
    "source": source_pane,
    "stack": stack_pane,
    "jaxpr": program_pane,
    "rule": rule_pane,
}
