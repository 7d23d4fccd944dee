"""The user's own modules in the current folder: found by what the user writes, and by nothing else.

With the current folder on ``sys.path`` a file called ``tomllib.py`` or ``pygments.py`` that lies there is run by a
program that merely wants the real one. So it is not on the path. Where an ``import`` that the user wrote finds nothing,
this finder looks there, and does the same for the modules found so.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

_MACHINERY = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


class UserFolder:
    """A finder for ``sys.meta_path``, after all others."""

    def __init__(self) -> None:
        # the top-level modules found here: their imports are the user's too
        self.found: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module ``name`` of the current folder, if the user asks for it."""
        if path is not None or not self._users(sys._getframe(1)):
            return None
        try:
            here = os.getcwd()
        except OSError:  # the folder is gone
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [here], target)
        # a bare folder is a package to Python, but what a user imports has a file
        if spec is None or spec.loader is None or not spec.has_location:
            return None
        self.found.add(name)
        return spec

    def _users(self, frame: FrameType | None) -> bool:
        """Whether the import is one of the user's."""
        while frame is not None and (
            frame.f_code.co_filename in _MACHINERY or frame.f_code.co_filename == importlib.__file__
        ):
            frame = frame.f_back
        if frame is None:
            return False
        if frame.f_code.co_filename.startswith("<minijax-"):
            return True
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] in self.found


def keep_out() -> None:
    """Take the current folder off the path, where ``python -m`` puts it, and install the finder instead."""
    try:
        here = os.getcwd()
    except OSError:  # the folder is gone
        here = ""
    if sys.path and not sys.flags.safe_path and sys.path[0] in ("", here):
        del sys.path[0]
    sys.meta_path.append(UserFolder())
