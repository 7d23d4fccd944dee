"""Stores style and stepper script once per notebook: the first output holds the copy, and later outputs use it.

An output without the copy still works, but it has no colours, and its stepper is the text of a log. The next output
brings a new copy if the old one may be gone: its cell ran again or was deleted, its outputs were cleared, or the kernel
restarted. If outputs do not share a page, each has its own copy: Colab puts each output into a frame, and VS Code draws
an output only when the user scrolls to it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import weakref
from typing import Any

# At most this many live steppers keep their recordings.
MOST_STEPPERS = 100


class Sharing:
    """Records the cells of a shell's notebook that hold the copies of the style and of the stepper's script."""

    def __init__(self, shell: Any) -> None:
        # a proxy, so that this object does not keep the shell alive
        self.shell = weakref.proxy(shell)
        self.on = True
        self.stepper = "auto"
        # (cell, widget) of the open steppers, oldest first
        self._steppers: list[tuple[Any, Any]] = []
        self._cell: Any = None
        self._holders: dict[str, Any] = {}

    def begin(self, info: Any) -> None:
        """Forget the copies in the old outputs of a cell that starts to run, and in deleted cells."""
        parent = request(self.shell)
        self._cell = getattr(info, "cell_id", None)
        if self._cell is None:
            # a cell without an id is identified by its text, except in a batch run, which runs each cell once
            self._cell = object() if is_batch(parent) else info.raw_cell
        gone = {self._cell, *(parent.get("metadata", {}).get("deletedCells") or ())}
        self._holders = {kind: cell for kind, cell in self._holders.items() if cell not in gone}
        for cell, widget in self._steppers:
            if cell in gone:
                widget.close()
        self._steppers = [each for each in self._steppers if each[0] not in gone]

    def opened(self, widget: Any) -> None:
        """Register a live stepper. Beyond ``MOST_STEPPERS``, the oldest one drops its recording, which holds arrays."""
        self._steppers.append((self._cell, widget))
        if len(self._steppers) > MOST_STEPPERS:
            self._steppers.pop(0)[1].let_go()

    def steps_live(self) -> bool:
        """Whether steppers ask the kernel for their data."""
        there = self.stepper == "live" or (self.stepper == "auto" and is_live(self.shell))
        return there and has_anywidget()

    def end(self) -> None:
        self._cell = None

    def cleared(self) -> None:
        """Forget the copies in the running cell, whose outputs were cleared."""
        self._holders = {kind: cell for kind, cell in self._holders.items() if cell != self._cell}

    def has(self, kind: str) -> bool:
        """Whether an earlier output holds the copy of this ``kind``. If not, the output that asks must hold it."""
        if not self.on or self._cell is None or self._apart():
            return False
        if kind in self._holders:
            return True
        if not type(self.shell.display_pub).__name__.startswith("Capturing"):  # %%capture displays nothing
            self._holders[kind] = self._cell
        return False

    def _apart(self) -> bool:
        """Whether outputs are on separate pages, or are drawn only when the user scrolls to them."""
        return "google.colab" in sys.modules or in_vscode(self._cell)


def has_anywidget() -> bool:
    try:
        return importlib.util.find_spec("anywidget") is not None
    except ValueError:  # the object that sys.modules has under this name is no module
        return False


def in_vscode(cell: Any) -> bool:
    """Whether VS Code displays the notebook of this cell."""
    return str(cell).startswith("vscode-notebook-cell") or "VSCODE_PID" in os.environ


def request(shell: Any) -> dict[str, Any]:
    """The message that runs the current cell; {} if there is none."""
    return (shell.get_parent() if hasattr(shell, "get_parent") else None) or {}


def is_batch(request: dict[str, Any]) -> bool:
    """Whether a program such as nbclient runs the notebook, so that nobody can answer input()."""
    return request.get("content", {}).get("allow_stdin") is False


def is_live(shell: Any) -> bool:
    """Whether a Jupyter page is open that sends cell ids, and so supports widgets."""
    cell = request(shell).get("metadata", {}).get("cellId")
    return bool(cell) and not in_vscode(cell) and "google.colab" not in sys.modules


_known: weakref.WeakKeyDictionary[Any, Sharing] = weakref.WeakKeyDictionary()


def sharing(shell: Any) -> Sharing:
    return _known.setdefault(shell, Sharing(shell))
