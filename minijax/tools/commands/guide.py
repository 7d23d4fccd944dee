"""The guided tour: it runs each stop, and saves and restores the user's variables that it replaces.

The parts are data (``tour_parts``). Each stop runs a line in the user's session and shows what the prompt would show.
The first stop that needs a name saves the user's value of that name; the end of the part restores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from minijax.core.array import Array
from minijax.core.records import Frozen
from minijax.tools.documents.document import Block, Document, Text, document, line, text
from minijax.tools.recording import preview
from minijax.tools.session.lent import LentNames, names_in
from minijax.tools.session.namespace import initial_names
from minijax.tools.session.result import NOTHING, Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Outcome, Session


class Stop(Frozen):
    """One stop: a text, a line to run, and a text about its result.

    ``after`` may contain ``{expressions}``, which are replaced by their values. They can use the user's names, and the
    name ``value`` for the value of the line. ``fails``: the line raises an error on purpose.
    """

    text: str
    line: str
    after: str = ""
    fails: bool = False


class Part(Frozen):
    """A part of the tour: a list of stops. It needs only the names that a new prompt has."""

    title: str
    about: str
    stops: tuple[Stop, ...]


# an expression in braces in the text ``after`` of a stop
_FIGURE = r"\{([^{}]+)\}"


class Tour:
    """The tour of one session.

    ``part`` and ``stop`` count from 0; ``stop`` is the last stop shown.
    """

    def __init__(self, session: Session, parts: tuple[Part, ...]) -> None:
        self.session = session
        self.parts = parts
        self.part = 0
        self.stop = -1
        # saves the user's values of the names that this part of the tour uses
        self.lent = LentNames(session.namespace)
        self.under_way = False
        # the names that a notice in this part has announced as replaced
        self.told: set[str] = set()
        self.first = True

    # --- moving

    def go(self, part: int, stop: int = 0) -> Result:
        """Show a stop. Unless the previous stop has just run, first run its part's earlier stops without output."""
        blocks: list[Block] = []
        stops = self.parts[part].stops
        borrowed: list[str] = []
        if part != self.part or stop != self.stop + 1 or not self.under_way:
            if part != self.part or not self.under_way:
                self.told = set()
            self._leave_part()
            if stop == 0:
                blocks += self._heading(part)
            for i, each in enumerate(stops[:stop]):
                borrowed += self._borrow(part, i)
                self.session.run_inner(each.line)
        self.part, self.stop, self.under_way = part, stop, True
        borrowed += self._borrow(part, stop)
        blocks += self._notices([name for name in borrowed if name not in self.told])
        self.told.update(borrowed)
        outcome = self.session.run_inner(stops[stop].line)
        blocks += self._shown(outcome)
        return Result(Document(tuple(blocks)), outcome.value, outcome.recording)

    def next(self) -> Result:
        """Show the stop after the last one shown."""
        if self.stop + 1 < len(self.parts[self.part].stops):
            return self.go(self.part, self.stop + 1)
        if self.part + 1 < len(self.parts):
            return self.go(self.part + 1)
        return self.end()

    def back(self) -> Result:
        """Show the stop before the last one shown."""
        if self.stop > 0:
            return self.go(self.part, self.stop - 1)
        if self.part > 0:
            return self.go(self.part - 1, len(self.parts[self.part - 1].stops) - 1)
        raise UsageError("this is where the tour begins; %tour next goes on")

    def again(self) -> Result:
        """Run this part of the tour again up to the last stop shown, and show that stop again."""
        self._leave_part()
        return self.go(self.part, self.stop)

    def end(self) -> Result:
        """End the tour and restore the user's names."""
        returned = self._leave_part()
        self.session.tour = None
        restored = f" Yours again: {', '.join(returned)}." if returned else ""
        return Result(document(text(f"The tour has ended.{restored} %help lists the commands.", role="muted")))

    # --- names

    def _borrow(self, part: int, stop: int) -> list[str]:
        """Save the user's names that this stop is the first to use. Returns the names that had a value."""
        stops = self.parts[part].stops
        own, read = _names_of(stops[stop])
        given = used_names(stops)[1]
        return self.lent.borrow(dict.fromkeys((*own, *(name for name in read if name in given))), given)

    def _leave_part(self) -> list[str]:
        """Close the open levels and restore the saved names."""
        self.session.live.drop_all()
        self.under_way = False
        given = used_names(self.parts[self.part].stops)[1] if self.lent.aside else {}
        return self.lent.give_back(given)

    # --- showing

    def _heading(self, number: int) -> Iterator[Block]:
        part = self.parts[number]
        yield text(line(("heading", f"Part {number + 1} of {len(self.parts)}: {part.title}")))
        yield text(part.about, hanging=0)

    def _notices(self, borrowed: list[str]) -> Iterator[Block]:
        if borrowed:
            word = "name" if len(borrowed) == 1 else "names"
            back = "comes" if len(borrowed) == 1 else "come"
            note = f"The tour uses the {word} {', '.join(borrowed)} from here on; yours {back} back when the part ends."
            yield text(note, role="warning")
        if self.first:
            self.first = False
            yield text(
                "%tour next goes on (at the REPL's prompt, so does Enter alone), %tour back goes back, %tour 3 or "
                "%tour 3.2 goes there, %tour stop ends it. Type whatever you like in between.",
                role="muted",
                hanging=0,
            )

    def _shown(self, outcome: Outcome) -> Iterator[Block]:
        part = self.parts[self.part]
        stop = part.stops[self.stop]
        place = f"{self.part + 1}.{self.stop + 1}"
        yield text("")
        yield text(line(("level", f"{place} "), stop.text), hanging=len(place) + 1)
        first, *others = stop.line.split("\n")
        lines = [line(("prompt-in", "› "), first), *(line(("prompt-in", "  "), each) for each in others)]
        yield Text(tuple(lines), hanging=4)
        yield from outcome.shown.blocks
        yield from outcome.summary.blocks
        if outcome.error is not None and not stop.fails:
            stopped = isinstance(outcome.error, KeyboardInterrupt)
            message = "" if stopped else "The tour did not expect this error; a name may have changed. "
            message += "%tour again runs this part's lines again."
            yield text(message, role="warning", hanging=0)
        elif stop.after:
            yield text(self.filled(stop.after, outcome), hanging=0)
        left = len(part.stops) - self.stop - 1
        if not left and self.part + 1 < len(self.parts):
            yield text(f"Part {self.part + 1} ends here. %tour next: {self.parts[self.part + 1].title}", role="muted")
        elif not left:
            message = "This was the last stop. %tour exercises: your turn. %tour stop gives your names back."
            yield text(message, role="muted", hanging=0)

    def filled(self, words: str, outcome: Outcome) -> str:
        """The text ``words`` after a stop's line. Expressions in braces (see ``Stop``) are replaced by their values."""
        names = {**self.session.namespace, "value": None if outcome.value is NOTHING else outcome.value}

        def figure(match: re.Match[str]) -> str:
            try:
                found = eval(match[1], names)
                return preview.value_text(np.asarray(found) if isinstance(found, Array) else found)
            except Exception:  # the user may have deleted or changed a name
                return "?"

        return re.sub(_FIGURE, figure, words)


def used_names(stops: Iterable[Stop]) -> tuple[list[str], dict[str, Any]]:
    """The names that ``stops`` assign; and the names of a new prompt that ``stops`` only read, with their values."""
    own: dict[str, None] = {}
    read: dict[str, None] = {}
    for stop in stops:
        for all_names, names in zip((own, read), _names_of(stop), strict=True):
            all_names.update(names)
    known = initial_names()
    return list(own), {name: known[name] for name in read if name in known and name not in own}


def _names_of(stop: Stop) -> tuple[dict[str, None], dict[str, None]]:
    """The names that a stop's line assigns, and the names that its line and its texts read. Each name appears once."""
    own: dict[str, None] = {}
    read: dict[str, None] = {}
    code = stop.line
    for figure in re.findall(_FIGURE, stop.after):
        read.update(dict.fromkeys(re.findall(r"[^\W\d]\w*", figure)))
    if code.startswith("%push"):
        own.update(dict.fromkeys(re.findall(r"(\w+)=", code.partition("--")[0])))
    if code.startswith("%"):
        read.update(dict.fromkeys(re.findall(r"[^\W\d]\w*", code.partition(" ")[2])))
        return own, read
    assigned, used = names_in(code)
    return {**own, **assigned}, {**read, **used}
