"""Why an interpreter was given an operation: the argument that forced it, in words.

``bind`` hands an operation to the interpreter of the highest level among its arguments, or to the one that stages
everything. What ``forced_by`` says is what a stepper shows beside the rule that fires.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax import errors
from minijax.core.trace import Trace, Tracer

# Variables of the user's frame that are looked at for an argument's name.
_MOST_NAMES = 200


def forced_by(trace: Trace, args: Sequence[Any]) -> tuple[int, str]:
    """The index of the argument that makes ``trace`` process an operation on ``args``, and the reason as text.

    The index is -1 where no argument is the reason: at evaluation, where everything is staged, and where an operation
    concerns a mapped axis. To be called while the operation is under way: arguments get the names that the user's
    innermost frame has for them.
    """
    main = trace.main
    if not trace.level:
        return -1, "evaluation: no argument is traced"
    for index, x in enumerate(args):
        if isinstance(x, Tracer) and x._trace is trace:
            kind = "tracer" if trace is main.trace else "tangent"
            return index, f"argument {index}{_named(x)} is a {main!r} {kind}{_above(trace, args)}"
    if main.dynamic:
        return -1, f"{main!r} stages every operation, also on constants"
    axis = getattr(main.global_data, "name", None)
    if axis is not None:
        return -1, f"the mapped axis {axis!r} belongs to {main!r}"
    return -1, f"{main!r} was asked for by name"


def _above(trace: Trace, args: Sequence[Any]) -> str:
    """What the other traced arguments are, whose interpreters get their turn later."""
    if len(args) == 1:
        return ""
    lower = {x._trace.level: x._trace.main for x in args if isinstance(x, Tracer) and x._trace is not trace}
    if not lower:
        return ""
    others = ", ".join(repr(lower[level]) for level in sorted(lower, reverse=True))
    return f", a higher level than {others}"


def _named(x: Any) -> str:
    """`` (y)`` if the user's innermost frame has a variable that is ``x``."""
    frame = errors.user_frame()
    if frame is None:
        return ""
    # the newest: a notebook's namespace begins with what was imported
    for name, value in list(frame.f_locals.items())[-_MOST_NAMES:]:
        if value is x:
            return f" ({name})"
    return ""
