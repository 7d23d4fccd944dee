"""What a command, or any other input, gives: data that a front end shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from minijax.core.named import Frozen
from minijax.tools.documents.document import Document
from minijax.tools.recording.records import Recording

if TYPE_CHECKING:
    from minijax.tools.programs.links import LinkedPrograms


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
      stages: compiles the call, as ``jit`` would, and gives its stages down to machine code (``metal.stages.Stages``).
        None where there is no call.
      note: what is to be known about the recording before the first step, such as that a line was run again for it.
      given: the leaves of the call's arguments, each with the name that the user has for it.
      again: records the call with other leaves in their place; gives the recording and the exception that ended it, if
        one did. None where there is no call.
    """

    recording: Recording
    position: int = 0
    retrace: Callable[[], tuple[Recording, BaseException | None]] | None = None
    programs: Callable[[], LinkedPrograms] | None = None
    note: str = ""
    stages: Callable[[], Any] | None = None
    given: tuple[tuple[str, Any], ...] = ()
    again: Callable[[Sequence[Any]], tuple[Recording, BaseException | None]] | None = None


class Browse(Frozen):
    """The stages of a call (``metal.stages.Stages``) to browse, what call it is, what is to be known about it, and the
    user's lines, (file, line), that are highlighted at first.
    """

    stages: Any
    title: str = ""
    note: str = ""
    chosen: tuple[tuple[str, int], ...] = ()


class Result(Frozen):
    """What a command gives.

    Attributes:
      document: what to show.
      value: for ``_`` and assignments.
      recording: what was recorded.
      step: what a front end that has the whole screen opens a stepper on, or a browser of stages, in place of showing
        ``document``.
      error: the exception that ended the user's call, where the command has something to show in spite of it.
      debug: the frames in which a front end that reads lines opens a debugger, in place of showing ``document``.
      data: what it shows as data that JSON can hold, for programs; None where there is nothing but the document.
      next_input: what a front end that reads lines puts there to be changed, as the next input, in place of showing
        ``document``.
    """

    document: Document
    value: Any = NOTHING
    recording: Recording | None = None
    step: Step | Browse | None = None
    error: BaseException | None = None
    debug: TracebackType | None = None
    data: Any = None
    next_input: str = ""
