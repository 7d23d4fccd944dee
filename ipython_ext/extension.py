"""Everything that is registered with one shell, remembered so that it can be taken away."""

from __future__ import annotations

from typing import Any

from minijax.core.trace import reset_stack, stack_depth
from minijax.ipython_ext.completion import matcher
from minijax.ipython_ext.display import bundle, jaxpr_html, jaxpr_text
from minijax.ipython_ext.magics import MinijaxMagics
from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr
from minijax.tools.recorder import Recorder
from minijax.tools.views import summary


class Extension:
    """minijax in one IPython shell.

    Registered are: the magics with their configurable, a completion matcher, formatters for jaxprs, and two
    events: one that watches a cell if the user wants that, and one that shows what was seen and cleans up
    after errors.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.recorder: Recorder | None = None
        self.magics = MinijaxMagics(shell)
        self.replaced: dict[tuple[str, str], Any] = {}
        self.formatters: list[tuple[Any, type, Any]] = []
        self._add_magics()
        self.matcher = matcher(self.magics.session)
        shell.Completer.custom_matchers.append(self.matcher)
        self._add_formatters()
        shell.events.register("pre_run_cell", self.before_cell)
        shell.events.register("post_run_cell", self.after_cell)

    def _add_magics(self) -> None:
        present = self.shell.magics_manager.magics
        for kind, names in type(self.magics).magics.items():
            for name in names:
                if name in present[kind]:
                    self.replaced[kind, name] = present[kind][name]
        self.shell.register_magics(self.magics)

    def _add_formatters(self) -> None:
        for mime, function in (("text/html", jaxpr_html), ("text/plain", jaxpr_text(self.shell))):
            formatter = self.shell.display_formatter.formatters[mime]
            for kind in (ClosedJaxpr, Jaxpr):
                before = formatter.for_type(kind, function)
                self.formatters.append((formatter, kind, before))

    def remove(self) -> None:
        """Take everything away, and put back what was replaced."""
        shell = self.shell
        shell.events.unregister("pre_run_cell", self.before_cell)
        shell.events.unregister("post_run_cell", self.after_cell)
        self._stop()
        present = shell.magics_manager.magics
        for kind, names in type(self.magics).magics.items():
            for name in names:
                present[kind].pop(name, None)
        for (kind, name), function in self.replaced.items():
            present[kind][name] = function
        shell.magics_manager.registry.pop(type(self.magics).__name__, None)
        shell.configurables[:] = [each for each in shell.configurables if each is not self.magics]
        shell.Completer.custom_matchers[:] = [
            each for each in shell.Completer.custom_matchers if each is not self.matcher
        ]
        for formatter, kind, before in self.formatters:
            formatter.pop(kind, None)
            if before is not None:
                formatter.for_type(kind, before)

    # --- events
    # --------------------------------------------------------------------------------------------------

    def before_cell(self, info: Any) -> None:
        """Begin to watch, if the user wants that."""
        self._stop()
        if self.magics.watch and not (info.raw_cell or "").lstrip().startswith("%"):
            self.recorder = Recorder("summary", info.raw_cell or "")
            self.recorder.__enter__()

    def after_cell(self, result: Any) -> None:
        """Show what was seen; after an error, bring the interpreter stack back to evaluation."""
        if stack_depth():
            reset_stack()
        recorder = self._stop()
        if recorder is None:
            return
        self.magics.apply_traits()
        session = self.magics.session
        session.remember(recorder.recording)
        shown = summary(recorder.recording, session.settings.panels, style=session.settings.style)
        if shown:
            self.shell.display_pub.publish(bundle(self.shell, shown))

    def _stop(self) -> Recorder | None:
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.__exit__(None, None, None)
        return recorder
