"""Finds the user's own modules in the current folder, but only for imports in the user's code.

With the current folder on ``sys.path``, a library that imports ``tomllib`` or ``pygments`` would run the user's file of
that name. So the folder is not on the path. If an ``import`` in user code finds nothing, this finder searches the
folder. Imports in modules that it found are treated in the same way.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_MACHINERY = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>", importlib.__file__)


class UserFolder:
    """A finder that comes last in ``sys.meta_path``."""

    def __init__(self) -> None:
        # the top-level modules that this finder has found: their imports count as the user's
        self.found: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module ``name`` in the current folder. Return None if it is not there or no user code imports it."""
        if path is not None or not self._users(sys._getframe(1)):
            return None
        try:
            here = os.getcwd()
        except OSError:  # the folder no longer exists
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [here], target)
        # Python treats a folder without __init__.py as a package; accept only modules with a file
        if spec is None or spec.loader is None or not spec.has_location:
            return None
        self.found.add(name)
        return spec

    def _users(self, frame: FrameType | None) -> bool:
        """Whether user code runs the import."""
        while frame is not None and frame.f_code.co_filename in _MACHINERY:
            frame = frame.f_back
        if frame is None:
            return False
        if frame.f_code.co_filename.startswith("<minijax-"):
            return True
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] in self.found


def keep_out() -> None:
    """Remove the current folder, which ``python -m`` adds, from the path, and install the finder instead."""
    try:
        here = os.getcwd()
    except OSError:  # the folder no longer exists
        here = ""
    if sys.path and not sys.flags.safe_path and sys.path[0] in ("", here):
        del sys.path[0]
    sys.meta_path.append(UserFolder())
