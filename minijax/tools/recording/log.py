"""Records on one line each, and the tree of a full recording as an indented log."""

from __future__ import annotations

from collections import Counter

from minijax.tools.documents.document import Document, Line, Segment, Text, document, line
from minijax.tools.documents.words import plural, seconds_text
from minijax.tools.programs import hlo
from minijax.tools.recording.panels import jaxpr_title
from minijax.tools.recording.records import (
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

# Beyond so many levels lines are not set in further, so that something of them stays in sight.
MOST_INDENT = 30
# A brief line tells so much of an operation's parameters.
_MOST_PARAMETERS = 24


def log_document(recording: Recording, most: int = 200, start: int = 0) -> Document:
    """The tree of a full recording as an indented log: ``most`` records of it, from the event ``start`` on."""
    lines: list[Line] = []
    count = 0
    for depth, node in recording.walk():
        if node.at < start:
            continue
        count += 1
        if len(lines) < most:
            lines.append((("", "  " * min(depth, MOST_INDENT)), *record_line(node, brief=False)))
    if count > len(lines):
        lines.append(line(("muted", f"... {count - len(lines)} more records (--most {count} shows them)")))
    if recording.truncated:
        lines.append(line(("warning", recording.stopped)))
    if recording.cut:
        cut = ", ".join(f"{number:,} {kind}" for kind, number in recording.cut)
        lines.append(line(("warning", f"counted, and not kept: {cut}")))
    return document(Text(tuple(lines), wrap=False))


def outcome(node: BindRecord) -> Line:
    """What a bind came to: `` = 0.14112`` or `` raised ...``; nothing if it has no results."""
    if node.error:
        return (("error", f" raised {node.error}"),)
    return (("muted", " = "), ("value", node.out)) if node.out else ()


def record_line(node: Node, done: bool = True, brief: bool = True) -> Line:
    """One record on one line.

    Args:
      done: whether the line tells what a bind came to.
      brief: leaves out places, rules and long parameters.
    """
    if isinstance(node, ScopeRecord):
        subject = node.subject.partition(" at ")[0] if brief else node.subject
        return line(("level", node.level), ("muted", f" begins{' for ' + subject if subject else ''}"))
    if isinstance(node, BindRecord):
        return _bind_line(node, done, brief)
    if isinstance(node, EquationRecord):
        return line(("muted", "equation "), ("", " ".join(node.text.split())))
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


def linearizes(bind: BindRecord) -> bool:
    """Whether the operation is one of ``linearize``, derived from a jvp rule."""
    return bind.rule is not None and bind.rule.table == "jvp" and bind.level.startswith("linearize:")


def _bind_line(node: BindRecord, done: bool, brief: bool) -> Line:
    out: list[Segment] = [("level", node.level), ("", " "), ("primitive", node.primitive)]
    if node.params:
        # a name says more than the rest
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
