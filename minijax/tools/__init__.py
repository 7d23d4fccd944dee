"""The microscope: it records what the engine does and shows the recordings. It does not depend on a front end.

``recording`` makes immutable records from the engine's hooks and shows them as documents (``documents``). ``commands``
has the table of commands for IPython and the REPL. ``session`` is the state of one user. Nothing here prints or
imports a front-end library.

From Python: ``record(f, *args)`` runs a call and returns its result and the recording.
``no_recompile()`` raises an error with the explanation if code traces or compiles. ``explain_cache_miss(f,
*args)`` predicts a cache hit or miss of a call. ``explain_misses()`` explains the latest misses of all calls.
"""

import importlib
from typing import TYPE_CHECKING, Any

from minijax.tools.recording.recorder import Recorder, record
from minijax.tools.recording.records import Recording

if TYPE_CHECKING:  # not imported at the start of a session, which does not need it
    from minijax.tools.explain.caches import CacheAnswer, explain_cache_miss, explain_misses, no_recompile

__all__ = ["CacheAnswer", "Recorder", "Recording", "explain_cache_miss", "explain_misses", "no_recompile", "record"]


def __getattr__(name: str) -> Any:
    """Import the names from ``explain.caches`` on first use."""
    if name in __all__:
        return getattr(importlib.import_module("minijax.tools.explain.caches"), name)
    raise AttributeError(f"module 'minijax.tools' has no attribute {name!r}", name=name)
