"""Copies of jaxprs for recordings: they print like the originals and refer to no object of the user."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.ir.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn
from minijax.tools.documents.words import shortened

MOST_PARAMETER = 300
# A longer tuple of tuples among the parameters is kept as text.
MOST_IN_TUPLE = 8
MOST_TABLE = 60

# Parameters of these types hold no values of the user's program.
_PLAIN = {int, str, bool, float, complex, type(None), np.dtype, frozenset}


class Copier:
    """Copies jaxprs without functions, objects and the constants of inner jaxprs, which a copy would keep alive.

    ``equations`` is the number of copied equations, inner jaxprs included.
    """

    def __init__(self) -> None:
        self.equations = 0
        # an inner jaxpr that occurs twice is one object in the copy too, because the printer names it
        self.copies: dict[int, Jaxpr] = {}

    def copy(self, jaxpr: Jaxpr) -> Jaxpr:
        """A copy of ``jaxpr``. Equations with only plain parameters are shared with the original."""
        known = self.copies.get(id(jaxpr))
        if known is not None:
            return known
        eqns = []
        for eqn in jaxpr.eqns:
            params = eqn.params
            if params and not all(type(value) in _PLAIN for value in params.values()):
                copied = {name: self.value(value) for name, value in params.items()}
                eqn = JaxprEqn(eqn.primitive, eqn.invars, copied, eqn.outvars, eqn.source)
            eqns.append(eqn)
        self.equations += len(eqns)
        copy = Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns, jaxpr.debug_name)
        self.copies[id(jaxpr)] = copy
        return copy

    def value(self, value: Any, inside: bool = False) -> Any:
        """A copy of a parameter that prints like the original. ``inside``: in a tuple, where ``repr`` prints it."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, (np.dtype, enum.Enum)):
            return value
        if kind is ClosedJaxpr:
            return self.copy(value.jaxpr)
        if kind is Jaxpr:
            return self.copy(value)
        if kind is tuple or kind is list:
            if len(value) > MOST_IN_TUPLE and all(type(each) is tuple for each in value):
                # a long table, such as NumPy's print options
                return _Printed(shortened(printed(value), MOST_TABLE))
            return kind([self.value(each, True) for each in value])
        if isinstance(value, tuple) and kind.__module__.startswith("minijax."):  # a named tuple of the engine
            return kind(*[self.value(each, True) for each in value])
        return _Printed(shortened(printed(value, repr if inside else str), MOST_PARAMETER))


class _Printed:
    """An object that prints as the text of a parameter."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def printed(value: Any, text: Callable[[Any], str] = str) -> str:
    """``text(value)``, or the class's name if that raises."""
    try:
        return text(value)
    except Exception:
        return type(value).__name__
