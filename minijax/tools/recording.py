"""What a recording is: frozen records of types, short strings and numbers, from which everything shown is
computed.

No record refers to a tracer, an array, a jaxpr or a frame, so a recording keeps nothing of the user's alive.
``at`` is a record's place in the order of events, from 0: records of different kinds are comparable by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from minijax.ir.doc import Doc
from minijax.ir.jaxpr import Jaxpr
from minijax.ir.pretty import jaxpr_document
from minijax.tools.frozen import Frozen


class TracerRecord(Frozen):
    """A tracer seen: its interpreter ('jvp:2'), type ('f32[3]') and what it held then."""

    at: int
    level: str
    type: str
    fields: tuple[tuple[str, str], ...] = ()


class RuleRecord(Frozen):
    """A rule about to be applied: the table it is from, and where its source is."""

    at: int
    table: str
    primitive: str
    name: str
    file: str
    line: int


class EquationRecord(Frozen):
    """An equation appended to the jaxpr that the interpreter ``level`` builds; ``scope`` is that
    interpreter's ``at``.
    """

    at: int
    level: str
    scope: int
    text: str
    place: str


class JaxprRecord(Frozen):
    """A finished jaxpr: ``kind`` says by what it was made, ``depth`` how many interpreters were on the stack then.

    ``program`` is a copy without constants, functions or anything else that could hold a value; ``doc``
    stands in for it where the jaxpr was very long. Both are None where recording was cut short.
    """

    at: int
    kind: str
    name: str
    equations: int
    program: Jaxpr | None = None
    doc: Doc | None = None
    depth: int = 1

    def document(self, style: str = "jax", most: int | None = None) -> Doc | None:
        """The jaxpr printed, at most ``most`` equations of it."""
        return self.doc if self.program is None else jaxpr_document(self.program, style=style, max_eqns=most)


class CacheRecord(Frozen):
    """A cache was asked: hit or miss, and why it missed."""

    at: int
    cache: str
    name: str
    hit: bool
    reason: str


class PhaseRecord(Frozen):
    """A phase ('trace', 'lower', 'compile', 'run', ...) took ``seconds``, the recorder's own work taken off.

    ``own`` leaves out the phases inside it: what differentiating took without the compilation it caused.
    """

    at: int
    phase: str
    name: str
    seconds: float
    own: float


class ModuleRecord(Frozen):
    """A StableHLO module: its operations counted, and its text (up to a bound)."""

    at: int
    name: str
    ops: int
    counts: tuple[tuple[str, int], ...]
    text: str


class ExecutableRecord(Frozen):
    """A compiled program: instructions of its entry computation and fusions among them; the text at level
    'full'.
    """

    at: int
    name: str
    instructions: int
    fusions: int
    counts: tuple[tuple[str, int], ...]
    text: str


class ErrorRecord(Frozen):
    """An exception that left the engine or the recorded call."""

    at: int
    where: str
    type: str
    message: str


class BindRecord(Frozen):
    """One application of a primitive by one interpreter, with everything that happened inside it."""

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


class ScopeRecord(Frozen):
    """An interpreter's time on the stack, with everything that happened in it."""

    at: int
    end: int
    level: str
    depth: int
    subject: str
    stack: tuple[str, ...]
    children: tuple[Node, ...]


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


class Recording(Frozen):
    """Everything recorded of one line or call.

    Attributes:
      level: 'summary' (no tree) or 'full'.
      source: what was run.
      stack: the labels of the deepest interpreter stack reached, evaluation first.
      binds: how often each interpreter was given a primitive.
      tracers: the first tracers seen: the user's variables, and results of operations.
      tracers_made: the tracers that operations made (the inputs of a transformation are not among them).
      events: how many events there were; past ``recorder.MOST_EVENTS`` of them only counting went on
        (``truncated``).
      elsewhere: events of other threads, which are not recorded.
      tree: the forest of binds and scopes, at level 'full'.
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

    def __repr__(self) -> str:
        return f"<{self.level} recording of {self.events} events>"

    @property
    def bind_count(self) -> int:
        """Primitives applied, by all interpreters together."""
        return sum(count for _, count in self.binds)

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
