"""Exceptions in a cell: show the user's frames in IPython's style, and count minijax's own.

IPython shows every frame that an exception passed, with surrounding lines; a transformation adds a dozen minijax frames
between two user frames. ``%tb`` still shows them all. ``%debug`` visits only the user's frames and starts in the
innermost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError

from minijax import errors
from minijax.config import config
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
        self.hint = hint
        # the exception shown last
        self.shown: BaseException | None = None
        self.shell = shell
        self.all_frames = all_frames
        self.rename = rename
        # IPython keeps one handler. ``handle`` calls the earlier handler for the exceptions that it was set for
        self.before = (shell.custom_exceptions, shell.CustomTB)
        self.kinds = (Exception, KeyboardInterrupt)

    def install(self) -> None:
        """Start to handle exceptions."""
        self.shell.set_custom_exc(self.kinds, self.handle)
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
        debugger = type(tracebacks).debugger
        if error is None or self._all_asked():
            debugger(tracebacks, force)
            return
        with _users_only(error):
            debugger(tracebacks, force)

    def around(self, magic: Callable[[str], Any], line: str) -> Any:
        """Call ``magic(line)``. If the magic displays an exception itself, show it like an exception in a cell."""

        def show(exc_tuple: Any = None, filename: Any = None, tb_offset: Any = None, *rest: Any, **named: Any) -> None:
            del self.shell.showtraceback  # restore IPython's method, which ``handle`` may call
            raised: Any = exc_tuple or sys.exc_info()
            kind, error, tb = raised
            self.handle(self.shell, kind, error, tb, tb_offset)

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
        if issubclass(kind, SyntaxError) and _unparsed(tb):
            # a syntax error in the cell, which did not run: IPython shows no traceback
            shell.showsyntaxerror()
            return None
        causes = list(chain(error))
        asked = self._all_asked() or shell.call_pdb
        if issubclass(kind, SyntaxError) and not asked and _passed(error):
            # show no frames: the error names its own file and line, for example the line of a magic
            shown_error = shell.SyntaxTB.structured_traceback(kind, error, [])
            shell._showtraceback(kind, error, [self.rename(each) for each in shown_error])
            return None
        # IPython formats these errors itself
        special = issubclass(kind, SyntaxError | UsageError) or any(isinstance(e, BaseExceptionGroup) for e in causes)
        if asked or special or not any(map(_passed, causes)):
            shell.showtraceback((kind, error, tb), tb_offset=tb_offset, running_compiled_code=True)
            return None
        self._show(kind, error, tb, tb_offset)
        return None

    def _show(self, kind: type[BaseException], error: BaseException, tb: TracebackType, tb_offset: int | None) -> None:
        shell = self.shell
        # %tb and %debug read these variables; the traceback in them has all frames
        sys.last_type, sys.last_value, sys.last_traceback = kind, error, tb
        if sys.version_info >= (3, 12):
            sys.last_exc = error
        with _users_only(error) as hidden:
            lines = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=tb_offset)
        if hidden:
            counted = "1 frame" if hidden == 1 else f"{hidden} frames"
            lines.append(f"({counted} of minijax hidden; %tb shows them)")
        if said := self.hint(error):
            lines.append(said)
        shell._showtraceback(kind, error, [self.rename(each) for each in lines])


def _unparsed(tb: TracebackType | None) -> bool:
    """Whether only IPython's frames are in the traceback."""
    while tb is not None:
        if not tb.tb_frame.f_globals.get("__name__", "").startswith(("IPython.", "ipykernel.")):
            return False
        tb = tb.tb_next
    return True


def _passed(error: BaseException) -> bool:
    """Whether an exception passed through minijax's code."""
    tb = error.__traceback__
    while tb is not None:
        if errors.is_own_file(tb.tb_frame.f_code.co_filename):
            return True
        tb = tb.tb_next
    return False


@contextmanager
def _users_only(error: BaseException) -> Iterator[int]:
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
