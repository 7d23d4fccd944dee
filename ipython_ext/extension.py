"""Registers the extension's parts with one shell, and removes them later."""

from __future__ import annotations

import importlib.util
from typing import Any

from IPython.core.error import UsageError

from minijax import errors
from minijax.api import callbacks
from minijax.core import miss_log
from minijax.ipython_ext import display
from minijax.ipython_ext.completion import matcher
from minijax.ipython_ext.display import EXPORTED, Shown, bundle
from minijax.ipython_ext.magics import MAGICS, OWN, MinijaxMagics, magic_name
from minijax.ipython_ext.places import keep_typed, renamer
from minijax.ipython_ext.sharing import sharing
from minijax.ipython_ext.terminal import has_screen, stepped
from minijax.ipython_ext.tracebacks import Tracebacks
from minijax.tools.commands import find
from minijax.tools.commands.table import COMMANDS
from minijax.tools.documents.document import Document, document, text
from minijax.tools.recording.panels import summary
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session import jax_misses, source
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.session.session import RECORDED, Entry, FailedInput, Session, replay_text
from minijax.tools.session.tracebacks import passed_engine
from minijax.tools.session.values import COLOURS

# Packages that run cells and answer widgets: their lines are not user code.
_RUNNERS = ("IPython", "traitlets", "ipykernel", "ipywidgets", "anywidget", "comm", "tornado", "asyncio")
_SPECS = (importlib.util.find_spec(name) for name in _RUNNERS)
_MACHINERY = [path for spec in _SPECS if spec is not None for path in spec.submodule_search_locations or ()]
# For ``%export``, keep at most this many characters of a value's text.
_LONGEST = 20_000


class Extension:
    """minijax in one IPython shell.

    It registers the magics with their options, a completion matcher, formatters for minijax's objects, and an
    exception handler that hides minijax's frames. Before a cell it starts to record if ``watch`` is set. After the cell
    it shows the recording and cleans up after errors. It also observes when outputs are cleared.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.recorder: Recorder | None = None
        self.magics = MinijaxMagics(shell)
        self.session: Session = self.magics.session
        self.replaced: dict[tuple[str, str], Any] = {}
        self.formatters: list[tuple[Any, str, Any]] = []
        self._add_magics()
        self.matcher = matcher(self.session)
        shell.Completer.custom_matchers.append(self.matcher)
        self._add_formatters()
        self.trees = display.Trees(shell, self.session)
        self.trees.install()
        self.session.renamed_places = renamer(shell)
        settings = self.session.settings
        self.tracebacks = Tracebacks(shell, lambda: settings.frames == "all", renamer(shell), self._hint)
        self.tracebacks.install()
        self.magics.showing_errors = self.tracebacks.around
        self.session.runs_again = self.run_again
        errors.set_machinery(_MACHINERY)
        callbacks.set_front_end(self.at_breakpoint)
        # the number of cache misses before the running cell
        self.first_miss = miss_log.total()
        self.clears = shell.display_pub.clear_output
        shell.display_pub.clear_output = self.clear_output
        shell.events.register("pre_run_cell", self.before_cell)
        shell.events.register("post_run_cell", self.after_cell)
        keep_typed(shell)  # the cell that loads the extension may also define functions to step through

    def _add_magics(self) -> None:
        present = self.shell.magics_manager.magics
        for kind, names in type(self.magics).magics.items():
            for name in names:
                if name in present[kind]:
                    self.replaced[kind, name] = present[kind][name]
        self.magics.pythons = {name: self.replaced["line", name] for name in OWN}
        self.shell.register_magics(self.magics)

    def _add_formatters(self) -> None:
        known = self.shell.display_formatter.formatters
        for name, make in display.OBJECTS.items():
            for mime, function in (
                ("text/html", display.html_formatter(self.shell, make)),
                ("text/plain", display.text_formatter(self.shell, make)),
            ):
                before = known[mime].pop(name, None)
                known[mime].for_type(name, function)
                self.formatters.append((known[mime], name, before))

    def at_breakpoint(self, code: str, names: dict[str, Any]) -> None:
        """Run a line typed at ``debug.breakpoint``. ``names``: the variables of a frame of the stopped program."""
        inner = Session(find, names, self.session.settings)
        inner.highlight = self.session.highlight
        outcome = inner.run_line(code)
        result = Result(outcome.shown, outcome.value, outcome.recording, outcome.step, outcome.error)
        if outcome.step is not None and has_screen(self.shell):
            result = stepped(inner, result)
        if result.document:
            self.publish(Shown(self.shell, result)._repr_mimebundle_())

    def publish(self, shown: dict[str, str]) -> None:
        self.shell.display_pub.publish(shown)

    def remove(self) -> None:
        shell = self.shell
        shell.events.unregister("pre_run_cell", self.before_cell)
        shell.events.unregister("post_run_cell", self.after_cell)
        self._stop()
        shell.display_pub.__dict__.pop("clear_output", None)
        self.session.live.drop_all()
        present = shell.magics_manager.magics
        for kind, names in type(self.magics).magics.items():
            for name in names:
                present[kind].pop(name, None)
        for (kind, name), function in self.replaced.items():
            present[kind][name] = self.magics.pythons.get(name, function) if kind == "line" else function
        shell.magics_manager.registry.pop(type(self.magics).__name__, None)
        shell.configurables[:] = [each for each in shell.configurables if each is not self.magics]
        shell.Completer.custom_matchers[:] = [
            each for each in shell.Completer.custom_matchers if each is not self.matcher
        ]
        callbacks.set_front_end(None)
        self.trees.remove()
        self.tracebacks.remove()
        errors.set_machinery(())
        for formatter, name, before in self.formatters:
            formatter.pop(name, None)
            if before is not None:
                formatter.for_type(name, before)

    def before_cell(self, info: Any) -> None:
        self._stop()
        self.magics.shown = []
        self.first_miss = miss_log.total()
        known = sharing(self.shell)
        known.on = self.magics.share
        known.stepper = self.magics.stepper
        known.begin(info)
        if (info.raw_cell or "").lstrip().startswith("%"):
            return
        self.session.unwatched = not self.magics.watch
        self.session.first_miss = miss_log.total()
        self.session.jax.begin()
        if self.magics.watch:
            self.recorder = Recorder("summary", info.raw_cell or "")
            self.recorder.__enter__()

    def after_cell(self, result: Any) -> None:
        """Show the recording. Reset the interpreter stack to evaluation and the levels of ``%push``."""
        self.session.restore()
        recorder = self._stop()
        self._note_failure(result, recorder)
        self._show_levels(result)
        panels = Document() if recorder is None else self._show_panels(recorder)
        self._show_recompiles(result)
        self._keep(result, panels, recorder)
        for each in self.magics.shown:
            each.quiet = False
        sharing(self.shell).end()

    def clear_output(self, wait: bool = False) -> None:
        """Clear the outputs of the running cell, as IPython does."""
        sharing(self.shell).cleared()
        self.clears(wait)

    def _note_failure(self, result: Any, recorder: Recorder | None) -> None:
        """Tell the session about a failed cell, so that %step without arguments can step through it."""
        # %run shows its program's exception itself, so the cell's result has no error
        error, self.tracebacks.shown = result.error_in_exec or self.tracebacks.shown, None
        if error is None or isinstance(error, UsageError):
            return
        recording = None if recorder is None else recorder.recording
        if error is self.session.recorded_error:
            recording = self.session.recording
        self.session.note_failure(self._number(result), _code(result), error, recording)

    def _number(self, result: Any) -> int:
        return result.execution_count or self.shell.execution_count

    def _hint(self, error: BaseException) -> str:
        """The text below an exception: how to step to it."""
        if error is self.session.recorded_error:
            return "" if self.session.unfinished is None else RECORDED  # if None, the magic has shown the recording
        if not passed_engine(error):
            return ""
        return replay_text(isinstance(error, KeyboardInterrupt))

    def run_again(self, failed: FailedInput) -> Any:
        """Run a failed cell again as IPython does, under the same file name, but show nothing."""
        shell = self.shell
        word = failed.source.split(None, 1)[0].lstrip("%") if source.is_command(failed.source) else ""
        own = {self.session.command_name(name): name for name in COMMANDS}
        if word in own:
            return self.session.run_command_line(failed.source.replace(word, own[word], 1), failed.number).value
        code = shell.transform_cell(failed.source)
        file = shell.compile.cache(code, failed.number, raw_code=failed.source)
        statements, expression = source.compiled(code, file, shell.compile.flags)
        if statements is not None:
            exec(statements, shell.user_global_ns, shell.user_ns)
        return NOTHING if expression is None else eval(expression, shell.user_global_ns, shell.user_ns)

    def _show_panels(self, recorder: Recorder) -> Document:
        self.magics.apply_traits()
        self.session.remember(recorder.recording)
        chosen = self.session.settings
        shown = summary(recorder.recording, chosen.panels, style=chosen.style, full=chosen.full)
        if shown:
            self.publish(bundle(self.shell, shown, EXPORTED))
        return shown

    def _show_recompiles(self, result: Any) -> None:
        """Below a notebook cell, say what was compiled again, unless panels or a magic already say so."""
        code = _code(result)
        words = code.split(None, 1)[:1]
        own = {magic_name(command) for command in MAGICS}
        in_terminal = type(self.shell).__name__ == "TerminalInteractiveShell"
        if in_terminal or not self.magics.badge or self.magics.watch or own & {each.lstrip("%") for each in words}:
            return
        of_jax = jax_misses.since(self.session.jax.first) if not code.lstrip().startswith("%") else ()
        count = miss_log.total() - self.first_miss
        if not count and not of_jax:
            return
        entries = miss_log.since(self.first_miss)
        shown = display.recompiled(self.shell, entries, of_jax, count - len(entries))
        if shown:
            self.publish(shown)

    def _keep(self, result: Any, panels: Document, recorder: Recorder | None) -> None:
        """Keep the cell's output for ``%export``."""
        value = result.result
        recording = None if recorder is None else recorder.recording
        error = result.error_before_exec or result.error_in_exec
        if isinstance(value, Shown):
            shown, recording = value.document, value.recording
        else:
            known = self.shell.history_manager.output_hist_reprs.get(result.execution_count, "")
            shown = Document() if value is None else document(text(COLOURS.sub("", known)[:_LONGEST], wrap=False))
        if isinstance(error, UsageError):
            # IPython shows no frames for a UsageError
            shown = document(text(f"UsageError: {error}", role="error", wrap=False))
        elif error is not None:
            shown = self.session.error_document(error)
        for each in reversed([each for each in self.magics.shown if each is not value]):
            shown = each.document + shown
        self.session.keep(Entry(self._number(result), _code(result), shown, panels, error is not None, recording))

    def _show_levels(self, result: Any) -> None:
        """Show how a Python cell changed the levels of %push: the tracer it assigned, the programs that got longer."""
        code = _code(result)
        if not self.session.levels or code.lstrip().startswith("%") or not result.success:
            return
        value = NOTHING if isinstance(result.result, Shown) else result.result
        assigned, grown = self.session.note(code, value)
        if assigned or grown:
            self.publish(bundle(self.shell, assigned + grown, EXPORTED))

    def _stop(self) -> Recorder | None:
        self.session.jax.end()
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.__exit__(None, None, None)
        return recorder


def _code(result: Any) -> str:
    return getattr(getattr(result, "info", None), "raw_cell", None) or ""
