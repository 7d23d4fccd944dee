"""The recorder: an observer of the engine that ends up as an immutable ``Recording``.

Two levels. 'summary' counts, keeps the deepest stack, the first tracers, the jaxprs and the phases, and is
cheap enough to run at every line of a prompt. 'full' also keeps the tree of binds, rules and equations. Only
types, short strings and numbers are kept, from the first moment on: while a recorder watches it keeps no
tracer, array or jaxpr alive either.
"""

from __future__ import annotations

import enum
import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from minijax import errors
from minijax.core import observe
from minijax.core.trace import Tracer, state
from minijax.ir.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from minijax.ir.pretty import jaxpr_document
from minijax.tools import hlo, preview
from minijax.tools.recording import (
    BindRecord,
    CacheRecord,
    EquationRecord,
    ErrorRecord,
    ExecutableRecord,
    JaxprRecord,
    ModuleRecord,
    Node,
    PhaseRecord,
    Recording,
    RuleRecord,
    ScopeRecord,
    TracerRecord,
)

# Past so many events a recorder only counts.
MOST_EVENTS = 100_000
# What a summary keeps of each kind; a full recording keeps FULL times as many.
MOST_TRACERS = 12
MOST_JAXPRS = 24
MOST_RECORDS = 200
# Longer jaxprs are kept as text, the first equations of them.
MOST_EQUATIONS = 5000
MOST_EQUATIONS_SHOWN = 200
# How many operations a summary looks at for tracers to describe.
MOST_SAMPLED = 24
FULL = 20
MOST_TEXT = 400_000
MOST_PARAMETER = 300
# A parameter that is a tuple of more tuples than this is kept as so much text.
MOST_IN_TUPLE = 8
MOST_TABLE = 60
_LONGEST_MESSAGE = 2000


def error_text(error: BaseException, limit: int = _LONGEST_MESSAGE) -> str:
    """``str(error)``, bounded; the class's name if that raises itself."""
    try:
        text = str(error)
    except Exception:
        text = type(error).__name__
    return text if len(text) <= limit else text[:limit] + "..."


class _Scope:
    """An interpreter on the stack while it is watched."""

    __slots__ = ("at", "label", "count", "names")

    def __init__(self, at: int, label: str, count: list[int]) -> None:
        self.at = at
        self.label = label
        # one-element list shared by all interpreters of this label: its binds
        self.count = count
        # id of a variable -> what it is called
        self.names: dict[int, str] = {}

    def name(self, var: Any) -> str:
        """What the variable is called: letters in the order of first sight, as the printer does."""
        if type(var) is Literal:
            return preview.value_text(var.val)
        if isinstance(var, DropVar):
            return "_"
        name = self.names.get(id(var))
        if name is None:
            name = self.names[id(var)] = _letters(len(self.names))
        return name


def _letters(number: int) -> str:
    name = ""
    while number or not name:
        number, digit = divmod(number, 26)
        name = chr(97 + digit) + name
    return name


# Parameters of these types hold no value of the user's.
_PLAIN = {int, str, bool, float, complex, type(None), np.dtype, frozenset}


class _Copier:
    """Copies jaxprs without what could keep something alive: constants of inner jaxprs, functions, objects.

    ``equations`` counts what was copied, inner jaxprs included.
    """

    def __init__(self) -> None:
        self.equations = 0
        # inner jaxprs that occur twice are one object in the copy too: the printer names them
        self.copies: dict[int, Jaxpr] = {}

    def copy(self, jaxpr: Jaxpr) -> Jaxpr:
        """The copy. Equations whose parameters are plain are shared with the original."""
        known = self.copies.get(id(jaxpr))
        if known is not None:
            return known
        eqns = []
        for eqn in jaxpr.eqns:
            params = eqn.params
            if params and not all(type(value) in _PLAIN for value in params.values()):
                copied = {name: self.value(value) for name, value in params.items()}
                eqn = JaxprEqn(eqn.primitive, eqn.invars, copied, eqn.outvars, eqn.source)
            eqns.append(eqn)
        self.equations += len(eqns)
        copy = Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns, jaxpr.debug_name)
        self.copies[id(jaxpr)] = copy
        return copy

    def value(self, value: Any) -> Any:
        """A parameter: what is not plain as text that prints the same."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, (np.dtype, enum.Enum)):
            return value
        if kind is ClosedJaxpr:
            return self.copy(value.jaxpr)
        if kind is Jaxpr:
            return self.copy(value)
        if kind is tuple or kind is list:
            if len(value) > MOST_IN_TUPLE and all(type(each) is tuple for each in value):
                # a table, such as all of NumPy's print options
                return _Printed(preview.shortened(printed(value), MOST_TABLE))
            return kind([self.value(each) for each in value])
        return _Printed(preview.shortened(printed(value), MOST_PARAMETER))


class _Printed:
    """A parameter's text in the place of the parameter."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def printed(value: Any) -> str:
    """``str(value)``; the class's name if that raises."""
    try:
        return str(value)
    except Exception:
        return type(value).__name__


class _Summary(observe.Observer):
    """The hooks of level 'summary'."""

    scale = 1

    def __init__(self) -> None:
        self.thread = get_ident()
        self.events = 0
        self.elsewhere = 0
        self.scopes_pushed = 0
        self.bind_counts: dict[str, list[int]] = {}
        self.tracers: list[TracerRecord] = []
        self.tracers_made = 0
        self.samples_left = MOST_SAMPLED
        self.jaxprs: list[JaxprRecord] = []
        self.jaxprs_made = 0
        self.caches: list[CacheRecord] = []
        self.phases: list[PhaseRecord] = []
        self.modules: list[ModuleRecord] = []
        self.executables: list[ExecutableRecord] = []
        self.executions = 0
        self.errors: list[ErrorRecord] = []
        # (when, how long) the recorder worked on something slow: taken off the phases around it
        self.own_work: list[tuple[float, float]] = []
        # (beginning, seconds) of the phases that no other phase contains so far
        self.outermost: list[tuple[float, float]] = []
        self.scopes: list[_Scope] = [self.scope(repr(main)) for main in state.stack]
        self.deepest = tuple(scope.label for scope in self.scopes)

    def scope(self, label: str) -> _Scope:
        """The watched form of an interpreter that is called ``label``."""
        return _Scope(self.events, label, self.bind_counts.setdefault(label, [0]))

    def foreign(self) -> bool:
        """Whether this event is another thread's; counts it, and numbers our own."""
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
        self.scopes.append(self.scope(repr(main)))
        self.scopes_pushed += 1
        if len(self.scopes) > len(self.deepest):
            self.deepest = tuple(scope.label for scope in self.scopes)

    def main_pop(self, main: Any) -> None:
        if not self.foreign():
            del self.scopes[max(main.level, 1) :]

    # --- primitives
    # ----------------------------------------------------------------------------------------------

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        # The one hook of level 'summary' that runs at every operation: it must stay short.
        if get_ident() != self.thread:
            self.elsewhere += 1
            return
        self.events += 1
        level = trace.level
        scope = self.scopes[level]
        scope.count[0] += 1
        if level:
            for x in out if primitive.multiple_results else (out,):
                if isinstance(x, Tracer) and x._trace is trace:
                    self.tracers_made += 1
            if self.samples_left:
                self.sample(out if primitive.multiple_results else (out,))

    def sample(self, outs: Sequence[Any]) -> None:
        """Keep descriptions of the tracers that the user's variables hold now and of those in ``outs``."""
        self.samples_left -= 1
        frame = errors.user_frame()
        named = [] if frame is None else list(frame.f_locals.items())
        candidates = [(name, x) for name, x in named if isinstance(x, Tracer)] + [("", x) for x in outs]
        for name, x in candidates:
            if not isinstance(x, Tracer) or not x._trace.main.alive or x._trace.level >= len(self.scopes):
                continue
            record = self.describe(x, self.scopes[x._trace.level], name)
            if not any(r.level == record.level and r.fields[-1:] == record.fields[-1:] for r in self.tracers):
                self.tracers.append(record)
        if len(self.tracers) >= MOST_TRACERS:
            self.samples_left = 0

    def describe(self, tracer: Tracer, scope: _Scope, name: str = "") -> TracerRecord:
        """A tracer as types and strings."""
        var = getattr(tracer, "variable", None)
        fields = preview.fields(tracer, "" if var is None else scope.name(var))
        return TracerRecord(
            self.events, scope.label, tracer.aval.str_short(), ((("name", name),) if name else ()) + fields
        )

    # --- programs
    # ------------------------------------------------------------------------------------------------

    def jaxpr(self, kind: str, closed: Any, name: str) -> None:
        if self.foreign():
            return
        self.jaxprs_made += 1
        if len(self.jaxprs) >= MOST_JAXPRS * self.scale:
            # a part makes room for what it is part of
            inmost = max(self.jaxprs, key=lambda record: record.depth)
            if inmost.depth <= len(self.scopes):
                return
            self.jaxprs.remove(inmost)
        began = time.perf_counter()
        copier = _Copier()
        program: Jaxpr | None = copier.copy(closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed)
        doc = None
        if copier.equations > MOST_EQUATIONS:
            program, doc = None, jaxpr_document(closed, max_eqns=MOST_EQUATIONS_SHOWN)
        record = JaxprRecord(self.events, kind, name, copier.equations, program, doc, len(self.scopes))
        self.jaxprs.append(self.keep(record))
        now = time.perf_counter()
        self.own_work.append((now, now - began))

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        if not self.foreign() and len(self.caches) < MOST_RECORDS * self.scale:
            self.caches.append(self.keep(CacheRecord(self.events, cache, name, hit, reason)))

    def phase(self, phase: str, name: str, seconds: float) -> None:
        if self.foreign() or len(self.phases) >= MOST_RECORDS * self.scale:
            return
        now = time.perf_counter()
        began = now - seconds
        seconds = max(seconds - sum(spent for when, spent in self.own_work if when > began), 0.0)
        inside = 0.0
        while self.outermost and self.outermost[-1][0] >= began:
            inside += self.outermost.pop()[1]
        self.outermost.append((began, seconds))
        self.phases.append(self.keep(PhaseRecord(self.events, phase, name, seconds, max(seconds - inside, 0.0))))

    def lowered(self, name: str, text: str) -> None:
        if self.foreign() or len(self.modules) >= MOST_RECORDS:
            return
        began = time.perf_counter()
        counts = hlo.stablehlo_counts(text)
        ops = sum(n for op, n in counts.items() if op != "stablehlo.constant")
        self.modules.append(self.keep(ModuleRecord(self.events, name, ops, tuple(counts.items()), text[:MOST_TEXT])))
        now = time.perf_counter()
        self.own_work.append((now, now - began))

    def compiled(self, name: str, executable: Any) -> None:
        if self.foreign() or len(self.executables) >= MOST_RECORDS:
            return
        began = time.perf_counter()
        text = executable.hlo_text()
        counts: Counter[str] = hlo.hlo_counts(text)
        kept = text[:MOST_TEXT] if self.scale > 1 else ""
        record = ExecutableRecord(
            self.events, name, sum(counts.values()), counts["fusion"], tuple(counts.items()), kept
        )
        self.executables.append(self.keep(record))
        now = time.perf_counter()
        self.own_work.append((now, now - began))

    def executed(self, name: str, executable: Any, n_in: int, n_out: int) -> None:
        if not self.foreign():
            self.executions += 1

    def note_error(self, where: str, error: BaseException) -> None:
        """Keep what ``error`` says."""
        self.errors.append(self.keep(ErrorRecord(self.events, where, type(error).__name__, error_text(error))))

    # --- for level 'full'
    # ------------------------------------------------------------------------------------------

    def keep(self, record: Any) -> Any:
        """Put ``record`` into the tree, if there is one; returns it."""
        return record

    def finish(self) -> tuple[Node, ...]:
        """The tree."""
        return ()


class _Open:
    """A bind or scope that has begun and not ended."""

    __slots__ = ("at", "kind", "facts", "rule", "children")

    def __init__(self, at: int, kind: Any, facts: tuple[Any, ...]) -> None:
        self.at = at
        # the primitive, or the scope's level
        self.kind = kind
        self.facts = facts
        self.rule: RuleRecord | None = None
        self.children: list[Node] = []

    def close(self, end: int, out: str = "", error: str = "") -> Node:
        """The finished record."""
        children = tuple(self.children)
        if isinstance(self.kind, int):
            level, subject, stack = self.facts
            return ScopeRecord(self.at, end, level, self.kind, subject, stack, children)
        level, depth, args, tracers, params, place = self.facts
        name = self.kind.name
        return BindRecord(
            self.at, end, name, level, depth, args, tracers, params, out, self.rule, place, error, children
        )


class _Full(_Summary):
    """Level 'full': the tree as well."""

    scale = FULL

    def __init__(self) -> None:
        super().__init__()
        self.top: list[Node] = []
        self.open: list[_Open] = []

    @property
    def full(self) -> bool:
        """Whether only counting goes on."""
        return self.events > MOST_EVENTS

    def keep(self, record: Any) -> Any:
        if not self.full:
            (self.open[-1].children if self.open else self.top).append(record)
        return record

    def close(self, out: str = "", error: str = "") -> None:
        """End the innermost open record."""
        record = self.open.pop().close(self.events, out, error)
        (self.open[-1].children if self.open else self.top).append(record)

    def main_push(self, main: Any) -> None:
        super().main_push(main)
        if get_ident() == self.thread and not self.full:
            stack = tuple(scope.label for scope in self.scopes)
            self.open.append(_Open(self.events, main.level, (repr(main), preview.subject_text(main.subject), stack)))

    def main_pop(self, main: Any) -> None:
        super().main_pop(main)
        if get_ident() == self.thread and any(o.kind == main.level for o in self.open if type(o.kind) is int):
            while self.open[-1].kind != main.level:
                self.close()
            self.close()

    def bind_enter(self, primitive: Any, trace: Any, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        if self.foreign() or self.full:
            return
        scope = self.scopes[trace.level]
        own = tuple(self.describe(x, scope) for x in args if isinstance(x, Tracer) and x._trace is trace)
        facts = (
            scope.label,
            trace.level,
            tuple(map(preview.value_text, args)),
            own,
            preview.parameters(params),
            errors.source_line(),
        )
        self.open.append(_Open(self.events, primitive, facts))

    def rule(self, table: str, primitive: Any, rule: Callable[..., Any]) -> None:
        if self.foreign() or self.full:
            return
        name, file, line = rule_source(rule)
        record = RuleRecord(self.events, table, primitive.name, name, file, line)
        top = self.open[-1] if self.open else None
        if top is not None and top.kind is primitive and top.rule is None and not top.children and table != "transpose":
            top.rule = record
        else:
            self.keep(record)

    def bind_exit(self, primitive: Any, trace: Any, out: Any) -> None:
        super().bind_exit(primitive, trace, out)
        if get_ident() == self.thread:
            values = out if primitive.multiple_results else (out,)
            self.end_bind(primitive, preview.names(values))

    def bind_raise(self, primitive: Any, trace: Any, error: BaseException) -> None:
        if not self.foreign():
            self.end_bind(primitive, error=f"{type(error).__name__}: {preview.shortened(error_text(error), 200)}")

    def end_bind(self, primitive: Any, out: str = "", error: str = "") -> None:
        """Close the open bind of ``primitive``, and whatever an exception left open inside it."""
        if any(o.kind is primitive for o in self.open):
            while self.open[-1].kind is not primitive:
                self.close()
            self.close(out, error)

    def equation(self, main: Any, eqn: JaxprEqn) -> None:
        if self.foreign() or self.full:
            return
        scope = self.scopes[main.level]
        record = EquationRecord(
            self.events, scope.label, scope.at, equation_text(eqn, scope.name), errors.source_line()
        )
        self.keep(record)

    def finish(self) -> tuple[Node, ...]:
        while self.open:
            self.close(error="never ended")
        return tuple(self.top)


def equation_text(eqn: JaxprEqn, name: Callable[[Any], str]) -> str:
    """``c:f32[] = mul a b``, parameters in brief, variables called as ``name`` says."""

    def binder(var: Var) -> str:
        return f"{name(var)}:{var.aval.str_short()}"

    params = " ".join(f"{key}={text}" for key, text in preview.parameters(eqn.params))
    operands = " ".join(map(name, eqn.invars))
    results = " ".join(map(binder, eqn.outvars))
    return f"{results} = {eqn.primitive.name}{f'[{params}]' if params else ''} {operands}"


def rule_source(rule: Callable[..., Any]) -> tuple[str, str, int]:
    """The name, file and first line of a rule, as far as it has them: a rule that ``f`` made is ``f.rule``."""
    while isinstance(rule, functools.partial):
        rule = rule.func
    code = getattr(rule, "__code__", None)
    name = getattr(rule, "__qualname__", type(rule).__name__).replace(".<locals>.", ".")
    return (name, "", 0) if code is None else (name, code.co_filename, code.co_firstlineno)


class Recorder:
    """Context manager: watches the engine on this thread; afterwards ``recording`` is what happened.

    Args:
      level: 'summary' or 'full'.
      source: the text of what is run, for the recording.
    """

    def __init__(self, level: str = "summary", source: str = "") -> None:
        if level not in ("summary", "full"):
            raise ValueError(f"level must be 'summary' or 'full', got {level!r}")
        self.level = level
        self.source = source
        self.recording = Recording(level, source)
        self._observer: _Summary | None = None
        self._began = 0.0

    def __enter__(self) -> Recorder:
        self._observer = _Full() if self.level == "full" else _Summary()
        self._began = time.perf_counter()
        observe.subscribe(self._observer)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        seconds = time.perf_counter() - self._began
        observer, self._observer = self._observer, None
        assert observer is not None
        observe.unsubscribe(observer)
        if error is not None:
            observer.note_error("the recorded call", error)
        self.recording = Recording(
            level=self.level,
            source=self.source,
            stack=observer.deepest,
            scopes=observer.scopes_pushed,
            binds=tuple((label, count[0]) for label, count in observer.bind_counts.items() if count[0]),
            tracers=tuple(observer.tracers),
            tracers_made=observer.tracers_made,
            jaxprs=tuple(observer.jaxprs),
            jaxprs_made=observer.jaxprs_made,
            caches=tuple(observer.caches),
            phases=tuple(observer.phases),
            modules=tuple(observer.modules),
            executables=tuple(observer.executables),
            executions=observer.executions,
            errors=tuple(observer.errors),
            events=observer.events,
            truncated=observer.events > MOST_EVENTS,
            elsewhere=observer.elsewhere,
            tree=observer.finish(),
            seconds=seconds,
        )


def record(fun: Callable[..., Any], *args: Any, level: str = "full", **kwargs: Any) -> tuple[Any, Recording]:
    """Call ``fun(*args, **kwargs)`` and watch: its result, and the ``Recording``.

    An exception of the call is raised as it is; use ``Recorder`` to have the recording of a call that fails.
    """
    recorder = Recorder(level, getattr(fun, "__name__", ""))
    with recorder:
        result = fun(*args, **kwargs)
    return result, recorder.recording
