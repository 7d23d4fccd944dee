"""Exceptions in a cell: show the user's frames in IPython's style, and count minijax's own.

IPython shows every frame that an exception passed, with surrounding lines; a transformation adds a dozen minijax frames
between two user frames. ``%tb`` still shows them all. ``%debug`` visits only the user's frames and starts in the
innermost.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from IPython.core.error import UsageError

from minijax import errors
from minijax.config import config
from minijax.tools.documents.words import plural
from minijax.tools.session.tracebacks import chain, is_internal, without_engine


class Tracebacks:
    """The exception handler of ``shell``, for every exception in a cell between ``install`` and ``remove``.

    Args:
      all_frames: whether the user wants minijax's frames too.
      rename: replaces cell files by cell names in a text.
      hint: the text below an exception; '' for none.
    """

    def __init__(
        self,
        shell: Any,
        all_frames: Callable[[], bool],
        rename: Callable[[str], str],
        hint: Callable[[BaseException], str],
    ) -> None:
        self.shell, self.all_frames, self.rename, self.hint = shell, all_frames, rename, hint
        # the exception shown last
        self.shown: BaseException | None = None
        # IPython keeps one handler. ``handle`` calls the earlier handler for the exceptions that it was set for
        self.before = (shell.custom_exceptions, shell.CustomTB)

    def install(self) -> None:
        self.shell.set_custom_exc((Exception, KeyboardInterrupt), self.handle)
        self.mine = self.shell.CustomTB
        # %debug and %pdb call this
        self.shell.InteractiveTB.debugger = self.debug

    def remove(self) -> None:
        """Restore the earlier handler, unless the user has installed another one."""
        if self.shell.CustomTB is self.mine:
            self.shell.custom_exceptions, self.shell.CustomTB = self.before
        if vars(self.shell.InteractiveTB).get("debugger") == self.debug:
            del self.shell.InteractiveTB.debugger

    def _all_asked(self) -> bool:
        return self.all_frames() or config.read("traceback_filtering") == "off"

    def debug(self, force: bool = False) -> None:
        """Open IPython's debugger on the last exception. While it is open, the traceback has only user frames."""
        tracebacks = self.shell.InteractiveTB
        error = getattr(sys, "last_value", None)
        with users_only(None if self._all_asked() else error):
            type(tracebacks).debugger(tracebacks, force)

    def around(self, magic: Callable[[str], Any], line: str) -> Any:
        """Call ``magic(line)``. If the magic displays an exception itself, show it like an exception in a cell."""

        def show(exc_tuple: Any = None, filename: Any = None, tb_offset: Any = None, *rest: Any, **named: Any) -> None:
            del self.shell.showtraceback  # restore IPython's method, which ``handle`` may call
            raised: Any = exc_tuple or sys.exc_info()
            self.handle(self.shell, raised[0], raised[1], raised[2], tb_offset)

        self.shell.showtraceback = show
        try:
            return magic(line)
        finally:
            vars(self.shell).pop("showtraceback", None)

    def handle(
        self,
        shell: Any,
        kind: type[BaseException],
        error: BaseException,
        tb: TracebackType,
        tb_offset: int | None = None,
    ) -> list[str] | None:
        """Show ``error``, in IPython's calling convention."""
        self.shown = error
        kinds, handler = self.before
        if kinds and issubclass(kind, kinds):
            shown: list[str] | None = handler(kind, error, tb, tb_offset=tb_offset)
            return shown
        parsing = issubclass(kind, SyntaxError)
        causes = list(chain(error))
        all_frames = self._all_asked() or shell.call_pdb
        # IPython formats these errors itself
        special = parsing or issubclass(kind, UsageError) or any(isinstance(e, BaseExceptionGroup) for e in causes)
        if parsing and all(_is_ipythons(frame) for frame, _ in traceback.walk_tb(tb)):
            # a syntax error in the cell, which did not run: IPython shows no traceback
            shell.showsyntaxerror()
        elif parsing and not all_frames and _passed(error):
            # show no frames: the error names its own file and line, for example the line of a magic
            lines = shell.SyntaxTB.structured_traceback(kind, error, [])
            shell._showtraceback(kind, error, [self.rename(each) for each in lines])
        elif all_frames or special or not any(map(_passed, causes)):
            shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)
        else:
            self._show(kind, error, tb, tb_offset)
        return None

    def _show(self, kind: type[BaseException], error: BaseException, tb: TracebackType, tb_offset: int | None) -> None:
        shell = self.shell
        # %tb and %debug read these variables; the traceback in them has all frames
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
        if sys.version_info >= (3, 12):
            sys.last_exc = error
        with users_only(error) as hidden:
            lines = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=tb_offset)
        if hidden:
            lines.append(f"({plural(hidden, 'frame')} of minijax hidden; %tb shows them)")
        if said := self.hint(error):
            lines.append(said)
        shell._showtraceback(kind, error, [self.rename(each) for each in lines])


def _is_ipythons(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__", "").startswith(("IPython.", "ipykernel.")))


def _passed(error: BaseException) -> bool:
    return any(errors.is_own_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


@contextmanager
def users_only(error: BaseException | None) -> Iterator[int]:
    """A context in which ``error`` and its causes have only user frames; yields the number of hidden frames.

    Failed look-ups inside minijax are also hidden from the chain of causes.
    """
    changed: list[tuple[BaseException, TracebackType | None, bool]] = []
    hidden = 0
    try:
        for each in chain(error):
            changed.append((each, each.__traceback__, each.__suppress_context__))
            context = each.__context__
            if each.__cause__ is None and context is not None and is_internal(context):
                each.__suppress_context__ = True
            each.__traceback__, left_out = without_engine(each.__traceback__)
            hidden += left_out
        yield hidden
    finally:
        for each, tb, suppressed in changed:
            each.__traceback__ = tb
            each.__suppress_context__ = suppressed
