"""The commands of all front ends: a table with a row for each command, and functions that parse and complete arguments.

``find`` looks up a command. Its first call imports the table and the modules of the commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minijax.tools.commands.command import Command


def find(name: str, cell: bool = False) -> Command:
    """The command called ``name``. UsageError if it does not exist or, with ``cell``, has no form ``%%name``."""
    # imported late, to keep the start of a prompt fast
    from minijax.tools.commands import table

    return table.look_up(name, cell)
