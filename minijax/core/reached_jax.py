"""What is added to an error of real JAX's about a value of minijax's: where it reached JAX, and ``from_jax``.

JAX knows nothing of our arrays and tracers, and says so in many ways. ``explain`` is called where an error leaves an
interpreter or a command, so the programs that do not fail pay nothing.
"""

from __future__ import annotations

import re
import sys
from types import FrameType, TracebackType

from minijax import errors

JAX_LIBRARIES = ("jax", "jaxlib")
# What JAX's and our own messages call a value of minijax's, or a tracer that JAX did not expect: ours print as JAX's.
_OURS = re.compile(r"<class 'minijax\.|Got (\w+Tracer\(|Traced<)")
# JAX takes its own frames out of a traceback, and leaves this note.
_FILTERED = "JAX has removed its internal frames"
_SAID = "_says_from_jax"


def explain(error: BaseException) -> None:
    """Say in ``error`` that a value of minijax's reached JAX, if that is what it is about; once."""
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
    said = (
        f"A value of minijax's reached a function of real JAX, which does not take it, at {frame.f_code.co_filename}:"
        f"{line} ({name}). Call minijax.interop.{wrapped} in place of the function that is written for JAX, or use "
        "minijax's function of the same name."
    )
    setattr(error, _SAID, True)
    error.args = (f"{text.rstrip()}\n{said}", *error.args[1:])


def _called_by(tb: TracebackType | None) -> tuple[tuple[FrameType, int] | None, bool]:
    """The user's innermost frame with its line, and whether JAX was called from there."""
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
