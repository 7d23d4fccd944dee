"""The table of commands. IPython's magics and the REPL's commands derive from it."""

from __future__ import annotations

import shutil

from minijax.errors import did_you_mean
from minijax.tools.commands import (
    backward,
    compare,
    compile,
    debug,
    explain,
    export,
    gallery,
    live,
    origins,
    panels,
    passes,
    programs,
    rules,
    run,
    session,
    shell,
    step,
    tour,
    transform,
    tree,
    values,
)
from minijax.tools.commands.command import Command
from minijax.tools.usage import UsageError

_MODULES = (
    transform,
    backward,
    compile,
    passes,
    programs,
    rules,
    compare,
    step,
    debug,
    tree,
    values,
    explain,
    origins,
    live,
    panels,
    export,
    gallery,
    tour,
    run,
    shell,
)
COMMANDS: dict[str, Command] = {command.name: command for module in _MODULES for command in module.COMMANDS}
COMMANDS |= {command.name: command for command in session.commands(lambda: COMMANDS)}


def look_up(name: str, cell: bool = False) -> Command:
    """The command called ``name``. UsageError if it does not exist or, with ``cell``, has no form ``%%name``."""
    command = COMMANDS.get(name)
    if command is None:
        hint = did_you_mean(name, COMMANDS, "%") or (f" !{name} runs the shell's {name}." if shutil.which(name) else "")
        raise UsageError(f"there is no command %{name}.{hint} %help lists them all")
    if cell and not command.cell:
        raise UsageError(f"%{name} has no cell form: write %{name} on one line")
    if not cell and not command.line:
        raise UsageError(f"%{name} has only a cell form: write %%{name} and the code below it")
    return command
