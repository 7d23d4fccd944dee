"""Commands that ask a recording where values came from: %origin.

What answers is imported when a command runs: few sessions need it, and every session starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.array import Array, LiteralArray, as_array
from minijax.core.named import Frozen
from minijax.core.trace import Tracer
from minijax.pytree import keystr, tree_flatten_with_path, tree_leaves, tree_map
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.words import shortened
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord
from minijax.tools.session import targets
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError, did_you_mean

if TYPE_CHECKING:
    from minijax.tools.explain.origin import OriginLane
    from minijax.tools.recording.records import Recording
    from minijax.tools.session.session import Session

_EXPR = Param("expr", "text", "a call such as f(x), or an expression in your variables", required=True)
# Names that a mistake in one is answered with.
_MOST_NAMES = 8


def run_origin(session: Session, args: Arguments) -> Result:
    __tracebackhide__ = True
    from minijax.tools.explain.origin import origin_document

    if args["depth"] < 1:
        raise UsageError(f"%origin --depth needs a number from 1, not {args['depth']}")
    found = origin_of(session, "origin", args["expr"], args["of"], args["retrace"])
    title = shortened(args["expr"].strip())
    title = f"{args['of']} in {title}" if args["of"] else title
    return Result(origin_document(found.lane, title, args["depth"], found.unfollowed), found.value, found.recording)


class AskedOrigin(Frozen):
    """What an expression gave, its recording, the lane that led to what was asked for, and the arguments that are no
    arrays."""

    value: Any
    recording: Recording
    lane: OriginLane
    unfollowed: tuple[str, ...]


def origin_of(
    session: Session, command: str, expression: str, of: str | None, retrace: bool = False
) -> AskedOrigin:
    """Run an expression, recorded: what its result, or the variable ``of``, came from."""
    __tracebackhide__ = True
    from minijax.tools.explain.origin import OriginLane
    from minijax.tools.values.origins import Origins

    target = targets.from_expression(session, command, expression).concrete(command)
    if any(isinstance(x, Tracer) for x in tree_leaves((target.args, target.kwargs))):
        raise UsageError(f"%{command} needs values to run with, and an argument is a tracer: use it outside of %push")
    seen: set[int] = set()
    args, kwargs = tree_map(lambda x: _followed(x, seen), (target.args, target.kwargs))
    named = targets.Target(target.fun, args, kwargs, target.names, target.title, target.loose)
    recorder = Recorder("full", expression.strip(), retrace)
    with recorder:
        given = recorder.numbers(tree_leaves((args, dict(sorted(kwargs.items())))))
        value = named.call()
        results = recorder.numbers(tree_leaves(value))
    recording = recorder.recording
    names = list(zip(given, targets.input_names(named), strict=True))
    arguments = {n: name for n, name in names if n}
    origins = Origins(recording)
    if of is not None:
        wanted = {_variable(command, recording, of): of}
    else:
        wanted = {n: name for n, name in zip(results, _result_names(value), strict=True) if n}
        if not wanted:
            raise UsageError(f"%{command}: {target.title} gives no array, so there is nothing that led to it")
    lane = OriginLane(origins, origins.slice(wanted), arguments, wanted)
    return AskedOrigin(value, recording, lane, tuple(name for n, name in names if not n))


def _followed(x: Any, seen: set[int]) -> Any:
    """An argument as an array of its own, which can be followed; integers and flags stay: Python counts by them."""
    if isinstance(x, (float, complex, np.ndarray, np.generic)):
        x = as_array(x)
    # a number that was written inline has no origin, and what is given twice is two arguments
    if type(x) is LiteralArray or type(x) is Array and id(x) in seen:
        x = Array(x._value(), x.aval)
    seen.add(id(x))
    return x


def _result_names(value: Any) -> list[str]:
    """``result`` or ``result[0]['w']``, for each leaf."""
    return ["result" + keystr(path) for path, _ in tree_flatten_with_path(value)[0]]


def _variable(command: str, recording: Recording, name: str) -> int:
    """The number of the last value that a variable called ``name`` held."""
    found = [life.tracer.id for life in recording.lives if life.name == name]
    if not found:
        names = list(dict.fromkeys(life.name for life in recording.lives if life.name))
        hint = did_you_mean(name, names)
        some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        held = f"; there are {some}" if names else ""
        cached = any(isinstance(node, BindRecord) and node.cached for _, node in recording.walk())
        if cached and not hint:
            hint = " A trace that came from a cache has no names; %origin --retrace makes it anew."
        raise UsageError(f"%{command} --of {name}: no variable {name} held a value in it{held}.{hint}")
    return found[-1]


COMMANDS: tuple[Command, ...] = (
    Command(
        "origin",
        (
            _EXPR,
            Param("of", "word", "of this variable of the program, not of the result"),
            Param("retrace", "flag", "trace anew what would come from a cache: so its variables have names"),
            Param("depth", "int", "how many levels of rules and programs inside operations to show", default=3),
        ),
        "What a result came from: the arguments and the operations that led to it, and no others, with values.\n\n"
        "The expression is run once. Calls of jitted functions, loops and derivatives are looked into, whether they "
        "were traced now or come from a cache. What a result was chosen by counts: the index of a cond, the condition "
        "of a while loop; an `if` of Python's leaves no trace.",
        "%origin f(3.0)",
        run_origin,
        group="watch",
    ),
)
