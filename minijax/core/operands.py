"""Adds a note to an error: the operands of the failed operation at each level of the interpreter stack.

An operation inside transformations fails on physical shapes, which the user may never have written: ``vmap`` of a
function of ``f32[3]`` computes on ``f32[8,3]``. If a value of minijax reached a function of real JAX, the error says so
too. ``annotate`` is called when an error leaves an interpreter, so programs without errors pay nothing.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

from minijax import errors
from minijax.core.array import get_aval

_MOST_OPERANDS = 6
_MOST_NAMES = 200
_LONGEST_TEXT = 60
_NOTED = "_has_operands"
JAX_LIBRARIES = ("jax", "jaxlib")
# Finds a value of minijax in a message of JAX. The tracers of minijax print like JAX's.
_OURS = re.compile(r"<class 'minijax\.|Got (\w+Tracer\(|Traced<)")
# JAX removes its own frames from a traceback, and leaves this note.
_FILTERED = "JAX has removed its internal frames"
_SAID = "_says_from_jax"


def annotate(error: BaseException, tb: TracebackType | None = None, stack: Sequence[Any] = ()) -> None:
    """Add a note on the operands at every level to ``error``, if it is about shapes or types of traced operands.

    An error gets one note, from the innermost interpreter that it leaves; ``stack`` is the stack at that time. Errors
    raised by user code get none. If JAX raised the error because of a minijax value, the message is extended to say so.
    """
    explain_jax(error)
    if not isinstance(error, (TypeError, ValueError)) or isinstance(error, errors.JAXTypeError):
        return
    try:
        if not hasattr(error, _NOTED):
            _annotate(error, tb, stack)
    except Exception:  # a user's class whose attributes raise: only the original error matters
        return


def _annotate(error: BaseException, tb: TracebackType | None, stack: Sequence[Any]) -> None:
    frames = list(_frames(error.__traceback__ if tb is None else tb))
    if not frames or errors.is_user_file(frames[-1][0].f_code.co_filename):
        return
    user = [i for i, (frame, _) in enumerate(frames) if errors.is_user_file(frame.f_code.co_filename)]
    operands = list(_operands(frames[user[-1] + 1][0] if user else _binding(frames)))
    if not any(hasattr(x, "_trace") for x in operands):
        return
    place, text = _place(*frames[user[-1]]) if user else (_equation(frames), "")
    names = _names(frames[user[-1]][0]) if user else {}
    what = f"The operands of `{text}`" if text else "The operands"
    lines = [f"{what} at {place}, level by level:"]
    for i, x in enumerate(operands[:_MOST_OPERANDS]):
        lines.append(f"  {names.get(id(x), f'operand {i}')}: {levels_text(x)}")
    if len(stack) > 2:
        lines.append(f"  the levels: {' ▸ '.join(map(repr, stack))}")
    setattr(error, _NOTED, True)
    error.add_note("\n".join(lines))


def levels_text(x: Any) -> str:
    """``f32[3]; vmap:1 maps axis 0 of size 8, physically f32[8,3]`` for a tracer; a type for anything else."""
    parts = [type_text(x)]
    while hasattr(x, "_trace"):
        was = type_text(x)
        text, x = x._level()
        parts.append(text if x is None or type_text(x) == was else f"{text}, physically {type_text(x)}")
    return "; ".join(parts)


def type_text(x: Any) -> str:
    """``f32[3]``, or the class of an object that is not an array."""
    try:
        return get_aval(x).str_short()
    except TypeError:
        return type(x).__name__


def _frames(tb: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while tb is not None:
        yield tb.tb_frame, tb.tb_lasti
        tb = tb.tb_next


def _operands(frame: FrameType | None) -> Iterator[Any]:
    """The arrays and tracers among the arguments of the function of ``frame``, also inside lists."""
    if frame is None:
        return
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    for name in code.co_varnames[:count]:
        value = frame.f_locals.get(name)
        for x in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(x, "dtype") and hasattr(x, "shape"):
                yield x


def _binding(frames: list[tuple[FrameType, int]]) -> FrameType | None:
    """The frame of ``Primitive.bind``, or None. Its arguments are the operands if no frame is the user's."""
    return next((frame for frame, _ in frames if frame.f_code.co_qualname == "Primitive.bind"), None)


def _equation(frames: list[tuple[FrameType, int]]) -> str:
    eqns = [frame.f_locals.get("eqn") for frame, _ in frames if frame.f_code.co_name == "bind_eqn"]
    return errors.summarize(getattr(eqns[0], "source", None) if eqns else None)


def _place(frame: FrameType, offset: int) -> tuple[str, str]:
    """The user's line and, if known, the text of the call there."""
    code: CodeType = frame.f_code
    line, column = errors.position((code, offset))
    start, end, first, last = errors.span((code, offset))
    text = ""
    if start is not None and start == end and first is not None:
        source = linecache.getline(code.co_filename, start).encode()
        text = source[first:last].decode(errors="replace").strip()
    text = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
    return f"{code.co_filename}:{line}{'' if column is None else f':{column}'} ({code.co_qualname})", text


def _names(frame: FrameType) -> dict[int, str]:
    """id of a value -> the name of its variable."""
    found: dict[int, str] = {}
    for count, (name, value) in enumerate(frame.f_locals.items()):
        if count >= _MOST_NAMES:
            break
        found.setdefault(id(value), name)
    return found


def explain_jax(error: BaseException) -> None:
    """If ``error`` was raised because a value of minijax reached JAX, add that to its message, once."""
    if "jax" not in sys.modules or not isinstance(error, (TypeError, IndexError)) or hasattr(error, _SAID):
        return
    text = str(error)
    if not isinstance(error, errors.TracerArrayConversionError) and not _OURS.search(text):
        return
    user, is_jaxs = _called_by(error.__traceback__)
    if user is None or not (is_jaxs or any(_FILTERED in note for note in getattr(error, "__notes__", ()))):
        return
    frame, line = user
    name = frame.f_code.co_name
    wrapped = f"from_jax({name})" if name.isidentifier() else "from_jax(f)"
    advice = (
        f"A value of minijax's reached a function of real JAX, which does not take it, at {frame.f_code.co_filename}:"
        f"{line} ({name}). Call minijax.interop.{wrapped} in place of the function that is written for JAX, or use "
        "minijax's function of the same name."
    )
    setattr(error, _SAID, True)
    error.args = (f"{text.rstrip()}\n{advice}", *error.args[1:])


def _called_by(tb: TracebackType | None) -> tuple[tuple[FrameType, int] | None, bool]:
    """The user's innermost frame with its line, and whether it called JAX."""
    user: tuple[FrameType, int] | None = None
    is_jaxs = False
    while tb is not None:
        frame = tb.tb_frame
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in JAX_LIBRARIES:
            is_jaxs = True
        elif errors.is_user_file(frame.f_code.co_filename) and not is_jaxs:
            user = frame, tb.tb_lineno
        tb = tb.tb_next
    return user, is_jaxs
