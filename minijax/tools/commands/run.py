"""The command that runs a program: %run."""

from __future__ import annotations

import builtins
import contextlib
import linecache
import os
import shlex
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from minijax.interop.replaced import run_as_jax
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import document, text
from minijax.tools.recording.recorder import Recorder
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def run_run(session: Session, args: Arguments) -> Result:
    try:
        words = shlex.split(args["file"])
    except ValueError as error:
        action = "Give the file, then its arguments, quoted as in a shell"
        raise UsageError(f"%run cannot split {args['file']!r}: {error}. {action}") from None
    here = words[0] == "-i"
    path, *arguments = words[here:] or [""]
    if here and (args["as_jax"] or not path):
        raise UsageError("%run -i needs a file and excludes --as-jax: it runs the file with the session's names")
    path = _found(os.path.expanduser(path))
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise UsageError(f"%run cannot read {path}: {error.strerror or error}") from None
    linecache.checkcache(path)
    recorder = Recorder("summary", f"%run {args['file']}")
    with _main_module(path, arguments, session.namespace if here else None) as names:
        if args["as_jax"]:
            run_as_jax(names)
        try:
            with recorder:
                exec(compile(source, path, "exec", dont_inherit=True), names)
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                message = document(text(f"{path} ended with exit code {leaving.code}", role="error"))
                return Result(message, NOTHING, recorder.recording, error=leaving)
        finally:
            if not here:
                session.namespace.update((name, value) for name, value in names.items() if name[:2] != "__")
    return Result(session.panels(recorder.recording), NOTHING, recorder.recording)


def _found(path: str) -> str:
    """``path``, with the suffix .py added if only that file exists, as in IPython."""
    return path + ".py" if not os.path.exists(path) and os.path.exists(path + ".py") else path


@contextlib.contextmanager
def _main_module(path: str, arguments: list[str], names: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A context with the names of a new ``__main__`` module; ``sys`` is as in ``python path arguments``.

    With ``names``, the program uses these names instead, and the current ``__main__`` module stays.
    """
    before = sys.argv, sys.modules.get("__main__"), {} if names is None else dict(names)
    if names is None:
        sys.modules["__main__"] = module = ModuleType("__main__")
        names = vars(module)
        names["__builtins__"] = builtins
    names["__file__"] = os.path.abspath(path)
    folder = os.path.dirname(os.path.realpath(path))
    sys.argv = [path, *arguments]
    sys.path.insert(0, folder)
    try:
        yield names
    finally:
        with contextlib.suppress(ValueError):  # the program may have removed it from the path
            sys.path.remove(folder)
        sys.argv = before[0]
        if before[1] is not None:
            sys.modules["__main__"] = before[1]
        if "__file__" in before[2]:
            names["__file__"] = before[2]["__file__"]
        elif before[2]:
            names.pop("__file__", None)


COMMANDS = (
    Command(
        "run",
        (
            Param("file", "program", "a Python file, and its arguments for sys.argv", required=True),
            Param("as_jax", "flag", "import jax means minijax, in the file and in what it imports"),
        ),
        "Run a Python file as a program and keep its names. With -i, the program can use the session's names.\n"
        "With --as-jax, a program written for JAX runs on minijax, and so do packages that it imports and that use "
        "JAX, such as Optax. Options stand before the file; the words after the file are the program's arguments.",
        "%run --as-jax train.py --steps 10",
        run_run,
        group="session",
    ),
)
