"""The tracers that a full recorder sees: numbered, described, and followed until they die.

They are held weakly: a tracer dies when it would die unwatched, but for one thing. Before Python 3.13 a frame keeps
the copy of its variables that a look at them makes, so what a variable held lives until the next look, at the next
operation.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from minijax.core.trace import Tracer
from minijax.tools.recording import preview
from minijax.tools.recording.records import LifeRecord, TracerRecord
from minijax.tools.recording.summary import Scope

# Variables of one frame that are looked at. Of a module's (a prompt has hundreds) the newest are.
MOST_NAMES = 100


class _Life:
    """A tracer while it is followed."""

    __slots__ = ("record", "scope", "died", "name", "place", "ref")

    def __init__(self, record: TracerRecord, scope: int, name: str, place: str) -> None:
        self.record = record
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
    """The tracers seen so far. ``now`` is the event that is being recorded."""

    def __init__(self) -> None:
        self.now = 0
        self.all: list[_Life] = []
        # id of a living tracer -> its life
        self.known: dict[int, _Life] = {}

    def see(self, x: Tracer, scopes: Sequence[Scope], place: str = "", name: str = "") -> _Life | None:
        """The life of ``x``, which begins now if it has not been seen before; None if its interpreter has ended."""
        life = self.known.get(id(x))
        if life is not None:
            if name and not life.name:
                life.name = name
            return life
        main = x._trace.main
        if not main.alive or main.level >= len(scopes):
            return None
        scope = scopes[main.level]
        # what it holds comes first: it was made first
        held = [self.see(inner, scopes, place) if isinstance(inner, Tracer) else None for inner in preview.held(x)]
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
        life = _Life(record, scope.at, name, place)
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

    def name_variables(self, variables: Mapping[str, Any], many: bool, scopes: Sequence[Scope], place: str) -> None:
        """See the tracers in the user's variables, by their names; ``many`` is for those of a module."""
        if many:
            named = [item for item, _ in zip(reversed(list(variables.items())), range(MOST_NAMES), strict=False)]
        else:
            named = list(variables.items())[:MOST_NAMES]
        for name, value in named:
            if isinstance(value, Tracer):
                self.see(value, scopes, place, name)

    def records(self) -> tuple[LifeRecord, ...]:
        """All of them, and an end of following them."""
        out = tuple(
            LifeRecord(life.record, life.scope, life.record.at, life.died, life.name, life.place) for life in self.all
        )
        for life in self.all:
            life.ref = None
        self.known.clear()
        return out
