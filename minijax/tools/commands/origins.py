"""Commands that search a recording: where a value came from (%origin), and when a condition first held (%find).

The searching modules are imported when a command runs, to keep the start of a session fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.array import Array, LiteralArray, as_array
from minijax.core.records import Frozen
from minijax.core.trace import Tracer
from minijax.errors import did_you_mean
from minijax.interop.uses import is_jax_array
from minijax.pytree import keystr, tree_flatten_with_path, tree_leaves, tree_map
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.commands.step import recorded, refuse_empty
from minijax.tools.documents.document import Block, Document, Line, Row, line
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, place_parts
from minijax.tools.session import targets
from minijax.tools.session.result import NOTHING, Result, Step
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.explain.origin import OriginLane
    from minijax.tools.recording.cursor import Cursor
    from minijax.tools.recording.records import Recording
    from minijax.tools.session.session import Session
    from minijax.tools.values.conditions import Condition, ConditionSearch, Hit
    from minijax.tools.values.moment import Ledger

_EXPR = Param("expr", "text", "a call such as f(x), or an expression in your variables", required=True)
# Maximum number of known names to list in an error about an unknown name.
_MOST_NAMES = 8
# Number of columns for printing a value.
_ROOM = 60


def run_origin(session: Session, args: Arguments) -> Result:
    from minijax.tools.explain.origin import origin_document

    found = origin_of(session, "origin", args["expr"], args["of"])
    title = shortened(args["expr"].strip())
    if args["of"]:
        same = sum(life.called(args["of"]) for life in found.recording.lives)
        title = f"{args['of']}{' (the last of this name)' if same > 1 else ''} in {title}"
    shown = origin_document(found.lane, title, args["depth"], found.unfollowed, args["most"])
    return Result(shown + _nameless(found.recording), found.value, found.recording)


def _nameless(recording: Recording) -> Document:
    """A note about values without names, or an empty document."""
    from minijax.tools.recording.naming import naming_of

    missing = naming_of(recording).missing
    return Document((Row("note", (line(("warning", missing)),)),) if missing else ())


class AskedOrigin(Frozen):
    """The origin of a value. ``lane`` holds the operations that led to the value; ``unfollowed`` names the arguments of
    the call that are not arrays."""

    value: Any
    recording: Recording
    lane: OriginLane
    unfollowed: tuple[str, ...]


def origin_of(session: Session, command: str, expression: str, of: str | None) -> AskedOrigin:
    """Run and record an expression, and find the origin of its result, or of the variable named ``of``."""
    from minijax.tools.explain.origin import OriginLane
    from minijax.tools.values.origins import Origins

    target = _with_arrays(session, command, expression)
    args, kwargs = target.args, target.kwargs
    recorder = Recorder("full", expression.strip(), retrace=True)
    with recorder:
        given = recorder.numbers(tree_leaves((args, dict(sorted(kwargs.items())))))
        value = target.call()
        results = recorder.numbers(tree_leaves(value))
    recording = recorder.recording
    names = list(zip(given, targets.leaf_names(target), strict=True))
    arguments = {n: name for n, name in names if n}
    origins = Origins(recording)
    if of is not None:
        wanted = {_variable(command, recording, of): of}
    else:
        wanted = {n: name for n, name in zip(results, _result_names(value), strict=True) if n}
        if not wanted and any(map(is_jax_array, tree_leaves(value))):
            raise UsageError(f"%{command}: {target.title} was computed by the real JAX, which is not recorded")
        if not wanted:
            problem = f"the result of {shortened(target.title)} has no array, so no operations led to it"
            raise UsageError(f"%{command}: {problem}: write a call such as f(3.0), whose result is an array")
    lane = OriginLane(origins, origins.slice(wanted), arguments, wanted)
    return AskedOrigin(value, recording, lane, tuple(name for n, name in names if not n))


def _with_arrays(session: Session, command: str, expression: str) -> targets.Target:
    """The function and arguments of an expression, with Python floats and NumPy arrays converted to arrays."""
    from minijax.tools.explain.walk import in_order_of

    target = targets.from_expression(session, command, expression).concrete(command)
    if any(isinstance(x, Tracer) for x in tree_leaves((target.args, target.kwargs))):
        raise UsageError(f"%{command} needs values to run with, and an argument is a tracer: use it outside of %push")
    seen: set[int] = set()
    given = target.args, target.kwargs
    args, kwargs = in_order_of(given, tree_map(lambda x: _followed(x, seen), given))
    return targets.Target(target.fun, args, kwargs, target.names, target.title, target.loose)


def _followed(x: Any, seen: set[int]) -> Any:
    """Convert a number or array to a new array, to follow it. Integers stay, because Python code may need them."""
    if isinstance(x, (float, complex, np.ndarray, np.generic)):
        x = as_array(x)
    # a literal has no origin; an array that is passed as two arguments needs an origin for each argument
    if type(x) is LiteralArray or type(x) is Array and id(x) in seen:
        x = Array(x._value(), x.aval)
    seen.add(id(x))
    return x


def _result_names(value: Any) -> list[str]:
    """``result`` or ``result[0]['w']`` for each leaf."""
    return ["result" + keystr(path) for path, _ in tree_flatten_with_path(value)[0]]


def _variable(command: str, recording: Recording, name: str) -> int:
    """The number of the last value of the variable ``name``. UsageError if there is none."""
    stores = sorted([(at, life.tracer.id, each) for life in recording.lives for each, at in life.stores])
    found = [number for _, number, each in stores if each == name]
    if not found:
        names = list(dict.fromkeys(each for _, _, each in stores))
        held = _held(name, names, recording)
        raise UsageError(f"%{command} --of {name}: no variable {name} held a value in this call{held}")
    return found[-1]


def _held(name: str, names: list[str], recording: Recording) -> str:
    """The end of the error for an unknown variable ``name``: it lists the known variables."""
    cached = cached_hint(recording)
    if not names:
        return ", nor did any other" + ("." + cached if cached else ": there must be a variable with an array in it.")
    some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"; there are {some}.{did_you_mean(name, names)}{cached}"


def cached_hint(recording: Recording) -> str:
    """A hint for an unknown name: a trace that came from a cache has no names. '' if no trace came from a cache."""
    cached = any(isinstance(node, BindRecord) and node.cached for _, node in recording.walk())
    return " A trace that came from a cache has no names: %find CONDITION in CALL traces again." if cached else ""


# --- %find
# ------------------------------------------------------------------------------------------------------


def run_find(session: Session, args: Arguments) -> Result:
    from minijax.tools.values import conditions

    wanted, expression = _asked(args["condition"])
    value, error = NOTHING, None
    if expression:
        target = _with_arrays(session, "find", expression)
        value, error, recording = recorded(target.call, expression, retrace=True)
        refuse_empty("find", expression, recording, error)
    else:
        # a command that failed before any operation leaves an empty recording
        full = [each for each in session.recordings if each.level == "full" and each.lives]
        if not full:
            raise UsageError("nothing has been recorded in full yet: add `in` and a call, as in %find nan(h) in f(x)")
        recording = full[-1]
        expression = recording.source
    known = ledger_of(recording)
    search = conditions.ConditionSearch(known, wanted)
    if wanted.kind == "line":
        found = _of_line(recording, wanted)
        shown, position = found if found is not None else (_no_line(recording, wanted), -1)
    else:
        _known_names(known, search.names, expression)
        hit, error = _first(search, error)
        shown, position = _found(known, wanted, search, hit)
    shown = shown + _nameless(recording)
    step = Step(recording, position) if args["step"] and position >= 0 else None
    return Result(shown, NOTHING if value is None else value, recording, step, error=error)


def _first(search: ConditionSearch, error: BaseException | None) -> tuple[Hit | None, BaseException | None]:
    """The first value that satisfies the condition, or None. Then an exception: ``error``, which ended the call, or the
    interrupt that ended the search.
    """
    from minijax.tools.values.conditions import ConditionError

    try:
        return next(search.hits(), None), error
    except ConditionError as problem:
        raise UsageError(f"%find: {problem}") from None
    except KeyboardInterrupt as interrupt:
        search.ended = f"interrupted: {search.progress.text('values')}"
        return None, interrupt


def ledger_of(recording: Recording) -> Ledger:
    """The table of the recording's values."""
    from minijax.tools.values.moment import ledger

    return ledger(recording)


def _asked(text: str) -> tuple[Condition, str]:
    """Parse ``CONDITION in EXPRESSION``: return the condition, and the expression or ''."""
    from minijax.tools.values.conditions import ConditionError, condition

    first: ConditionError | None = None
    pieces = text.split(" in ")
    for count in [*range(1, len(pieces)), len(pieces)]:
        try:
            return condition(" in ".join(pieces[:count])), " in ".join(pieces[count:]).strip()
        except ConditionError as error:
            first = first or error
    raise UsageError(f"%find: {first}; then `in` and a call, as in %find nan(h) in f(x)")


def _known_names(known: Ledger, wanted: Sequence[str], expression: str) -> None:
    """Raise UsageError if the condition names a variable that does not exist."""
    from minijax.tools.values.table import stored_values

    names = list(dict.fromkeys(named.name for named in stored_values(known)))
    for name in wanted:
        if name not in names:
            of = f" of {shortened(expression)}" if expression else ""
            held = _held(name, names, known.recording)
            raise UsageError(f"%find: no variable {name}{of} held a value{held}")


def _found(known: Ledger, wanted: Condition, search: ConditionSearch, hit: Hit | None) -> tuple[Document, int]:
    """The document about the first match, and the moment when its value was computed (-1 without a match)."""
    from minijax.tools.recording.cursor import Cursor
    from minijax.tools.stepper import origins
    from minijax.tools.values.conditions import unknown_text

    blocks: list[Block] = []
    position = -1
    if hit is None:
        whole = " with all its elements" if search.whole else ""
        never = "not found" if search.ended else "never"
        message = f"{never}: {wanted.text} holds of none of {plural(search.values, 'value')}{whole}"
        sure = search.values and not search.unknown and not search.ended
        blocks.append(Row("found", (line(("good" if sure else "warning", message)),)))
    else:
        cursor = Cursor(known.recording)
        position = origins.birth(cursor, hit.named.number).position
        named = line(("var", hit.named.name), ("muted", f"  {hit.where}" if hit.where else ""))
        blocks.append(Row("found", (named, *_worth_lines(known, hit, wanted))))
        blocks += _moment_rows(cursor, position, hit.named.number)
    if unknown := unknown_text(search.unknown):
        blocks.append(Row("unknown", (line(("warning", unknown)),)))
    if search.ended:
        blocks.append(Row("", (line(("warning", search.ended)),)))
    return Document(tuple(blocks)), position


def _worth_lines(known: Ledger, hit: Hit, wanted: Condition) -> Iterator[Line]:
    from minijax.tools.values.brief import brief
    from minijax.tools.values.moment import Worth

    with known.chosen({**known.iterations, **hit.iterations}):
        found = known.primal(hit.named.number)
    if isinstance(found, Worth):
        yield brief(found.array, _ROOM, len(found.axes))
    if not isinstance(hit.found, (bool, np.bool_)):
        yield line(("muted", f"{wanted.text}: now "), ("value", shortened(str(hit.found))))


def _moment_rows(cursor: Cursor, position: int, number: int) -> Iterator[Block]:
    """The operation that computed the value ``number``, and its source line."""
    from minijax.tools.recording.naming import naming_of

    naming = naming_of(cursor.recording)
    maker = naming.maker(number)
    cursor.go(position)
    place = cursor.state().place
    if maker is not None:
        yield Row("by", (line(naming.operation(maker)),))
    if place:
        file, number_of_line, _ = place_parts(place)
        code = cursor.recording.source_line(file, number_of_line)
        yield Row("at", (line(("place", place)), *([line(code.strip())] if code else [])))
    yield Row("next", (line(("muted", "--step opens the stepper there; %origin ... --of tells what led to it")),))


def _of_line(recording: Recording, wanted: Condition) -> tuple[Document, int] | None:
    """The document about the first operation of the wanted line, and its moment. None if there is no operation."""
    from minijax.tools.recording.cursor import Cursor
    from minijax.tools.recording.naming import naming_of

    cursor = Cursor(recording)
    if not cursor.to_bind(place=str(wanted.line)):
        return None
    bind = cursor.state().bind
    assert bind is not None
    place = line(("place", bind.place))
    rows = (Row("found", (line(naming_of(recording).operation(bind)),)), Row("at", (place,)))
    return Document(rows), cursor.position


def _no_line(recording: Recording, wanted: Condition) -> Document:
    message = f"never: no operation of {wanted.text} was recorded"
    return Document((Row("found", (line(("warning", message)),)),))


COMMANDS: tuple[Command, ...] = (
    Command(
        "find",
        (
            Param("condition", "text", "a condition, then `in` and a call: h.max() > 10 in f(x)", required=True),
            Param("step", "flag", "open the stepper at this moment"),
        ),
        "The first moment at which a condition holds: h.max() > 10, nan(h), h became NaN, x.dtype changed, line 12.\n\n"
        "The call is run once and recorded; without `in` the last full recording is searched. A condition is a Python "
        "expression in the program's names, which hold NumPy arrays; nan, inf, finite and norm are functions. A "
        "comparison of an array must hold for all its elements. Loops are searched iteration by iteration; values that "
        "were not kept are computed again.",
        "%find x > 1.0 in f(3.0)",
        run_find,
        group="watch",
    ),
    Command(
        "origin",
        (
            _EXPR,
            Param("of", "word", "the origin of this variable of the program, not of the result"),
            Param("depth", "int", "how many levels of rules and programs inside operations to show", default=3),
            Param("most", "int", "draw only this many operations, the last ones", default=200),
        ),
        "What a result came from: only the arguments and operations that led to it, with their values.\n\n"
        "The expression is run once. The operations inside jitted functions, loops and derivatives are shown too, even "
        "if their traces come from a cache. A value that only decides which operations run is an origin too: the index "
        "of a cond, the condition of a while loop. The condition of a Python `if` is not recorded.",
        "%origin f(3.0)",
        run_origin,
        group="watch",
    ),
)
