"""What a recording is: frozen records of types, short strings and numbers, from which everything shown is
computed.

No record refers to a tracer, an array, a jaxpr or a frame, so a recording keeps nothing of the user's alive.
``at`` is a record's place in the order of events, from 0: records of different kinds are comparable by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minijax.core.named import Frozen
from minijax.ir.doc import Doc, cut_rows
from minijax.ir.jaxpr import Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.recording.device_records import DeviceMomentRecord
from minijax.tools.recording.values import Values


class TracerRecord(Frozen):
    """A tracer seen: its interpreter ('jvp:2'), type ('f32[3]') and what it held then.

    ``id`` numbers the tracers and arrays of a full recording from 1, in the order in which they were first seen (0: not
    followed); an array is one of evaluation's. ``physical`` is the type of what it holds where that is another than its
    own: a batch tracer of f32[3] that holds eight of them is physically f32[8,3]. ``holds`` are the numbers of the
    tracers inside it, in the order of ``fields``, and of the arrays (0 for what is neither).
    """

    at: int
    level: str
    type: str
    fields: tuple[tuple[str, str], ...] = ()
    id: int = 0
    physical: str = ""
    holds: tuple[int, ...] = ()


class LifeRecord(Frozen):
    """How long a tracer or an array lived: from ``born`` until before ``died``, or to the end of its scope if that is
    -1.

    ``scope`` is the ``at`` of the interpreter's ``ScopeRecord`` (``-level`` if it was on the stack before the
    recording began), ``name`` what the first variable of the user's that held it is called, with the path to it
    (``params['w']``), ``place`` the line that made it. Where the engine runs a program again, ``again`` is the number
    of what stood for the same variable when that was staged.
    """

    tracer: TracerRecord
    scope: int
    born: int
    died: int = -1
    name: str = ""
    place: str = ""
    again: int = 0


class SourceRecord(Frozen):
    """Lines of a file as they were when recorded: ``text`` begins at line ``first``, counted from 1."""

    file: str
    first: int
    text: str


class RuleRecord(Frozen):
    """A rule about to be applied: the table it is from, where its source is, and (of a rule that is not a bind's, such
    as a transpose rule) the user's line whose equation it is applied to.
    """

    at: int
    table: str
    primitive: str
    name: str
    file: str
    line: int
    place: str = ""


class EquationRecord(Frozen):
    """An equation appended to the jaxpr that the interpreter ``level`` builds; ``scope`` is that
    interpreter's ``at`` (``-level`` if it was on the stack before the recording began).
    """

    at: int
    level: str
    scope: int
    text: str
    place: str
    primitive: str = ""


class JaxprRecord(Frozen):
    """A finished jaxpr: ``kind`` says by what it was made, ``depth`` how many interpreters were on the stack then.

    ``program`` is a copy without constants, functions or anything else that could hold a value; ``doc``
    stands in for it where the jaxpr was very long, or was loaded from a file (then with ``tutorial``, in that style).
    All are None where recording was cut short. ``times`` counts jaxprs like it: of the same kind, name, types and
    primitives, of which the first is here.
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
        """The jaxpr printed, at most ``most`` equations of it."""
        if self.program is not None:
            return jaxpr_document(self.program, style=style, max_eqns=most)
        doc = self.tutorial if style == "tutorial" and self.tutorial is not None else self.doc
        return doc if doc is None or most is None else cut_rows(doc, most)


class CacheRecord(Frozen):
    """A cache was asked: hit or miss, why it missed, what to do about that, and how many signatures it was compared
    with, of the ``known`` ones that the cache had.

    Every miss has a record of its own, with the user's line (``place``). Outside of the tree the hits of a function are
    one, the first, with how often there were (``times``); what is to be said of a hit is its ``reason``.
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
    """A phase ('trace', 'lower', 'compile', 'run', ...) took ``seconds``, the recorder's own work taken off.

    ``own`` leaves out the phases inside it: what differentiating took without the compilation it caused. Outside of the
    tree those of one function, between two misses of its caches, are one: ``times`` of them took that together.
    """

    at: int
    phase: str
    name: str
    seconds: float
    own: float
    times: int = 1


class ModuleRecord(Frozen):
    """A StableHLO module: its operations counted, and its text (up to a bound)."""

    at: int
    name: str
    ops: int
    counts: tuple[tuple[str, int], ...]
    text: str


class ExecutableRecord(Frozen):
    """A compiled program: instructions of its entry computation and fusions among them.

    At level 'full' also the text, and ``programs``, the ``LinkedPrograms`` of Python, jaxpr, StableHLO and HLO (None if
    they are not known). ``reused`` is one that was compiled before the recording began and ran in it.
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
    """An exception that left the engine or the recorded call; ``place`` is the user's line that it came from."""

    at: int
    where: str
    type: str
    message: str
    place: str = ""


class CotangentRecord(Frozen):
    """A cotangent of a variable of a linear program, by the variable's index: its number (0: a symbolic zero, or what
    was written inline), and what it is in brief.
    """

    variable: int
    number: int
    text: str


class TransposedRecord(Frozen):
    """An equation of a linear program gone back over: events after ``begun``, up to ``at`` (-1: its rule raised).

    ``equation`` is its index, ``given`` what arrived at its results, ``found`` what its rule gave its operands, and
    ``sums`` what each of these had in all by then.
    """

    begun: int
    at: int
    equation: int
    given: tuple[CotangentRecord, ...]
    found: tuple[CotangentRecord, ...] = ()
    sums: tuple[CotangentRecord, ...] = ()


class LinearVariable(Frozen):
    """A variable of a linear program: its letter in the printed program, and its type."""

    letter: str
    type: str


class LinearEquation(Frozen):
    """An equation of a linear program as it is printed, and the indices of its variables (-1: a literal)."""

    text: str
    primitive: str
    results: tuple[int, ...]
    operands: tuple[int, ...]


class BackwardRecord(Frozen):
    """A linear program run backwards: events after ``begun``, up to ``ended``; ``name`` is the function's.

    Variables are counted from 0: those of constants (``constants`` of them), the inputs (``inputs``), then the
    results of the equations in order. ``primals`` has, for each of them, the number of the forward value whose
    tangent it is, 0 where that is not known, and of a constant the number of the residual. For each equation there
    are its line (``places``) and the part of it that it belongs to (``expressions``). ``seeds`` are the cotangents
    that it began with, in the order of the program's results, and ``begins`` their sums by variable.

    ``program`` is a copy as in ``JaxprRecord``; ``equations`` and ``variables`` stand in for it in a file,
    with ``residuals``, the values of the constants in brief.
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
    and ``results`` are the numbers of the tracers among arguments and results (0 for what is no tracer). ``forced``
    says why this interpreter was chosen, and ``forced_by`` which argument did it (-1: none, the interpreter stages
    everything). ``nonfinite`` tells that a result held a NaN or an infinity. ``cached`` is the function whose trace was
    taken from a cache, so that no Python of it ran in here.
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
    """An interpreter's time on the stack, with everything that happened in it; ``place`` is the user's line then."""

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
    """``('/home/me/file.py', 12, 'f')`` for ``/home/me/file.py:12 (f)``; ``('', 0, '')`` for what is no place."""
    # the last bracket: folders and files may have some in their names
    where, _, function = place[:-1].rpartition(" (") if place.endswith(")") else (place, "", "")
    file, _, line = where.rpartition(":")
    return (file, int(line), function) if file and line.isdigit() else ("", 0, "")


# Where the exception is that ended a recording.
CALL = "the recorded call"
# What names are called among what was counted and not kept, with the event.
NAMES_PAST = "names past event"


class Recording(Frozen):
    """Everything recorded of one line or call.

    Attributes:
      level: 'summary' (no tree) or 'full'.
      source: what was run.
      stack: the labels of the deepest interpreter stack reached, evaluation first.
      binds: how often each interpreter was given a primitive.
      tracers: the first tracers seen: the user's variables, and results of operations.
      tracers_made: the tracers that operations made (the inputs of a transformation are not among them).
      events: how many events there were; past ``summary.MOST_EVENTS`` of them a full recording only counts
        (``truncated``).
      cut: what was counted and not kept, and how many: ('jaxprs', 76). Each kind has a bound.
      elsewhere: events of other threads, which are not recorded.
      tree: the forest of binds and scopes, at level 'full'.
      base: the labels of the interpreters that were on the stack before the recording began.
      lives: the tracers and arrays of a full recording, in the order in which they were born.
      sources: the lines of the user's files and of the rules that the records refer to.
      custom_rules: how often rules that a user wrote were applied: 'custom_jvp f_jvp', 'custom_vjp bwd g_bwd', ...
      backward: the linear programs that were run backwards, in the order in which they began.
      devices: of a recording that is saved, what devices had, each time it changed; empty in the process that recorded.
      seconds: from beginning to end, with the recorder's work.
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
        """Whether nothing happened in it but the exception that ended it, if one did."""
        return all(isinstance(node, ErrorRecord) for node in self.tree[:2])

    def __repr__(self) -> str:
        return f"<{self.level} recording of {self.events} events>"

    def holding(self, kept: Values | None, timeline: Any = None) -> Recording:
        """This recording, which has the values that were kept from now on, and its moments as ``timeline`` gives them.
        They are no part of what it equals.
        """
        if kept is not None:
            self.__dict__["_kept"] = kept
        if timeline is not None:
            self.__dict__["_timeline"] = timeline
        return self

    @property
    def has_values(self) -> bool:
        """Whether values were kept, in this process; in a file there are texts, and what ``devices`` have."""
        return "_kept" in self.__dict__

    @property
    def kept(self) -> Values:
        """The values that were kept; none of a summary, or of a recording that was loaded from a file."""
        found: Values | None = self.__dict__.get("_kept")
        return Values() if found is None else found

    @property
    def bind_count(self) -> int:
        """Primitives applied, by all interpreters together."""
        return sum(count for _, count in self.binds)

    def source_line(self, file: str, line: int) -> str | None:
        """A line of a file, counted from 1, as it was when recorded; None if it was not kept."""
        for source in self.sources:
            if source.file == file:
                lines = source.text.split("\n")
                if 0 <= line - source.first < len(lines):
                    return lines[line - source.first]
        return None

    @property
    def stopped(self) -> str:
        """What to say where a recording ends before the call did; '' if it has all of it."""
        if not self.truncated:
            return ""
        missing = dict(self.cut).get("events", 0)
        much = f"{missing:,} of {self.events:,} events" if missing else "what came after"
        return f"recording stopped here: {much} {'are' if missing else 'is'} missing"

    @property
    def traced(self) -> bool:
        """Whether anything but plain evaluation happened."""
        return bool(self.scopes or self.jaxprs_made or self.phases or self.caches or self.executions)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """Every node of the tree with its depth, in the order of events; no tree is too deep."""
        todo: list[tuple[int, Node]] = [(0, node) for node in reversed(self.tree)]
        while todo:
            depth, node = todo.pop()
            yield depth, node
            if isinstance(node, (BindRecord, ScopeRecord)):
                todo += [(depth + 1, child) for child in reversed(node.children)]
