"""The data model of a recording: frozen records of types, short strings and numbers. All views are computed from them.

No record refers to a tracer, an array or a frame, and jaxprs are copied, so records keep no user object alive. ``at``
is a record's index in the order of events, from 0, across all kinds of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minijax.core.records import Frozen
from minijax.ir.doc import Doc, cut_rows
from minijax.ir.jaxpr import Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.recording.device_records import DeviceMomentRecord
from minijax.tools.recording.values import Values


class TracerRecord(Frozen):
    """A tracer that was seen: its interpreter ('jvp:2'), type ('f32[3]') and contents at that time.

    ``id`` numbers the tracers and arrays of a full recording from 1, in the order in which they were first seen (0: not
    followed). An array's interpreter is evaluation. ``physical`` is the type of its content if it differs: a batch
    tracer of f32[3] with eight examples is physically f32[8,3]. ``holds`` are the numbers of the tracers and arrays
    inside it, in the order of ``fields`` (0 for other values).
    """

    at: int
    level: str
    type: str
    fields: tuple[tuple[str, str], ...] = ()
    id: int = 0
    physical: str = ""
    holds: tuple[int, ...] = ()


class LifeRecord(Frozen):
    """The lifetime of a tracer or array: from ``born`` until just before ``died`` (-1: to the end of its scope).

    ``scope`` is the ``at`` of the interpreter's ``ScopeRecord`` (``-level`` if it was on the stack before the recording
    began). ``name`` is the variable of the user that held it, with the path to it (``params['w']``): of several, that
    of the outermost function. ``held`` has all of them, each with the event by which it held the value, if there are
    several or if this was after ``born``. ``function`` is the function of the variable ``name``: ``<module>`` for a
    module's variable. ``place`` is the line that made the value. If the engine runs a staged
    program again, ``again`` is the number of the tracer that was this variable during staging.
    """

    tracer: TracerRecord
    scope: int
    born: int
    died: int = -1
    name: str = ""
    place: str = ""
    again: int = 0
    held: tuple[tuple[str, int], ...] = ()
    function: str = ""

    @property
    def stores(self) -> tuple[tuple[str, int], ...]:
        """All variables that held the value, in order, each with the event by which it held the value."""
        return self.held or (((self.name, self.born),) if self.name else ())

    def called(self, name: str) -> bool:
        """Whether a variable ``name`` held the value."""
        return name == self.name or any(each == name for each, _ in self.held)


class SourceRecord(Frozen):
    """Lines of a file at the time of recording: ``text`` begins at line ``first``, counted from 1."""

    file: str
    first: int
    text: str


class RuleRecord(Frozen):
    """The application of a rule: its table and the place of its source. For a rule outside of a bind, such as a
    transpose rule, ``place`` is the user's line of the equation.
    """

    at: int
    table: str
    primitive: str
    name: str
    file: str
    line: int
    place: str = ""


class EquationRecord(Frozen):
    """An equation appended to the jaxpr of the interpreter ``level``; ``scope`` is that interpreter's ``at``
    (``-level`` if it was on the stack before the recording began).
    """

    at: int
    level: str
    scope: int
    text: str
    place: str
    primitive: str = ""


class JaxprRecord(Frozen):
    """A finished jaxpr: ``kind`` names its maker, ``depth`` is the height of the interpreter stack at that time.

    ``program`` is a copy without constants, functions or other values. A very long jaxpr has a cut ``doc`` instead. A
    jaxpr from a file has a ``doc``, and ``tutorial``, the same jaxpr in the tutorial's style. ``times`` counts jaxprs
    with the same kind, name, types and primitives; the first one is stored.
    """

    at: int
    kind: str
    name: str
    equations: int
    program: Jaxpr | None = None
    doc: Doc | None = None
    depth: int = 1
    tutorial: Doc | None = None
    times: int = 1

    def document(self, style: str = "jax", most: int | None = None) -> Doc | None:
        """The jaxpr printed, with at most ``most`` equations."""
        if self.program is not None:
            return jaxpr_document(self.program, style=style, max_eqns=most)
        doc = self.tutorial if style == "tutorial" and self.tutorial is not None else self.doc
        return doc if doc is None or most is None else cut_rows(doc, most)


class CacheRecord(Frozen):
    """A cache lookup: whether it hit, the ``reason`` of a miss, and ``advice``. ``earlier`` is how many of the
    ``known`` signatures in the cache were compared.

    Every miss has its own record, with the user's line (``place``). Outside of the tree, all hits of a function are one
    record, with their number (``times``); ``reason`` is then a warning about the hit.
    """

    at: int
    cache: str
    name: str
    hit: bool
    reason: str
    advice: str = ""
    earlier: int = 0
    known: int = 0
    times: int = 1
    place: str = ""


class PhaseRecord(Frozen):
    """A phase ('trace', 'lower', 'compile', 'run', ...) took ``seconds``, without the recorder's own work.

    ``own`` excludes inner phases, such as a compilation during differentiation. Outside of the tree, the phases of a
    function between two cache misses are one record: ``times`` phases with their total time.
    """

    at: int
    phase: str
    name: str
    seconds: float
    own: float
    times: int = 1


class ModuleRecord(Frozen):
    """A StableHLO module: the counts of its operations, and its text (up to a limit)."""

    at: int
    name: str
    ops: int
    counts: tuple[tuple[str, int], ...]
    text: str


class ExecutableRecord(Frozen):
    """A compiled program: the numbers of instructions and of fusions in its entry computation.

    Level 'full' adds the text, and ``programs``, the ``LinkedPrograms`` of Python, jaxpr, StableHLO and HLO (None if
    unknown). ``reused`` marks a program that ran here but was compiled before the recording began.
    """

    at: int
    name: str
    instructions: int
    fusions: int
    counts: tuple[tuple[str, int], ...]
    text: str
    programs: Frozen | None = None
    reused: bool = False


class ErrorRecord(Frozen):
    """An exception that left the engine or the recorded call; ``place`` is the user's line where it was raised."""

    at: int
    where: str
    type: str
    message: str
    place: str = ""


class CotangentRecord(Frozen):
    """A cotangent of a linear program: the index of its variable, its number as a value (0 for a symbolic zero or an
    inline literal), and a short text.
    """

    variable: int
    number: int
    text: str


class TransposedRecord(Frozen):
    """A transposed equation of a linear program. It took the events after ``begun`` up to ``at`` (-1: its rule raised).

    ``equation`` is its index, ``given`` the cotangents of its results, ``found`` the cotangents that its rule returned
    for its operands, and ``sums`` their totals so far.
    """

    begun: int
    at: int
    equation: int
    given: tuple[CotangentRecord, ...]
    found: tuple[CotangentRecord, ...] = ()
    sums: tuple[CotangentRecord, ...] = ()


class LinearVariable(Frozen):
    """A variable of a linear program: its printed letter and its type."""

    letter: str
    type: str


class LinearEquation(Frozen):
    """A printed equation of a linear program, and the indices of its variables (-1: a literal)."""

    text: str
    primitive: str
    results: tuple[int, ...]
    operands: tuple[int, ...]


class BackwardRecord(Frozen):
    """The backward pass of a linear program, from the event after ``begun`` to ``ended``.

    ``name`` is the name of the function. Variables have indices from 0: first the constants (``constants`` is their
    number), then the inputs (``inputs``), then the results of the equations in order. ``primals`` has the number of
    the forward value for each tangent variable, 0 if unknown; for a constant it is the number of the residual.
    ``places`` has the line of each equation, ``expressions`` its expression in this line. ``seeds`` are the initial
    cotangents in the order of the outputs, ``begins`` their sums by variable.

    ``program`` is a copy as in ``JaxprRecord``. A file has ``equations`` and ``variables`` instead, and ``residuals``,
    short texts of the constants.
    """

    begun: int
    ended: int
    name: str
    constants: int
    inputs: int
    outs: tuple[int, ...]
    primals: tuple[int, ...]
    places: tuple[str, ...]
    expressions: tuple[str, ...]
    seeds: tuple[CotangentRecord, ...]
    begins: tuple[CotangentRecord, ...]
    steps: tuple[TransposedRecord, ...]
    program: Jaxpr | None = None
    equations: tuple[LinearEquation, ...] = ()
    variables: tuple[LinearVariable, ...] = ()
    residuals: tuple[str, ...] = ()


class BindRecord(Frozen):
    """One application of a primitive by one interpreter, with everything that happened inside it.

    ``args`` and ``out`` are previews; ``types`` are the results' types and ``in_types`` the arguments'; ``operands``
    and ``results`` are the numbers of the tracers and arrays among them (0 for other values). ``forced`` says
    why this interpreter applied it, and ``forced_by`` is the index of the argument that caused this (-1: no argument
    did; see ``forcing``). ``nonfinite`` marks a result with a NaN or an infinity. ``cached`` is the function whose
    trace came from a cache, so its Python did not run here.
    """

    at: int
    end: int
    primitive: str
    level: str
    depth: int
    args: tuple[str, ...]
    tracers: tuple[TracerRecord, ...]
    params: tuple[tuple[str, str], ...]
    out: str
    rule: RuleRecord | None
    place: str
    error: str
    children: tuple[Node, ...]
    forced: str = ""
    forced_by: int = -1
    types: tuple[str, ...] = ()
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    nonfinite: bool = False
    cached: str = ""
    in_types: tuple[str, ...] = ()
    expression: str = ""


class ScopeRecord(Frozen):
    """An interpreter's time on the stack, with all events inside; ``place`` is the user's line at its start."""

    at: int
    end: int
    level: str
    depth: int
    subject: str
    stack: tuple[str, ...]
    children: tuple[Node, ...]
    place: str = ""


Leaf = (
    RuleRecord
    | EquationRecord
    | JaxprRecord
    | CacheRecord
    | PhaseRecord
    | ModuleRecord
    | ExecutableRecord
    | ErrorRecord
)
Node = BindRecord | ScopeRecord | Leaf


def place_parts(place: str) -> tuple[str, int, str]:
    """``('/home/me/file.py', 12, 'f')`` for ``/home/me/file.py:12 (f)``; ``('', 0, '')`` for other texts."""
    # the last bracket, because paths may contain brackets
    where, _, function = place[:-1].rpartition(" (") if place.endswith(")") else (place, "", "")
    file, _, line = where.rpartition(":")
    return (file, int(line), function) if file and line.isdigit() else ("", 0, "")


# The ``where`` of the exception that ended a recording.
CALL = "the recorded call"
# A key of ``cut`` for dropped names begins with this text. After it comes the event.
NAMES_PAST = "names past event"


class Recording(Frozen):
    """The recording of one line or call.

    Attributes:
      level: 'summary' (no tree) or 'full'.
      source: the text of the recorded line or call.
      stack: the labels of the deepest interpreter stack reached, evaluation first.
      binds: the number of primitives that each interpreter processed.
      tracers: the first tracers seen: the user's variables, and results of operations.
      tracers_made: the number of tracers made by operations (inputs of transformations do not count).
      events: the number of events; after ``summary.MOST_EVENTS`` a full recording only counts them (``truncated``).
      cut: kinds of items that were counted but not kept, with their numbers: ('jaxprs', 76). Each kind has a limit.
      elsewhere: the number of events on other threads, which are not recorded.
      tree: the forest of binds and scopes, at level 'full'.
      base: the labels of the interpreters on the stack before the recording began.
      lives: the tracers and arrays of a full recording, in the order in which they were born.
      sources: the source lines of user files and rules to which records refer.
      custom_rules: how often custom rules were applied: 'custom_jvp f_jvp', 'custom_vjp bwd g_bwd', ...
      backward: the linear programs that ran backwards, in the order in which they began.
      devices: in a saved recording, the values on devices at each change; empty in the process that recorded.
      seconds: the duration, including the recorder's work.
    """

    level: str
    source: str = ""
    stack: tuple[str, ...] = ("eval",)
    scopes: int = 0
    binds: tuple[tuple[str, int], ...] = ()
    tracers: tuple[TracerRecord, ...] = ()
    tracers_made: int = 0
    jaxprs: tuple[JaxprRecord, ...] = ()
    jaxprs_made: int = 0
    caches: tuple[CacheRecord, ...] = ()
    phases: tuple[PhaseRecord, ...] = ()
    modules: tuple[ModuleRecord, ...] = ()
    executables: tuple[ExecutableRecord, ...] = ()
    executions: int = 0
    errors: tuple[ErrorRecord, ...] = ()
    events: int = 0
    truncated: bool = False
    elsewhere: int = 0
    tree: tuple[Node, ...] = ()
    seconds: float = 0.0
    base: tuple[str, ...] = ("eval",)
    lives: tuple[LifeRecord, ...] = ()
    sources: tuple[SourceRecord, ...] = ()
    custom_rules: tuple[tuple[str, int], ...] = ()
    cut: tuple[tuple[str, int], ...] = ()
    backward: tuple[BackwardRecord, ...] = ()
    devices: tuple[DeviceMomentRecord, ...] = ()

    @property
    def blank(self) -> bool:
        """Whether the recording is empty, except perhaps for the exception that ended it."""
        return all(isinstance(node, ErrorRecord) for node in self.tree[:2])

    def __repr__(self) -> str:
        return f"<{self.level} recording of {self.events} events>"

    def holding(self, kept: Values | None, timeline: Any = None) -> Recording:
        """Give this recording the values ``kept``, and ``timeline``: its moments, or a function that returns them.
        Return the recording. Equality ignores both.
        """
        if kept is not None:
            self.__dict__["_kept"] = kept
        if timeline is not None:
            self.__dict__["_timeline"] = timeline
        return self

    @property
    def has_values(self) -> bool:
        """Whether values were kept in this process; a file has only texts and ``devices``."""
        return "_kept" in self.__dict__

    @property
    def kept(self) -> Values:
        """The kept values; empty for a summary or a recording from a file."""
        found: Values | None = self.__dict__.get("_kept")
        return Values() if found is None else found

    @property
    def bind_count(self) -> int:
        """The number of applied primitives, over all interpreters."""
        return sum(count for _, count in self.binds)

    def source_line(self, file: str, line: int) -> str | None:
        """A line of a file, counted from 1, at the time of recording; None if it was not kept."""
        for source in self.sources:
            if source.file == file:
                lines = source.text.split("\n")
                if 0 <= line - source.first < len(lines):
                    return lines[line - source.first]
        return None

    @property
    def stopped(self) -> str:
        """A note for a recording that ends before its call did; '' if it is complete."""
        if not self.truncated:
            return ""
        missing = dict(self.cut).get("events", 0)
        much = f"{missing:,} of {self.events:,} events" if missing else "what came after"
        return f"recording stopped here: {much} {'are' if missing else 'is'} missing"

    @property
    def traced(self) -> bool:
        """Whether there was anything besides plain evaluation."""
        return bool(self.scopes or self.jaxprs_made or self.phases or self.caches or self.executions)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Yield every node of the tree with its depth, in the order of events. No recursion: trees may be deep."""
        todo: list[tuple[int, Node]] = [(0, node) for node in reversed(self.tree)]
        while todo:
            depth, node = todo.pop()
            yield depth, node
            if isinstance(node, (BindRecord, ScopeRecord)):
                todo += [(depth + 1, child) for child in reversed(node.children)]
