"""Warnings of the logger ``minijax``, in JAX's words, for ``log_compiles`` and ``explain_cache_misses``."""

from __future__ import annotations

import logging
import re
from typing import Any

from minijax.config import explain_cache_misses, log_compiles
from minijax.core import observe
from minijax.errors import source_line

_log = logging.getLogger("minijax")
# JAX's name of each phase. The name of the function replaces ``{}``.
_PHASES = {
    "trace": "tracing {} for jit",
    "lower": "jaxpr to MLIR module conversion jit({})",
    "compile": "XLA compilation of jit({})",
}


class CompileLog(observe.Observer):
    """Logs each tracing, lowering and compilation of a function."""

    def lowered(self, name: str, text: str) -> None:
        if log_compiles.value:
            arguments = re.findall(r"%arg\d+: (\S+?)(?=[ ,)])", text.partition("@main(")[2].partition("->")[0])
            _log.warning("Compiling jit(%s) with global shapes and types (%s).", name, ", ".join(arguments))

    def phase(self, phase: str, name: str, seconds: float) -> None:
        if phase in _PHASES and log_compiles.value:
            _log.warning("Finished %s in %.9f sec", _PHASES[phase].format(name), seconds)


class MissLog(observe.Observer):
    """Logs why a function is traced."""

    def cache(self, cache: str, name: str, hit: bool, key: Any, reason: str) -> None:
        if cache == "staging" and not hit and explain_cache_misses.value:
            _log.warning("TRACING CACHE MISS at %s:\n  for %s: %s", source_line(), name, reason)


_observers = {log_compiles.name: CompileLog(), explain_cache_misses.name: MissLog()}


def report(name: str, on: bool) -> None:
    """Start or stop the log of the setting ``name``."""
    (observe.subscribe if on else observe.unsubscribe)(_observers[name])
