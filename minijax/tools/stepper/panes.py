"""The panes of a stepper. A pane is a sequence of pieces; a terminal shows them as a document, a page by their keys.

A pane shows the state at the cursor's moment, without later results. Marked lines must stay visible.
"""

from __future__ import annotations

import itertools
import os
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from minijax import errors
from minijax.core.records import NamedTuple
from minijax.ir.pretty import jaxpr_document
from minijax.tools.documents.document import (
    LINK,
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
)
from minijax.tools.documents.words import plural
from minijax.tools.recording import panels
from minijax.tools.recording.cursor import END, ENTER, LEAVE, Cursor, Moment, State
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
    Node,
    Recording,
    RuleRecord,
    ScopeRecord,
    place_parts,
)
from minijax.tools.recording.variables import letter_names, names_within, variable_names, with_names
from minijax.tools.stepper import idle
from minijax.tools.stepper.backward import at_cursor, backward_lines
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
# The number of equations of a jaxpr in progress in one piece.
_TOGETHER = 20
# Maximum number of characters of a value beside its type.
MOST_GLANCE = 40


class Piece(NamedTuple):
    """Adjacent lines of a pane.

    Pieces of a recording with equal ``key`` have equal lines. ``draw`` makes them at the piece's moment. A key may be
    the id of an object that ``draw`` holds. ``values`` are the numbers of the values in the lines. ``now`` and ``used``
    are the rows marked as current, and as belonging to it. A marked line of a text begins with spaces, for the mark.
    """

    key: Hashable
    draw: Callable[[], Text | Code | Printout]
    values: Sequence[int] = ()
    now: Sequence[int] = ()
    used: Sequence[int] = ()


def _one(key: Hashable, each: Line, hanging: int = 4, wrap: bool = True) -> Piece:
    """A piece of one line."""
    return Piece((key, each), lambda: Text((each,), wrap, hanging))


def _same(block: Code) -> Callable[[], Code]:
    return lambda: block


def pieces_document(pieces: Iterable[Piece]) -> Document:
    """The pieces with their marks. Adjacent pieces of one listing become one block."""
    blocks: list[Block] = []
    for piece in pieces:
        block, last = piece.draw(), blocks[-1] if blocks else None
        if isinstance(block, Code) and block.first:
            marked = tuple([block.first + row for row in piece.now])
            linked = frozenset([block.first + row for row in (*piece.now, *piece.used)])
            block = block.replace(marked=marked, linked=linked)
            if isinstance(last, Code) and last.first and last.first + last.text.count("\n") + 1 == block.first:
                listing = f"{last.text}\n{block.text}"
                block = last.replace(text=listing, marked=last.marked + marked, linked=last.linked | linked)
                blocks.pop()
        elif isinstance(block, Text) and (piece.now or piece.used):
            rows = range(len(block.lines))
            block = block.replace(lines=tuple([_marked(block.lines[row], row, piece) for row in rows]))
        blocks.append(block)
    return document(*blocks)


def _marked(each: Line, row: int, piece: Piece) -> Line:
    margin = each[0][1]
    if row in piece.now:
        return (("current", MARK + margin[1:]), *each[1:])
    return (("linked", f"{margin[:-2]}{LINK} "), *each[1:]) if row in piece.used else each


def tree_lines(cursor: Cursor, before: int = 8, after: int = 16, fold: int = FOLD) -> Document:
    """The tree of binds and scopes around the cursor: ``before`` lines above the current one, ``after`` below.

    Records deeper than ``fold`` are shown only around the cursor. Elsewhere they are counted.
    """
    return document(Text(tree_rows(cursor, before, after, fold).lines, wrap=False))


# --- the user's source


def source_pieces(cursor: Cursor) -> Iterator[Piece]:
    """The user's source with the current line marked, below its place. If no line runs, it is the last or next one."""
    said, place = idle.near_place(cursor)
    file, number, function = place_parts(place)
    if not file:
        yield _one("no line", line(("muted", "the engine ran no line of yours")))
        return
    heading = (*line(("muted", f"{said}: " if said else "")), *place_line(file, number, function))
    yield _one("place", heading, wrap=False)
    code = kept_source(cursor.recording, file, number)
    if code is None:
        yield _one("no source", line(("muted", "its source was not kept")))
    else:
        yield Piece(("source", code.text, code.first), _same(code), (), (number - code.first,))


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
            return Code(source.text.rstrip("\n"), "python", source.first)
    return None


# --- the stack


def stack_pieces(cursor: Cursor) -> Iterator[Piece]:
    """The interpreters, innermost first, each with its live tracers and the fields of these tracers."""
    state = cursor.state()
    naming, known = naming_of(cursor.recording), at_hand(cursor.recording)
    operands = set() if state.bind is None else {number for number in state.bind.operands if number}
    subjects = {node.level: node.subject for node in state.path if isinstance(node, ScopeRecord)}
    for depth in range(len(state.stack) - 1, -1, -1):
        label = state.stack[depth]
        own = state.tracers[depth] if depth < len(state.tracers) else ()
        subject = subjects.get(label, "").partition(" at ")[0]
        said = (f" for {subject}" if subject else "") + (f" · {plural(len(own), 'tracer')} alive" if depth else "")
        working = state.bind is not None and state.bind.level == label
        heading = _one("level", line("  ", ("level", label), ("muted", said)), 6)
        yield heading._replace(now=(0,) if working else ())
        if len(own) > MOST_TRACERS:
            yield _one("older", line("    ", ("muted", f"... {len(own) - MOST_TRACERS} older ones")), 6)
        for life in own[-MOST_TRACERS:]:
            number = life.tracer.id
            draw = partial(_life_text, life, naming, known)
            yield Piece(id(life), draw, (number,), (), (0,) if number in operands else ())


def _life_text(life: LifeRecord, naming: Naming, known: Ledger | None) -> Text:
    return Text(((("", "    "), *life_line(life, naming, known)),), hanging=6)


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


def glance_line(known: Ledger | None, number: int, what: str = "primal") -> Line:
    """``  -1.2 … 3.4 mean 0.2``: a value beside its type; () if the value is not known yet."""
    found = known.glance(number, what) if known is not None and number else None
    summary = () if found is None else brief(found.array, MOST_GLANCE, len(found.axes), typed=False)
    return (("", "  "), *summary) if summary else ()


# --- the jaxpr


def program_pieces(cursor: Cursor, most: int | None = None) -> Iterator[Piece]:
    """The jaxprs in progress, innermost first, with the newest equation marked. At a moment that finishes a jaxpr, a
    StableHLO module or a compiled program, that program comes first. ``most`` limits the equations of a jaxpr.
    """
    state, node = cursor.state(), cursor.moment.node
    passed = at_cursor(cursor)
    if passed is not None:
        _, done, finished = passed.at(cursor.moment.at)
        rows = [i for i, each in enumerate(backward_lines(cursor)) if any(role == "current" for role, _ in each)]
        values = [ct.number for step in passed.recorded.steps[:1] for ct in step.given]
        key = "backward", passed.recorded.begun, finished, done
        yield Piece(key, lambda: Text(tuple(backward_lines(cursor)), wrap=False), values, rows)
    if isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
        yield _one("finished", line("  ", *finished_title(node)), 2)._replace(now=(0,))
        yield Piece(("program", node.at), partial(_finished, node, cursor, most))
    newest = max((each.equations[-1].at for each in state.programs), default=-1)
    for program in reversed(state.programs):
        equations, scope, count = program.equations, program.scope, len(program.equations)
        said = f" has recorded {plural(count, 'equation')}"
        yield _one("growing", line(("level", program.level), ("muted", said)), 2)
        begin = max(count - MOST_EQUATIONS, 0)
        if begin:
            yield _one("earlier", line(("muted", f"... {plural(begin, 'earlier equation')}")), 2)
        names = letter_names(cursor.recording, scope) if cursor.named else {}
        while begin < count:
            end = min(begin - begin % _TOGETHER + _TOGETHER, count)
            last = (end - begin - 1,) if end == count and equations[-1].at == newest else ()
            now = last if equations[-1].at == state.moment.at else ()
            draw = partial(_equations, equations, begin, end, names)
            yield Piece(("equations", scope, begin, end), draw, (), now, last)
            begin = end
    if passed is None and not state.programs and not isinstance(node, JaxprRecord | ModuleRecord | ExecutableRecord):
        yield from _idle_program(cursor, state, most)


def _idle_program(cursor: Cursor, state: State, most: int | None) -> Iterator[Piece]:
    """What the pane shows while no program is in progress: the program that was finished last."""
    last = idle.near_program(cursor)
    if last is None:
        values = [life.tracer.id for life in (state.tracers[-1] if state.tracers else ())]
        key = "no program", cursor.moment.at, cursor.position
        yield Piece(key, lambda: Text(tuple(idle.program_said(cursor)), wrap=False), values)
        return
    yield _one("idle", line(("muted", "finished last")))
    yield _one("finished", finished_title(last), 2)
    yield Piece(("program", last.at), partial(_finished, last, cursor, most))


def finished_title(node: idle.Finished) -> Line:
    """The heading of a finished program."""
    if isinstance(node, JaxprRecord):
        return panels.jaxpr_title(node)
    what = "StableHLO" if isinstance(node, ModuleRecord) else "optimised program"
    return line(("heading", f"{what} of {node.name}"))


def _finished(node: idle.Finished, cursor: Cursor, most: int | None) -> Printout | Code | Text:
    """A finished program; an empty text if it was dropped."""
    if not isinstance(node, JaxprRecord):
        return Code(node.text.rstrip("\n"), "stablehlo" if isinstance(node, ModuleRecord) else "hlo")
    names = variable_names(cursor.recording) if cursor.named else None
    if names and node.program is not None:
        return Printout(jaxpr_document(node.program, max_eqns=most, names=names_within(node.program, names)))
    printed = node.document(most=most)
    return Text(()) if printed is None else Printout(printed)


def _equations(known: Sequence[EquationRecord], begin: int, end: int, names: Mapping[str, str]) -> Code:
    """Equations of a jaxpr in progress, each on one line."""
    equations = known[begin:end]
    texts: Iterable[str] = (" ".join(equation.text.split()) for equation in equations)
    if names:
        texts = map(with_names, texts, [each.primitive for each in equations], itertools.repeat(names))
    return Code("\n".join(texts), "jaxpr", begin + 1)


# --- the rule


def operation_pieces(cursor: Cursor) -> Iterator[Piece]:
    """The current operation: why this interpreter processes it, its arguments, and its result.

    At a moment between operations, it is the last or the next one.
    """
    state, node = cursor.state(), cursor.moment.node
    bind, done = state.bind, cursor.moment.kind == LEAVE and node is state.bind
    event = isinstance(node, CacheRecord | ErrorRecord)
    if event:
        yield from record_pieces(cursor, node)
    elif bind is None and state.rule is None:
        which, near, done = idle.near_operation(cursor)
        bind = near.node if near is not None and isinstance(near.node, BindRecord) else None
        said = f"the {which} operation" if bind is not None else "the call applied no operation"
        yield _one("operation", line(("muted", said)))
    if bind is not None:
        yield from record_pieces(cursor, bind, done)


def record_pieces(cursor: Cursor, node: Node | None, done: bool = True) -> Iterator[Piece]:
    """The details of an operation with, if it is ``done``, its result; the lines of a cache look-up or of an error."""
    naming, known = naming_of(cursor.recording), at_hand(cursor.recording)
    if isinstance(node, CacheRecord | ErrorRecord):
        yield Piece(("event", cursor.position), partial(_details, event_lines, node))
    elif isinstance(node, BindRecord):
        for kind, lines, values in (("given", given_lines, node.operands), ("gave", gave_lines, node.results)):
            if done or kind == "given":
                yield Piece((kind, node.at), partial(_details, lines, node, naming, known), values)


def _details(lines: Callable[..., Iterator[Line]], *of: Any) -> Text:
    return Text(tuple(lines(*of)), hanging=4)


def given_lines(bind: BindRecord, naming: Naming, known: Ledger | None = None) -> Iterator[Line]:
    """An operation: why this interpreter processes it, and its arguments.

    If the record has only a type, and the value is already ``known``, the line also shows the value.
    """
    names = naming.operands(bind)
    yield line(("primitive", bind.primitive), ("muted", " processed by "), ("level", bind.level))
    if bind.forced:
        yield line(("muted", "why    "), bind.forced)
    for index, argument in enumerate(bind.args):
        forced: Line = (("linked", "  • forced it"),) if index == bind.forced_by else ()
        named: Line = (("var", names[index]), ("muted", " = ")) if names[index] != argument else ()
        number = bind.operands[index] if index < len(bind.operands) else 0
        kind = bind.in_types[index] if index < len(bind.in_types) else ""
        worth = glance_line(known, number) if kind and argument.endswith(kind) else ()
        yield line(("muted", "given  "), *named, ("value", argument), *worth, *forced)
    for tracer_record in bind.tracers:
        yield line(("muted", "       unwrapped "), *panels.tracer_line(tracer_record))
    for name, value in bind.params:
        yield line(("muted", "with   "), ("param-name", name), ("muted", "="), ("param-value", value))
    if bind.cached:
        yield line(
            ("warning", f"the trace of {bind.cached} came from a cache: its Python did not run. "),
            ("muted", "--retrace (key R) records a new trace"),
        )


def gave_lines(bind: BindRecord, naming: Naming, known: Ledger | None = None) -> Iterator[Line]:
    """The result of an operation, with its type."""
    result = ("error", f"raised {bind.error}") if bind.error else ("value", bind.out or "no result")
    name = "" if bind.error else ", ".join(filter(None, map(naming.name, bind.results)))
    single = len(bind.results) == 1 and bind.out.endswith(bind.types[:1])
    worth = glance_line(known, bind.results[0]) if single else ()
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


def rule_pieces(cursor: Cursor) -> Iterator[Piece]:
    """The name, the place and the source of the applied rule."""
    state = cursor.state()
    rule = state.rule
    if rule is None:
        return
    table = rule.table.removesuffix(" rule")
    heading = line(("heading", f"{table} rule"), ("muted", " of "), ("primitive", rule.primitive), f"  {rule.name}")
    unknown = line(("muted", "written in C, or its source is not known"))
    yield _one("rule", heading, wrap=False)
    yield _one("rule's place", place_line(rule.file, rule.line) if rule.file else unknown, wrap=False)
    if any(isinstance(node, BindRecord) and node.rule is rule and linearizes(node) for node in state.path):
        said = "linearize is derived from it: the known part is run, the linear part recorded"
        yield _one("derived", line(("muted", said)), wrap=False)
    code = rule_source(cursor.recording, rule)
    if code is not None:
        yield Piece(("rule's source", rule.file, rule.line), _same(code))


def rule_source(recording: Recording, rule: RuleRecord) -> Code | None:
    """The source of a rule's function alone, without its indent; None if it was not kept."""
    kept = kept_source(recording, rule.file, rule.line) if rule.file else None
    if kept is None:
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


def moment_line(moment: Moment, naming: Naming, cut: str = "") -> Line:
    """The moment in one line: ``into jvp:2 y = sin(x)``. ``cut`` says how the recording was cut."""
    node = moment.node
    if node is None:
        if cut and moment.kind == END:
            return line(("warning", cut))
        return line(("heading", "the end" if moment.kind == END else "the beginning"))
    how = line(("muted", {ENTER: "into ", LEAVE: "done "}.get(moment.kind, "")))
    if isinstance(node, ScopeRecord):
        subject = node.subject.partition(" at ")[0]
        return (*how, ("level", node.level), ("muted", f" for {subject}" if subject else ""))
    came = outcome(node, naming) if moment.kind == LEAVE and isinstance(node, BindRecord) else ()
    return (*how, *record_line(node, False, naming=naming, with_level=True), *came)


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


# The panes of a moment by name, as a page shows them.
PIECES: dict[str, Callable[[Cursor], Iterator[Piece]]] = {
    "source": source_pieces,
    "stack": stack_pieces,
    "program": program_pieces,
    "operation": operation_pieces,
    "rule": rule_pieces,
}


def _pane(*names: str) -> Callable[[Cursor], Document]:
    """A pane of a terminal, which shows the pieces of these panes."""
    return lambda cursor: pieces_document(piece for name in names for piece in PIECES[name](cursor))


source_pane, stack_pane, program_pane = _pane("source"), _pane("stack"), _pane("program")
rule_pane = _pane("operation", "rule")
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
