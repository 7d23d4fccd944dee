"""The IPython front end: magics, display and completion over ``minijax.tools``.

Write magics with their ``%``: IPython's automagic finds ``grad f(3.)`` only as long as no variable is called
``grad``, and ``from minijax import grad`` makes one. ``config``, ``history`` and ``time`` are
``%minijax_config``, ``%minijax_history`` and ``%minijax_time`` here, for the short names are IPython's own.

What ``load_ipython_extension`` registers, ``unload_ipython_extension`` takes away again, so that loading
twice, or unloading and loading, leaves one of each.
"""

from __future__ import annotations

from typing import Any

from minijax.ipython_ext.extension import Extension

_loaded: dict[int, Extension] = {}


def load_ipython_extension(ipython: Any) -> None:
    """Register everything with this shell; nothing if that has been done."""
    if id(ipython) not in _loaded:
        _loaded[id(ipython)] = Extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take away everything that was registered with this shell."""
    extension = _loaded.pop(id(ipython), None)
    if extension is not None:
        extension.remove()
