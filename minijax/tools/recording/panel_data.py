"""The panels of a line as plain data, for programs that drive a session (``minijax-repl --json``)."""

from __future__ import annotations

from typing import Any

from minijax.tools.documents.document import Printout, document, plain
from minijax.tools.recording.panels import phase_totals, programs
from minijax.tools.recording.records import JaxprRecord, Recording

WIDTH = 100


def panel_data(recording: Recording, style: str = "jax") -> dict[str, Any]:
    """The events of a line, as lists, dicts, strings and numbers.

    - ``stack``: the labels of the deepest interpreter stack, evaluation first; ``binds``: label -> number of binds
    - ``custom_rules``: rules of the user's functions that were applied -> how often
    - ``tracers``: the first tracers, each with ``level``, ``type`` and its fields; ``tracers_made``: their number
    - ``jaxprs``: each with ``kind``, ``name``, ``equations``, its ``text``, and ``times``, the number of jaxprs with
    the same kind, name, types and primitives; ``jaxprs_made``: their number in all
    - ``hlo``: for each program its ``name``, and operation counts ``before`` and ``after`` XLA (null if unknown)
    - ``cache``: answers of caches: ``cache``, ``name``, ``hit``, ``reason``, ``times``. Every miss is listed. The
    hits of one function are one entry, with ``times`` and a ``reason``
    - ``time``: phase -> seconds, without the phases inside it
    - ``events``: the number of events
    - ``truncated``: whether something was counted but not kept; ``cut``: what was cut -> how many
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
