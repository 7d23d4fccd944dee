"""The commands that every front end offers: a table of rows, by area, and how their arguments are read and completed.

``find`` looks a command up; the table's dozen modules are imported when the first one is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minijax.tools.commands.command import Command


def find(name: str, cell: bool = False) -> Command:
    """The command called ``name``. UsageError if there is none, or if it has no such form."""
    # a prompt, or a program that uses no command, must not wait for the table
    from minijax.tools.commands import table

    return table.look_up(name, cell)
