"""Exceptions as documents: the user's frames, the number of the engine's frames, and the message."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from minijax import errors
from minijax.config import config
from minijax.core import operands
from minijax.core.trace import state
from minijax.errors import did_you_mean
from minijax.tools.documents.document import Document, Line, Text, document
from minijax.tools.recording.edited import EDITED, is_edited

if TYPE_CHECKING:
    import traceback

# Maximum number of frames shown of one traceback.
_LONGEST = 40
# An existing name that is at least this similar to an unknown name is suggested (1: equal).
_ALIKE = 0.75
_PYTHON = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_CAUSED = "The above exception was the direct cause of this one:"
_HANDLING = "While handling it, another exception occurred:"
# The file that runs the inputs of a session.
_SESSION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "session.py")
_TOOLS = os.path.dirname(os.path.dirname(_SESSION)) + os.sep


def _frames(tb: TracebackType | None) -> Iterator[tuple[traceback.FrameSummary, bool]]:
    """The frames, outermost first, and for each whether it is the user's."""
    import traceback  # here and below: imported late, because few sessions show an error

    for summary, at in zip(traceback.extract_tb(tb), _each(tb), strict=True):
        is_user = errors.is_user_file(summary.filename)
        if is_user and is_edited(at.tb_frame.f_code):
            summary._line = EDITED  # type: ignore[attr-defined]
        yield summary, is_user


def last_user_place(error: BaseException) -> str:
    """The innermost user line that an exception passed: ``<minijax-3>:1``.

    If there is none, a line of an installed library or of Python's own library; '' if there is no such line either.
    """
    frames = [frame for frame, is_user in _frames(error.__traceback__) if is_user]
    own = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def _is_installed(file: str) -> bool:
    return "site-packages" in file or file.startswith((_PYTHON, "<frozen "))


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and its chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


# Packages of minijax that only display what the engine does.
_SHOWING = ("minijax.tools", "minijax.repl", "minijax.ipython_ext")


def passed_engine(error: BaseException) -> bool:
    """Whether the engine, or code that the engine called, raised the exception or one of its causes."""
    for each in chain(error):
        for tb in _each(each.__traceback__):
            module = tb.tb_frame.f_globals.get("__name__", "")
            if module.startswith("minijax.") and not module.startswith(_SHOWING):
                return True
    return False


def without_engine(tb: TracebackType | None) -> tuple[TracebackType | None, int]:
    """A traceback without minijax's frames, and their number; the whole traceback and 0 if it has no other frames."""
    return _without(tb, errors.is_own_file)


def without_tools(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of commands. If all its frames are minijax's, the whole traceback."""
    if without_engine(tb)[0] is tb:
        return tb
    return _without(tb, lambda file: file.startswith(_TOOLS))[0]


def _without(tb: TracebackType | None, is_hidden: Callable[[str], bool]) -> tuple[TracebackType | None, int]:
    kept: TracebackType | None = None
    (*frames,) = _each(tb)
    shown = [each for each in frames if not is_hidden(each.tb_frame.f_code.co_filename)]
    for each in reversed(shown):
        kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return (kept, len(frames) - len(shown)) if shown else (tb, 0)


def _each(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


def is_internal(error: BaseException) -> bool:
    """Whether the engine itself raised ``error``, for example in a failed look-up that it handled."""
    frames = list(_frames(error.__traceback__))
    return bool(frames) and not frames[-1][1]


def error_document(error: BaseException, all_frames: bool = False) -> Document:
    """An exception as a document. Its causes come first, as in Python.

    ``all_frames`` (or the setting ``traceback_filtering='off'``) shows the engine's frames too.
    """
    # an error gets its note when it leaves an interpreter; at a pushed level the error has not left the interpreter yet
    operands.annotate(error, None, state.stack)
    hide = not all_frames and config.read("traceback_filtering") != "off"
    lines: list[Line] = []
    linked: list[BaseException] = []
    for each in chain(error):
        if linked and hide and linked[-1].__cause__ is not each and is_internal(each):
            break
        linked.append(each)
    for each in reversed(linked):
        if lines:
            lines += [(), (("muted", _HANDLING if each.__cause__ is None else _CAUSED),), ()]
        lines += _one(each, hide)
    return document(Text(tuple(lines), wrap=False, soft=True))


def _one(error: BaseException, hide: bool) -> Iterator[Line]:
    hidden = 0
    shown = list(_frames(error.__traceback__))
    # The outermost frames are those of the session.
    while shown and not shown[0][1]:
        shown.pop(0)
    if len(shown) > _LONGEST:
        cut = len(shown) - _LONGEST
        shown = shown[: _LONGEST // 2] + shown[cut + _LONGEST // 2 :]
        yield (("muted", f"({cut} frames in the middle are left out)"),)
    for frame, is_user in shown:
        if hide and not is_user:
            hidden += 1
            continue
        place = frame.filename if is_user else os.path.relpath(frame.filename, errors._PACKAGE)
        yield (("place", f"  {place}:{frame.lineno}"), ("muted", f" in {frame.name}"))
        if frame.line:
            yield (("", f"    {frame.line}"),)
    if hidden:
        counted = "1 frame" if hidden == 1 else f"{hidden} frames"
        yield (("muted", f"  ({counted} of minijax hidden; %config frames all shows them)"),)
    yield from _message(error, hide)


def _quoted_frame(piece: str) -> str:
    """The file of the frame that a message line quotes from a traceback, or ''."""
    match = re.match(r'\s+File "(.+)", line \d+, in ', piece)
    return "" if match is None else match[1]


def _without_engine_frames(pieces: list[str]) -> list[str]:
    """The lines of a message without the engine's frames and without the frames outside the session's input."""
    files = [_quoted_frame(piece) for piece in pieces]
    runs = [i for i, file in enumerate(files) if file == _SESSION]
    begin = runs[-1] if runs else 0
    return [
        piece
        for i, (piece, file) in enumerate(zip(pieces, files, strict=True))
        if not file or (i > begin and errors.is_user_file(file))
    ]


def _near(error: BaseException) -> str:
    """A suggestion such as ``. Did you mean ones?`` for an unknown name, as at Python's own prompt."""
    if type(error) is not NameError or not error.name or error.__traceback__ is None:
        return ""
    *_, last = _each(error.__traceback__)
    names = [*last.tb_frame.f_locals, *last.tb_frame.f_globals]
    # one wrong letter makes a large difference in a name of three letters
    alike = [each for each in names if len(each) == len(error.name) == 3]
    near = did_you_mean(error.name, alike, alike=0.66)
    return (near or did_you_mean(error.name, [*names, *vars(builtins)], alike=_ALIKE)).replace(" Did", ". Did", 1)


def _message(error: BaseException, hide: bool) -> Iterator[Line]:
    import traceback

    pieces = "".join(traceback.format_exception_only(error)).rstrip("\n").split("\n")
    pieces[0] += _near(error)
    if hide:
        # XLA quotes the whole traceback of a failed callback
        pieces = _without_engine_frames(pieces)
    if isinstance(error, SyntaxError):
        for piece in pieces[:-1]:
            yield (("", piece),)
        pieces = pieces[-1:]
    kind, colon, rest = pieces[0].partition(":")
    yield (("error", kind + colon), ("", rest))
    for piece in pieces[1:]:
        yield (("", piece),)
