"""``minijax-repl`` and ``python -m minijax``: options, then a prompt or a batch."""

from __future__ import annotations

import argparse
import os
import sys
import types
from collections.abc import Sequence

from minijax.repl import batch

_EPILOG = """\
without a terminal: piped input is run like a session, input by input, and goes on after an error; -c and FILE
stop at the first one. The exit code is 1 if an input raised. Nothing in the current folder is run on its own.
"""


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="minijax-repl",
        description="A prompt that shows what every line makes minijax do.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="run this file ('-' for standard input)")
    parser.add_argument("-c", dest="code", metavar="CODE", help="run this code")
    parser.add_argument("--x64", action="store_true", help="keep 64-bit types")
    parser.add_argument("--panels", metavar="NAMES", help="the panels to show: on, off, or some, such as stack,jaxpr")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")
    parser.add_argument("--vi", action="store_true", help="vi keys at the prompt (default: emacs keys)")
    parser.add_argument("--version", action="store_true", help="print the versions and leave")
    return parser


def wants_colour(choice: str, is_terminal: bool) -> bool:
    """Whether to write in colour: the option, then NO_COLOR, TERM=dumb and whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def main(argv: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = arguments().parse_args(argv)
    if options.code is not None and options.file is not None:
        arguments().error("give a file or -c CODE, not both")
    try:
        return _main(options)
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _main(options: argparse.Namespace) -> int:
    if options.version:
        batch.write(sys.stdout, batch.versions() + "\n")
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    # The user's names are those of __main__, so that pickle and inspect find them.
    user_module = types.ModuleType("__main__")
    user_module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = user_module
    session = batch.new_session(vars(user_module), options.x64)
    if options.panels is not None:
        problem = batch.choose_panels(session, options.panels)
        if problem:
            arguments().error(problem)
    colour = wants_colour(options.color, sys.stdout.isatty())
    if options.code is not None:
        return batch.run(session, options.code, colour, stop=True)
    if options.file not in (None, "-"):
        try:
            with open(options.file, encoding="utf-8") as file:
                source = file.read()
        except (OSError, UnicodeDecodeError) as error:
            batch.write(sys.stderr, f"minijax-repl: cannot read {options.file}: {error}\n")
            return 2
        return batch.run(session, source, colour, stop=True)
    if options.file == "-" or not sys.stdin.isatty():
        return batch.run(session, sys.stdin.read(), colour, stop=False)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return batch.plain_prompt(session, colour)
    from minijax.repl import app  # prompt_toolkit, which only a terminal needs

    return app.run(session, colour=wants_colour(options.color, True), vi=options.vi)


if __name__ == "__main__":
    sys.exit(main())
