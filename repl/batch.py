"""Sessions from the command line, a file or a pipe; and a prompt for terminals that can do nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterable
from typing import Any, TextIO

import minijax
from minijax.config import config
from minijax.tools import source
from minijax.tools.arguments import UsageError
from minijax.tools.document import Document, Text, document, line
from minijax.tools.namespace import initial_names
from minijax.tools.session import Outcome, Session
from minijax.tools.theme import coloured, to_text


def versions() -> str:
    """``minijax 0.1.0 · jax 0.10.2``"""
    return f"minijax {minijax.__version__} · jax {jax_version()}"


def jax_version() -> str:
    """The version of the installed jax, read from its file: importing jax costs most of a second."""
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


def new_session(namespace: dict[str, Any], x64: bool = False) -> Session:
    """A session with the names a prompt begins with."""
    if x64:
        config.update("jax_enable_x64", True)
    namespace.update(initial_names())
    return Session(namespace)


def choose_panels(session: Session, words: str) -> str:
    """Set the panels as ``%panels`` would; returns what is wrong, if something is."""
    try:
        session.run_command("panels", words)
    except UsageError as error:
        return str(error)
    return ""


def write(stream: TextIO, text: str) -> None:
    """Write and flush."""
    stream.write(text)
    stream.flush()


def width() -> int:
    """The columns of the page."""
    return shutil.get_terminal_size().columns


def shown(outcome: Outcome, colour: bool, columns: int) -> str:
    """What an outcome has to say: the value behind its number, then the panels."""
    parts = []
    if outcome.shown:
        text = to_text(outcome.shown, columns, colour, highlighted)
        if not outcome.command and outcome.error is None:
            prefix = f"out[{outcome.number}]:"
            prefix = coloured([("prompt-out", prefix)]) if colour else prefix
            text = f"{prefix}\n{text}" if "\n" in text else f"{prefix} {text}"
        parts.append(text)
    if outcome.summary:
        parts.append(to_text(outcome.summary, columns, colour, highlighted))
    return "".join(part + "\n" for part in parts)


def highlighted(text: str, language: str) -> Iterable[tuple[str, str]]:
    """``lexer.highlight``, which brings Pygments: imported when the first program is shown or the first key typed."""
    from minijax.tools.lexer import highlight

    return highlight(text, language)


def run(session: Session, code: str, colour: bool, stop: bool) -> int:
    """Run every input of ``code``; 1 if one raised. ``stop`` says whether the first error ends it."""
    failed = False
    for each in source.inputs(code):
        try:
            outcome = session.run_line(each)
        except SystemExit as leaving:
            return exit_code(leaving)
        if isinstance(outcome.error, BrokenPipeError):
            raise outcome.error
        if _show(outcome, colour):
            failed = True
            if isinstance(outcome.error, KeyboardInterrupt):
                return 130
            if stop:
                break
    return 1 if failed else 0


def _show(outcome: Outcome, colour: bool) -> bool:
    """Write an outcome; whether it is an error, which goes to standard error."""
    stream = sys.stdout if outcome.error is None else sys.stderr
    if outcome.error is not None:
        sys.stdout.flush()
    write(stream, shown(outcome, colour and stream.isatty() or colour and outcome.error is None, width()))
    return outcome.error is not None


def exit_code(leaving: SystemExit) -> int:
    """The exit code that a SystemExit stands for; a text is printed, as Python does."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    write(sys.stderr, f"{leaving.code}\n")
    return 1


def plain_prompt(session: Session, colour: bool) -> int:
    """A prompt by ``input()``, for terminals without cursor control and for output that goes elsewhere."""
    lines: list[str] = []
    while True:
        number = len(session.inputs)
        try:
            lines.append(input("   ...: " if lines else f"in [{number}]: "))
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
            _show(session.run_line(code), colour)
        except SystemExit as leaving:
            return exit_code(leaving)
        except KeyboardInterrupt:
            write(sys.stdout, "\n")


def banner(columns: int) -> Document:
    """The line that greets: versions on the left, keys on the right where there is room."""
    left = f"{versions()} · x64 {'on' if config.x64_enabled() else 'off'}"
    right = "%help  F2 panels  Ctrl-D leaves"
    gap = columns - len(left) - len(right)
    segments = line(("heading", left), " " * gap, ("muted", right)) if gap > 1 else line(("heading", left))
    return document(Text((segments,), wrap=False))
