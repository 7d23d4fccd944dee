"""The result of a command or of another input: data that a front end shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from minijax.core.records import Frozen
from minijax.tools.documents.document import Document
from minijax.tools.recording.records import Recording

if TYPE_CHECKING:
    from minijax.tools.programs.links import LinkedPrograms


class _Nothing:
    """Means "no value". None cannot mean this, because None may be a value."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()


class Step(Frozen):
    """A recording to step through.

    Attributes:
      recording: the recording.
      position: the first moment to show.
      retrace: records the call again, ignoring cached traces. Returns the recording, and the exception that ended the
          call, or None. If there is no call, ``retrace``, ``programs``, ``stages`` and ``again`` are None.
      programs: compiles the call as ``jit`` does, and returns its programs linked line by line. Raises the errors of
          staging, lowering and compiling.
      stages: compiles the call as ``jit`` does, and returns its stages down to machine code (``xla.stages.Stages``).
      note: a remark shown before the first step, for example that a line was run again to record it.
      given: the leaves of the call's arguments, as pairs (the user's name for the leaf, value).
      again: records the call with other leaves. Returns the same pair as ``retrace``.
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
    """The stages of a call (``xla.stages.Stages``) to browse, with the call's ``title`` and a remark (``note``).
    ``chosen`` has the lines of user code, as (file, line), that are highlighted at the start.
    """

    stages: Any
    title: str = ""
    note: str = ""
    chosen: tuple[tuple[str, int], ...] = ()


class Result(Frozen):
    """The result of a command.

    Attributes:
      document: what to show.
      value: the value for ``_`` and for assignments.
      recording: the recording that the command made.
      step: the recording to step through, or the stages to browse; a full-screen front end opens it instead of showing
        ``document``.
      error: the exception that ended the user's call, if the command still has a document to show.
      debug: the frames to debug; a line-based front end opens a debugger there instead of showing ``document``.
      data: the answer as JSON data, for programs; None if there is only the document.
      next_input: the next input for the user to edit; a line-based front end puts it at the prompt instead of showing
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
