"""Loads in the background what the first compilation and the first coloured output need, while the user thinks.

Only modules are imported; no client is made and nothing is compiled, so that the user can still choose platforms and
join other processes. It waits for the user to have been quiet for a while, works in steps, and can be stopped between
them.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable

# Seconds after the prompt has come, and without a key pressed.
QUIET = 0.4


def _colours() -> None:
    from minijax.tools.documents.lexer import highlight  # brings Pygments

    list(highlight("x = 1", "python"))
    list(highlight("x = 1", "stablehlo"))


def _compiler() -> None:
    importlib.import_module("minijax.backend.client").load()


def _commands() -> None:
    importlib.import_module("minijax.tools.commands.completion")


STEPS: tuple[Callable[[], None], ...] = (_colours, _commands, _compiler)


class Warmer:
    """The background thread. ``busy()`` puts off the next step; ``stop()`` waits for the step at work, no longer."""

    def __init__(self, steps: tuple[Callable[[], None], ...] = STEPS, quiet: float = QUIET) -> None:
        self.steps = steps
        self.quiet = quiet
        self.done = 0
        self._stopped = threading.Event()
        self._touched = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minijax-warm", daemon=True)

    def start(self) -> None:
        """Begin to wait for a quiet moment."""
        self._thread.start()

    def busy(self) -> None:
        """The user has pressed a key, or something runs."""
        self._touched.set()

    def stop(self, seconds: float = 2.0) -> None:
        """Begin no further step, and wait for the one at work."""
        self._stopped.set()
        self._touched.set()
        if self._thread.is_alive():
            # an extension module that is being loaded when the interpreter shuts down could take it down
            self._thread.join(seconds)

    def _run(self) -> None:
        # Not at a lower priority: the scheduler would take the processor from whoever holds the interpreter's lock.
        for step in self.steps:
            while self._touched.wait(self.quiet) and not self._stopped.is_set():
                self._touched.clear()
            if self._stopped.is_set():
                return
            try:
                step()
            except Exception:
                return  # whoever needs it will see the error
            self.done += 1
