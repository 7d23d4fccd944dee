"""The choices on a page: iterations of loops and examples of vmaps, as many as the page can hold.

Lines with values are drawn here once for every choice. The script shows the lines of the current choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minijax.core.records import NamedTuple
from minijax.tools.documents.words import shortened
from minijax.tools.recording.cursor import Cursor
from minijax.tools.stepper.backward import at_cursor
from minijax.tools.values.moment import Ledger
from minijax.tools.values.table import Named, loop_text

# Maximum number of a loop's iterations, or of a vmap's examples, on a page; and of combinations of nested choices.
MOST_CHOICES = 24
MOST_TOGETHER = 96
# Maximum number of NumPy calls for drawing all choices of one variable.
MOST_WORK = 60_000
# Maximum number of earlier rows that are searched for choices at one moment.
_BACK = 200


class PageChoice:
    """A loop or a vmap. ``key`` is the key of the loop or the label of the vmap. Of its ``size`` iterations or
    examples, ``held`` are on the page. A vmap has one more choice, which comes first: all examples.
    """

    def __init__(self, key: Any, size: int, held: int) -> None:
        self.key = key
        self.size = size
        self.held = held

    @property
    def is_loop(self) -> bool:
        """Whether this is a loop, whose iterations can be chosen."""
        return isinstance(self.key, tuple)

    @property
    def states(self) -> int:
        """The number of choices: iterations, or examples and the choice of all."""
        return self.held if self.is_loop else self.held + 1


class Choices:
    """The choices of one recording, and the drawing of lines that depend on them. While no lines are drawn, the first
    iteration of every loop and all examples are chosen.
    """

    def __init__(self, known: Ledger | None, source: str) -> None:
        self.known = known
        self.source = source
        self.listed: list[PageChoice] = []
        self._numbers: dict[Any, int] = {}
        self._of: dict[int, tuple[int, ...]] = {}
        self._here: dict[Any, list[tuple[int, int]]] = {}

    @contextmanager
    def first(self) -> Iterator[None]:
        """A context in which the first iteration of every loop and all examples are chosen."""
        if self.known is None:
            yield
            return
        with self.known.chosen({}, {}):
            yield

    def of(self, number: int) -> tuple[int, ...]:
        """The numbers of the choices that a value depends on: vmaps, then loops, in each case the outermost first."""
        if self.known is None or not number:
            return ()
        if number not in self._of:
            with self.known.glances(), self.first():
                self._of[number] = self._found(self.known, number)
        return self._of[number]

    def union(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """The choices that the values depend on. The last ones are left out if there are too many combinations."""
        known = dict.fromkeys(choice for number in numbers for choice in self.of(number))
        while math.prod(self.listed[each].states for each in known) > MOST_TOGETHER:
            known.popitem()
        return tuple(known)

    def _found(self, known: Ledger, number: int) -> tuple[int, ...]:
        out: list[int] = []
        room = min(MOST_TOGETHER, max(int(MOST_WORK / max(known.weight(number), 1.0)), 1))
        for label, size in known.vmaps(number).items():
            room = self._add(out, label, size, room, 1)
        for depth, loop in enumerate(known.loops(number)):
            # how often an inner loop runs may depend on the iteration of the outer loop
            counts = [loop.count] if not depth else [each.count for each in self._inner(known, number, out, depth)]
            room = self._add(out, loop.key, max(counts, default=0), room, 0)
        return tuple(out)

    def _inner(self, known: Ledger, number: int, out: Sequence[int], depth: int) -> Iterator[Any]:
        for state in self._states(out):
            with self._chosen(out, state):
                yield from known.loops(number)[depth : depth + 1]

    def _add(self, out: list[int], key: Any, size: int, room: int, more: int) -> int:
        """Add a choice to ``out``. Returns the maximum number of combinations for the choices after it."""
        # vmaps that run one after the other have the same label; only their sizes may tell them apart
        unique = (key, size) if more else key
        found = self._numbers.get(unique)
        if found is None:
            held = min(size, MOST_CHOICES, room - more)
            if held < 2:
                return room
            found = self._numbers[unique] = len(self.listed)
            self.listed.append(PageChoice(key, size, held))
        if self.listed[found].states > room:
            return room
        self.listed[found].size = max(self.listed[found].size, size)
        out.append(found)
        return room // self.listed[found].states

    # --- drawing

    def _states(self, choices: Sequence[int]) -> Iterator[tuple[int, ...]]:
        return itertools.product(*[range(self.listed[each].states) for each in choices])

    @contextmanager
    def _chosen(self, choices: Sequence[int], state: Sequence[int]) -> Iterator[None]:
        assert self.known is not None
        with self.known.chosen(self.known.iterations):
            for each, index in zip(choices, state, strict=True):
                choice = self.listed[each]
                if choice.is_loop:
                    self.known.iterations[choice.key] = index
                elif index:
                    self.known.examples[choice.key] = index - 1
            yield

    def draw(self, wanted: Sequence[Varied]) -> None:
        """Draw the blocks ``wanted`` for all choices but the first, for which they have been drawn.

        Blocks that depend on the same choices are drawn together.
        """
        groups: dict[tuple[int, ...], list[Varied]] = {}
        for each in wanted:
            groups.setdefault(each.choices, []).append(each)
        for choices, group in groups.items():
            for state in itertools.islice(self._states(choices), 1, None):
                with self._chosen(choices, state):
                    for each in group:
                        each.draw()

    # --- at a moment

    def here(self, cursor: Cursor, every: Sequence[Named], row: int) -> list[tuple[int, int]]:
        """The choices at the cursor's moment, outermost first, each with the number of a value that depends on it.
        These are choices of the value in row ``row`` of ``every``, or else of the last value before it with choices.
        """
        if self.known is None:
            return []
        backward = at_cursor(cursor)
        first = backward.recorded.steps[:1] if backward is not None else ()
        numbers = [ct.number for step in first for ct in step.given if ct.number][:1]
        key = (*numbers, row, every[row].number if row >= 0 else 0)
        if key not in self._here:
            numbers += [every[place].number for place in range(row, max(row - _BACK, -1), -1)]
            out: dict[int, int] = {}
            for is_loop in (False, True):
                for number in numbers:
                    found = [each for each in self.of(number) if self.listed[each].is_loop is is_loop]
                    if found:
                        out.update((each, number) for each in found)
                        break
            self._here[key] = list(out.items())
        return self._here[key]

    def label(self, choice: int, number: int) -> str:
        """A text for the current choice, such as ``iteration 1 of 10`` or ``all 8 examples of vmap:1``."""
        assert self.known is not None
        own = self.listed[choice]
        if own.is_loop:
            loops = [loop for loop in self.known.loops(number) if loop.key == own.key]
            return loop_text(loops[-1]) if loops else "no such iteration"
        index = self.known.examples.get(own.key)
        chosen = f"all {own.size} examples" if index is None else f"example {index} of {own.size}"
        return f"{chosen} of {own.key}"

    def count(self, choice: int, number: int) -> int:
        """The number of choices. For a loop it depends on the current iterations of the loops around it."""
        assert self.known is not None
        own = self.listed[choice]
        if not own.is_loop:
            return own.states
        return next((loop.count for loop in self.known.loops(number) if loop.key == own.key), 0)

    def data(self) -> list[dict[str, Any]]:
        """The choices as data for the script. If a page lacks some, a note says which ones it holds."""
        out = []
        for each in self.listed:
            note = ""
            if each.held < each.size:
                what, option = ("iterations", "iteration") if each.is_loop else ("examples", "example")
                of = f" {shortened(self.source, 60)}" if self.source and "\n" not in self.source else " EXPR"
                note = f"this page holds {what} 0 to {each.held - 1}; %values{of} --{option} N shows others"
            out.append({"states": each.states, "loop": each.is_loop, "note": note})
        return out


class Varied(NamedTuple):
    """A block that depends on choices. ``draw`` draws it for the current ones."""

    choices: tuple[int, ...]
    draw: Callable[[], None]
