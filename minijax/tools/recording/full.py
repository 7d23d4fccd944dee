"""The full recorder. Besides the summary, it records the tree of binds, scopes, rules and equations, the lifetimes of
tracers, and the source of all code that ran.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from time import perf_counter
from typing import Any

from minijax import errors
from minijax.core.array import get_aval
from minijax.core.records import NamedTuple
from minijax.core.trace import Tracer, state
from minijax.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from minijax.tools.documents.words import short_path, shortened
from minijax.tools.programs import links
from minijax.tools.recording import preview, summary
from minijax.tools.recording.backward import PASS_CHARACTERS, Transpositions
from minijax.tools.recording.forcing import forced_by, lower_levels
from minijax.tools.recording.frames import OF_REST, Frames
from minijax.tools.recording.lives import Lives
from minijax.tools.recording.noted import OWN_RULE, Note, NotedTree, Notes
from minijax.tools.recording.records import CALL, CacheRecord, PhaseRecord
from minijax.tools.recording.sources import Sources
from minijax.tools.recording.summary import FULL, Finished, Summary, error_text
from minijax.tools.recording.timeline import BIND, EQUATION, LEFT, RULE, SCOPE
from minijax.tools.recording.values import RunRecord, holds_program

# After this many characters of previews and equations, a recorder only counts events.
MOST_CHARACTERS = 100_000_000
# At most this many arguments, and this many results, of one operation are described.
MOST_OPERANDS = 40
# Maximum number of cache hits named per bind, and of executables that are linked to their lines.
MOST_HITS = 16
MOST_LINKED = 20
_LONGEST_ERROR = 200
_EVALUATION = "evaluation: no argument is traced"
_NONE: tuple[Any, ...] = ()
_UNNAMED = 0, "", 0


class _Begun(NamedTuple):
    """A bind or scope that is open."""

    # the index of its first note
    first: int
    # the primitive, or the scope's level
    kind: Any
    place: str
    # whether a bind is open here, so that the next operation belongs to its rule
    within: bool


_OUTSIDE = _Begun(-1, None, "", False)
_new_tuple = tuple.__new__


def _own_work(hook: Callable[..., None]) -> Callable[..., None]:
    """``hook``, timed, so that its time can be subtracted from the phases around it."""

    def noted(self: Full, *args: Any) -> None:
        began = perf_counter()
        hook(self, *args)
        if not self.stopped:
            self.own_since += perf_counter() - began

    return noted


class Full(Summary):
    """The hooks of level 'full'."""

    scale = FULL

    def __init__(self) -> None:
        super().__init__()
        self.counting_thread = None  # it must see all binds
        self.lives = Lives()
        self.sources = Sources()
        # the notes so far (see ``noted``)
        self.notes: list[Any] = []
        self.open: list[_Begun] = []
        # Keys are the first note of an open bind or scope (-1 outside all of them). ``found``: the functions whose
        # traces the next operation takes from a cache. ``handled``: the id of the exception being handled when the
        # scope began.
        self.found: dict[int, list[str]] = {}
        self.handled: dict[int, int] = {}
        self.characters = 0
        # the last event to be recorded; it becomes lower when the recording is full
        self.last_event = summary.MOST_EVENTS
        self.stopped = False
        # the last event before recording stopped
        self.stopped_at = 0
        # ids of the executables that have been recorded
        self.linked: set[int] = set()
        # every phase in order, until recording stops
        self.each_phase: list[PhaseRecord] = []
        # open operations that are not recorded
        self.unrecorded = 0
        self.transpositions = Transpositions(self.lives, self.sources)
        # id of the exception that is leaving operations
        self.passing = 0
        self.frames = Frames()
        # the source of the last equation, and its line
        self.last_source: Any = None
        self.last_place = ""
        # for each imported program that is being evaluated: the number of open scopes when it began
        self.importing: list[int] = []
        # the recorder's own time since it was last subtracted
        self.own_since = 0.0
        self.own_when = array("d", self.own_when)  # type: ignore[assignment]
        self.own_total = array("d", self.own_total)  # type: ignore[assignment]

    def next_event(self) -> bool:
        """Set the time to the event of this thread that was just counted. Returns whether to record the event."""
        self.lives.known.now = self.events
        if self.events > self.last_event:
            self.stopped_at = self.stopped_at or self.events - 1
            self.stopped = True
        return not self.stopped

    def take_room(self, characters: int) -> None:
        """Add the characters of an event. If the total exceeds MOST_CHARACTERS, this event is the last one recorded."""
        self.characters += characters
        if self.characters > MOST_CHARACTERS:
            self.last_event = min(self.last_event, self.events)

    def note_own(self, began: float) -> None:
        super().note_own(began - self.own_since)
        self.own_since = 0.0

    def phase(self, phase: str, name: str, seconds: float) -> None:
        if self.own_since:
            self.note_own(perf_counter())
        super().phase(phase, name, seconds)

    def keep(self, record: Any) -> Any:
        if self.next_event():
            self.notes.append(record)
        return record

    # --- the stack
    # -----------------------------------------------------------------------------------------------

    def main_push(self, main: Any) -> None:
        super().main_push(main)
        if get_ident() != self.thread or not self.next_event():
            return
        stack = tuple([scope.label for scope in self.scopes])
        self.note_own(perf_counter())
        place = self.sources.place()
        opened = _Begun(len(self.notes), main.level, place, bool(self.open and self.open[-1].within))
        self.handled[opened.first] = id(sys.exc_info()[1])
        subject = preview.subject_text(main.subject)
        self.notes.append((SCOPE, self.events, self.scopes[-1].label, main.level, subject, stack, place))
        self.open.append(opened)

    def main_pop(self, main: Any) -> None:
        super().main_pop(main)
        if get_ident() != self.thread:
            return
        self.lives.known.now = self.events
        opened = next((o for o in self.open if type(o.kind) is int and o.kind == main.level), None)
        if opened is not None:
            self.note_passing(opened, main)
            while self.open[-1].kind != main.level:
                self.close()
            self.close()

    def note_passing(self, opened: _Begun, main: Any) -> None:
        """Keep the exception that ends an interpreter, unless an operation kept it. The stack is still complete."""
        error = sys.exc_info()[1]
        if error is not None and id(error) not in (self.handled.get(opened.first), self.passing):
            self.passing = id(error)
            name = preview.subject_text(main.subject).partition(" at ")[0]
            self.note_error(f"{name} in {main!r}" if name else repr(main), error, self.sources.place_of_error(error))

    # --- operations
    # ----------------------------------------------------------------------------------------------

    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        began = perf_counter()
        if get_ident() != self.thread:
            self.elsewhere += 1
            return
        self.events += 1
        self.passing = 0
        _, _, birth_place, within = self.open[-1] if self.open else _OUTSIDE
        frames, frame = self.frames, None
        if not self.stopped:
            # read variables before this event begins: values held only by frames that have ended die at the last event
            frame = errors.user_frame(5)  # this frame, the hook's guard, and two of ``bind`` are not the user's
            if (
                frame is not None
                and (frame is not frames.last or frame.f_lasti != frames.last_stood)
                # in a backward pass, the user's frame waits until the pass ends
                or not within
                and not (state.source is not None and self.transpositions.open)
            ):
                frames.look(self.name_variable, frame)
        self.lives.known.now = self.events
        if self.events > self.last_event:
            self.next_event()
            self.unrecorded += 1
            return
        if self.importing:
            # only the imported program's own operations, not those inside their rules, get a source expression
            self.sources.asking = self.importing[-1] == len(self.scopes) and not within
        place, expression = self.sources.spot(frame)
        level = trace.main.level
        scopes = self.scopes
        label = scopes[level].label
        shown = args if len(args) <= MOST_OPERANDS else args[:MOST_OPERANDS]
        operands: list[Any] = []
        known, own, below = self.lives.known, 0, False
        forcer, forced, kind = -1, _EVALUATION, ""
        lower: tuple[str, ...] | None = None
        for x in shown:
            life = known.get(id(x)) or self.lives.begin(x, scopes, birth_place)
            if life is None:
                operands.append(preview.worth_and_type(x))
                continue
            if life.shape:
                if x._trace is not trace:
                    below = True
                else:
                    if not own:
                        forcer, lower = len(operands), _NONE
                        forced = self.lives.names.get(life.number, _UNNAMED)[1]
                        kind = "tracer" if trace is trace.main.trace else "tangent"
                    own |= 1 << len(operands)
            operands.append(life.number)
        if not own:
            if trace.level:
                forcer, forced = forced_by(trace, args)
        elif below or shown is not args:
            lower = lower_levels(trace, args)
        cached, shown_params = "", _NONE
        if params:
            plain = preview.plain_parameters(params)
            if plain is None:
                shown_params = preview.parameters(params)
                self.take_room(sum([len(text) for _, text in shown_params]))
                if any(map(holds_program, params.values())):
                    cached = self.taken_hits()
                    self.note_run(primitive, label, args, operands, params)
            else:
                shown_params = plain
        self.take_room(100 + 10 * len(operands))
        cut, name = len(args) - len(shown), primitive.name
        why = forcer, forced, kind, lower
        notes = self.notes
        self.open.append(_new_tuple(_Begun, (len(notes), primitive, place, True)))
        notes.append(
            (BIND, self.events, name, label, level, own, shown_params, why, cut, expression, place, cached, *operands)
        )
        if within:  # phases seldom begin inside a rule, so time is only added up
            self.own_since += perf_counter() - began
        else:
            self.note_own(began)

    def number(self, value: Any) -> int:
        life = self.lives.see(value, self.scopes, self.birth_place(), held=True)
        return 0 if life is None else life.number

    def name_variable(self, value: Any, name: str, rank: int) -> None:
        """Record that the user's variable ``name`` holds ``value``."""
        life = self.lives.known.get(id(value))
        # nearly always the name is known already
        names = self.lives.names.get(life.number, ()) if life is not None else ()
        if name not in names or rank < names[0]:
            self.lives.name(value, self.scopes, self.birth_place(), name, rank)

    def note_run(
        self, primitive: Any, level: str, args: tuple[Any, ...], operands: list[Any], params: dict[str, Any]
    ) -> None:
        """Keep the programs of the operation, with all its operands."""
        numbers = [each if type(each) is int else 0 for each in operands]
        if len(args) > len(operands):
            more = [self.lives.see(x, self.scopes, self.birth_place()) for x in args[len(operands) :]]
            numbers = [*numbers, *[0 if life is None else life.number for life in more]]
        unnumbered = [(i, x) for i, (x, number) in enumerate(zip(args, numbers, strict=True)) if not number]
        literals = {i: x for i, x in unnumbered if not isinstance(x, Tracer)}
        numbered = tuple(numbers)
        avals = tuple(map(get_aval, args))
        at, name, axes = self.events, primitive.name, state.axis_env
        run = RunRecord(at, name, level, params, numbered, literals, primitive, avals, axes)
        self.lives.values.keep_run(run)

    def birth_place(self) -> str:
        """The line that made a value first seen as an operand: the line of the innermost open bind or scope."""
        return self.open[-1].place if self.open else ""

    def taken_hits(self) -> str:
        """The functions whose traces were taken from caches for this call."""
        hits = self.found.pop(self.open[-1].first if self.open else -1, None)
        if not hits:
            return ""
        names = list(dict.fromkeys(hits))
        more = f" and {len(names) - MOST_HITS} more" if len(names) > MOST_HITS else ""
        return ", ".join(names[:MOST_HITS]) + more

    def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
        began = perf_counter()
        if get_ident() != self.thread:
            self.elsewhere += 1
            return
        self.events += 1
        self.lives.known.now = self.events
        if self.events > self.last_event:
            self.next_event()
            return
        said = self.sources.rule(rule)
        notes = self.notes
        first, kind, _, _ = self.open[-1] if self.open else _OUTSIDE
        if kind is primitive and first + 1 == len(notes) and table != "transpose":
            notes.append((OWN_RULE, self.events, table, primitive.name, said, ""))
        else:
            notes.append((RULE, self.events, table, primitive.name, said, self.sources.place()))
        self.own_since += perf_counter() - began

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        began = perf_counter()
        super().bind_exit(primitive, trace, out)
        if get_ident() != self.thread:
            return
        self.lives.known.now = self.events
        if self.events > self.last_event:
            self.next_event()
        if self.unrecorded:
            self.unrecorded -= 1
            return
        opened = self.open
        if opened and opened[-1].kind is primitive or self.find(primitive):
            o = opened[-1]
            life = None if primitive.multiple_results else self.lives.known.get(id(out))
            if life is None and not primitive.multiple_results:
                life = self.lives.begin(out, self.scopes, o.place)
            if life is None:
                self.notes.append(self.closed_bind(o, "", out if primitive.multiple_results else (out,)))
            else:  # ``closed_bind``, written out for operations with one result
                if life.bad is None:
                    life.bad = preview.nonfinite(out)
                self.notes.append((LEFT, o.first, self.events, 1, life.bad, "", life.number))
            # only here the record ends: an interrupt before this line leaves it open with its contents
            del opened[-1]
            if self.found:
                self.found.pop(o.first, None)
        self.own_since += perf_counter() - began

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

    def close(self, error: str = "", values: Sequence[Any] = ()) -> None:
        """End the innermost open record."""
        o = self.open[-1]
        if type(o.kind) is int:
            note: Note = (LEFT, o.first, self.events, 0, False, "")
        else:
            note = self.closed_bind(o, error, values)
        # only here the record ends: an interrupt before this line leaves it open with its contents
        self.notes.append(note)
        del self.open[-1]
        if self.found:
            self.found.pop(o.first, None)

    def closed_bind(self, o: _Begun, error: str, values: Sequence[Any]) -> Note:
        """The note for the end of the bind ``o``."""
        shown = values if len(values) <= MOST_OPERANDS else values[:MOST_OPERANDS]
        results: list[Any] = []
        bad = False
        known = self.lives.known
        begin, scopes, place = self.lives.begin, self.scopes, o.place
        for x in shown:
            life = known.get(id(x)) or begin(x, scopes, place)
            if life is None:
                results.append(preview.worth_and_type(x))
                bad = bad or preview.nonfinite(x)
                continue
            results.append(life.number)
            if life.bad is None:
                life.bad = preview.nonfinite(x)
            bad = bad or life.bad
        if shown is not values:
            bad = bad or any(map(preview.nonfinite, values[MOST_OPERANDS:]))
        return (LEFT, o.first, self.events, len(values), bad, error, *results)

    # --- programs
    # ------------------------------------------------------------------------------------------------

    def equation(self, main: Any, eqn: JaxprEqn) -> None:
        began = perf_counter()
        if self.foreign():
            return
        self.lives.known.now = self.events
        if self.events > self.last_event:
            self.next_event()
            return
        scope = self.scopes[main.level]
        name, known, texts = scope.name, scope.names.get, preview.type_texts
        operands = [name(v) if type(v) is Literal else known(id(v)) or name(v) for v in eqn.invars]
        results: list[str] = []
        for var in eqn.outvars:
            results += (name(var), texts.get(var.aval) or preview.aval_text(var.aval))
        shown_params = preview.plain_parameters(eqn.params) if eqn.params else _NONE
        if shown_params is None:
            shown_params = preview.parameters(eqn.params)
            self.take_room(sum([len(text) for _, text in shown_params]))
        self.take_room(20 + 10 * len(operands))
        if eqn.source is not self.last_source:
            self.last_source = eqn.source
            self.last_place = self.sources.place_of(eqn.source)
        place = self.last_place or self.sources.place()
        used, where = len(operands), (self.events, scope.label, scope.at)
        self.notes.append((EQUATION, *where, eqn.primitive.name, shown_params, place, used, *operands, *results))
        self.own_since += perf_counter() - began

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
            self.frames.last_stood = -1  # read variables once more
            if not self.stopped:
                self.take_room(PASS_CHARACTERS * len(jaxpr.eqns))
            self.transpositions.begin(self.events, self.scopes, None if self.stopped else jaxpr, known, outs, cts, sums)

    def transposing(self, eqn: Any, ct: Any) -> None:
        if get_ident() == self.thread and not self.stopped:
            began = perf_counter()
            self.transpositions.before(self.events, eqn, ct)
            self.own_since += perf_counter() - began

    def transposed(self, eqn: Any, found: Sequence[tuple[Any, Any, Any]]) -> None:
        if get_ident() == self.thread and not self.stopped:
            began = perf_counter()
            self.transpositions.after(self.events, eqn, found)
            self.own_since += perf_counter() - began

    @_own_work
    def backward_end(self) -> None:
        if get_ident() == self.thread:
            self.transpositions.end(self.events)

    @_own_work
    def imported(self, names: Sequence[str], values: Sequence[Any]) -> None:
        if get_ident() == self.thread and not self.stopped:
            self.importing.append(len(self.scopes))
            for value, name in zip(values, names, strict=False):
                self.name_variable(value, short_path(name), OF_REST)

    @_own_work
    def imported_end(self) -> None:
        if get_ident() == self.thread and self.importing:
            self.importing.pop()
            self.sources.asking = False

    @_own_work
    def run(self, variables: Sequence[Any], values: Sequence[Any]) -> None:
        if get_ident() == self.thread and not self.stopped and not self.importing:
            self.lives.note_run(variables, values, self.scopes, self.birth_place())

    # --- caches, phases, compiled programs
    # ------------------------------------------------------------------------------------------------

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        super().cache(cache, name, hit, key, reason)
        if get_ident() == self.thread and hit:
            self.keep(CacheRecord(self.events, cache, name, True, reason))
            self.found.setdefault(self.open[-1].first if self.open else -1, []).append(name)

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        super().jaxpr(kind, closed, name)
        if get_ident() == self.thread and not self.stopped:
            self.lives.values.keep_program(self.events, kind, closed)

    def likeness(self, kind: str, name: str, jaxpr: Jaxpr) -> int:
        # a new number for each jaxpr, so that none is counted as a repetition: each has its own place in the tree
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
            # the program was compiled before the recording began; it is shown because it ran
            self.note_executable(name, executable, reused=True)

    def programs_of(self, executable: Any) -> links.LinkedPrograms | None:
        self.linked.add(id(executable))
        if self.stopped or len(self.linked) > MOST_LINKED:
            self.cut["programs linked to their lines"] += 1
            return None
        try:
            return links.of_executable(executable)
        except Exception:  # such as an operation without a lowering rule; the recording continues
            return None

    def truncated(self) -> bool:
        return self.stopped

    def left_out(self) -> dict[str, int]:
        # a full recording leaves out no tracers
        rest = {kind: count for kind, count in super().left_out().items() if kind != "tracers"}
        if self.stopped:
            rest["events"] = self.events - self.stopped_at
        if self.lives.values.left_out:
            rest["values"] = self.lives.values.left_out
        if self.lives.values.programs_left_out:
            rest["programs and calls of programs"] = self.lives.values.programs_left_out
        rest |= self.lives.nameless()
        return {**rest, **({"lines of sources": self.sources.left_out} if self.sources.left_out else {})}

    def finish(self, error: BaseException | None) -> Finished:
        while self.open:
            self.close("never ended" if type(self.open[-1].kind) is not int else "")
        if error is not None:
            self.note_error(CALL, error, self.sources.place_of_error(error))
        self.frames.finish(self.name_variable)
        lives = self.lives.table(self.frames.function)
        backward = self.transpositions.records(self.events, lives)
        notes = Notes(self.notes, lives, self.events + 1)
        tree: Any = NotedTree(notes)
        life_records: Any = lives
        sources = self.sources.records()
        return Finished(tree, life_records, sources, self.lives.values, backward, notes.timeline)
