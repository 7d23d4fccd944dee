"""Why an interpreter processed an operation: the argument that forced it, in words.

``bind`` gives the operation to the interpreter of the highest level among its arguments, or to the interpreter that
stages everything. A stepper shows the text of ``forced_by`` next to the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minijax import errors
from minijax.core.trace import Trace, Tracer

# The most variables of the user's frame that are searched for an argument's name.
_MOST_NAMES = 200


def forced_by(trace: Trace, args: Sequence[Any]) -> tuple[int, str]:
    """The index of the argument that makes ``trace`` process an operation on ``args``, and the reason as text.

    The index is -1 if no argument is the reason: in evaluation, if everything is staged, and if an operation depends on
    a mapped axis. Call this during the operation: arguments are named by the variables of the user's innermost frame.
    """
    main = trace.main
    if not trace.level:
        return -1, "evaluation: no argument is traced"
    for index, x in enumerate(args):
        if isinstance(x, Tracer) and x._trace is trace:
            kind = "tracer" if trace is main.trace else "tangent"
            return index, reason(index, _named(x), kind, repr(main), lower_levels(trace, args))
    if main.dynamic:
        return -1, f"{main!r} stages every operation, also on constants"
    axis = getattr(main.global_data, "name", None)
    if axis is not None:
        return -1, f"the mapped axis {axis!r} belongs to {main!r}"
    return -1, f"{main!r} was asked for by name"


def reason(index: int, name: str, kind: str, level: str, lower: Sequence[str]) -> str:
    """The text of ``forced_by`` for the argument at ``index``, which the user calls ``name``. ``kind`` is 'tracer' or
    'tangent', ``level`` names its interpreter, and ``lower`` the interpreters of the other arguments, which run later.
    """
    named = f" ({name})" if name else ""
    above = f", a higher level than {', '.join(lower)}" if lower else ""
    return f"argument {index}{named} is a {level} {kind}{above}"


def lower_levels(trace: Trace, args: Sequence[Any]) -> tuple[str, ...]:
    """The interpreters of the other traced arguments, highest first."""
    lower = {x._trace.level: x._trace.main for x in args if isinstance(x, Tracer) and x._trace is not trace}
    return tuple([repr(lower[level]) for level in sorted(lower, reverse=True)])


def _named(x: Any) -> str:
    """The first variable in the user's innermost frame with the value ``x``; '' if there is no such variable."""
    frame = errors.user_frame()
    # only the newest variables, because a notebook's namespace begins with imports
    newest = [] if frame is None else list(frame.f_locals.items())[-_MOST_NAMES:]
    return next((name for name, value in newest if value is x), "")
