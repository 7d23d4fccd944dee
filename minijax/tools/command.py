"""What a command is and what it gives: rows of data, from which help and completion derive too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minijax.tools.arguments import Arguments, Param, parse, usage
from minijax.tools.document import Document
from minijax.tools.frozen import Frozen
from minijax.tools.recording import Recording

if TYPE_CHECKING:
    from minijax.tools.links import LinkedPrograms
    from minijax.tools.session import Session


class _Nothing:
    """Stands for "no value" where None is a value."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


class Step(Frozen):
    """A recording to step through.

    Attributes:
      recording: it.
      position: the moment to begin at.
      retrace: records the call again with its cached traces made anew; gives the recording and the exception that
        ended it, if one did. None where there is no call.
      programs: compiles the call, as ``jit`` would, and gives its programs linked line by line. None where there is
        no call. Errors are those of staging, lowering and compiling.
    """

    recording: Recording
    position: int = 0
    retrace: Callable[[], tuple[Recording, BaseException | None]] | None = None
    programs: Callable[[], LinkedPrograms] | None = None


class Result(Frozen):
    """What a command gives.

    Attributes:
      document: what to show.
      value: for ``_`` and assignments.
      recording: what was recorded.
      step: what a front end that has the whole screen opens a stepper on, in place of showing ``document``.
      error: the exception that ended the user's call, where the command has something to show in spite of it.
    """

    document: Document
    value: Any = NOTHING
    recording: Recording | None = None
    step: Step | None = None
    error: BaseException | None = None


class Command(Frozen):
    """A row of the table.

    ``run(session, args)`` returns a ``Result``, prints nothing, and raises ``UsageError`` for arguments it
    cannot use. ``line`` and ``cell`` tell which of the forms ``%name`` and ``%%name`` there are.
    """

    name: str
    params: tuple[Param, ...]
    help: str
    example: str
    run: Callable[[Session, Arguments], Result]
    line: bool = True
    cell: bool = False
    group: str = "session"

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
