"""Why an interpreter was given an operation: the argument that forced it, in words.

``bind`` hands an operation to the interpreter of the highest level among its arguments, or to the one that stages
everything. What ``forced_by`` says is what a stepper shows beside the rule that fires.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
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
            return index, reason(index, _named(x), kind, repr(main), lower_levels(trace, args))
    if main.dynamic:
        return -1, f"{main!r} stages every operation, also on constants"
    axis = getattr(main.global_data, "name", None)
    if axis is not None:
        return -1, f"the mapped axis {axis!r} belongs to {main!r}"
    return -1, f"{main!r} was asked for by name"


def reason(index: int, name: str, kind: str, level: str, lower: Sequence[str]) -> str:
    """What ``forced_by`` says of the argument at ``index``, which the user calls ``name``: it is of this ``kind``
    ('tracer', 'tangent') and ``level``, others are of these ``lower`` ones, whose interpreters get their turn later.
    """
    named = f" ({name})" if name else ""
    above = f", a higher level than {', '.join(lower)}" if lower else ""
    return f"argument {index}{named} is a {level} {kind}{above}"


def lower_levels(trace: Trace, args: Sequence[Any]) -> tuple[str, ...]:
    """The interpreters of the other traced arguments, highest first."""
    lower = {x._trace.level: x._trace.main for x in args if isinstance(x, Tracer) and x._trace is not trace}
    return tuple([repr(lower[level]) for level in sorted(lower, reverse=True)])


def names_in(frame: FrameType | None) -> dict[int, str]:
    """By the id of a value the first variable of ``frame`` that it is in."""
    if frame is None:
        return {}
    # the newest: a notebook's namespace begins with what was imported
    found = list(frame.f_locals.items())[-_MOST_NAMES:]
    return {id(value): name for name, value in reversed(found)}


def _named(x: Any) -> str:
    """What the user's innermost frame calls ``x``; '' if it has no variable that is."""
    return names_in(errors.user_frame()).get(id(x), "")
