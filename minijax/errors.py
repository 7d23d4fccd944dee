"""Exceptions of minijax, and the user's source lines that cause them.

The names, base classes and essential words are JAX's (https://docs.jax.dev/en/latest/errors.html). A message has
three parts: the problem, the user's line, and the next action.

:func:`source_info` runs for each staged equation, so it only records a code object and an instruction offset;
:func:`summarize` makes text of it. Neither function keeps a frame alive, because a frame keeps user arrays alive.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

__all__ = [
    "ConcretizationTypeError",
    "InconclusiveDimensionOperation",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "RecompilationError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "XlaRuntimeError",
    "did_you_mean",
    "escaped_tracer_error",
    "is_user_file",
    "raw_user_frame",
    "source_info",
    "source_line",
    "summarize",
    "user_frame",
]


# A place in a program: a code object and the offset of an instruction in it. If a named scope was open, the name stack
# follows; for a transposed equation, the transposed primitives follow that (see ``core.names``).
SourceInfo = tuple[Any, ...]

# The number of open named scopes on all threads, and the function that gives this thread's name stack. ``core.names``
# sets both. While no scope is open, staging an equation only tests ``open_scopes``.
open_scopes = 0
_current_names: Callable[[], Any] = tuple


def set_name_source(current_names: Callable[[], Any]) -> None:
    """Install the function that gives the name stack. ``core.names``, a higher layer, calls this."""
    global _current_names
    _current_names = current_names


_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _package_folders(package: str) -> tuple[str, ...]:
    """The folders of minijax's code, each with a final separator. A checkout adds ``repl`` and ``ipython_ext``."""
    folders = [package]
    parent = os.path.dirname(package)
    if os.path.isfile(os.path.join(parent, "pyproject.toml")):
        folders += [os.path.join(parent, "repl"), os.path.join(parent, "ipython_ext")]
    return tuple(folder + os.sep for folder in folders)


_FOLDERS = _package_folders(_PACKAGE)
# Paths of programs that run the user's code, such as IPython. They are neither minijax nor user code.
_machinery: tuple[str, ...] = ()


def set_machinery(paths: Iterable[str]) -> None:
    """Set the files and folders of the programs that run the user's code. None of their lines is a user line."""
    global _machinery
    _machinery = tuple(map(os.path.abspath, paths))
    _is_user.clear()
    _is_host.clear()


# Path prefixes of packages that asked not to count as user code.
_excluded: tuple[str, ...] = ()


def exclude(path: str) -> None:
    """From now on, files whose path begins with ``path`` are not user code."""
    global _excluded
    _excluded += (os.path.abspath(path),)
    _is_user.clear()


def _absolute(filename: str) -> str:
    try:
        return os.path.abspath(filename)
    except OSError:  # the current folder was deleted
        return filename


def is_own_file(filename: str) -> bool:
    """Whether this file is minijax's own code."""
    return _absolute(filename).startswith(_FOLDERS)


class _FileKinds(dict[str, bool]):
    """co_filename -> ``judge(co_filename)``, cached. The cache is limited, because each prompt input is a new file."""

    def __init__(self, judge: Callable[[str], bool]) -> None:
        self.judge = judge

    def __missing__(self, filename: str) -> bool:
        if len(self) > 4096:
            self.clear()
        found = self[filename] = self.judge(filename)
        return found


def _runs_user_code(filename: str) -> bool:
    path = _absolute(filename)
    return any(path == each or path.startswith(each + os.sep) for each in _machinery)


def _is_user_code(filename: str) -> bool:
    excluded = _absolute(filename).startswith((*_FOLDERS, *_excluded))
    return not (filename.startswith("<frozen ") or excluded or _is_host[filename])


_is_user = _FileKinds(_is_user_code)
# the files of programs that run user code
_is_host = _FileKinds(_runs_user_code)


def is_user_file(filename: str) -> bool:
    """Whether this file is user code: neither minijax's own nor the import system's. Prompt input is user code."""
    return _is_user[filename]


def source_info(skip: int = 1, known: dict[int, SourceInfo] | None = None) -> SourceInfo | None:
    """The place of the current call in the user's program: the innermost frame outside minijax.

    ``skip``: this many innermost frames are known to be minijax's and are not examined, which saves 50 ns per frame.
    ``known``: offset -> earlier result, so that equations of one instruction share one result. Returns ``(code,
    instruction offset)`` for :func:`summarize`, with the name stack if a scope is open; None without a user frame.
    """
    frame: FrameType | None = sys._getframe(skip)
    is_user = _is_user
    while frame is not None:
        code = frame.f_code
        if is_user[code.co_filename]:
            offset = frame.f_lasti
            if open_scopes:
                return code, offset, _current_names()
            if known is None:
                return code, offset
            found = known.get(offset)
            if found is None or found[0] is not code:
                found = known[offset] = code, offset
            return found
        frame = frame.f_back
    return None


def raw_user_frame() -> SourceInfo | None:
    """``source_info()``, for callers that need a function without arguments."""
    return source_info(2)


def user_frame(skip: int = 1) -> FrameType | None:
    """The innermost user frame, or None. Does not examine the innermost ``skip`` frames. A frame keeps values alive."""
    frame: FrameType | None = sys._getframe(skip)
    while frame is not None and not _is_user[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def user_frames(most: int) -> list[FrameType]:
    """At most ``most`` innermost user frames, outermost first. The search ends at IPython. Do not store the frames."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) < most:
        filename = frame.f_code.co_filename
        if _is_user[filename]:
            frames.append(frame)
        elif _is_host[filename]:
            break
        frame = frame.f_back
    frames.reverse()
    return frames


def span(info: SourceInfo) -> tuple[int | None, int | None, int | None, int | None]:
    """``(line, last line, column, last column)`` of a place. Each number is None if it is unknown."""
    code, offset = info[:2]
    return next(itertools.islice(code.co_positions(), offset // 2, None), (None, None, None, None))


def position(info: SourceInfo) -> tuple[int, int | None]:
    """``(line, column)`` of a place. Lines count from 1, columns from 0; the column is None if unknown."""
    line, _, column, _ = span(info)
    return info[0].co_firstlineno if line is None else line, column


def summarize(info: SourceInfo | None, full_path: bool = True) -> str:
    """``'/home/me/file.py:12:4 (f)'`` for a :func:`source_info`: line 12, column 4 (from 0, as in JAX), function f."""
    if info is None:
        return "<unknown>"
    line, column = position(info)
    code = info[0]
    filename = code.co_filename if full_path else os.path.basename(code.co_filename)
    return f"{filename}:{line}{'' if column is None else f':{column}'} ({code.co_qualname})"


def source_line(frame: FrameType | None = None) -> str:
    """``'/home/me/file.py:12 (f)'`` for a frame; by default for the innermost user frame."""
    if frame is None:
        frame = user_frame()
    if frame is None:
        return "<unknown>"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"


def did_you_mean(word: object, words: Iterable[object], prefix: str = "", alike: float = 0.6) -> str:
    """`` Did you mean --check?`` with the word of ``words`` that is most like ``word``; '' if none is like it.

    ``alike``: the least similarity, from 0 to 1 (equal).
    """
    import difflib  # the import takes 1 ms, and only mistakes need it

    if not isinstance(word, str) or not word:
        return ""
    known = [each for each in words if isinstance(each, str)]
    close = [each for each in known if each.startswith(word)] or difflib.get_close_matches(word, known, 1, alike)
    return f" Did you mean {prefix}{close[0]}?" if close else ""


def _aval_text(value: Any) -> str:
    """``'float32[3,4]'`` for an aval, or for an object with an attribute ``aval``."""
    aval = getattr(value, "aval", value)
    dtype, shape = getattr(aval, "dtype", None), getattr(aval, "shape", None)
    if dtype is None or shape is None:
        return str(aval)
    return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"


def _describe(tracer: Any) -> str:
    return f"traced array with shape {_aval_text(tracer)}"


def _origin(tracer: Any) -> str:
    """For error messages: the traced function, and how the tracer was computed; '' if unknown."""
    origin_msg = getattr(tracer, "_origin_msg", None)
    return "" if origin_msg is None else str(origin_msg()).strip()


def _advice(tracer: Any, kind: str) -> str:
    """The action that an error message recommends at the user's line; '' if there is none."""
    advise = getattr(tracer, "_advice", None)
    return "" if advise is None else str(advise(kind))


def _message(what: str, tracer: Any, action: str) -> str:
    where = source_line()
    parts = [what, _origin(tracer), "" if where == "<unknown>" else f"It happened at {where}.", action]
    return "\n".join(part for part in parts if part)


class JAXTypeError(TypeError):
    """Base of the TypeErrors that only tracing can raise."""


class JAXIndexError(IndexError):
    """Base of the IndexErrors that only tracing can raise."""


class ConcretizationTypeError(JAXTypeError):
    """A tracer was used where a concrete value is required, such as a shape, an axis or ``float(x)``.

    ``context``: one sentence about the use, such as "The problem arose with the `float` function."
    """

    def __init__(self, tracer: Any, context: str = ""):
        what = "Abstract tracer value encountered where concrete value is expected: " + _describe(tracer)
        if context.strip():
            what += f"\n{context.strip()}"
        super().__init__(_message(what, tracer, _advice(tracer, "value")))


class TracerBoolConversionError(ConcretizationTypeError):
    """A tracer was used as a condition: ``if x > 0``, ``x and y``, ``while x``, ``max(x, y)``."""

    def __init__(self, tracer: Any):
        what = f"Attempted boolean conversion of {_describe(tracer)}."
        JAXTypeError.__init__(self, _message(what, tracer, _advice(tracer, "bool")))


class TracerArrayConversionError(JAXTypeError):
    """A tracer was handed to code that wants a NumPy array, such as a function of ``numpy`` or ``scipy``."""

    def __init__(self, tracer: Any):
        super().__init__(
            _message(
                f"The numpy.ndarray conversion method __array__() was called on {_describe(tracer)}.",
                tracer,
                "Use the function of the same name in minijax.numpy; to index a NumPy array x with a traced "
                "index, write jnp.asarray(x)[index].",
            )
        )


class TracerIntegerConversionError(JAXTypeError):
    """A tracer was used where Python wants an integer: a list index, ``range(x)``, an axis or a shape."""

    def __init__(self, tracer: Any):
        what = f"The __index__() method was called on {_describe(tracer)}."
        super().__init__(_message(what, tracer, _advice(tracer, "index")))


class NonConcreteBooleanIndexError(JAXIndexError):
    """An array was indexed by a traced boolean mask. The shape of the result would depend on the values."""

    def __init__(self, tracer: Any):
        super().__init__(
            _message(
                f"Array boolean indices must be concrete; got {_aval_text(tracer)}",
                tracer,
                "Use jnp.where(mask, x, other), which keeps the shape, or index outside of the transformed function.",
            )
        )


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after the end of the transformation that made it: it leaked through a side effect."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice while ``debug_key_reuse`` was on."""


class InconclusiveDimensionOperation(Exception):
    """JAX raises this error for symbolic dimensions, which minijax does not have. minijax never raises it."""


class ShardingTypeError(Exception):
    """The types of the operands do not determine how the result is sharded over Explicit mesh axes."""


class JaxprTypeError(TypeError):
    """A jaxpr is not well typed; the message names the equation."""


class RecompilationError(RuntimeError):
    """A function was about to be traced or compiled in ``tools.no_recompile``; ``reason``: an ``api.misses.Miss``."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason


class JaxRuntimeError(RuntimeError):
    """The compiler or the device reported an error while compiling or running a program."""


class HostOutOfMemoryError(JaxRuntimeError, MemoryError):
    """The host has too little memory for the result of an operation."""


XlaRuntimeError = JaxRuntimeError


def escaped_tracer_error(
    tracer: Any,
    transform: str = "",
    function: str = "",
    born: SourceInfo | str | None = None,
    detail: str = "",
    to_thread: bool = False,
) -> UnexpectedTracerError:
    """The error for the use of a dead tracer or, with ``to_thread``, of a tracer of another thread.

    ``transform``: for example ``'jit'``; ``function``: for example ``'f at file.py:3'``; ``born``: a ``source_info`` or
    text for the place where the tracer was created; ``detail``: one more line of the message.
    """
    by = transform or "minijax"
    what = (
        f"Encountered an unexpected tracer. A function transformed by {by} had a side effect, allowing for a "
        f"reference to an intermediate value with type {_aval_text(tracer)} wrapped in a "
        f"{type(tracer).__name__} to escape the scope of the transformation."
    )
    lines = [what]
    if function:
        lines.append(
            f"The function being traced when the value leaked was {function}" + (f" traced for {by}." if by else ".")
        )
    if born is not None:
        lines.append(f"The leaked value was created at {born if isinstance(born, str) else summarize(born)}.")
    where = source_line()
    if where != "<unknown>":
        lines.append(f"It was used {'in another thread' if to_thread else 'after that'} at {where}.")
    if detail:
        lines.append(detail)
    if to_thread:
        lines.append("A value that is being traced belongs to the thread that traces: compute with it there.")
    else:
        lines.append("Return the value from the transformed function instead of storing it elsewhere.")
    return UnexpectedTracerError("\n".join(lines))
