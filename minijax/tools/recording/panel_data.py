"""The panels of a line as plain data, for programs that drive a session (``minijax-repl --json``)."""

from __future__ import annotations

from typing import Any

from minijax.tools.documents.document import Printout, document, plain
from minijax.tools.recording.panels import phase_totals, programs
from minijax.tools.recording.records import JaxprRecord, Recording

WIDTH = 100


def panel_data(recording: Recording, style: str = "jax") -> dict[str, Any]:
    """What happened in a line, in lists, dicts, strings and numbers.

    - ``stack``: the labels of the deepest interpreter stack, evaluation first; ``binds``: label -> primitives applied
    - ``custom_rules``: the rules of users' own functions that were applied -> how often
    - ``tracers``: the first of them, each with ``level``, ``type`` and its fields; ``tracers_made``: how many
    - ``jaxprs``: each with ``kind``, ``name``, ``equations``, its ``text``, and ``times``, how many were like it
      (of the same kind, name, types and primitives); ``jaxprs_made``: how many in all
    - ``hlo``: for each program its ``name``, and operations counted: ``before`` and ``after`` XLA (null if not known)
    - ``cache``: the answers of caches: ``cache``, ``name``, ``hit``, ``reason``, ``times``. Every miss is there; the
      hits of a function are one, ``times`` of them; the ``reason`` of a hit is what there is to be said of it
    - ``time``: phase -> seconds, without the phases inside it
    - ``events``: how many
    - ``truncated``: whether something was counted and not kept; ``cut``: what -> how many of it
    """
    return {
        "stack": list(recording.stack),
        "binds": dict(recording.binds),
        "custom_rules": dict(recording.custom_rules),
        "tracers": [{"level": t.level, "type": t.type, **dict(t.fields)} for t in recording.tracers],
        "tracers_made": recording.tracers_made,
        "jaxprs": [_jaxpr(record, style) for record in recording.jaxprs],
        "jaxprs_made": recording.jaxprs_made,
        "hlo": [
            {"name": name, "before": module and dict(module.counts), "after": program and dict(program.counts)}
            for name, module, program in programs(recording)
        ],
        "cache": [
            {"cache": c.cache, "name": c.name, "hit": c.hit, "reason": c.reason, "times": c.times}
            for c in recording.caches
        ],
        "time": phase_totals(recording),
        "events": recording.events,
        "truncated": recording.truncated or bool(recording.cut),
        "cut": dict(recording.cut),
    }


def _jaxpr(record: JaxprRecord, style: str) -> dict[str, Any]:
    doc = record.document(style, None)
    text = "" if doc is None else plain(document(Printout(doc)), WIDTH)
    facts = {"kind": record.kind, "name": record.name, "equations": record.equations, "times": record.times}
    return {**facts, "text": text}
