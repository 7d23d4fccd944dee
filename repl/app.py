"""The prompt in a terminal: reads an input, runs it in a session, prints what it gave below it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document as Typed
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.validation import ValidationError, Validator

from minijax.repl import batch, keys
from minijax.repl.history import BoundedHistory, history_path
from minijax.repl.style import STYLE, InputLexer, fragments
from minijax.tools import source
from minijax.tools.arguments import UsageError
from minijax.tools.completion import complete
from minijax.tools.document import Document, document, line, text
from minijax.tools.session import Outcome, Session
from minijax.tools.views import PANELS


class SessionCompleter(Completer):
    """prompt_toolkit's view of ``tools.completion``."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Typed, complete_event: CompleteEvent) -> Iterable[Completion]:
        for found in complete(self.session, document.text_before_cursor):
            yield Completion(found.text, -found.length, display_meta=found.kind)


class SyntaxValidator(Validator):
    """Refuses what cannot be repaired by typing on, and puts the cursor where Python stumbled."""

    def validate(self, document: Typed) -> None:
        if source.status(document.text) != "invalid":
            return
        error = source.syntax_error(document.text)
        if error is None:
            return
        # The cursor goes to the end: at the place of the error, what is typed next would land inside the old text.
        place = f" (line {error.lineno or 1}, column {max(error.offset or 1, 1)})"
        raise ValidationError(len(document.text), f"{error.msg or 'invalid syntax'}{place}: not run")


class App:
    """One interactive session.

    Args:
      session: what runs the inputs.
      colour: whether to colour at all.
      vi: vi keys.
      history: None for the user's history file.
      input, output: prompt_toolkit's, for tests; the terminal if None.
    """

    def __init__(
        self,
        session: Session,
        colour: bool = True,
        vi: bool = False,
        history: History | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.session = session
        self.output = create_output() if output is None else output
        self.depth = ColorDepth.from_env() or self.output.get_default_color_depth()
        if not colour:
            self.depth = ColorDepth.DEPTH_1_BIT
        self.history = BoundedHistory(history_path()) if history is None else history
        self.prompt: PromptSession[str] = PromptSession(
            message=self._message,
            prompt_continuation=_continuation,
            multiline=True,
            lexer=InputLexer() if colour else None,
            history=self.history,
            auto_suggest=AutoSuggestFromHistory(),
            completer=SessionCompleter(session),
            complete_in_thread=True,
            complete_while_typing=False,
            validator=SyntaxValidator(),
            validate_while_typing=False,
            key_bindings=keys.bindings(self._command, self._toggle_panels),
            style=STYLE,
            include_default_pygments_style=False,
            enable_suspend=True,
            enable_open_in_editor=True,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            color_depth=self.depth,
            input=input,
            output=self.output,
        )

    # --- printing
    # ------------------------------------------------------------------------------------------------

    def show(self, doc: Document) -> None:
        """Print a document."""
        if doc:
            self.write(fragments(doc, self.columns()))

    def write(self, pieces: StyleAndTextTuples) -> None:
        """Print formatted text."""
        print_formatted_text(
            FormattedText(pieces),
            end="",
            style=STYLE,
            output=self.output,
            color_depth=self.depth,
            include_default_pygments_style=False,
        )

    def columns(self) -> int:
        """The terminal's width now."""
        return self.output.get_size().columns

    def show_outcome(self, outcome: Outcome) -> None:
        """The value behind its number (below it, if it takes several lines), then the panels."""
        if outcome.shown:
            pieces = fragments(outcome.shown, self.columns())
            if not outcome.command and outcome.error is None:
                several = sum(piece[1].count("\n") for piece in pieces) > 1
                prefix = f"out[{outcome.number}]:" + ("\n" if several else " ")
                pieces = [("class:mj-prompt-out", prefix), *pieces]
            self.write(pieces)
        self.show(outcome.summary)

    # --- keys
    # ----------------------------------------------------------------------------------------------------

    def _message(self) -> StyleAndTextTuples:
        return [("class:mj-prompt-in", f"in [{len(self.session.inputs)}]: ")]

    def _command(self, command: str) -> None:
        name, _, rest = command.lstrip("%").partition(" ")
        try:
            self.show(self.session.run_command(name, rest).document)
        except UsageError as error:
            self.show(document(text(str(error), role="muted")))

    def _toggle_panels(self) -> None:
        settings = self.session.settings
        settings.panels = () if settings.panels else PANELS
        self.show(document(text(line(("muted", f"panels {'on' if settings.panels else 'off'}")))))

    # --- the loop
    # ------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Read and run inputs until Ctrl-D or ``exit()``; returns the exit code."""
        self.show(batch.banner(self.columns()))
        problem = getattr(self.history, "problem", "")
        if problem:
            self.show(document(text(problem, role="warning")))
        while True:
            try:
                code = self.prompt.prompt()
            except KeyboardInterrupt:
                continue  # Ctrl-C at the prompt clears the input
            except EOFError:
                return 0
            if not code.strip():
                continue
            if code.strip() in ("exit", "quit"):
                return 0
            try:
                self.show_outcome(self.session.run_line(code))
            except SystemExit as leaving:
                return batch.exit_code(leaving)
            except KeyboardInterrupt:
                # Ctrl-C while printing, or while an error was being put into words
                with contextlib.suppress(KeyboardInterrupt):
                    self.show(document(text("interrupted", role="error")))


def _continuation(width: int, line_number: int, wrap_count: int) -> StyleAndTextTuples:
    return [("class:mj-muted", "...: ".rjust(width))]


def run(session: Session, colour: bool, vi: bool) -> int:
    """The interactive program."""
    return App(session, colour, vi).run()
