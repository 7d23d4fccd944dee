"""Sessions whose input is a command line, a file or a pipe; and a prompt for terminals without cursor control."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TextIO

from minijax.backend import client
from minijax.config import config
from minijax.tools.commands import find
from minijax.tools.documents.document import LABEL_WIDTH, WIDEST, Document, Text, document, line
from minijax.tools.documents.theme import colour_bits, coloured, resolved, to_text
from minijax.tools.session import source
from minijax.tools.session.namespace import initial_names
from minijax.tools.session.session import Outcome, Session
from minijax.tools.session.settings import Settings
from minijax.tools.session.tracebacks import without_engine
from minijax.version import __version__


def versions() -> str:
    """The versions as text: ``minijax 0.1.0 · jax 0.10.2``."""
    return f"minijax {__version__} · jax {jax_version()}"


def jax_version() -> str:
    """The version of the installed jax, read from its file because importing jax takes most of a second."""
    found = importlib.util.find_spec("jax")
    if found is None or not found.submodule_search_locations:
        return "missing"
    for folder in found.submodule_search_locations:
        try:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
                match = re.search(r'^_version = "([^"]+)"', file.read(), re.MULTILINE)
        except OSError:
            continue
        if match:
            return match[1]
    return "unknown"


def new_session(
    namespace: dict[str, Any], x64: bool = False, settings: Settings | None = None, late: bool = False
) -> Session:
    """A session with the prompt's initial names. With ``late``, names that need imports are loaded when first used."""
    if x64:
        config.update("jax_enable_x64", True)
    given = initial_names(imported_only=late)
    for name, value in given.items():
        namespace.setdefault(name, value)
    session = Session(find, namespace, settings)
    session.given = given
    session.late_names = initial_names if late else None
    session.highlight = highlighted
    return session


def write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def width() -> int:
    """The width of the page in columns."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


class Page:
    """The output format of a session: colour, theme, width, and folding for a terminal.

    Text for a file or a pipe is not folded: its long lines stay whole, because programs read it line by line.
    """

    def __init__(self, colour: bool = False, settings: Settings | None = None) -> None:
        self.colour = colour
        self.settings = settings or Settings()

    def text(self, doc: Document, columns: int, fold: bool = False) -> str:
        """``doc`` as text with a final newline; '' if the document is empty."""
        if not doc:
            return ""
        theme = resolved(self.settings.theme, os.environ)
        bits = colour_bits(os.environ)
        return to_text(doc, columns, self.colour, highlighted, theme, bits, fold) + "\n"

    def shown(self, outcome: Outcome, columns: int, fold: bool = False) -> str:
        """An input's number and value, then the panels, as text."""
        text = ""
        if outcome.shown:
            prefix = "" if outcome.command or outcome.error is not None else f"out[{outcome.number}]:"
            text = self.text(outcome.shown, columns, fold)
            if prefix:
                several = "\n" in text.rstrip("\n") or not fits(outcome.shown, columns - len(prefix) - 1, fold)
                text = self._prompt(prefix) + ("\n" if several else " ") + text
        return text + self.text(outcome.summary, columns, fold)

    def _prompt(self, prefix: str) -> str:
        if not self.colour:
            return prefix
        return coloured([("prompt-out", prefix)], resolved(self.settings.theme, os.environ), colour_bits(os.environ))


def fits(doc: Document, columns: int, fold: bool) -> bool:
    """Whether ``doc`` fits on one line after its number."""
    return not fold or "\n" not in to_text(doc, columns, fold=True)


def highlighted(text: str, language: str) -> Iterable[tuple[str, str]]:
    """``lexer.highlight``, imported at the first call, because it imports Pygments, which most commands do not need."""
    from minijax.tools.documents.lexer import highlight

    return highlight(text, language)


def run(session: Session, code: str, page: Page, stop: bool) -> int:
    """Run every input of ``code``; return 1 if an input raised. With ``stop``, the first error ends the run."""

    def step(each: str) -> BaseException | None:
        outcome = session.run_line(each)
        if isinstance(outcome.error, BrokenPipeError):
            raise outcome.error
        if not isinstance(outcome.error, SystemExit):  # a SystemExit only sets the exit code
            _show(outcome, page)
        return outcome.error

    return each_input(code, step, stop)


def each_input(code: str, step: Callable[[str], BaseException | None], stop: bool) -> int:
    """Call ``step`` for every input of ``code``; return the exit code. ``step`` runs the input and returns its error.

    With ``stop``, the first error ends the run.
    """
    failed = False
    for each in source.inputs(code):
        try:
            error = step(each)
        except SystemExit as leaving:
            return exit_code(leaving)
        if isinstance(error, SystemExit):  # raised by a program that the input ran
            return exit_code(error)
        if isinstance(error, KeyboardInterrupt):
            return 130
        failed = failed or error is not None
        if failed and stop:
            break
    return int(failed)


def _show(outcome: Outcome, page: Page) -> None:
    """Write an outcome; an error goes to standard error."""
    # user code may have closed the streams or set them to None, and some processes start without streams
    out, stream = sys.stdout, sys.stdout if outcome.error is None else sys.stderr
    if stream is None or getattr(stream, "closed", False):
        return
    if outcome.error is not None and out is not None and not getattr(out, "closed", False):
        out.flush()
    if outcome.error is not None and page.colour and not stream.isatty():
        page = Page(False, page.settings)
    write(stream, page.shown(outcome, width(), stream.isatty()))


def exit_code(leaving: SystemExit) -> int:
    """The exit code of a SystemExit. If its argument is a text, print the text and return 1, as Python does."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    write(sys.stderr, f"{leaving.code}\n")
    return 1


def plain_prompt(session: Session, page: Page) -> int:
    """A prompt with ``input()``, for terminals without cursor control and for redirected output."""
    lines: list[str] = []
    while True:
        number = len(session.inputs)
        try:
            lines.append(input("   ...: " if lines else "".join(prompt_parts(session, number))))
        except EOFError:
            write(sys.stdout, "\n")
            return 0
        except KeyboardInterrupt:
            lines = []
            write(sys.stdout, "\n")
            continue
        code = "\n".join(lines)
        if not code.strip():
            lines = []
            continue
        if source.status(code) == "incomplete":
            continue
        lines = []
        try:
            outcome = session.run_line(code)
            if outcome.error is not None:
                remember_error(outcome.error)
            if outcome.debug is not None and sys.stdin.isatty():
                debug(outcome.debug)
                session.restore()
            else:
                _show(outcome, page)
            if hint := session.hint(outcome):
                write(sys.stdout, hint + "\n")
        except SystemExit as leaving:
            return exit_code(leaving)
        except KeyboardInterrupt:
            write(sys.stdout, "\n")


def debug(tb: TracebackType) -> None:
    import pdb  # imported here: a dozen modules that would delay the prompt

    debugger = pdb.Pdb()
    debugger.reset()
    debugger.interaction(None, tb)


def remember_error(error: BaseException) -> None:
    """Let post-mortem debuggers (``pdb.pm()``, ``pudb.pm()``) find the user's frames."""
    tb, _ = without_engine(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, tb
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def prompt_parts(session: Session, number: int) -> tuple[str, str, str]:
    """The prompt: ``in [5]: ``; while an interpreter is pushed, ``in [5] ``, ``jvp:1`` and `` › ``."""
    label = session.prompt_label()
    return (f"in [{number}] ", label, " › ") if label else (f"in [{number}]: ", "", "")


def wants_colour(choice: str, is_terminal: bool) -> bool:
    """Whether to use colour. The choice 'auto' means: on a terminal, unless NO_COLOR or TERM=dumb is set."""
    if choice != "auto":
        return choice == "always"
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def devices() -> str:
    """The devices, such as ``cpu ×2``; '' if they are unknown before a client is started."""
    running = client.started()
    if running is not None:
        kind, count = running.default_device.platform, len(running.devices)
    elif client.jaxlib_suffices():
        asked = config.read("num_cpu_devices") or 0
        forced = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
        kind, count = client.BUILT_IN, asked if asked > 0 else int(forced[1]) if forced else 1
    else:
        return ""
    return f"{kind} ×{count}"


def banner(columns: int) -> Document:
    """The greeting: versions on the left, keys on the right if there is room."""
    parts = [versions(), devices(), f"x64 {'on' if config.jax_enable_x64 else 'off'}"]
    left = " · ".join(filter(None, parts))
    right = "%help  %tour  F2 panels  Ctrl-D leaves"
    gap = min(columns, WIDEST + LABEL_WIDTH + 1) - len(left) - len(right)
    if gap > 1:
        return document(Text((line(("heading", left), " " * gap, ("muted", right)),), wrap=False))
    return document(Text((line(("heading", left)), line(("muted", right)))))
