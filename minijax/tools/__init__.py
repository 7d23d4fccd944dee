"""The microscope: records what the engine does and shows it, free of any front end.

``recording`` turns the engine's hooks into immutable records and shows them as documents (``documents``); ``commands``
has the table of commands that IPython and the REPL share; ``session`` is one user's state at either of them. Nothing
here prints, and nothing here imports a front-end library.

From Python: ``record(f, *args)`` runs a call and gives its result together with the recording.
``no_recompile()`` raises, with the explanation, where something would be traced or compiled; ``explain_cache_miss(f,
*args)`` tells what a call would find in the cache, and ``explain_misses()`` the latest misses, watched or not.
"""

import importlib
from typing import TYPE_CHECKING, Any

from minijax.tools.recording.recorder import Recorder, record
from minijax.tools.recording.records import Recording

if TYPE_CHECKING:  # a session starts without it
    from minijax.tools.explain.caches import CacheAnswer, explain_cache_miss, explain_misses, no_recompile

__all__ = ["CacheAnswer", "Recorder", "Recording", "explain_cache_miss", "explain_misses", "no_recompile", "record"]


def __getattr__(name: str) -> Any:
    """What is said of caches, imported when it is asked for."""
    if name in __all__:
        return getattr(importlib.import_module("minijax.tools.explain.caches"), name)
    raise AttributeError(f"module 'minijax.tools' has no attribute {name!r}", name=name)
