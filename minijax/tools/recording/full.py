"""What a recorder of level 'full' notes besides: the tree of binds, scopes, rules and equations, the lives of tracers,
and the source of all that ran.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.array import get_aval
from minijax.core.trace import Tracer, state
from minijax.ir.jaxpr import Jaxpr, JaxprEqn
from minijax.tools.documents.words import shortened
from minijax.tools.programs import links
from minijax.tools.recording import preview, summary
from minijax.tools.recording.backward import PASS_CHARACTERS, Transpositions, equation_text
from minijax.tools.recording.forcing import forced_by
from minijax.tools.recording.frames import Frames
from minijax.tools.recording.lives import Lives
from minijax.tools.recording.records import (
    CALL,
    BindRecord,
    CacheRecord,
    EquationRecord,
    Node,
    PhaseRecord,
    RuleRecord,
    ScopeRecord,
)
from minijax.tools.recording.sources import Sources
from minijax.tools.recording.summary import FULL, Finished, Summary, error_text
from minijax.tools.recording.timeline import BIND, SCOPE, Timeline, event_sign, left_sign
from minijax.tools.recording.values import RunRecord, holds_program

# Past so many characters of previews and equations too, a recorder only counts.
MOST_CHARACTERS = 100_000_000
# Arguments and results of one operation that are described.
MOST_OPERANDS = 40
MOST_EQUATION = 1000
# Functions that one operation found in caches that are named, and compiled programs that are linked to their lines.
MOST_HITS = 16
MOST_LINKED = 20
_LONGEST_ERROR = 200


class _OpenRecord:
    """A bind or scope that has begun and not ended."""

    __slots__ = ("at", "number", "kind", "facts", "rule", "children", "hits", "cached", "place", "handled")

    def __init__(
        self, at: int, number: int, kind: Any, facts: tuple[Any, ...], place: str, cached: str = ""
    ) -> None:
        self.at = at
        # of its record, among all in the order in which they begin
        self.number = number
        # the primitive, or the scope's level
        self.kind = kind
        self.facts = facts
        self.rule: RuleRecord | None = None
        self.children: list[Node] = []
        # functions whose traces were found in a cache for the next operation
        self.hits: list[str] = []
        self.cached = cached
        self.place = place
        # id of the exception that was being handled then
        self.handled = id(sys.exc_info()[1])


def _own_work(hook: Callable[..., None]) -> Callable[..., None]:
    """``hook`` with its time noted, to be taken off the phases around it."""

    def noted(self: Full, *args: Any) -> None:
        began = time.perf_counter()
        hook(self, *args)
        if not self.stopped:  # ``note_own``, written out
            now = time.perf_counter()
            self.own_when.append(now)
            total = self.own_total
            total.append(total[-1] + now - began)

    return noted


class Full(Summary):
    """The hooks of level 'full'."""

    scale = FULL

    def __init__(self) -> None:
        super().__init__()
        self.counting_thread = None  # it is to see all
        self.lives = Lives()
        self.sources = Sources()
        self.top: list[Node] = []
        # the moments so far, and their records in the order in which they begin (``timeline``)
        self.signs = bytearray()
        self.nodes: list[Node | None] = []
        # the events at which these begin, and the scopes of the equations among them
        self.ats = array("q")
        self.equation_scopes = array("q")
        self.open: list[_OpenRecord] = []
        self.top_hits: list[str] = []
        self.characters = 0
        self.stopped = False
        # the last event before that
        self.stopped_at = 0
        # ids of the executables that have been noted
        self.linked: set[int] = set()
        # the phases one by one, as long as there is a tree
        self.each_phase: list[PhaseRecord] = []
        # operations that have begun and not ended and are not recorded
        self.unrecorded = 0
        self.transpositions = Transpositions(self.lives, self.sources)
        # id of the exception that is passing through operations
        self.passing = 0
        self.frames = Frames()
        # of the imported programs that are evaluated: how many scopes there were when they began
        self.importing: list[int] = []

    def next_event(self) -> bool:
        """Number an event of this thread, which has been counted; whether it is to be recorded."""
        self.lives.now = self.events
        if self.events > summary.MOST_EVENTS or self.characters > MOST_CHARACTERS:
            self.stopped_at = self.stopped_at or self.events - 1
            self.stopped = True
        return not self.stopped

    def keep(self, record: Any) -> Any:
        if self.next_event():
            (self.open[-1].children if self.open else self.top).append(record)
            self.signs.append(event_sign(record))
            self.nodes.append(record)
            self.ats.append(record.at)
        return record

    def begin(self, kind: Any, facts: tuple[Any, ...], place: str, cached: str = "") -> None:
        """A bind or scope begins, inside of those that are open."""
        self.open.append(_OpenRecord(self.events, len(self.nodes), kind, facts, place, cached))
        self.nodes.append(None)
        self.ats.append(self.events)
        self.signs.append(SCOPE if type(kind) is int else BIND)

    # --- the stack
    # -----------------------------------------------------------------------------------------------

    def main_push(self, main: Any) -> None:
        super().main_push(main)
        if get_ident() != self.thread or not self.next_event():
            return
        stack = tuple([scope.label for scope in self.scopes])
        facts = (self.scopes[-1].label, preview.subject_text(main.subject), stack)
        self.begin(main.level, facts, self.sources.place())

    def main_pop(self, main: Any) -> None:
        super().main_pop(main)
        if get_ident() != self.thread:
            return
        self.lives.now = self.events
        opened = next((o for o in self.open if type(o.kind) is int and o.kind == main.level), None)
        if opened is not None:
            self.note_passing(opened, main)
            while self.open[-1].kind != main.level:
                self.close()
            self.close()

    def note_passing(self, opened: _OpenRecord, main: Any) -> None:
        """Keep an exception that ends an interpreter, with the whole stack still there, if no operation has kept it."""
        error = sys.exc_info()[1]
        if error is not None and id(error) not in (opened.handled, self.passing):
            self.passing = id(error)
            name = preview.subject_text(main.subject).partition(" at ")[0]
            self.note_error(f"{name} in {main!r}" if name else repr(main), error, self.sources.place_of_error(error))

    # --- operations
    # ----------------------------------------------------------------------------------------------

    @_own_work
    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        if self.foreign():
            return
        self.passing = 0
        # before this event begins: what only frames that have ended held dies with them
        frame = None if self.stopped else errors.user_frame()
        if not self.stopped and (self.frames.moved(frame) or not self.inside_operation()):
            self.frames.look(self.name_variable)
        if not self.next_event():
            self.unrecorded += 1
            return
        if self.importing:
            # within an operation, and in bodies of loops, rules compute something else of a line
            self.sources.asking = self.importing[-1] == len(self.scopes) and not self.inside_operation()
        else:
            self.sources.asking = False
        place, expression = self.sources.spot(frame)
        shown = args if len(args) <= MOST_OPERANDS else args[:MOST_OPERANDS]
        own = []
        operands, texts, types = [], [], []
        see, scopes, birth_place = self.lives.see, self.scopes, self.birth_place()
        for x in shown:
            life = see(x, scopes, birth_place)
            if life is None:
                operands.append(0)
                texts.append(preview.value_text(x, fetch=True))
                types.append(preview.short_type(x))
                continue
            record = life.record
            operands.append(record.id)
            texts.append(life.text)
            types.append(record.type)
            if getattr(x, "_trace", None) is trace:
                own.append(record)
        if shown is not args:
            texts.append(f"... {len(args) - len(shown)} more")
        parameters = preview.parameters(params)
        forcer, forced = forced_by(trace, args)
        scope = scopes[trace.main.level]
        self.characters += 100 + sum(map(len, texts))
        if params:
            self.characters += sum([len(text) for _, text in parameters])
        facts = (
            scope.label,
            trace.main.level,
            tuple(texts),
            tuple(own),
            parameters,
            forced,
            forcer,
            tuple(operands),
            tuple(types),
            expression,
        )
        cached = ""
        if params and any(map(holds_program, params.values())):
            cached = self.taken_hits()
            self.note_run(primitive, scope.label, args, operands, params)
        self.begin(primitive, facts, place, cached)

    def inside_operation(self) -> bool:
        """Whether an operation is under way: the next one is a rule's."""
        if self.open and type(self.open[-1].kind) is not int:
            return True
        return any(type(o.kind) is not int for o in self.open)

    def number(self, value: Any) -> int:
        life = self.lives.see(value, self.scopes, self.birth_place(), held=True)
        return 0 if life is None else life.record.id

    def name_variable(self, value: Any, name: str) -> None:
        """Note what a variable of the user's holds."""
        self.lives.name(value, self.scopes, self.birth_place(), name)

    def note_run(
        self, primitive: Any, level: str, args: tuple[Any, ...], operands: list[int], params: dict[str, Any]
    ) -> None:
        """Keep the programs that the operation which begins runs, with its operands, of which there may be many."""
        numbers = operands
        if len(args) > len(operands):
            more = [self.lives.see(x, self.scopes, self.birth_place()) for x in args[len(operands) :]]
            numbers = [*operands, *[0 if life is None else life.record.id for life in more]]
        unnumbered = [(i, x) for i, (x, number) in enumerate(zip(args, numbers, strict=True)) if not number]
        literals = {i: x for i, x in unnumbered if not isinstance(x, Tracer)}
        numbered = tuple(numbers)
        avals = tuple(map(get_aval, args))
        at, name, axes = self.events, primitive.name, state.axis_env
        run = RunRecord(at, name, level, params, numbered, literals, primitive, avals, axes)
        self.lives.values.keep_run(run)

    def birth_place(self) -> str:
        """The line that made what is seen for the first time as an operand: that of the innermost open record."""
        return self.open[-1].place if self.open else ""

    def taken_hits(self) -> str:
        """The functions whose traces were taken from caches for the call which begins."""
        hits = self.open[-1].hits if self.open else self.top_hits
        if not hits:
            return ""
        names = list(dict.fromkeys(hits))
        hits.clear()
        more = f" and {len(names) - MOST_HITS} more" if len(names) > MOST_HITS else ""
        return ", ".join(names[:MOST_HITS]) + more

    @_own_work
    def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
        if self.foreign() or not self.next_event():
            return
        name, file, line = self.sources.rule(rule)
        top = self.open[-1] if self.open else None
        if top is not None and top.kind is primitive and top.rule is None and not top.children and table != "transpose":
            top.rule = RuleRecord(self.events, table, primitive.name, name, file, line)
        else:
            self.keep(RuleRecord(self.events, table, primitive.name, name, file, line, self.sources.place()))

    @_own_work
    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        super().bind_exit(primitive, trace, out)
        if get_ident() != self.thread:
            return
        self.next_event()
        if self.unrecorded:
            self.unrecorded -= 1
        elif self.find(primitive):
            values = out if primitive.multiple_results else (out,)
            self.close("", values)

    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        if self.foreign():
            return
        self.next_event()
        if self.unrecorded:
            self.unrecorded -= 1
        elif self.find(primitive):
            if self.passing != id(error):
                self.passing = id(error)
                where = f"{primitive.name} in {self.scopes[trace.main.level].label}"
                self.note_error(where, error, self.sources.place_of_error(error) or self.open[-1].place)
            said = error_text(error)
            self.close(f"{type(error).__name__}{': ' if said else ''}{shortened(said, _LONGEST_ERROR)}")

    def find(self, primitive: Any) -> bool:
        """Make the open record of ``primitive`` the innermost one. False if there is none."""
        if self.open and self.open[-1].kind is primitive:
            return True
        if not any(o.kind is primitive for o in self.open):
            return False
        while self.open[-1].kind is not primitive:
            self.close()
        return True

    def close(self, error: str = "", values: Any = ()) -> None:
        """End the innermost open record."""
        o = self.open[-1]
        children = tuple(o.children)
        record: Node
        if type(o.kind) is int:
            level, subject, stack = o.facts
            record = ScopeRecord(o.at, self.events, level, o.kind, subject, stack, children, o.place)
        else:
            record = self.closed_bind(o, children, error, values)
        # only now: an interrupt until here leaves the record open, with all that is in it
        del self.open[-1]
        (self.open[-1].children if self.open else self.top).append(record)
        self.nodes[o.number] = record
        self.signs.append(left_sign(record))

    def closed_bind(self, o: _OpenRecord, children: tuple[Node, ...], error: str, values: Any) -> BindRecord:
        """The record of the bind ``o``."""
        level, depth, args, own, parameters, forced, forcer, operands, in_types, expression = o.facts
        shown = values if len(values) <= MOST_OPERANDS else values[:MOST_OPERANDS]
        results, texts, types = [], [], []
        for x in shown:
            life = self.lives.see(x, self.scopes, o.place)
            results.append(0 if life is None else life.record.id)
            texts.append(preview.value_text(x, fetch=True) if life is None else life.text)
            types.append(preview.short_type(x) if life is None else life.record.type)
        return BindRecord(
            o.at,
            self.events,
            o.kind.name,
            level,
            depth,
            args,
            own,
            parameters,
            preview.listed(texts, len(values)),
            o.rule,
            o.place,
            error,
            children,
            forced,
            forcer,
            tuple(types),
            operands,
            tuple(results),
            any(map(preview.nonfinite, values)),
            o.cached,
            in_types,
            expression,
        )

    # --- programs
    # ------------------------------------------------------------------------------------------------

    @_own_work
    def equation(self, main: Any, eqn: JaxprEqn) -> None:
        if self.foreign() or not self.next_event():
            return
        scope = self.scopes[main.level]
        text = shortened(equation_text(eqn, scope.name), MOST_EQUATION)
        self.characters += len(text)
        place = self.sources.place_of(eqn.source) or self.sources.place()
        self.equation_scopes.append(scope.at)
        self.keep(EquationRecord(self.events, scope.label, scope.at, text, place, eqn.primitive.name))

    # --- linear programs run backwards
    # ------------------------------------------------------------------------------------------------

    @_own_work
    def backward(
        self,
        jaxpr: Any,
        known: Mapping[Any, Any],
        outs: Sequence[Any],
        cts: Sequence[Any],
        sums: Sequence[tuple[Any, Any]],
    ) -> None:
        if get_ident() == self.thread:
            if not self.stopped:
                self.characters += PASS_CHARACTERS * len(jaxpr.eqns)
            self.transpositions.begin(self.events, self.scopes, None if self.stopped else jaxpr, known, outs, cts, sums)

    @_own_work
    def transposing(self, eqn: Any, ct: Any) -> None:
        if get_ident() == self.thread and not self.stopped:
            self.transpositions.before(self.events, eqn, ct)

    @_own_work
    def transposed(self, eqn: Any, found: Sequence[tuple[Any, Any, Any]]) -> None:
        if get_ident() == self.thread and not self.stopped:
            self.transpositions.after(self.events, eqn, found)

    @_own_work
    def backward_end(self) -> None:
        if get_ident() == self.thread:
            self.transpositions.end(self.events)

    @_own_work
    def imported(self, names: Sequence[str], values: Sequence[Any]) -> None:
        if get_ident() == self.thread and not self.stopped:
            self.importing.append(len(self.scopes))
            for value, name in zip(values, names, strict=False):
                self.name_variable(value, name)

    @_own_work
    def imported_end(self) -> None:
        if get_ident() == self.thread and self.importing:
            self.importing.pop()

    # --- caches, phases, compiled programs
    # ------------------------------------------------------------------------------------------------

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        super().cache(cache, name, hit, key, reason)
        if get_ident() == self.thread and hit:
            self.keep(CacheRecord(self.events, cache, name, True, reason))
            hits = self.open[-1].hits if self.open else self.top_hits
            hits.append(name)

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        super().jaxpr(kind, closed, name)
        if get_ident() == self.thread and not self.stopped:
            self.lives.values.keep_program(self.events, kind, closed)

    def likeness(self, kind: str, name: str, jaxpr: Jaxpr) -> int:
        # each has its place in the tree
        return self.jaxprs_made

    def add_phase(self, phase: str, name: str, seconds: float, own: float) -> None:
        record = PhaseRecord(self.events, phase, name, seconds, own)
        self.keep(record)
        if self.stopped:
            super().add_phase(phase, name, seconds, own)
        else:
            self.each_phase.append(record)

    def phase_records(self) -> tuple[PhaseRecord, ...]:
        return (*self.each_phase, *super().phase_records())

    def executed(self, name: str, executable: Any, n_in: int, n_out: int) -> None:
        super().executed(name, executable, n_in, n_out)
        if get_ident() == self.thread and id(executable) not in self.linked and self.next_event():
            # compiled before the recording began: what ran can be shown all the same
            self.note_executable(name, executable, reused=True)

    def programs_of(self, executable: Any) -> links.LinkedPrograms | None:
        self.linked.add(id(executable))
        if self.stopped or len(self.linked) > MOST_LINKED:
            self.cut["programs linked to their lines"] += 1
            return None
        try:
            return links.of_executable(executable)
        except Exception:  # such as an operation that cannot be lowered again: the rest of the recording goes on
            return None

    def truncated(self) -> bool:
        return self.stopped

    def left_out(self) -> dict[str, int]:
        # a full recording has the lives of all
        rest = {kind: count for kind, count in super().left_out().items() if kind != "tracers"}
        if self.stopped:
            rest["events"] = self.events - self.stopped_at
        if self.lives.values.left_out:
            rest["values"] = self.lives.values.left_out
        return {**rest, **({"lines of sources": self.sources.left_out} if self.sources.left_out else {})}

    def finish(self, error: BaseException | None) -> Finished:
        while self.open:
            self.close("never ended" if type(self.open[-1].kind) is not int else "")
        if error is not None:
            self.note_error(CALL, error, self.sources.place_of_error(error))
        self.frames.finish(self.name_variable)
        backward = self.transpositions.records(self.events)
        moments: Timeline | None
        try:
            moments = Timeline(self.signs, self.nodes, self.events + 1)
            columns = {"ats": self.ats, "equations": self.equation_scopes}
            moments.columns = {name: np.array(column, np.int64) for name, column in columns.items()}
        except ValueError:  # a hook raised, and was taken off: the moments are told from the tree
            moments = None
        sources = self.sources.records()
        return Finished(tuple(self.top), self.lives.records(), sources, self.lives.values, backward, moments)
