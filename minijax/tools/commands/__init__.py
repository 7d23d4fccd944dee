"""The commands of all front ends: a table with a row for each, and the parsing and completion of their arguments.

``find`` looks a command up; its first call imports the table and its modules.
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
