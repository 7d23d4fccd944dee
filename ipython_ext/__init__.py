"""The IPython front end: magics, display and completion over ``minijax.tools``.

Write magics with their ``%``: IPython's automagic finds ``grad f(3.)`` only while no variable is called ``grad``, and
``from minijax import grad`` creates one. ``config``, ``history`` and ``time`` are ``%minijax_config``,
``%minijax_history`` and ``%minijax_time`` here, since IPython has magics with the short names.

``unload_ipython_extension`` removes everything that ``load_ipython_extension`` registers. After loading twice, or
unloading and loading, everything is registered once.
"""

from __future__ import annotations

from typing import Any

from minijax.ipython_ext.extension import Extension

_loaded: dict[int, Extension] = {}


def load_ipython_extension(ipython: Any) -> None:
    """Register everything with this shell, unless that is already done."""
    if id(ipython) not in _loaded:
        _loaded[id(ipython)] = Extension(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    extension = _loaded.pop(id(ipython), None)
    if extension is not None:
        extension.remove()
