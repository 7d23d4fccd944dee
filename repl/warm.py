"""Imports the modules for the first compilation and the first coloured output in the background, while the user thinks.

It only imports: it creates no client and compiles nothing, so the user can still choose platforms and join other
processes. It starts after a pause in typing, works in steps, and can be stopped between them.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable

# Before each step, no key may have been pressed for this many seconds.
QUIET = 0.4


def _colours() -> None:
    from minijax.tools.documents.lexer import highlight  # this module imports Pygments

    list(highlight("x = 1", "python"))
    list(highlight("x = 1", "stablehlo"))


STEPS: tuple[Callable[[], object], ...] = (
    _colours,
    lambda: importlib.import_module("minijax.tools.commands.completion"),
    lambda: importlib.import_module("minijax.backend.client").load(),
)


class Warmer:
    """The background thread. ``busy()`` postpones the next step; ``stop()`` waits only for the current step."""

    def __init__(self, steps: tuple[Callable[[], object], ...] = STEPS, quiet: float = QUIET) -> None:
        self.steps = steps
        self.quiet = quiet
        self.done = 0
        self._stopped = threading.Event()
        self._touched = threading.Event()
        self._thread = threading.Thread(target=self._run, name="minijax-warm", daemon=True)

    def start(self) -> None:
        """Start the thread, which waits for a pause."""
        self._thread.start()

    def busy(self) -> None:
        """A key was pressed, or an input runs: wait before the next step."""
        self._touched.set()

    def stop(self, seconds: float = 2.0) -> None:
        """Start no further step, and wait for the current one."""
        self._stopped.set()
        self._touched.set()
        if self._thread.is_alive():
            # wait, because the interpreter may crash if it shuts down while an extension module loads
            self._thread.join(seconds)

    def _run(self) -> None:
        # The thread has normal priority: with a lower one it could be suspended while it holds the interpreter's lock.
        for step in self.steps:
            while self._touched.wait(self.quiet) and not self._stopped.is_set():
                self._touched.clear()
            if self._stopped.is_set():
                return
            try:
                step()
            except Exception:
                return  # the next import of the module will raise the error again
            self.done += 1
