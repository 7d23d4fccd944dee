"""Warnings and errors from JAX's code, reported at the user's line.

In: a warning or an error from JAX while it traces a function. Out: the same warning at the user's line that called the
function; the same error without the frames of JAX and minijax below that line.
"""

from __future__ import annotations

import contextlib
import re
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

from minijax import errors
from minijax.core.records import NamedTuple
from minijax.interop.lines import rank_of_file
from minijax.interop.values import jax_module


class Warned(NamedTuple):
    """A caught warning: ``filename`` is None if its line is in JAX or minijax."""

    message: Any
    category: type[Warning]
    filename: str | None
    lineno: int


class _Catching(threading.local):
    """The warnings that this thread has caught so far; None if it is not catching warnings."""

    found: list[Warned] | None = None


_catching = _Catching()
_lock = threading.Lock()
# Python has one list of filters for all threads: it is changed while at least one thread catches warnings.
_threads = 0
_filters: Any = None


@contextlib.contextmanager
def caught_warnings() -> Iterator[list[Warned]]:
    """Collect this thread's warnings. A nested block collects none: they go to the outermost block."""
    if _catching.found is not None:
        yield []
        return
    found = _catching.found = []
    _change_filters(1)
    try:
        yield found
    finally:
        _catching.found = None
        _change_filters(-1)


def _change_filters(change: int) -> None:
    global _threads, _filters
    with _lock:
        if not _threads:
            _filters = warnings.catch_warnings()
            _filters.__enter__()
            warnings.simplefilter("always")
            warnings.showwarning = _catch(warnings.showwarning)
        _threads += change
        if not _threads:
            _filters.__exit__(None, None, None)


def _catch(show: Any) -> Any:
    """A ``warnings.showwarning`` that collects warnings. In threads that catch none it calls ``show``, Python's own."""

    def showwarning(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **others: Any) -> None:
        if _catching.found is None:
            show(message, category, filename, lineno, *rest, **others)
            return
        shown = None if rank_of_file(filename) == 2 else filename
        _catching.found.append(Warned(message, category, shown, lineno))

    return showwarning


def warn(found: list[Warned]) -> None:
    """Issue these warnings again. Those from JAX's code are reported at the user's line."""
    frame = errors.user_frame()
    for each in found:
        if each.filename is not None or frame is None:
            warnings.warn_explicit(each.message, each.category, each.filename or "<unknown>", each.lineno)
            continue
        names = frame.f_globals
        warnings.warn_explicit(
            each.message, each.category, frame.f_code.co_filename, frame.f_lineno,
            names.get("__name__"), names.setdefault("__warningregistry__", {}),
        )  # fmt: skip


def unknown_value_errors() -> tuple[type[Exception], ...]:
    """JAX's errors for functions that need the value of a tracer."""
    theirs = jax_module("errors")
    return theirs.JAXTypeError, theirs.JAXIndexError


# Matches what follows JAX's own sentence: the place where JAX traced, a link, or text that ``from_jax`` adds.
_MORE = re.compile("The error occurred while tracing|\nSee https|\nfrom_jax traced")
_WHY = re.compile(r"because it depends on (.+?)\.\s", re.DOTALL)


def at_users_line(error: Exception, name: str) -> Exception:
    """``error``, which JAX raised while tracing ``name``, without JAX's frames, in minijax's class if there is one."""
    if isinstance(error, unknown_value_errors()) and hasattr(errors, type(error).__name__):
        error = _unknown_value(error, name)
    return without_frames_of_jax(error)


def without_frames_of_jax(error: Exception) -> Exception:
    """Drop frames of JAX and minijax below the user's line from ``error``, unless JAX is set to show its frames."""
    if jax_module().config.jax_traceback_filtering == "off":
        return error
    # JAX's notes describe frames that it dropped from its own traceback
    error.__notes__ = [note for note in getattr(error, "__notes__", ()) if not _is_of_jax(note)]
    before: Any = error.__cause__ or error.__context__
    if type(before).__module__.startswith("jax") or before is None or _users_frames(before.__traceback__) is None:
        error.__cause__ = failed_check(error)
    return error.with_traceback(_users_frames(error.__traceback__))


def failed_check(error: Exception) -> Any:
    """The failed check (``checkify.check``) behind ``error``, with only its line as traceback; otherwise None."""
    cause: Any = error.__cause__
    if not hasattr(cause, "traceback_info"):
        return None
    line = _users_frames(cause.__traceback__)
    while line is not None and line.tb_next is not None:
        line = line.tb_next
    return cause.with_traceback(line)


def _is_of_jax(note: str) -> bool:
    return "JAX_TRACEBACK" in note or not note.strip("-")


def _unknown_value(error: Exception, name: str) -> Exception:
    text = str(error.args[0])
    sentence, why = _MORE.split(text, maxsplit=1)[0], _WHY.search(text)
    where = errors.source_line()
    parts = [
        sentence.strip(),
        f"{name} is borrowed from JAX, which traces it without values, but it needs {why[1]}." if why else "",
        "" if where == "<unknown>" else f"It happened at {where}.",
        "Pass the value as a static argument (static_argnums of jit), or call the function outside of transformations.",
    ]
    kind = getattr(errors, type(error).__name__)
    ours: Exception = kind.__new__(kind)
    ours.args = ("\n".join(filter(None, parts)),)
    return ours.with_traceback(error.__traceback__)


def _users_frames(tb: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback down to the user's innermost frame, without frames of JAX and minijax."""
    found = []
    while tb is not None:
        found.append(tb)
        tb = tb.tb_next
    kept: types.TracebackType | None = None
    for each in reversed(found):
        rank = rank_of_file(each.tb_frame.f_code.co_filename)
        if rank == 0 or (rank == 1 and kept is not None):
            kept = types.TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept
