"""A command as a row of data. Help and completion derive from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minijax.core.records import Frozen
from minijax.tools.commands.arguments import Arguments, Param, parse, usage
from minijax.tools.session.result import Result

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


class Command(Frozen):
    """A row of the table.

    ``run(session, args)`` returns a ``Result``, prints nothing, and raises ``UsageError`` for invalid arguments.
    ``line`` and ``cell`` say whether the forms ``%name`` and ``%%name`` exist. ``prompt`` marks commands that only
    minijax's own prompt has; IPython has its own versions.
    """

    name: str
    params: tuple[Param, ...]
    help: str
    example: str
    run: Callable[[Session, Arguments], Result]
    line: bool = True
    cell: bool = False
    group: str = "session"
    prompt: bool = False

    @property
    def usage(self) -> str:
        """``%grad EXPR [--argnums INTS] [--check]``"""
        return usage(self.name, self.params)

    @property
    def summary(self) -> str:
        """The first line of the help."""
        return self.help.strip().split("\n")[0]

    def __call__(self, session: Session, line: str, cell: str | None = None) -> Result:
        """Parse the arguments and run the command."""
        return self.run(session, parse(self.name, self.params, line, cell))
