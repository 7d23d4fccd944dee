"""A position in a full recording, and a stepper's moves. Nothing runs again, so moving back is as fast as moving on.

A recording is a sequence of *moments*: the beginning, the entry and exit of each bind and scope, every other record
once, and the end. A cursor stands at one moment. ``state`` describes that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.core.records import Frozen
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.panels import jaxpr_title
from minijax.tools.recording.records import (
    BindRecord,
    EquationRecord,
    JaxprRecord,
    LifeRecord,
    Node,
    Recording,
    RuleRecord,
    ScopeRecord,
    place_parts,
)
from minijax.tools.recording.timeline import (
    BEGIN,
    BIND,
    END,
    ENTER,
    EQUATION,
    ERROR,
    EVENT,
    LEAVE,
    LEFT,
    NONFINITE,
    RAISED,
    Indices,
    Moment,
    Picked,
    integers,
    life_columns,
    timeline,
)

__all__ = ["BEGIN", "END", "ENTER", "EVENT", "LEAVE", "Cursor", "Moment", "State", "moments", "texts", "ways"]


class JaxprSoFar(Frozen):
    """A jaxpr under construction: its interpreter, and its equations so far."""

    level: str
    scope: int
    equations: Sequence[EquationRecord]


class State(Frozen):
    """The state at one moment.

    Attributes:
      moment: the moment.
      stack: labels of the interpreters, evaluation first.
      path: the open binds and scopes, outermost first. The current one is included when it has just been entered or is
        about to be left.
      bind: the innermost open bind, or None.
      tracers: for each interpreter of ``stack``, the live tracers; for evaluation, the arrays in variables.
      programs: for each interpreter that records equations, the equations so far.
      place: the user's line, ``file:line (function)``, or ''.
      rule: the running rule of the innermost open bind that has a rule, or of the backward pass; else None.
      forced: why the interpreter of ``bind`` processes it.
    """

    moment: Moment
    stack: tuple[str, ...]
    path: tuple[BindRecord | ScopeRecord, ...]
    bind: BindRecord | None
    tracers: tuple[Sequence[LifeRecord], ...]
    programs: tuple[JaxprSoFar, ...]
    place: str
    rule: RuleRecord | None = None
    forced: str = ""


# A search reports its progress after this many moments.
HEEDED = 256


class SearchProgress:
    """The progress of a search: how many moments it has searched, and how many there are."""

    def __init__(self) -> None:
        self.done = self.total = 0

    def report(self, done: int, total: int) -> None:
        """Report the progress."""
        self.done, self.total = done, total

    def text(self, what: str = "moments") -> str:
        """The progress as text: ``nothing in the first 1,024 of 20,000 moments``."""
        return f"nothing in the first {self.done:,} of {self.total:,} {what}" if self.done else "nothing looked at yet"


def moments(recording: Recording) -> Sequence[Moment]:
    """The moments of ``recording`` in order."""
    return timeline(recording)


def ways(known: Sequence[Moment]) -> list[Any]:
    """A key for each moment: its path from the outside. The key finds the moment in another recording of the same call.

    Each step of the path is the kind of a record, and its index among its siblings of that kind.
    """
    counts: Counter[Any] = Counter()
    out: list[Any] = []
    for moment in known:
        if moment.kind == LEAVE:
            out.append((LEAVE, out[moment.other]))
            continue
        node = moment.node
        what = (moment.kind, type(node), getattr(node, "primitive", ""), getattr(node, "level", ""))
        step = (out[moment.parent] if moment.parent >= 0 else (), what)
        out.append((*step, counts[step]))
        counts[step] += 1
    return out


class Cursor:
    """A position in ``recording``. Moves return whether the cursor moved.

    Attributes:
      position: the index of the current moment, from 0.
      moments: all moments.
      bookmarks: name -> position.
      named: whether jaxprs show the user's names in place of JAX's letters.
    """

    def __init__(self, recording: Recording, position: int = 0) -> None:
        self.recording = recording
        self.moments = timeline(recording)
        # the note shown at the end if the recording stopped before its call did
        self.cut = recording.stopped
        self.position = min(max(position, 0), len(self.moments) - 1)
        self.bookmarks: dict[str, int] = {}
        self.named = False
        # called with the progress of a search; an exception from it ends the search
        self.heed: Callable[[int, int], None] | None = None
        # scope -> its equations, or its tracers, once they have been read
        self._equations: dict[int, Picked] = {}
        self._lives: dict[int, tuple[Any, Any, Any]] = {}
        self._by_scope: tuple[Indices, Any, Any] | None = None
        self._equations_by_scope: tuple[Indices, Any] | None = None
        # the last state that was read, and its position: several panes read the same state
        self._last: tuple[int, State] | None = None

    @property
    def moment(self) -> Moment:
        """The current moment."""
        return self.moments[self.position]

    # --- moves
    # ------------------------------------------------------------------------------------------------------

    def go(self, position: int) -> bool:
        """Move to the moment with this index, or to the nearest moment."""
        before = self.position
        self.position = min(max(position, 0), len(self.moments) - 1)
        return self.position != before

    def first(self) -> bool:
        """Move to the beginning."""
        return self.go(0)

    def last(self) -> bool:
        """Move to the end."""
        return self.go(len(self.moments) - 1)

    def into(self) -> bool:
        """Move to the next moment."""
        return self.go(self.position + 1)

    def back(self) -> bool:
        """Move to the moment before."""
        return self.go(self.position - 1)

    def over(self) -> bool:
        """At the entry of a bind or scope, move to its exit; elsewhere, to the next moment."""
        return self.go(self.moment.other if self.moment.kind == ENTER else self.position + 1)

    def back_over(self) -> bool:
        """At the exit of a bind or scope, move to its entry; elsewhere, to the moment before."""
        return self.go(self.moment.other if self.moment.kind == LEAVE else self.position - 1)

    def out(self) -> bool:
        """Move to the exit of the enclosing bind or scope; at the top, to the end."""
        parent = self.moment.parent
        return self.go(self.moments[parent].other) if parent >= 0 else self.last()

    def back_out(self) -> bool:
        """Move to the entry of the enclosing bind or scope; at the top, to the beginning."""
        return self.go(max(self.moment.parent, 0))

    def find(
        self, wanted: Callable[[Moment], bool], backwards: bool = False, signs: Sequence[int] = (), said: str = ""
    ) -> bool:
        """Move to the next moment (the previous one if ``backwards``) that is ``wanted``; stay if there is none.

        If ``signs`` are given, only moments with one of them are tested. In a recording from a file, only chunks with
        the words ``said`` are searched.
        """
        moments = self.moments
        mentions = getattr(moments.nodes, "mentions", None) if said else None
        order = self._order(backwards, signs)
        for done, position in enumerate(order):
            if self.heed is not None and not done % HEEDED:
                self.heed(done, len(order))
            if mentions is not None and not mentions(moments.number(position), said):
                continue
            if wanted(moments[position]):
                return self.go(position)
        return False

    def _order(self, backwards: bool, signs: Sequence[int]) -> Sequence[int]:
        """The moments to search, the nearest first: those after the current one, or before it if ``backwards``."""
        if not signs:
            return range(self.position - 1, -1, -1) if backwards else range(self.position + 1, len(self.moments))
        known = self.moments.marked(*signs)
        place = np.searchsorted(known, self.position, side="left" if backwards else "right")
        found: Sequence[int] = integers(known[:place][::-1] if backwards else known[place:])
        return found

    def to_bind(
        self, primitive: str = "", level: str = "", place: str = "", shape: str = "", backwards: bool = False
    ) -> bool:
        """Move to the next entry of a bind that matches all given arguments.

        Args:
          primitive: its name.
          level: the interpreter, 'jvp:2', or its name alone, 'jvp'.
          place: the user's line: its number, or ``file:line``.
          shape: a type such as 'f32[3]', or a shape '[3]', of an argument or result.
        """

        def wanted(moment: Moment) -> bool:
            node = moment.node
            return (
                moment.kind == ENTER
                and isinstance(node, BindRecord)
                and (not primitive or node.primitive == primitive)
                and (not level or level in (node.level, node.level.partition(":")[0]))
                and (not place or _at_place(node.place, place))
                and (not shape or _fits(node, shape))
            )

        return self.find(wanted, backwards, (BIND,), primitive or level or shape.lstrip("["))

    def to_nonfinite(self, backwards: bool = False) -> bool:
        """Move to the next exit of a bind whose result holds a NaN or an infinity."""
        return self.find(lambda m: True, backwards, (LEFT + NONFINITE, LEFT + NONFINITE + RAISED))

    def to_error(self, backwards: bool = False) -> bool:
        """Move to the next exit of a bind by an exception, or to the next record of an exception."""
        return self.find(lambda m: True, backwards, (ERROR, LEFT + RAISED, LEFT + RAISED + NONFINITE))

    def search(self, words: str, backwards: bool = False) -> bool:
        """Move to the next moment whose record has ``words`` in one of its own texts. Case does not matter."""
        words = words.lower()
        naming = naming_of(self.recording)
        # words that occur in no name must be in the record's own texts, which are faster to test than names
        own = naming.unnamed(words)

        def wanted(moment: Moment) -> bool:
            node = moment.node
            said: Iterable[str] = texts(node)
            if isinstance(node, JaxprRecord):
                # a jaxpr is shown by its title, which is not among the texts of its record
                said = (*said, "".join(piece for _, piece in jaxpr_title(node)))
            if moment.kind == LEAVE:
                # a bind with nothing inside has the same line for entry and exit, and the entry was searched
                own_line = isinstance(node, BindRecord) and bool(node.children)
                name = naming.assigned(node) if own_line else ""  # type: ignore[arg-type]
                said = (node.primitive, name, node.out, node.error) if own_line else ()  # type: ignore[union-attr]
            elif isinstance(node, BindRecord):
                known = [text.lower() for text in said]
                if any(words in text for text in known):
                    return True
                if not all(any(each in text for text in known) for each in own):
                    return False
                said = (naming.operation(node),)
            return any(words in text.lower() for text in said)

        return self.find(wanted, backwards, said=" ".join(own))

    def mark(self, name: str) -> None:
        """Make the current moment a bookmark."""
        self.bookmarks[name] = self.position

    def to_mark(self, name: str) -> bool:
        """Move to a bookmark; stay if no bookmark has this name."""
        return self.go(self.bookmarks.get(name, self.position))

    def take_marks(self, earlier: Cursor) -> list[str]:
        """Copy the bookmarks of ``earlier``, the cursor of another recording of the same call. Return the names of
        bookmarks that no moment here matches.
        """
        if not earlier.bookmarks:
            return []
        here = {way: index for index, way in enumerate(ways(self.moments))}
        there = ways(earlier.moments)
        found = {name: here.get(there[position], -1) for name, position in earlier.bookmarks.items()}
        self.bookmarks |= {name: position for name, position in found.items() if position >= 0}
        return sorted(name for name, position in found.items() if position < 0)

    # --- the state here
    # ---------------------------------------------------------------------------------------------

    def _open(self) -> list[int]:
        """The entry moments of the open binds and scopes, innermost first."""
        moment = self.moment
        out = [moment.other if moment.kind == LEAVE else self.position] if moment.kind in (ENTER, LEAVE) else []
        parent = moment.parent
        while parent >= 0:
            out.append(parent)
            parent = self.moments.parent(parent)
        return out

    def path(self) -> tuple[BindRecord | ScopeRecord, ...]:
        """The open binds and scopes, outermost first, with the current one."""
        return tuple([self.moments.node(i) for i in reversed(self._open())])  # type: ignore[misc]

    def state(self) -> State:
        """The state at the current moment."""
        if self._last is None or self._last[0] != self.position:
            self._last = self.position, self._state()
        return self._last[1]

    def _state(self) -> State:
        moment, path, base = self.moment, self.path(), self.recording.base
        stack = base
        scopes = [-level for level in range(len(base))]
        for node in path:
            if isinstance(node, ScopeRecord):
                stack = node.stack
                scopes = [*scopes[: node.depth], node.at]
        binds = [node for node in path if isinstance(node, BindRecord)]
        ended = self.recording.errors[-1:] if moment.kind == END else ()
        places = (getattr(node, "place", "") for node in (moment.node, *reversed(path), *ended))
        programs = []
        for label, scope in zip(stack, scopes, strict=False):
            known = self._equations_of(scope)
            count = known.up_to(self.position)
            if count:
                programs.append(JaxprSoFar(label, scope, known.first(count)))
        return State(
            moment,
            stack,
            path,
            binds[-1] if binds else None,
            tuple([self._alive(scope, moment.at) for scope in scopes]),
            tuple(programs),
            next((place for place in places if place_parts(place)[0]), ""),
            self._rule(),
            binds[-1].forced if binds else "",
        )

    def _rule(self) -> RuleRecord | None:
        """The rule being applied."""
        for index in (self.position, *self._open()):
            node = self.moments.node(index)
            if rule := node.rule if isinstance(node, BindRecord) else self.moments.loose_rule(index):
                return rule
        return None

    def _equations_of(self, scope: int) -> Picked:
        """The equations that the interpreter of ``scope`` adds to its jaxpr."""
        known = self._equations.get(scope)
        if known is None:
            if self._equations_by_scope is None:
                self._equations_by_scope = Indices(self.moments.equation_scopes()), self.moments.marked(EQUATION)
            by_scope, places = self._equations_by_scope
            known = self._equations[scope] = Picked(self.moments.node, places[by_scope.of(scope)])
        return known

    def _alive(self, scope: int, at: int) -> Picked:
        """The tracers of a scope that are alive at event ``at``, in order of birth; for evaluation, the arrays that the
        user's variables hold.
        """
        known = self._lives.get(scope)
        if known is None:
            if self._by_scope is None:
                scopes, births, deaths = life_columns(self.recording, self.moments)
                self._by_scope = Indices(scopes, births), births, deaths
            by_scope, births, deaths = self._by_scope
            places = by_scope.of(scope)
            known = self._lives[scope] = places, births[places], deaths[places]
        places, births, deaths = known
        count = int(np.searchsorted(births, at, side="right"))
        ends = deaths[:count]
        return Picked(self.recording.lives.__getitem__, places[:count][(ends < 0) | (ends > at)])


def _fits(node: BindRecord, shape: str) -> bool:
    """Whether an argument or result has this type, or this shape if it begins with a bracket."""
    known = (*node.types, *node.in_types)
    return any(each.endswith(shape) for each in known) if shape.startswith("[") else shape in known


def _at_place(place: str, wanted: str) -> bool:
    file, line, _ = place_parts(place)
    return wanted in (str(line), f"{file}:{line}", f"{file.rpartition('/')[2]}:{line}")


def texts(node: Node | None) -> Iterator[str]:
    """The texts of a record that a search reads, without the texts of the records inside it."""
    if node is None:
        return
    for value in node.values():
        if isinstance(value, str):
            yield value
        elif type(value) is tuple:
            for each in value:
                if isinstance(each, str):
                    yield each
                elif type(each) is tuple:
                    yield " ".join(map(str, each))
