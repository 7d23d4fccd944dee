"""The values that a full recorder sees, tracers and arrays: numbered, described, and followed until they die.

They are held weakly: one dies when it would die unwatched, but for what is said in ``frames``: a frame, and what
variables in it hold, lives until the next operation. What an array holds is kept on (``values``).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from minijax.core.array import Array, LiteralArray
from minijax.core.trace import Tracer
from minijax.ir.jaxpr import Var
from minijax.tools.recording import preview
from minijax.tools.recording.records import LifeRecord, TracerRecord
from minijax.tools.recording.summary import Scope
from minijax.tools.recording.values import Values

# Arrays in variables whose names are remembered until they are used.
MOST_NAMED = 20_000


class _Life:
    """A tracer or an array while it is followed."""

    __slots__ = ("record", "text", "scope", "died", "name", "place", "ref")

    def __init__(self, record: TracerRecord, text: str, scope: int, name: str, place: str) -> None:
        self.record = record
        # what it is as an operand
        self.text = text
        self.scope = scope
        self.died = -1
        self.name = name
        self.place = place
        self.ref: Any = None


class _Ref(weakref.ref):
    """A weak reference that knows what it is about, for whoever is called when it dies."""

    __slots__ = ("key", "life")
    key: int
    life: _Life


class Lives:
    """The tracers and arrays seen so far. ``now`` is the event that is being recorded."""

    def __init__(self) -> None:
        self.now = 0
        self.all: list[_Life] = []
        # id of a living tracer or array -> its life
        self.known: dict[int, _Life] = {}
        # id of an array in a variable that no operation has been given yet -> the array, held weakly, and its name
        self.named: dict[int, tuple[weakref.ref[Array], str]] = {}
        self.values = Values()
        # the variable of a tangent -> the number of the first value seen whose tangent it is
        self.primals: dict[Var, int] = {}

    def see(
        self, x: Any, scopes: Sequence[Scope], place: str = "", name: str = "", held: bool = False
    ) -> _Life | None:
        """The life of ``x``, which begins now if it has not been seen before; None if it has none: a tracer whose
        interpreter has ended, a number that somebody wrote inline (unless a tracer has ``held`` it), what is no array.
        """
        life = self.known.get(id(x))
        if life is not None:
            if name and not life.name:
                life.name = name
            return life
        if isinstance(x, Tracer):
            return self._see_tracer(x, scopes, place, name)
        if isinstance(x, Array) and (held or type(x) is not LiteralArray):
            known = self.named.pop(id(x), None)
            if not name and known is not None and known[0]() is x:
                name = known[1]
            text = preview.value_text(x, fetch=True)
            fields = (("value", text),)
            record = TracerRecord(self.now, scopes[0].label, preview.aval_text(x.aval), fields, len(self.all) + 1)
            life = self._begin(x, record, text, scopes[0].at, name, place)
            self.values.keep(record.id, x)
            return life
        return None

    def name(self, x: Any, scopes: Sequence[Scope], place: str, name: str) -> None:
        """A variable of the user's holds ``x``, a tracer or an array; one that is never used is no value of the
        recording's."""
        if id(x) in self.known or isinstance(x, Tracer):
            self.see(x, scopes, place, name)
        elif len(self.named) < MOST_NAMED:
            known = self.named.get(id(x))
            if known is None or known[0]() is not x:  # the id of one that has died is used again
                self.named[id(x)] = weakref.ref(x), name

    def _see_tracer(self, x: Tracer, scopes: Sequence[Scope], place: str, name: str) -> _Life | None:
        main = x._trace.main
        if not main.alive or main.level >= len(scopes):
            return None
        scope = scopes[main.level]
        # what it holds comes first: it was made first
        inside = preview.held(x)
        held = [self.see(inner, scopes, place, held=True) for inner in inside]
        type_text = preview.aval_text(x.aval)
        physical = preview.physical_type(x)
        variable = getattr(x, "variable", None)
        record = TracerRecord(
            self.now,
            scope.label,
            type_text,
            preview.fields(x, "" if variable is None else scope.name(variable), fetch=True),
            len(self.all) + 1,
            "" if physical == type_text else physical,
            tuple(0 if inner is None else inner.record.id for inner in held) if any(held) else (),
        )
        if variable is not None:
            self.values.variables[record.id] = variable
        tangent = preview.tangent_variable(x)
        if tangent is not None:
            self.primals.setdefault(tangent, record.id)
        for index, life in enumerate(held):
            if life is None and not isinstance(inside[index], Tracer):
                self.values.inside.setdefault(record.id, {})[index] = inside[index]
        return self._begin(x, record, preview.value_text(x), scope.at, name, place)

    def _begin(self, x: Any, record: TracerRecord, text: str, scope: int, name: str, place: str) -> _Life:
        life = _Life(record, text, scope, name, place)
        ref = _Ref(x, self._gone)
        ref.key, ref.life = id(x), life
        life.ref = ref
        self.all.append(life)
        self.known[id(x)] = life
        return life

    def _gone(self, ref: _Ref) -> None:
        # what was alive at this event is not any more at the next
        ref.life.died = self.now + 1
        ref.life.ref = None
        self.known.pop(ref.key, None)

    def records(self) -> tuple[LifeRecord, ...]:
        """All of them, and an end of following them."""
        out = tuple(
            LifeRecord(life.record, life.scope, life.record.at, life.died, life.name, life.place) for life in self.all
        )
        for life in self.all:
            life.ref = None
        self.known.clear()
        self.named.clear()
        return out
