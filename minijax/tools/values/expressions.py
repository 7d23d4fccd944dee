"""Expressions in the program's names, such as ``h.max()`` or ``params['w'] @ x``. The names hold NumPy arrays.

Only the expression itself runs, no other code of the user's program; recordings do not see it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection
from typing import Any

import numpy as np

import minijax.numpy as jnp
from minijax.core.array import Array, as_array
from minijax.core.records import NamedTuple
from minijax.errors import did_you_mean
from minijax.tools.documents.document import Line
from minijax.tools.documents.words import shortened
from minijax.tools.values.brief import brief, numpy_of
from minijax.tools.values.examples import apart
from minijax.tools.values.moment import Ledger, Worth
from minijax.tools.values.table import Named, picked, stored_values

# The most names that the error for an unknown name lists.
_MOST_NAMES = 8


class Evaluated(NamedTuple):
    """The result of an expression: a ``value`` or an ``error``. ``examples`` says which vmaps add axes to the value.

    ``later`` is set if a name gets its first value later. ``unknown`` is a name that never gets a value.
    """

    value: Any
    error: str = ""
    examples: str = ""
    later: Named | None = None
    unknown: str = ""

    def line(self, room: int) -> Line:
        """The result on one line."""
        if self.error:
            return (("error", shortened(self.error, room)),)
        note = f"  over {self.examples}" if self.examples else ""
        said = value_line(self.value, max(room - len(note), 8))
        return (*said, ("muted", note)) if note else said


class NotKnown(Exception):
    """The value of a name could not be computed; the message says why."""


class Variables(ast.NodeTransformer):
    """Replaces the program's variables in an expression, also ``params['w']``, by names that Python can look up.

    Attributes:
      held: the names of the program's variables.
      slots: the text of each variable in the expression -> the name that replaces it.
      missing: the texts of the other names in the expression; ``common`` names are none of them.
    """

    def __init__(self, held: Collection[str], common: Collection[str], tree: ast.AST) -> None:
        self.held = held
        self.slots: dict[str, str] = {}
        self.missing: dict[str, None] = {}
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and type(node.ctx) is ast.Store}
        self.other = bound | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {*common}

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self.generic_visit(node)
        text = ast.unparse(node)
        if text in self.held:
            return ast.Name(self.slots.setdefault(text, f"_variable_{len(self.slots)}"), ast.Load())
        inner: ast.AST = node
        said = text
        while isinstance(inner, (ast.Attribute, ast.Subscript)):
            if isinstance(inner, ast.Attribute) and hasattr(np.ndarray, inner.attr):
                said = ast.unparse(inner.value)
            inner = inner.value
            if ast.unparse(inner) in self.held:
                return self.generic_visit(node)
        if isinstance(inner, ast.Name) and inner.id not in self.other:
            self.missing[said] = None
            return node
        return self.generic_visit(node)


def evaluate(known: Ledger, at: int, expression: str) -> Evaluated:
    """Evaluate ``expression`` with the names known at event ``at``."""
    try:
        tree = ast.parse(expression.strip(), "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        return Evaluated(None, f"{type(error).__name__}: {getattr(error, 'msg', error)}")
    held = {named.name: named for named in stored_values(known) if named.since <= at}  # the latest value of each name
    variables = Variables(held, [*dir(builtins), "np", "jnp"], tree)
    tree = ast.fix_missing_locations(variables.visit(tree))
    for name in variables.missing:
        return _missing(known, at, name)
    used: list[Worth] = []
    try:
        with apart():
            names = {slot: array_of(known, held[name], used) for name, slot in variables.slots.items()}
            value = eval(compile(tree, "<expression>", "eval"), {"np": np, "jnp": jnp, **names})
    except NotKnown as error:
        return Evaluated(None, str(error))
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        return Evaluated(None, f"{type(error).__name__}: {text}" if text else type(error).__name__)
    sizes = {label: x.array.aval.shape[i] for x in used for i, label in enumerate(x.axes)}
    return Evaluated(value, "", " and ".join(f"the {size} examples of {label}" for label, size in sizes.items()))


def array_of(known: Ledger, named: Named, used: list[Worth] | None = None) -> np.ndarray:
    """The value of a name, for the chosen examples; it cannot be changed. It is added to ``used``."""
    found = picked(known, known.primal(named.number))
    if not isinstance(found, Worth):
        raise NotKnown(f"{named.name} is not known: {found.reason if found else 'it has no value'}")
    if used is not None:
        used.append(found)
    value = numpy_of(found.array).view()
    value.flags.writeable = False
    return value


def _missing(known: Ledger, at: int, said: str) -> Evaluated:
    """The error for a name without a value at event ``at``; it says whether the name gets a value later."""
    for named in stored_values(known):
        is_part = named.name.startswith((f"{said}[", f"{said}."))
        if named.since > at and (named.name == said or is_part):
            return Evaluated(None, f"{said} has no value yet at this moment", later=named)
    never = unknown_name(known, said)
    return Evaluated(None, never or f"no value of {said} is known here", unknown=said if never else "")


def unknown_name(known: Ledger, name: str) -> str:
    """The error for a name that never has a value in the recording; '' if the name or a part of it has a value."""
    names = list(dict.fromkeys(named.name for named in stored_values(known)))
    if any(each == name or each.startswith((f"{name}[", f"{name}.")) for each in names):
        return ""
    some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    hint = did_you_mean(name, names)
    there = f"there are {some}{'.' if hint else ''}{hint}" if names else "no variable was seen"
    return f"no variable {name} holds a value here; {there}"


def value_line(value: Any, room: int) -> Line:
    """A value of an expression, on one line."""
    if isinstance(value, (np.ndarray, np.generic, Array, bool, int, float, complex)):
        try:
            return brief(as_array(value) if not isinstance(value, Array) else value, room)
        except Exception:  # an array of objects or strings
            pass
    return (("value", shortened(repr(value), room)),)
