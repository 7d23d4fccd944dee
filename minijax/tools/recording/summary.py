"""The recorder of level 'summary': counts, the deepest stack, the first tracers, the jaxprs, the phases.

This is cheap enough for every line of a prompt: tracing takes at most twice its usual time, compiled calls no longer.
"""

from __future__ import annotations

import functools
import math
import operator
import time
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from threading import get_ident
from typing import Any

from minijax import errors
from minijax.core import observe
from minijax.core.records import Frozen
from minijax.core.trace import Tracer, state
from minijax.ir.jaxpr import DropVar, Jaxpr, Literal
from minijax.ir.pretty import jaxpr_document
from minijax.tools.programs import hlo
from minijax.tools.recording import preview
from minijax.tools.recording.copy import Copier
from minijax.tools.recording.records import (
    CALL,
    BackwardRecord,
    CacheRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    LifeRecord,
    ModuleRecord,
    Node,
    PhaseRecord,
    SourceRecord,
    TracerRecord,
)
from minijax.tools.recording.values import Values

# After this many events, a recorder of level 'full' only counts them.
MOST_EVENTS = 1_000_000
# Everything is counted, but details have limits; ``Recording.cut`` has the numbers of dropped items.
MOST_TRACERS = 12
# At most this many jaxprs are kept, and FULL times as many in a full recording.
MOST_JAXPRS = 24
# At most this many lowered programs are kept, and as many compiled ones.
MOST_PROGRAMS = 1000
# At most this many cache misses (reached only after minutes), and this many function names for hits, phases and rules.
MOST_MISSES = 100_000
MOST_NAMES = 4000
# A jaxpr with more equations than MOST_EQUATIONS is kept as a text of the first MOST_EQUATIONS_SHOWN. Once
# MOST_EQUATIONS_IN_ALL are kept, this holds for every jaxpr with more than MOST_EQUATIONS_SHOWN.
MOST_EQUATIONS = 5000
MOST_EQUATIONS_IN_ALL = 50_000
MOST_EQUATIONS_SHOWN = 200
# A summary searches at most this many operations for tracers to describe.
MOST_SAMPLED = 24
FULL = 20
# Maximum characters of one program's text, and of all texts.
MOST_TEXT = 400_000
MOST_TEXT_IN_ALL = 4_000_000
# The name for phases of functions beyond MOST_NAMES.
OTHERS = "other functions"
_LONGEST_MESSAGE = 2000


def error_text(error: BaseException, limit: int = _LONGEST_MESSAGE) -> str:
    """``str(error)``, shortened; the class's name if ``str`` raises."""
    try:
        text = str(error)
    except Exception:
        text = type(error).__name__
    return text if len(text) <= limit else text[:limit] + "..."


def miss_record(at: int, cache: str, name: str, reason: str, place: str) -> CacheRecord:
    """The record of a miss. The engine's ``reason`` may have the attributes ``advice``, ``earlier`` and ``known``."""
    advice, earlier, known = getattr(reason, "advice", ""), getattr(reason, "earlier", 0), getattr(reason, "known", 0)
    return CacheRecord(at, cache, name, False, str(reason), advice, earlier, known, 1, place)


class Scope:
    """An interpreter on the stack while it is watched; ``at`` identifies it in records (see ``EquationRecord``)."""

    __slots__ = ("at", "label", "count", "tangents", "main", "names")

    def __init__(self, at: int, main: Any, label: str, count: list[int]) -> None:
        self.at = at
        self.label = label
        # the number of binds, in a list with one element that all interpreters with this label share
        self.count = count
        # the number of tangent operations in rules of linearize, in such a list; None until the first one
        self.tangents: list[int] | None = None
        # the interpreter; None once its inputs have names
        self.main = main
        # id of a variable -> its name
        self.names: dict[int, str] = {}

    def name(self, var: Any) -> str:
        """The name of the variable: letters in the order of first use, as in the printer."""
        if type(var) is Literal:
            return preview.value_text(var.val)
        if isinstance(var, DropVar):
            return "_"
        if self.main is not None:
            # the inputs first, as in the printer
            inputs, self.main = getattr(self.main.global_data, "in_vars", ()), None
            for each in inputs:
                self.names[id(each)] = letters(len(self.names))
        name = self.names.get(id(var))
        if name is None:
            name = self.names[id(var)] = letters(len(self.names))
        return name


# Cached, because all programs use the same first names.
@functools.lru_cache(maxsize=100_000)
def letters(number: int) -> str:
    """The name of the variable with this index, counted from 0."""
    name = ""
    while number or not name:
        number, digit = divmod(number, 26)
        name = chr(97 + digit) + name
    return name


class _Alike:
    """A kept jaxpr, and how many similar jaxprs it stands for, itself included."""

    __slots__ = ("record", "times")

    def __init__(self, record: JaxprRecord) -> None:
        self.record = record
        self.times = 1

    def counted(self) -> JaxprRecord:
        """The record with its count."""
        r = self.record
        if self.times == 1:
            return r
        return JaxprRecord(r.at, r.kind, r.name, r.equations, r.program, r.doc, r.depth, r.tutorial, self.times)


class Finished(Frozen):
    """The final results of a full recorder, as in ``Recording``."""

    tree: tuple[Node, ...] = ()
    lives: tuple[LifeRecord, ...] = ()
    sources: tuple[SourceRecord, ...] = ()
    kept: Values | None = None
    backward: tuple[BackwardRecord, ...] = ()
    moments: Any = None


class Summary(observe.Observer):
    """The hooks of level 'summary'."""

    scale = 1

    def __init__(self) -> None:
        self.thread = self.counting_thread = get_ident()
        self.events = 0
        self.elsewhere = 0
        self.scopes_pushed = 0
        self.bind_counts: dict[str, list[int]] = {}
        self.tracers: list[TracerRecord] = []
        self.tracers_made = 0
        # how many of the tracers in ``tracers_made`` are described
        self.tracers_kept = 0
        self.samples_left = MOST_SAMPLED
        # id of a tracer -> a weak reference (ids are reused), and its index in ``tracers``
        self.sampled: dict[int, tuple[weakref.ref[Tracer], int]] = {}
        self.jaxprs_made = 0
        # ``likeness`` of a jaxpr -> the kept jaxpr with its count
        self.alike: dict[int, _Alike] = {}
        self.equations_kept = 0
        self.text_left = MOST_TEXT_IN_ALL
        self.misses: list[CacheRecord] = []
        # function -> the event of its last cache miss
        self.last_miss: dict[str, int] = {}
        # (cache, function, reason) -> [first event, count]
        self.hits: dict[tuple[str, str, str], list[int]] = {}
        # (phase, function, its last miss) -> [first event, seconds, own seconds, count]
        self.phases: dict[tuple[str, str, int], list[Any]] = {}
        self.modules: list[ModuleRecord] = []
        self.executables: list[ExecutableRecord] = []
        self.executions = 0
        self.custom_rules: Counter[str] = Counter()
        self.errors: list[ErrorRecord] = []
        # what was counted but not kept -> how many
        self.cut: Counter[str] = Counter()
        # The times when slow work of the recorder ended, and the total seconds of such work by then. Phases exclude
        # this work.
        self.own_when: list[float] = [-math.inf]
        self.own_total: list[float] = [0.0]
        # start and seconds of each finished phase that is not inside another finished one
        self.outermost_began: list[float] = []
        self.outermost_took: list[float] = []
        self.scopes: list[Scope] = [self.scope(main, -main.level) for main in state.stack]
        self.base = self.deepest = tuple(scope.label for scope in self.scopes)

    def scope(self, main: Any, at: int) -> Scope:
        """The ``Scope`` of an interpreter that appeared at event ``at``."""
        label = repr(main)
        return Scope(at, main, label, self.bind_counts.setdefault(label, [0]))

    def tangents_of(self, scope: Scope) -> list[int]:
        """The counter of tangent operations in rules of ``scope``, an interpreter of linearize."""
        if scope.tangents is None:
            scope.tangents = self.bind_counts.setdefault(f"{scope.label} tangents", [0])
        return scope.tangents

    def foreign(self) -> bool:
        """Whether this event is on another thread. Counts the event in any case."""
        if get_ident() != self.thread:
            self.elsewhere += 1
            return True
        self.events += 1
        return False

    # --- the stack
    # -----------------------------------------------------------------------------------------------

    def main_push(self, main: Any) -> None:
        if self.foreign():
            return
        del self.scopes[main.level :]
        self.scopes.append(self.scope(main, self.events))
        self.scopes_pushed += 1
        if len(self.scopes) > len(self.deepest):
            self.deepest = tuple(scope.label for scope in self.scopes)

    def main_pop(self, main: Any) -> None:
        if not self.foreign():
            del self.scopes[max(main.level, 1) :]

    # --- primitives
    # ----------------------------------------------------------------------------------------------

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        # The only hook of level 'summary' that runs at every operation: keep it short.
        if get_ident() != self.thread:
            self.elsewhere += 1
            return
        self.events += 1
        level = trace.main.level
        scope = self.scopes[level]
        count = scope.count if trace.level == level else self.tangents_of(scope)
        count[0] += 1
        if level:
            if not primitive.multiple_results:
                self.tracers_made += isinstance(out, Tracer) and out._trace is trace
            else:
                for x in out:
                    self.tracers_made += isinstance(x, Tracer) and x._trace is trace
            if self.samples_left:
                self.sample(trace, out if primitive.multiple_results else (out,))
                if not self.samples_left:
                    observe.counts_suffice(self)

    def counted(self, binds: Any, times: int) -> None:
        if get_ident() != self.thread:
            self.elsewhere += times * binds.operations
            return
        self.events += times * binds.operations
        for level, on_tangents, operations, tracers in binds.levels:
            scope = self.scopes[level]
            count = self.tangents_of(scope) if on_tangents else scope.count
            count[0] += times * operations
            self.tracers_made += times * tracers

    def sample(self, trace: Any, outs: Sequence[Any]) -> None:
        """Describe the tracers in the user's variables, and those in ``outs``, which ``trace`` made."""
        self.samples_left -= 1
        frame = errors.user_frame()
        named = [] if frame is None else list(frame.f_locals.items())
        candidates = [(name, x) for name, x in named if isinstance(x, Tracer)] + [("", x) for x in outs]
        for name, x in candidates:
            if not isinstance(x, Tracer) or not x._trace.main.alive or x._trace.main.level >= len(self.scopes):
                continue
            scope = self.scopes[x._trace.main.level]
            known = self.sampled.get(id(x))
            if known is None or known[0]() is not x:
                self.sampled[id(x)] = weakref.ref(x), len(self.tracers)
                self.tracers.append(self.describe(x, scope, name))
                self.tracers_kept += not name and x._trace is trace
            elif name and "name" not in dict(self.tracers[known[1]].fields):  # named since then
                self.tracers[known[1]] = self.describe(x, scope, name)
        if len(self.tracers) >= MOST_TRACERS:
            self.samples_left = 0

    def describe(self, tracer: Tracer, scope: Scope, name: str = "") -> TracerRecord:
        """The record of a tracer. It holds only texts, not the tracer."""
        var = getattr(tracer, "variable", None)
        fields = preview.fields(tracer, "" if var is None else scope.name(var))
        return TracerRecord(
            self.events, scope.label, tracer.aval.str_short(), ((("name", name),) if name else ()) + fields
        )

    def note_own(self, began: float) -> None:
        """Record that the recorder itself has been working since ``began``."""
        now = time.perf_counter()
        self.own_when.append(now)
        self.own_total.append(self.own_total[-1] + now - began)

    # --- programs
    # ------------------------------------------------------------------------------------------------

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        if self.foreign():
            return
        self.jaxprs_made += 1
        jaxpr = closed if isinstance(closed, Jaxpr) else closed.jaxpr
        alike = self.likeness(kind, name, jaxpr)
        known = self.alike.get(alike)
        if known is not None:
            known.times += 1
            return
        if len(self.alike) >= MOST_JAXPRS * self.scale:
            # drop the most deeply nested jaxpr, to make room for one further out
            inmost = max(self.alike, key=lambda each: self.alike[each].record.depth)
            if self.alike[inmost].record.depth <= len(self.scopes):
                return
            del self.alike[inmost]
        began = time.perf_counter()
        copier = Copier()
        program: Jaxpr | None = copier.copy(jaxpr)
        equations = copier.equations
        doc = None
        kept = self.equations_kept + equations
        too_many = kept > MOST_EQUATIONS_IN_ALL and equations > MOST_EQUATIONS_SHOWN
        if too_many or equations > MOST_EQUATIONS:
            program, doc = None, jaxpr_document(closed, max_eqns=MOST_EQUATIONS_SHOWN)
        else:
            self.equations_kept = kept
        record = JaxprRecord(self.events, kind, name, equations, program, doc, len(self.scopes))
        self.alike[alike] = _Alike(self.keep(record))
        self.note_own(began)

    def likeness(self, kind: str, name: str, jaxpr: Jaxpr) -> int:
        """A hash that similar jaxprs share: of their kind, name, depth, types, and primitives in order."""
        types = tuple(jaxpr.in_avals), tuple(jaxpr.out_avals)
        return hash((kind, name, len(self.scopes), types, tuple([eqn.primitive for eqn in jaxpr.eqns])))

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        if self.foreign():
            return
        if hit:
            counted = self.hits.get((cache, name, reason))
            if counted is not None:
                counted[1] += 1
            elif len(self.hits) < MOST_NAMES:
                self.hits[cache, name, reason] = [self.events, 1]
            else:
                self.cut["cache hits"] += 1
            return
        self.last_miss[name] = self.events
        if len(self.misses) < MOST_MISSES:
            self.misses.append(self.keep(miss_record(self.events, cache, name, reason, errors.source_line())))
        else:
            self.cut["cache misses"] += 1

    def cache_records(self) -> tuple[CacheRecord, ...]:
        """Every miss, and one record for the hits of each function, in the order of events."""
        hits = [
            CacheRecord(at, cache, name, True, reason, times=times)
            for (cache, name, reason), (at, times) in self.hits.items()
        ]
        return tuple(sorted(self.misses + hits, key=operator.attrgetter("at")))

    def phase(self, phase: str, name: str, seconds: float) -> None:
        if self.foreign():
            return
        now = time.perf_counter()
        began = now - seconds
        own = self.own_total[-1] - self.own_total[bisect_right(self.own_when, began) - 1]
        seconds = max(seconds - own, 0.0)
        inside = 0.0
        beginnings, taken = self.outermost_began, self.outermost_took
        while beginnings and beginnings[-1] >= began:
            beginnings.pop()
            inside += taken.pop()
        beginnings.append(began)
        taken.append(seconds)
        self.add_phase(phase, name, seconds, max(seconds - inside, 0.0))

    def add_phase(self, phase: str, name: str, seconds: float, own: float) -> None:
        """Add a phase to the total of its function since the function's last cache miss."""
        key = phase, name, self.last_miss.get(name, -1)
        total = self.phases.get(key)
        if total is None and len(self.phases) >= MOST_NAMES + 5 * len(self.misses):
            self.cut["phases by function"] += 1
            key = phase, OTHERS, -1
            total = self.phases.get(key)
        if total is None:
            self.phases[key] = [self.events, seconds, own, 1]
        else:
            total[1] += seconds
            total[2] += own
            total[3] += 1

    def phase_records(self) -> tuple[PhaseRecord, ...]:
        """The phases in the order of events. A function's phases between two cache misses are added up."""
        return tuple(
            PhaseRecord(at, phase, name, seconds, own, times)
            for (phase, name, _), (at, seconds, own, times) in self.phases.items()
        )

    def lowered(self, name: str, text: str) -> None:
        if self.foreign():
            return
        if len(self.modules) >= MOST_PROGRAMS:
            self.cut["lowered programs"] += 1
            return
        began = time.perf_counter()
        counts = hlo.stablehlo_counts(text)
        ops = sum(n for op, n in counts.items() if op != "stablehlo.constant")
        self.modules.append(
            self.keep(ModuleRecord(self.events, name, ops, tuple(counts.items()), self.kept_text(text)))
        )
        self.note_own(began)

    def kept_text(self, text: str) -> str:
        """As much of a program's text as the limits allow, with a note about the rest."""
        kept = text[: min(MOST_TEXT, self.text_left)]
        self.text_left -= len(kept)
        left_out = len(text) - len(kept)
        if not left_out:
            return kept
        self.cut["characters of programs"] += left_out
        return f"{kept}\n// ... {left_out:,} more characters were not kept\n"

    def compiled(self, name: str, executable: Any) -> None:
        if self.foreign():
            return
        record = self.note_executable(name, executable)
        if record is not None:
            self.keep(record)

    def note_executable(self, name: str, executable: Any, reused: bool = False) -> ExecutableRecord | None:
        """Record a compiled program. ``reused``: whether it was compiled earlier."""
        if len(self.executables) >= MOST_PROGRAMS:
            self.cut["compiled programs"] += 1
            return None
        began = time.perf_counter()
        text = executable.hlo_text()
        counts: Counter[str] = hlo.hlo_counts(text)
        kept = self.kept_text(text) if self.scale > 1 else ""
        total, fusions = sum(counts.values()), counts["fusion"]
        record = ExecutableRecord(
            self.events, name, total, fusions, tuple(counts.items()), kept, self.programs_of(executable), reused
        )
        self.executables.append(record)
        self.note_own(began)
        return record

    def executed(self, name: str, executable: Any, n_in: int, n_out: int) -> None:
        if not self.foreign():
            self.executions += 1

    def custom_rule(self, table: str, rule: Any) -> None:
        if get_ident() != self.thread:
            return
        name = getattr(rule, "__name__", None)
        said = f"{table.removesuffix(' rule')} {name if isinstance(name, str) else 'rule'}"
        if said in self.custom_rules or len(self.custom_rules) < MOST_NAMES:
            self.custom_rules[said] += 1
        else:
            self.cut["rules written by hand"] += 1

    def note_error(self, where: str, error: BaseException, place: str = "") -> None:
        """Record the message of ``error``."""
        record = ErrorRecord(self.events, where, type(error).__name__, error_text(error), place)
        self.errors.append(self.keep(record))

    def truncated(self) -> bool:
        """Whether events were counted but not recorded."""
        return False

    def left_out(self) -> dict[str, int]:
        """The numbers of items that were counted but not kept, by kind."""
        kept = sum([each.times for each in self.alike.values()])
        return {
            **({"tracers": self.tracers_made - self.tracers_kept} if self.tracers_made > self.tracers_kept else {}),
            **({"jaxprs": self.jaxprs_made - kept} if self.jaxprs_made > kept else {}),
            **self.cut,
        }

    # --- for level 'full'
    # ------------------------------------------------------------------------------------------

    def keep(self, record: Any) -> Any:
        """Put ``record`` into the tree, if this recorder has a tree. Return ``record``."""
        return record

    def programs_of(self, executable: Any) -> Any:
        """The linked programs of an executable."""
        return None

    def number(self, value: Any) -> int:
        """The number of a value; 0, because a summary follows no values."""
        return 0

    def finish(self, error: BaseException | None) -> Finished:
        """The rest of the recording; ``error`` is the exception that ended it, or None."""
        if error is not None:
            self.note_error(CALL, error)
        return Finished()
