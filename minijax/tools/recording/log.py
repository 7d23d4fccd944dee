"""Shows a record as one line, and the tree of a full recording as an indented log."""

from __future__ import annotations

import copy
from collections import Counter

from minijax.tools.documents.document import Document, Line, Segment, Text, document, line
from minijax.tools.documents.words import plural, seconds_text
from minijax.tools.programs import hlo
from minijax.tools.recording.naming import Naming, called, naming_of
from minijax.tools.recording.panels import jaxpr_title
from minijax.tools.recording.records import (
    NAMES_PAST,
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
)
from minijax.tools.recording.repeats import repeats_of
from minijax.tools.recording.timeline import LEAVE, Timeline, timeline

# Records at greater depths are indented like those at this depth, so that their lines remain visible.
MOST_INDENT = 30
# A brief line has at most this many characters of an operation's parameters.
_MOST_PARAMETERS = 24


def log_document(
    recording: Recording,
    most: int = 200,
    start: int = 0,
    verbose: bool = False,
    whole: str = "",
    numbered: bool = True,
) -> Document:
    """The tree of a full recording as an indented log: ``most`` lines, from event ``start``. Equal steps share one
    line, and the end of the log says how to see each step (``whole``). With ``verbose``, every record has a line with
    its place, parameters and rule.
    """
    lines: list[Line] = []
    naming = copy.copy(naming_of(recording))
    naming.lines = {}
    moments = timeline(recording)
    repeats = repeats_of(recording, moments)
    left = 0
    repeated = False
    position, last = 1, len(moments) - 1
    while position < last:
        node = moments.node(position)
        if node is None or moments.kind(position) == LEAVE or node.at < start:
            position += 1
            continue
        run = None if verbose else repeats.around(position)
        first = run.starts.index(position) if run is not None and position in run.starts[:-1] else -1
        end = run.end if run is not None and first >= 0 else position + 1
        if len(lines) >= most:
            left += moments.begun_by(end - 1) - moments.begun_by(position - 1)
        else:
            around = moments.node(moments.parent(position)) if moments.parent(position) >= 0 else None
            if run is not None and first >= 0:
                repeated = True
                shown = repeated_line(moments, position, run.starts[first + 1], naming, run.label)
                times, inside = len(run.starts) - first, end - position
                shown = (*shown, ("heading", f" ×{times}"), ("muted", f"  + {inside} inside"))
            elif verbose:
                shown = record_line(node, brief=False)
            else:
                shown = record_line(node, naming=naming, around=around)
            lines.append((("", "  " * min(moments.depth(position), MOST_INDENT)), *shown))
            alone = isinstance(node, BindRecord) and not (run is not None and first >= 0)
            for number in node.results if alone else ():  # type: ignore[union-attr]
                naming.lines.setdefault(number, len(lines))
        position = end
    if numbered:
        width = len(str(len(lines)))
        lines = [(("muted", f"{i:{width}}  "), *each) for i, each in enumerate(lines, 1)]
    if repeated and whole:
        lines.append(line(("muted", f"×: iterations of equal operations; {whole}")))
    if left:
        lines.append(line(("muted", f"... {left} more records (--most {len(lines) + left} shows them)")))
    if recording.truncated:
        lines.append(line(("warning", recording.stopped)))
    cut = ", ".join(f"{number:,} {kind}" for kind, number in recording.cut if NAMES_PAST not in kind)
    lines += [line(("warning", f"counted, and not kept: {cut}"))] if cut else []
    lines += [line(("warning", naming.missing))] if naming.missing else []
    return document(Text(tuple(lines), wrap=False))


def repeated_line(moments: Timeline, position: int, following: int, naming: Naming, label: str) -> Line:
    """The line for a repeated step that begins at moment ``position``. The next step begins at ``following``."""
    node = moments.node(position)
    if isinstance(node, BindRecord) and moments.other(position) + 1 == following:
        # a step of one operation is named after the operation rather than after its place
        around = moments.node(moments.parent(position)) if moments.parent(position) >= 0 else None
        return record_line(node, False, naming=naming, around=around)
    return line(("primitive", label or "step"))


def outcome(node: BindRecord, naming: Naming | None = None) -> Line:
    """The result of a bind: `` = 0.14112``, `` : f32[3]`` or `` raised ...``; an empty line if it has no results."""
    if node.error:
        return (("error", f" raised {node.error}"),)
    if naming is None:
        return (("muted", " = "), ("value", node.out)) if node.out else ()
    value, types = naming.outcome(node)
    if value:
        return (("muted", " = "), ("value", value))
    return (("muted", " : "), ("type", types)) if types else ()


def left_line(node: BindRecord, naming: Naming, around: Node | None, done: bool = True) -> Line:
    """The line for the exit of a bind: ``└ h = 0.14112``, or ``└ tanh = 0.14112`` if no variable holds its result."""
    name = naming.assigned(node, around)
    what = ("var", name) if name else ("primitive", node.primitive)
    came = outcome(node, naming) if done else ()
    return (("muted", "└ "), what, *(came or (("muted", " done" if done else " …"),)))


def record_line(
    node: Node,
    done: bool = True,
    brief: bool = True,
    naming: Naming | None = None,
    around: Node | None = None,
    with_level: bool = False,
) -> Line:
    """A record as one line.

    Args:
      done: whether the line includes the result of a bind.
      brief: leave out places, rules and long parameters.
      naming: the names of the recording's values; a brief line of a bind is then ``h = tanh(a @ w1)``.
      around: the enclosing record. If it has the same level, the line leaves the level out.
      with_level: show the level even if ``around`` has the same level.
    """
    if isinstance(node, ScopeRecord):
        subject = node.subject.partition(" at ")[0] if brief else node.subject
        return line(("level", node.level), ("muted", f" begins{' for ' + subject if subject else ''}"))
    if isinstance(node, BindRecord):
        return _bind_line(node, done, brief) if naming is None else _named_line(node, done, naming, around, with_level)
    if isinstance(node, EquationRecord):
        text = " ".join(node.text.split())
        return line(("muted", "equation "), ("", without_parameters(text, node.primitive) if brief else text))
    if isinstance(node, RuleRecord):
        table = node.table.removesuffix(" rule")
        return line(("muted", f"{table} rule of "), ("primitive", node.primitive), ("comment", f"  {node.name}"))
    if isinstance(node, JaxprRecord):
        return (("muted", "jaxpr "), *jaxpr_title(node))
    if isinstance(node, PhaseRecord):
        return line(("muted", f"{node.phase} took "), ("time", seconds_text(node.seconds)))
    if isinstance(node, CacheRecord):
        said = ("good", "hit") if node.hit else ("warning", f"miss: {node.reason}")
        return line(("muted", f"{node.cache} cache of {node.name}: "), said)
    if isinstance(node, ModuleRecord):
        return line(("muted", f"lowered {node.name}: "), plural(node.ops, "StableHLO op"))
    if isinstance(node, ExecutableRecord):
        return line(("muted", f"compiled {node.name}: "), hlo.optimized_text(Counter(dict(node.counts))))
    assert isinstance(node, ErrorRecord)
    first, _, more = node.message.strip().partition("\n")
    message = f"{first} ..." if more and brief else " ".join(node.message.split())
    return line(("error", f"{node.type} "), f"at {node.where}{': ' if message else ''}{message}")


def without_parameters(text: str, primitive: str) -> str:
    """An equation's text without the bracketed parameters after the primitive."""
    head = f" = {primitive}["
    start = text.find(head) + len(head)
    if start < len(head):
        return text
    depth = 1
    for end in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[end], 0)
        if not depth:
            return text[: start - 1] + text[end + 1 :]
    return text


def linearizes(bind: BindRecord) -> bool:
    """Whether the operation belongs to ``linearize`` and was derived from a jvp rule."""
    return bind.rule is not None and bind.rule.table == "jvp" and bind.level.startswith("linearize:")


def _named_line(node: BindRecord, done: bool, naming: Naming, around: Node | None, with_level: bool) -> Line:
    """``h = tanh(a @ w1) : f32[3]``, after the level if the level of ``around`` differs."""
    same = node.level == (around.level if isinstance(around, (BindRecord, ScopeRecord)) else naming.recording.base[-1])
    out: list[Segment] = [("level", node.level), ("", " ")] if with_level or not same else []
    assigned = naming.assigned(node, around)
    if assigned:
        out += [("var", assigned), ("muted", " = ")]
    primitive, _, function = called(node).partition("[")
    out.append(("primitive", primitive))
    if function:
        out.append(("param-value", f"[{function}"))
    out.append(("", f"({', '.join(naming.operands(node, fitted=True))})"))
    if done:
        out += outcome(node, naming)
    return tuple(out)


def _bind_line(node: BindRecord, done: bool, brief: bool) -> Line:
    out: list[Segment] = [("level", node.level), ("", " "), ("primitive", node.primitive)]
    if node.params:
        # a brief line may be cut, so its most useful parameter, ``name``, comes first
        params = sorted(node.params, key=lambda pair: pair[0] != "name") if brief else node.params
        said = " ".join(f"{name}={value}" for name, value in params)
        if brief and len(said) > _MOST_PARAMETERS:
            said = said[: _MOST_PARAMETERS - 1] + "…"
        out.append(("param-value", f"[{said}]"))
    out.append(("", f"({', '.join(node.args)})"))
    if done:
        out += outcome(node)
    if node.rule is not None and not brief:
        by = "derived from" if linearizes(node) else "by"
        out.append(("comment", f"  {by} {node.rule.table} rule {node.rule.name}"))
    return tuple(out)
