"""What a command is and what it gives: rows of data, from which help and completion derive too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minijax.core.named import Frozen
from minijax.tools.commands.arguments import Arguments, Param, parse, usage
from minijax.tools.session.result import Result

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


class Command(Frozen):
    """A row of the table.

    ``run(session, args)`` returns a ``Result``, prints nothing, and raises ``UsageError`` for arguments it
    cannot use. ``line`` and ``cell`` tell which of the forms ``%name`` and ``%%name`` there are.
    ``prompt`` says that it is for minijax's own prompt: IPython has one of its own.
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
        """The first sentence of the help."""
        return self.help.strip().split("\n")[0]

    def __call__(self, session: Session, line: str, cell: str | None = None) -> Result:
        """Parse and run."""
        __tracebackhide__ = True
        return self.run(session, parse(self.name, self.params, line, cell))
