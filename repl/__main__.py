"""``minijax-repl`` and ``python -m minijax``: parse options, then run a prompt or a batch."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from minijax import errors
from minijax.repl import batch, user_folder
from minijax.tools.documents.theme import visible
from minijax.tools.session.settings import Settings
from minijax.tools.session.settings_file import load, settings_path

if TYPE_CHECKING:
    import argparse

_EPILOG = """\
without a terminal: piped input runs like a session, input by input, and continues after an error. -c and FILE
stop at the first error. With -i, the session then reads typed or piped input, even after an error, as in python -i.
The exit code is 1 if an input raised. No file in the current folder runs by itself.

settings: $XDG_CONFIG_HOME/minijax/config.toml (by default under ~/.config); %config lists and saves them.
Options take precedence; NO_COLOR and TERM=dumb turn colours off.
"""


class Invocation:
    file: str | None = None
    code: str | None = None
    codes: list[str] | None = None
    inspect = False
    as_jax: list[str] | None = None
    json = False
    x64 = False
    panels: str | None = None
    color: str | None = None
    theme: str | None = None
    vi = False
    no_config = False
    version = False


def arguments() -> argparse.ArgumentParser:
    import argparse  # importing it takes 10 ms; the two commonest command lines do not need it

    parser = argparse.ArgumentParser(
        prog="minijax-repl",
        description="A prompt that shows what every line makes minijax do.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="run this file ('-' for standard input)")
    parser.add_argument("-c", dest="codes", action="append", metavar="CODE", help="run this code")
    parser.add_argument(
        "-i", dest="inspect", action="store_true", help="then open a prompt that has the names of FILE or CODE"
    )
    parser.add_argument(
        "--as-jax",
        nargs=argparse.REMAINDER,
        metavar="FILE ...",
        help="run this program, written for JAX, on minijax; all arguments after FILE are passed to it",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object for every input")
    parser.add_argument("--x64", action="store_true", help="keep 64-bit types")
    parser.add_argument("--panels", metavar="NAMES", help="the panels to show: on, off, or some, such as stack,jaxpr")
    parser.add_argument("--color", choices=("auto", "always", "never"), help="colours (default: auto)")
    parser.add_argument("--theme", choices=("auto", "light", "dark", "none"), help="the background of the terminal")
    parser.add_argument("--vi", action="store_true", help="vi keys at the prompt (default: emacs keys)")
    parser.add_argument("--no-config", action="store_true", help="do not read the settings file")
    parser.add_argument("--version", action="store_true", help="print the versions and leave")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else list(argv)
    options = Invocation()
    if len(given) == 2 and given[0] == "-c":
        options.code = given[1]
    elif given:
        arguments().parse_args(given, options)
        wrong = _wrong(options)
        if wrong:
            arguments().error(wrong)
        options.code = options.codes[0] if options.codes else None
    if options.as_jax is not None:
        if not os.path.exists(os.path.expanduser(options.as_jax[0])):
            batch.write(sys.stderr, f"minijax-repl: cannot read {options.as_jax[0]}: no such file\n")
            return 2
        import shlex

        options.code = f"%run --as-jax {shlex.join(options.as_jax)}"
    try:
        return _main(options)
    except BrokenPipeError:  # the reader of our output closed the pipe
        _give_up(sys.stdout)
        return 1
    except OSError as error:  # user code closed a file descriptor, or the disk is full
        with contextlib.suppress(OSError, ValueError, AttributeError):
            batch.write(sys.stderr, f"minijax-repl: cannot write: {visible(error.strerror or str(error))}\n")
        _give_up(sys.stdout)
        _give_up(sys.stderr)
        return 1


def _wrong(options: Invocation) -> str:
    """Why the options contradict each other; '' if they do not."""
    if len(options.codes or ()) > 1:
        return "give -c once; its code may have several lines"
    if options.codes and options.file is not None:
        return "give a file or -c CODE, not both"
    if options.inspect and options.file == "-":
        return "-i reads standard input when the file has run: give the file's name, not '-'"
    if options.as_jax is not None and (not options.as_jax or options.file is not None or options.codes):
        return "--as-jax takes one file and its arguments: give no other file and no -c CODE"
    if "\n" in "".join(options.as_jax or ()):
        return "--as-jax cannot pass on a line break in an argument"
    return ""


def _give_up(stream: TextIO | None) -> None:
    """Flush a stream. If this fails, redirect it to the null device: else Python reports the error again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be None, closed, or not a file
        stream.flush()  # type: ignore[union-attr]
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[union-attr]


def settings_from(options: Invocation) -> tuple[Settings, list[str]]:
    """The settings from the file, overridden by the options, and a list of the problems in the file."""
    settings = Settings()
    problems = [] if options.no_config else load(settings, settings_path())
    for name in ("panels", "color", "theme"):
        if (value := getattr(options, name)) is not None:
            try:
                settings.set(name, value)
            except ValueError as error:
                arguments().error(f"--{error}")
    if options.vi:
        settings.keys = "vi"
    return settings, problems


def show_warnings_as_text() -> None:
    """Escape control characters in warnings, because a library's warning may contain text from a file."""
    formatted = warnings.formatwarning
    warnings.formatwarning = lambda *args, **kwargs: visible(formatted(*args, **kwargs))


def _main(options: Invocation) -> int:
    if options.version:
        batch.write(sys.stdout, batch.versions() + "\n")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    prompt = _prompt_module(options)
    # Freeze the imported modules: collecting them takes 30 ms, mostly at exit. No user code has run, so %leaks still
    # sees all of the user's objects.
    gc.freeze()
    gc.enable()
    settings, problems = settings_from(options)
    for problem in problems:
        batch.write(sys.stderr, f"minijax-repl: {visible(problem)}\n")
    show_warnings_as_text()
    user_folder.keep_out()
    # The script that started this program is not user code.
    errors.set_machinery([sys.argv[0]])
    # The user's names live in __main__, so that pickle and inspect find them.
    user_module = types.ModuleType("__main__")
    user_module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = user_module
    session = batch.new_session(vars(user_module), options.x64, settings, late=True)
    page = batch.Page(batch.wants_colour(settings.color, sys.stdout.isatty()), settings)
    code, done = options.code, 0

    def run(code: str, stop: bool) -> int:
        if not options.json:
            return batch.run(session, code, page, stop)
        from minijax.repl import json_lines  # imported here: only this option needs it

        return json_lines.run(session, code, stop)

    if options.file not in (None, "-"):
        try:
            with open(options.file, encoding="utf-8") as file:
                code = file.read()
        except (OSError, UnicodeDecodeError) as error:
            batch.write(sys.stderr, f"minijax-repl: cannot read {options.file}: {error}\n")
            return 2
        sys.path.append(os.path.dirname(os.path.abspath(options.file)))  # a script imports its neighbours, as in Python
    if code is not None:
        done = run(code, stop=True)
        if not options.inspect:
            return done
    if options.file == "-" or options.json or not sys.stdin.isatty():
        return run(sys.stdin.read(), stop=False) or done
    return batch.plain_prompt(session, page) if prompt is None else prompt.run(session)


def _prompt_module(options: Invocation) -> Any:
    """The prompt's module, which imports prompt_toolkit and needs a terminal; None if there will be no prompt."""
    if options.json or not options.inspect and (options.code is not None or options.file is not None):
        return None
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return None
    gc.disable()
    from minijax.repl import app

    gc.enable()
    return app


if __name__ == "__main__":
    sys.exit(main())
