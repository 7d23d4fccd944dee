"""Expressions with the names known at a moment: ``h.max()``, ``params['w'] @ x``. The names hold NumPy arrays.

Only the expression itself runs, no other code of the user's program; recordings do not see it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
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
from minijax.tools.values.moment import Ledger, Unknown, Worth
from minijax.tools.values.table import Named, named_until, named_values, picked

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
    """A name has no value; the message says why. ``said``: the name; '' if its value could not be computed."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class Branch:
    """The object behind the name ``params`` if only parts of it, such as ``params['w']``, have values."""

    def __init__(self, said: str) -> None:
        self._said = said
        self._parts: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._part(("item", key), f"{self._said}[{key!r}]")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._part(("attribute", name), f"{self._said}.{name}")

    def _part(self, step: Any, said: str) -> Any:
        found = self._parts.get(step)
        if found is None:
            raise NotKnown(f"no value of {said} is known here", said)
        return found() if callable(found) and not isinstance(found, Branch) else found

    def __repr__(self) -> str:
        return f"<parts of {self._said}>"


def evaluate(known: Ledger, at: int, expression: str) -> Evaluated:
    """Evaluate ``expression`` with the names known at event ``at``."""
    try:
        code = compile(expression.strip(), "<expression>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return Evaluated(None, f"{type(error).__name__}: {getattr(error, 'msg', error)}")
    used: list[Worth] = []
    try:
        with apart():
            names = _namespace(known, at, expression, used)
            value = eval(code, {"__builtins__": builtins, **names})
    except NotKnown as error:
        return _missing(known, at, error.said, str(error))
    except NameError as error:
        return _missing(known, at, error.name or "", f"NameError: {error}")
    except Exception as error:
        text = str(error).strip().partition("\n")[0]
        return Evaluated(None, f"{type(error).__name__}: {text}" if text else type(error).__name__)
    sizes = {label: x.array.aval.shape[i] for x in used for i, label in enumerate(x.axes)}
    return Evaluated(value, "", " and ".join(f"the {size} examples of {label}" for label, size in sizes.items()))


def _missing(known: Ledger, at: int, said: str, otherwise: str) -> Evaluated:
    """The error for a name without a value at event ``at``; it says whether the name gets a value later."""
    for named in named_values(known) if said else ():
        is_part = named.name.startswith((f"{said}[", f"{said}."))
        if named.variable and named.life.born > at and (named.name == said or is_part):
            return Evaluated(None, f"{said} has no value yet at this moment", later=named)
    never = unknown_name(known, said)
    return Evaluated(None, never or otherwise, unknown=said if never else "")


def unknown_name(known: Ledger, name: str) -> str:
    """The error for a name that never has a value in the recording; '' if the name or a part of it has a value."""
    names = list(dict.fromkeys(named.name for named in named_values(known) if named.variable))
    if not name or any(each == name or each.startswith((f"{name}[", f"{name}.")) for each in names):
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


def _namespace(known: Ledger, at: int, expression: str, used: list[Worth]) -> dict[str, Any]:
    wanted = {node.id for node in ast.walk(ast.parse(expression.strip(), mode="eval")) if isinstance(node, ast.Name)}
    out: dict[str, Any] = {"np": np, "jnp": jnp}
    found: dict[str, Named] = {}
    # the latest value of each name
    for named in named_until(known, at):
        if named.variable:
            found[named.name] = named
    for name, named in found.items():
        steps = path_of(name)
        if steps is None or steps[0] not in wanted:
            continue
        if len(steps) == 1:
            out[name] = _value(known, named, used)
            continue
        _put(out, steps, lambda named=named: _value(known, named, used))
    return out


def _put(out: dict[str, Any], steps: Sequence[Any], value: Any) -> None:
    root, *rest = steps
    branch = out.get(root)
    if branch is None:
        branch = out[root] = Branch(root)
    if not isinstance(branch, Branch):
        return  # the name itself has a value, so its parts are not needed
    for step in rest[:-1]:
        inner = branch._parts.get(step)
        if not isinstance(inner, Branch):
            key = step[1]
            inner = Branch(f"{branch._said}[{key!r}]" if step[0] == "item" else f"{branch._said}.{key}")
            branch._parts[step] = inner
        branch = inner
    branch._parts[rest[-1]] = value


def _value(known: Ledger, named: Named, used: list[Worth]) -> Any:
    found = picked(known, known.primal(named.number))
    if not isinstance(found, Worth):
        why = found.reason if isinstance(found, Unknown) else "it has no value"
        raise NotKnown(f"{named.name} is not known: {why}")
    used.append(found)
    return numpy_of(found.array)


def path_of(name: str) -> tuple[Any, ...] | None:
    """``('params', ('item', 'w'))`` for ``params['w']``; None for other expressions."""
    try:
        node: ast.expr = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    steps: list[Any] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(("attribute", node.attr))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            steps.append(("item", node.slice.value))
        else:
            return None
        node = node.value
    return (node.id, *reversed(steps))
