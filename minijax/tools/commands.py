"""The table of commands, from which IPython's magics and the REPL's commands derive."""

from __future__ import annotations

from minijax.tools import (
    commands_compare,
    commands_compile,
    commands_explain,
    commands_export,
    commands_live,
    commands_programs,
    commands_recording,
    commands_rules,
    commands_session,
    commands_step,
    commands_tour,
    commands_transform,
)
from minijax.tools.arguments import UsageError, did_you_mean
from minijax.tools.command import Command

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        *commands_transform.COMMANDS,
        *commands_compile.COMMANDS,
        *commands_programs.COMMANDS,
        *commands_rules.COMMANDS,
        *commands_compare.COMMANDS,
        *commands_step.COMMANDS,
        *commands_explain.COMMANDS,
        *commands_live.COMMANDS,
        *commands_recording.COMMANDS,
        *commands_export.COMMANDS,
        *commands_tour.COMMANDS,
        *commands_session.commands(lambda: COMMANDS),
    )
}


def find(name: str, cell: bool = False) -> Command:
    """The command called ``name``. UsageError if there is none, or if it has no such form."""
    command = COMMANDS.get(name)
    if command is None:
        hint = did_you_mean(name, COMMANDS, "%")
        raise UsageError(f"there is no command %{name}.{hint} %help lists them all")
    if cell and not command.cell:
        raise UsageError(f"%{name} has no cell form: write %{name} on one line")
    if not cell and not command.line:
        raise UsageError(f"%{name} has only a cell form: write %%{name} and the code below it")
    return command
