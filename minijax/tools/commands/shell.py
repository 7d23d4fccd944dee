"""Commands from IPython's prompt: %sh (and ``!``) runs a shell line, %timeit measures, %edit opens an editor, %cd."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import timeit
import types
from typing import TYPE_CHECKING

from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Document, document, line, text
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session

# Maximum number of captured output lines shown.
_MOST_LINES = 2000
_RUNS = 7
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_VALUES = r"(?<!\$)\{(?P<expression>[^{}]+)\}|\$(?P<name>[A-Za-z_]\w*)"
# ``names = !ls``, and ``!!ls`` without a name
_ASSIGNED = r"(?:([A-Za-z_]\w*)\s*=|())\s*!\s*"
# The exit code of a program that SIGINT killed, and the exit code of the shell that ran the program.
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)

# --- %sh


def run_sh(session: Session, args: Arguments) -> Result:
    assigned = re.match(_ASSIGNED, args["command"])
    into = None if assigned is None else assigned[1] or ""
    command = _expanded(session, args["command"] if assigned is None else args["command"][assigned.end() :])
    is_value = into == ""
    if into is None and _at_a_terminal():
        return _at_the_terminal(session, command)
    done = subprocess.run(command, shell=True, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    lines = done.stdout.decode(errors="replace").splitlines()
    if is_value:
        ended = _ended(session, done.returncode, _printed([], done.stderr))
        return Result(session.value_document(lines) + ended.document, lines)
    if into is not None:
        session.namespace[into] = lines
        return _ended(session, done.returncode, _printed([], done.stderr))
    return _ended(session, done.returncode, _printed(lines, done.stderr))


def _at_the_terminal(session: Session, command: str) -> Result:
    """Run a program with direct access to the terminal, as editors and pagers need."""
    interrupted = False
    with subprocess.Popen(command, shell=True) as process:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:  # the program receives Ctrl-C too, and may or may not end
                interrupted = True
    if interrupted and process.returncode in _INTERRUPTED:
        session.namespace["_exit_code"] = process.returncode
        # the terminal shows ^C already
        return Result(document(text("", line(("error", "interrupted")))))
    return _ended(session, process.returncode, Document())


def _at_a_terminal() -> bool:
    try:
        return all(os.isatty(stream.fileno()) for stream in (sys.stdin, sys.stdout))
    except (AttributeError, OSError, ValueError):  # a stream is closed, or is not a file
        return False


def _expanded(session: Session, command: str) -> str:
    """Replace ``{x + 1}`` and ``$x`` by their values, as IPython does. The shell expands the rest."""

    def value(found: re.Match[str]) -> str:
        if found["name"] is not None:
            # names that the prompt defines, such as the function ``size``, are not user variables
            known = session.has(found["name"]) and not session.is_given(found["name"])
            return str(session.lookup(found["name"])) if known else found[0]
        try:
            node = ast.parse(found["expression"].strip(), mode="eval").body
            # {a,b} is the shell's brace expansion
            return found[0] if isinstance(node, ast.Tuple) else str(session.evaluate(node, {}))
        except Exception:
            return found[0]

    return re.sub(_VALUES, value, command)


def _printed(lines: list[str], errors: bytes) -> Document:
    shown = [line(each) for each in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(line(("muted", f"… {len(lines) - _MOST_LINES} more lines")))
    shown += [line(("error", each)) for each in errors.decode(errors="replace").splitlines()]
    return document(text(*shown, wrap=False)) if shown else Document()


def _ended(session: Session, status: int, shown: Document) -> Result:
    session.namespace["_exit_code"] = status
    if status:
        how = f"ended with exit code {status}" if status > 0 else f"was ended by signal {-status}"
        shown += document(text(f"the shell's command {how}", role="muted"))
    return Result(shown)


# --- %timeit


def run_timeit(session: Session, args: Arguments) -> Result:
    statement, often, runs = _timing(args["statement"], args.cell is not None)
    setup = "pass"
    if args.cell is not None:
        statement, setup = args.cell, statement.strip() or "pass"
    if not statement.strip():
        raise UsageError("%timeit needs a statement, as in %timeit f(3.0)")
    try:
        timer = timeit.Timer(statement, setup, globals=session.namespace)
    except SyntaxError as error:
        raise UsageError(f"%timeit needs a statement, not {statement!r}: {error.msg}") from None
    if often is None:
        often, _ = timer.autorange()
    times = [seconds / often for seconds in timer.repeat(runs, often)]
    mean, spread = statistics.fmean(times), statistics.pstdev(times)
    result = line(
        ("time", f"{_span(mean)} ± {_span(spread)}"),
        f" each (mean ± deviation of {runs} runs of {often:,}), at best ",
        ("time", _span(min(times))),
    )
    hint = "XLA may still be at work when a call returns; %time waits for it, and times each phase"
    return Result(document(text(result), text(hint, role="muted")))


def _timing(statement: str, is_cell: bool) -> tuple[str, int | None, int]:
    """The statement, the repetitions in a run (-n; None if not given), and the number of runs (-r)."""
    often, runs = None, _RUNS
    # on a line, a statement must follow the options; the first line of a cell may hold only options
    while option := re.match(r"-([nr])\s*(\d+)" + (r"(?:\s+|$)" if is_cell else r"\s+(?=\S)"), statement):
        if option[1] == "n":
            often = int(option[2])
        else:
            runs = int(option[2])
        statement = statement[option.end() :]
    if often == 0 or runs == 0:
        raise UsageError("%timeit -n and -r need positive numbers")
    return statement, often, runs


def _span(seconds: float) -> str:
    """``1.23 µs``: three digits and a suitable unit."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.2g} ns"


# --- %edit


def run_edit(session: Session, args: Arguments) -> Result:
    before = _to_edit(session, args["what"])
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor and not _at_a_terminal():
        raise UsageError("%edit needs a terminal, or the variable EDITOR: it opens an editor on an earlier input")
    try:
        words = shlex.split(editor or "") or ["vi"]
    except ValueError as error:
        raise UsageError(f"%edit cannot read EDITOR, {editor!r}: {error}. Set it to an installed editor") from None
    code = _edited(before, words)
    if not code.strip():
        return Result(document(text("nothing to run: the file was left empty", role="muted")))
    done = session.run_inner(code)
    shown = document(text(*(line(("muted", each)) for each in code.strip("\n").split("\n")), wrap=False)) + done.shown
    return Result(shown, done.value, done.recording, error=done.error)


def _to_edit(session: Session, what: str) -> str:
    """The last input, the input with the number ``what``, or the source of the function ``what``."""
    # the last input is this %edit line itself
    last = len(session.inputs) - 2
    if not what:
        return session.inputs[last] if last > 0 else ""
    if what.isdecimal():
        if not 1 <= int(what) <= last:
            there_are = f"there are inputs 1 to {last}" if last > 0 else "there is no input yet"
            raise UsageError(f"%edit {what}: {there_are}")
        return session.inputs[int(what)]
    value = inspect.unwrap(found) if callable(found := session.namespace.get(what)) else None
    if not isinstance(value, types.FunctionType | type):
        raise UsageError(f"%edit takes the number of an input or the name of a function, not {what!r}")
    try:
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        raise UsageError(f"%edit {what}: its source is not known") from None


def _edited(before: str, editor: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="minijax-edit-") as folder:
        path = os.path.join(folder, "input.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(before.rstrip("\n") + "\n")
        try:
            status = subprocess.run([*editor, path], check=False).returncode
        except OSError as error:
            why = error.strerror or error
            raise UsageError(f"%edit cannot start {editor[0]}: {why}. Set EDITOR to an installed editor") from None
        if status:
            raise UsageError(f"%edit: {editor[0]} ended with exit code {status}; nothing was run")
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"%edit cannot read the file that {editor[0]} left: {error}; nothing was run") from None


# --- %cd


def run_cd(session: Session, args: Arguments) -> Result:
    if args["folder"]:
        here = _current_folder()
        target = os.path.expanduser(args["folder"].strip("'\""))
        if target == "-":
            if session.folder_before is None:
                raise UsageError("%cd - goes back to the folder before the last %cd, and there was none yet")
            target = session.folder_before
        try:
            os.chdir(target)
        except OSError as error:
            raise UsageError(f"%cd cannot go to {target}: {error.strerror or error}") from None
        session.folder_before = here or session.folder_before
    now = _current_folder()
    if not now:
        raise UsageError("%cd: the current folder is gone; %cd ~ goes home")
    return Result(document(text(line(("place", now)))), NOTHING)


def _current_folder() -> str:
    """The current folder, or '' if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


COMMANDS = (
    Command(
        "sh",
        (Param("command", "program", "a line of the shell", required=True),),
        "Run a line of the shell: !LINE for short.\n\n"
        "$name and {expression} are replaced by their values. names = !LINE stores the lines of output as a list, and "
        "!!LINE returns such a list. _exit_code is the exit code. At a terminal, the command can read input.",
        "%sh echo {1 + 1}\n!echo $HOME",
        run_sh,
        group="session",
        prompt=True,
    ),
    Command(
        "timeit",
        (Param("statement", "program", "a Python statement; before it, -n N (calls in a run) and -r N (runs)"),),
        "Time a statement by running it often, without waiting for XLA to finish.\n\n"
        "%%timeit times the lines below it; the code on the line of %%timeit runs first and is not timed. "
        "%time EXPR shows more about a call: the times of tracing, lowering, compiling and running, beside JAX's.",
        "%timeit -n 10 1 + 1",
        run_timeit,
        cell=True,
        group="session",
        prompt=True,
    ),
    Command(
        "edit",
        (Param("what", "text", "the number of an earlier input, or a function"),),
        "Open the last input in your editor (VISUAL, EDITOR), and run the saved text.\n"
        "%edit 3 opens input 3, and %edit f opens the function f.",
        "%edit",
        run_edit,
        group="session",
        prompt=True,
    ),
    Command(
        "cd",
        (Param("folder", "text", "where to go"),),
        "Change the current folder (- goes back to the previous one), or show it.",
        "%cd",
        run_cd,
        group="session",
        prompt=True,
    ),
)
