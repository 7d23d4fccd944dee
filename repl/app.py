"""The prompt in a terminal: reads an input, runs it in a session, and prints the result below it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document as Typed
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import DynamicLexer, Lexer
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.styles import DynamicStyle
from prompt_toolkit.validation import ValidationError, Validator

from minijax.api import callbacks
from minijax.repl import batch, interruptible, keys
from minijax.repl.history import BoundedHistory, history_path
from minijax.repl.style import InputLexer, fragments, style_for
from minijax.repl.terminal import restored
from minijax.repl.warm import STEPS, Warmer
from minijax.tools.commands import find
from minijax.tools.documents.document import Document, document, line, text
from minijax.tools.documents.theme import resolved
from minijax.tools.recording.panels import PANELS, summary
from minijax.tools.session import source
from minijax.tools.session.result import NOTHING, Browse, Step
from minijax.tools.session.session import Outcome, Session
from minijax.tools.usage import UsageError


class SessionCompleter(Completer):
    """Passes the completions of ``tools.commands.completion`` to prompt_toolkit."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Typed, complete_event: CompleteEvent) -> Iterable[Completion]:
        # imported here: the table of commands would delay the first prompt
        from minijax.tools.commands.completion import complete

        for found in complete(self.session, document.text_before_cursor):
            yield Completion(found.text, -found.length, display_meta=found.kind)


class SyntaxValidator(Validator):
    """Refuses input with a syntax error that more typing cannot repair, and says where the error is."""

    def validate(self, document: Typed) -> None:
        if source.status(document.text) != "invalid":
            return
        error = source.syntax_error(document.text)
        if error is None:
            return
        # The cursor goes to the end: at the error's position, further typing would land inside the old text.
        place = f" (line {error.lineno or 1}, column {max(error.offset or 1, 1)})"
        raise ValidationError(len(document.text), f"{error.msg or 'invalid syntax'}{place}: not run")


class App:
    """One interactive session. Tests replace the history file, and the terminal's input and output."""

    def __init__(
        self,
        session: Session,
        history: History | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.session = session
        self.settings = session.settings
        self.settings.panel_keys = dict(keys.PANEL_KEYS)
        self.output = create_output() if output is None else output
        self.history = BoundedHistory(history_path(), self.settings.history) if history is None else history
        self.warmer: Warmer | None = None
        # set while an input runs, so that no Ctrl-C is lost: see ``interruptible``
        self._running = threading.Event()
        self._at_a_terminal = input is None
        self._chosen_panels = self.settings.panels or PANELS
        # the panel last shown in full, and the number of inputs at that time
        self._looked = ("", 0)
        self.style = DynamicStyle(lambda: style_for(resolved(self.settings.theme, os.environ)))
        self.prompt: PromptSession[str] = PromptSession(
            message=self._message,
            prompt_continuation=_continuation,
            multiline=True,
            lexer=DynamicLexer(self._lexer),
            history=self.history,
            auto_suggest=AutoSuggestFromHistory(),
            completer=SessionCompleter(session),
            complete_in_thread=True,
            complete_while_typing=False,
            validator=SyntaxValidator(),
            validate_while_typing=False,
            key_bindings=keys.bindings(self._command, self._toggle_panels, self._turn_panel),
            style=self.style,
            include_default_pygments_style=False,
            enable_suspend=True,
            enable_open_in_editor=True,
            input=input,
            output=self.output,
        )
        self.prompt.default_buffer.on_cursor_position_changed += self._show_signature
        self._lexer_in_colour = InputLexer()
        self._next_input = ""

    def colour(self) -> bool:
        """Whether to use colour. If the settings leave it open, NO_COLOR and TERM decide."""
        return batch.wants_colour(self.settings.color, True)

    def depth(self) -> ColorDepth:
        if not self.colour():
            return ColorDepth.DEPTH_1_BIT
        return ColorDepth.from_env() or self.output.get_default_color_depth()

    def _lexer(self) -> Lexer | None:
        return self._lexer_in_colour if self.colour() else None

    def show(self, doc: Document) -> None:
        if doc:
            self.write(fragments(doc, self.columns()))

    def write(self, pieces: StyleAndTextTuples) -> None:
        print_formatted_text(
            FormattedText(pieces),
            end="",
            style=self.style,
            output=self.output,
            color_depth=self.depth(),
            include_default_pygments_style=False,
        )

    def columns(self) -> int:
        return self.output.get_size().columns

    def show_outcome(self, outcome: Outcome) -> None:
        """Show the input's number, the value beside it (below it if the value takes several lines), and the panels."""
        if outcome.step is not None:
            self.show(self.stepped(outcome, outcome.step))
            return
        if outcome.debug is not None and self._at_a_terminal:
            with restored():
                batch.debug(outcome.debug)
            self.session.restore()
            return
        if outcome.error is not None:
            batch.remember_error(outcome.error)
        if isinstance(outcome.error, KeyboardInterrupt):
            self.write([("", "\n")])  # the terminal has echoed ^C
        if outcome.shown:
            pieces = fragments(outcome.shown, self.columns())
            if not outcome.command and outcome.error is None:
                prefix = f"out[{outcome.number}]:"
                room = self.columns() - len(prefix) - 1
                several = sum(piece[1].count("\n") for piece in pieces) > 1 or not batch.fits(outcome.shown, room, True)
                pieces = [("class:mj-prompt-out", prefix + ("\n" if several else " ")), *pieces]
            self.write(pieces)
        self.show(outcome.summary)
        if hint := self.session.hint(outcome):
            self._say(hint)

    def at_breakpoint(self, code: str, names: dict[str, Any]) -> None:
        inner = Session(find, names, self.settings)
        inner.highlight = batch.highlighted
        outer, self.session = self.session, inner
        try:
            self.show_outcome(inner.run_line(code))
        finally:
            self.session = outer

    def stepped(self, outcome: Outcome, step: Step | Browse) -> Document:
        """Open the stepper or the browser of stages; afterwards, return the call's value or exception to show."""
        # imported here: only %step and %passes --open need it, and it would delay the prompt
        from minijax.repl.fullscreen import Console
        from minijax.repl.stepper.app import opened

        with restored():
            console = Console(self.style, self.depth(), self.prompt.input, self.output)
            recording, error = opened(self.session, step, console)
        if recording is None:
            return Document()
        error = error or outcome.error
        if error is not None:
            return self.session.error_document(error)
        if outcome.value is NOTHING or not outcome.shown:  # it has no value, or a semicolon hides it
            return Document()
        return self.session.value_document(outcome.value)

    def _message(self) -> StyleAndTextTuples:
        head, label, tail = batch.prompt_parts(self.session, len(self.session.inputs))
        parts: StyleAndTextTuples = [("class:mj-prompt-in", head)]
        if label:
            parts += [("class:mj-level", label), ("class:mj-prompt-in", tail)]
        return parts

    def _show_signature(self, buffer: Buffer) -> None:
        """Show the signature of the call being typed below the input."""
        before = buffer.document.text_before_cursor
        shown: StyleAndTextTuples = []
        if "(" in before and "minijax.tools.commands.table" in sys.modules:  # it loads in the background
            from minijax.tools.commands.completion import signature

            parts = signature(self.session, before, self.columns())
            shown = [("class:mj-heading" if at else "class:mj-muted", piece) for piece, at in parts]
        self.prompt.bottom_toolbar = shown or None

    def _command(self, command: str) -> None:
        name, _, rest = command.lstrip("%").partition(" ")
        try:
            self.show(self.session.run_command(name, rest).document)
        except UsageError as error:
            self._say(str(error))

    def _say(self, words: str) -> None:
        self.show(document(text(words, role="muted")))

    def _toggle_panels(self) -> None:
        if self.settings.panels:
            self._chosen_panels = self.settings.panels
            self.settings.panels = ()
            self._say("panels off (F2 brings them back)")
        else:
            self.settings.panels = self._chosen_panels
            self._say(f"panels on: {', '.join(self.settings.panels)}")

    def _turn_panel(self, name: str) -> None:
        """Show a panel of the last line in full. A second press turns the panel off, a third turns it on again."""
        settings, key = self.settings, keys.PANEL_KEYS[name]
        looked, self._looked = self._looked, (name, len(self.session.inputs))
        if name not in settings.panels:
            settings.panels = tuple(each for each in PANELS if each in (*settings.panels, name))
            self._say(f"{name}: shown after each line")
        elif looked == self._looked:
            settings.panels = tuple(each for each in settings.panels if each != name)
            self._say(f"{name}: folded away ({key} brings it back)")
        else:
            last = self.session.recording
            shown = Document() if last is None else summary(last, (name,), True, settings.style)
            self.show(shown)
            self._say(f"{'' if shown else f'the last line had no {name}; '}{key} again folds it away")

    def run(self) -> int:
        self.show(batch.banner(self.columns()))
        problem = getattr(self.history, "problem", "")
        if problem:
            self.show(document(text(problem, role="warning")))
        callbacks.set_front_end(self.at_breakpoint)
        try:
            with interruptible.session() as self._running:
                return self._run()
        finally:
            callbacks.set_front_end(None)
            if self.warmer is not None:
                self.warmer.stop()

    def _run(self) -> int:
        while True:
            try:
                while True:  # an inner loop, because Ctrl-C can arrive at the start of an iteration
                    left = self._turn()
                    if left is not None:
                        return left
            except KeyboardInterrupt:
                # Ctrl-C came while printing, while formatting an error, or between two inputs
                with contextlib.suppress(KeyboardInterrupt):
                    self.show(document(text("", line(("error", "interrupted")))))

    def _turn(self) -> int | None:
        """Read and run one input; return the exit code if it ended the session, otherwise None."""
        self.prompt.editing_mode = EditingMode.VI if self.settings.keys == "vi" else EditingMode.EMACS
        self.prompt.color_depth = self.depth()
        self.prompt.bottom_toolbar = None  # clear what Ctrl-C may have left
        try:
            # the text that a command put at the prompt for editing
            given, self._next_input = self._next_input, ""
            with restored():
                code = self.prompt.prompt(pre_run=self._warm_up, default=given)
        except KeyboardInterrupt:
            return None  # Ctrl-C at the prompt clears the input
        except EOFError:
            return 0
        if not code.strip():
            if self.session.tour is None:
                return None
            code = "%tour next"
        if self._taken_back():
            self.show(document(text("", line(("error", "interrupted"), ("place", " before it ran")))))
            return None
        if code.strip() in ("exit", "quit"):
            return 0
        self.settings.columns = self.columns()
        self._running.set()
        try:
            outcome = self.session.run_line(code)
            self._next_input = outcome.next_input
            if not self._next_input:
                self.show_outcome(outcome)
        except SystemExit as leaving:
            return batch.exit_code(leaving)
        finally:
            self._running.clear()
        return None

    def _taken_back(self) -> bool:
        """Whether Ctrl-C came right after Enter, while the terminal still sent it as a key instead of a signal."""
        if not self._at_a_terminal:
            return False  # in a pipe Ctrl-C is always a key, which only clears a line
        ahead = get_typeahead(self.prompt.input)
        interrupts = [place for place, press in enumerate(ahead) if press.key == Keys.ControlC]
        store_typeahead(self.prompt.input, ahead[interrupts[-1] + 1 :] if interrupts else ahead)
        return bool(interrupts)

    def _warm_up(self) -> None:
        """At the first prompt: start the background imports."""
        if self.warmer is None and self.settings.warm and self._at_a_terminal:
            self.warmer = Warmer((*STEPS, self.session.complete_names))
            self.prompt.default_buffer.on_text_changed += lambda _: self.warmer and self.warmer.busy()
            self.warmer.start()


def _continuation(width: int, line_number: int, wrap_count: int) -> StyleAndTextTuples:
    return [("class:mj-muted", "...: ".rjust(width))]


def run(session: Session) -> int:
    code = App(session).run()
    if interruptible.abandoned():
        # XLA still runs the abandoned call: its threads would crash in the interpreter's regular shutdown
        interruptible.flush()
        os._exit(code)
    return code
