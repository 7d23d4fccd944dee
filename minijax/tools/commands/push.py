"""Parse the arguments of %push into a level, and show the level that was opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from minijax.api.flat import to_value
from minijax.core import dtypes
from minijax.core.array import get_aval, is_array_like
from minijax.numpy import array
from minijax.pytree import tree_flatten, tree_leaves
from minijax.tools.documents.document import Block, Line, Row, line
from minijax.tools.live.kinds import (
    APPLIED,
    KINDS,
    NAMED_AXIS,
    REVERSE,
    BatchLevel,
    ForwardLevel,
    ReverseLevel,
    StagedLevel,
    default_tangent,
    filled,
    is_type,
    sizes_text,
)
from minijax.tools.live.level import GONE, Level
from minijax.tools.live.views import program_blocks, tracer_text, variable_names
from minijax.tools.session.targets import input_value, inputs, leaves_of
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.live.stack import Live
    from minijax.tools.session.session import Session

_LABEL = "%push"


def level(session: Session, kind: str, text: str, axis: str, name: str | None) -> Level:
    """The level for ``%push kind text --axis axis --name name``. UsageError if the arguments do not fit."""
    values = {
        called: _as_input(kind, called, input_value(session, _LABEL, called, piece))
        for called, piece in inputs(_LABEL, text)
    }
    if not values:
        raise UsageError(f"%push {kind} needs a name and a value, such as %push {kind} x=3.")
    if kind not in NAMED_AXIS and (name is not None or axis != "0"):
        raise UsageError(f"%push {kind} maps no axis: --axis is for vmap, --name for vmap and pmap")
    if kind == "pmap" and axis != "0":
        raise UsageError("%push pmap maps the first axis; --axis is for vmap")
    if kind == "jvp":
        return _forward(values)
    if kind == "vmap":
        return BatchLevel(kind, values, _axes(values, axis), name)
    if kind in REVERSE:
        return ReverseLevel(kind, values)
    return StagedLevel(kind, values, name)


def _as_input(kind: str, name: str, value: Any) -> Any:
    """Convert a value to an input of a level. A list of numbers becomes an array; other values are trees of arrays."""
    if leaves_of(value) is None:
        raise UsageError(
            f"%push {kind}: {name} is no tree of arrays: it contains itself, or dictionary keys without an order"
        )
    if type(value) is list and all(isinstance(x, (bool, int, float, complex)) for x in tree_leaves(value)):
        value = array(value)
    leaves = tree_leaves(value)
    abstract = is_type(value)
    if abstract and kind not in ("jaxpr", "linear_transpose", "eval_shape"):
        raise UsageError(
            f"%push {kind} needs a value for {name}, not only its type: {name}={_example(value)}; "
            "%push jaxpr takes types"
        )
    if not leaves or not all(is_array_like(x) or is_type(x) for x in leaves):
        wanted = "an array, a number or a container of them"
        raise UsageError(f"%push {kind}: {name} has to be {wanted}, and is of type {type(value).__name__}")
    return value


def _example(value: Any) -> str:
    shape = tree_leaves(value)[0].shape
    return f"jnp.ones({shape})" if shape else "3."


def _forward(values: dict[str, Any]) -> Level:
    tangents: dict[str, Any] = {}
    primals: dict[str, Any] = {}
    for name, value in values.items():
        if name[0] == "d" and name[1:] in primals:
            tangents[name[1:]] = value
        else:
            primals[name] = value
    for name in list(primals):  # a tangent dx may come before its x
        if name[0] == "d" and name[1:] in primals and name[1:] not in tangents:
            tangents[name[1:]] = primals.pop(name)
    for name, value in primals.items():
        given = tangents.get(name)
        if given is None:
            tangents[name] = default_tangent(value)
        elif isinstance(given, (int, float)) and is_array_like(value) and dtypes.is_inexact(get_aval(value).dtype):
            tangents[name] = filled(value, given)
    return ForwardLevel("jvp", primals, tangents)


def _axes(values: dict[str, Any], text: str) -> dict[str, int | None]:
    """``--axis``: ``0`` or ``None`` for all, ``0,None`` in order, or ``x=1,w=None`` with 0 for the others."""

    def number(word: str) -> int | None:
        if word.strip() == "None":
            return None
        try:
            return int(word)
        except ValueError:
            raise UsageError(
                f"%push vmap --axis takes an axis for all names, as in 0, or for each, as in x=1,w=None; not {text!r}"
            ) from None

    words = [word for word in text.split(",") if word]
    if any("=" in word for word in words):
        axes: dict[str, int | None] = dict.fromkeys(values, 0)
        for word in words:
            name, _, axis = word.partition("=")
            if name not in values:
                raise UsageError(f"%push vmap --axis: {name} is not one of the names pushed: {', '.join(values)}")
            axes[name] = number(axis)
        return axes
    found = [number(word) for word in words]
    if len(found) == 1:
        found *= len(values)
    if len(found) != len(values):
        raise UsageError(f"%push vmap --axis gives {len(found)} axes for {len(values)} names: {', '.join(values)}")
    return dict(zip(values, found, strict=True))


def opened_blocks(live: Live, level: Level) -> Iterator[Block]:
    """A level that was just opened, with its tracers."""
    names = variable_names(live)
    gives = ("muted", f"; %pop gives {KINDS[level.kind]}")
    lines: list[Line] = [line(("level", level.label), f"  {level.kind} of {sizes_text(level)}", gives)]
    for name in level.inputs:
        leaves, _ = tree_flatten(live.namespace[name])
        shown = ", ".join(tracer_text(to_value(x), names) for x in leaves[:4]) + (", ..." if len(leaves) > 4 else "")
        lines.append(line(("var", name), " = ", ("value", shown)))
    covered = [name for name in level.inputs if level.saved[name] is not GONE]
    if covered:
        lines.append(line(("muted", f"%pop restores your values of {', '.join(covered)}")))
    yield Row("pushed", tuple(lines))
    if level.kind == "jaxpr" or level.kind in APPLIED:
        yield from program_blocks(live, level)
