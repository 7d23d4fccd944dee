"""One copy of the style, and of the stepper's script, in a notebook: the first output has it, later ones refer to it.

Every output is laid out as it is to be without the copy: it lacks the colours then, and where a stepper was stands
the text of its log. Whatever may have taken the copy away makes the next output bring another: its cell runs again or
was deleted, outputs were cleared while it ran, the kernel is a new one. Where outputs do not share a page, each has
its own: Colab puts each into a frame, VS Code draws an output when it is first scrolled to.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import weakref
from typing import Any

# Live steppers that a kernel answers for.
MOST_STEPPERS = 100


class Sharing:
    """Which cells of a shell's notebook hold the copies."""

    def __init__(self, shell: Any) -> None:
        # this is kept for as long as the shell is there, and no longer
        self.shell = weakref.proxy(shell)
        self.on = True
        self.stepper = "auto"
        # those that were opened, in this order, each with its cell
        self._steppers: list[tuple[Any, Any]] = []
        self._cell: Any = None
        self._holders: dict[str, Any] = {}

    def begin(self, info: Any) -> None:
        """A cell begins to run: what it showed before is gone."""
        parent = request(self.shell)
        self._cell = getattr(info, "cell_id", None)
        if self._cell is None:
            # one that runs a notebook from top to bottom comes to no cell twice; else the text tells cells apart
            self._cell = object() if is_batch(parent) else info.raw_cell
        gone = {self._cell, *(parent.get("metadata", {}).get("deletedCells") or ())}
        self._holders = {kind: cell for kind, cell in self._holders.items() if cell not in gone}
        for cell, widget in self._steppers:
            if cell in gone:
                widget.close()
        self._steppers = [each for each in self._steppers if each[0] not in gone]

    def opened(self, widget: Any) -> None:
        """A live stepper is shown. The eldest of many lets go of its recording, which holds arrays."""
        self._steppers.append((self._cell, widget))
        if len(self._steppers) > MOST_STEPPERS:
            self._steppers.pop(0)[1].let_go()

    def steps_live(self) -> bool:
        """Whether steppers ask the kernel."""
        there = self.stepper == "live" or (self.stepper == "auto" and is_live(self.shell))
        return there and has_anywidget()

    def end(self) -> None:
        """It has run."""
        self._cell = None

    def cleared(self) -> None:
        """The outputs of the running cell were taken away."""
        self._holders = {kind: cell for kind, cell in self._holders.items() if cell != self._cell}

    def has(self, kind: str) -> bool:
        """Whether an earlier output has the copy of this ``kind``; if not, the one that asks is to bring it."""
        if not self.on or self._cell is None or self._apart():
            return False
        if kind in self._holders:
            return True
        if not type(self.shell.display_pub).__name__.startswith("Capturing"):  # %%capture shows it to nobody
            self._holders[kind] = self._cell
        return False

    def _apart(self) -> bool:
        """Whether outputs do not share a page, or are not all there."""
        return "google.colab" in sys.modules or in_vscode(self._cell)


def has_anywidget() -> bool:
    """Whether anywidget can be imported."""
    try:
        return importlib.util.find_spec("anywidget") is not None
    except ValueError:  # it is in sys.modules, and is no module
        return False


def in_vscode(cell: Any) -> bool:
    """Whether VS Code shows the notebook of this cell."""
    return str(cell).startswith("vscode-notebook-cell") or "VSCODE_PID" in os.environ


def request(shell: Any) -> dict[str, Any]:
    """The message that has the running cell run; empty where there is none."""
    return (shell.get_parent() if hasattr(shell, "get_parent") else None) or {}


def is_batch(request: dict[str, Any]) -> bool:
    """Whether a program runs the notebook, such as nbclient, and no person: nothing typed can be asked for."""
    return request.get("content", {}).get("allow_stdin") is False


def is_live(shell: Any) -> bool:
    """Whether somebody has a Jupyter page open that tells its cells apart, and so has widgets."""
    cell = request(shell).get("metadata", {}).get("cellId")
    return bool(cell) and not in_vscode(cell) and "google.colab" not in sys.modules


_known: weakref.WeakKeyDictionary[Any, Sharing] = weakref.WeakKeyDictionary()


def sharing(shell: Any) -> Sharing:
    """What the outputs of ``shell`` share."""
    return _known.setdefault(shell, Sharing(shell))
