"""Moves along the data flow: Enter goes to the birth of a value or an operand, t to a use, and Backspace back.
The key c goes to the next moment that satisfies a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minijax.repl.stepper.searching import Searching
from minijax.tools.documents.words import plural, shortened
from minijax.tools.stepper import origins
from minijax.tools.stepper.origins import MOST_CHOICES, OriginChoice
from minijax.tools.values.conditions import ConditionError, ConditionSearch, Hit, condition, unknown_text
from minijax.tools.values.expressions import unknown_name
from minijax.tools.values.moment import ledger
from minijax.tools.values.table import Named

_LONGEST = 24


class Walking:
    """Moves along the data flow.

    Attributes:
      back: the moments where Enter and t were pressed, latest last.
    """

    def __init__(self, stepper: Searching, selected: Callable[[], Named | None]) -> None:
        self.stepper = stepper
        self.selected = selected
        self.back: list[int] = []

    def to_origin(self) -> None:
        """Go to the birth of the selected value or, if no value is selected, of an operand of this operation."""
        named = self._selected()
        cursor = self.stepper.cursor
        if named is not None:
            self._pick("from", origins.selected_birth(cursor, named.number), f"{named.name} came from outside")
        elif origins.current(cursor) is None:
            self.stepper.say("no operation is under way here: → goes to the next moment", "muted")
        else:
            self._pick("from", origins.sources(cursor), "its operands are numbers written in the program")

    def to_use(self) -> None:
        """Go to an operation that uses the selected value or, if no value is selected, the current result."""
        named = self._selected()
        numbers = origins.results(self.stepper.cursor, 0 if named is None else named.number)
        if numbers:
            self._pick("used by", origins.uses(self.stepper.cursor, numbers), "no operation uses it")
        else:
            self.stepper.say("no operation with a result is under way here", "muted")

    def return_(self) -> None:
        """Go back to the moment where the last move along the data flow started."""
        if self.back:
            position = self.back.pop()
            self.stepper.move(self.stepper.cursor.go(position), "this is already the moment where that move started")
        else:
            self.stepper.say("Backspace returns from a move with Enter; ← goes to the previous moment", "muted")

    def ask_condition(self) -> None:
        def go(text: str) -> None:
            known = ledger(self.stepper.recording)
            try:
                wanted = condition(text)
            except ConditionError as error:
                self.stepper.say(str(error), "error")
                return
            search = ConditionSearch(known, wanted, self.stepper.heed)
            if said := next(filter(None, (unknown_name(known, name) for name in search.names)), ""):
                self.stepper.say(said, "error")
                return

            def find(backwards: bool) -> bool | str:
                if wanted.kind == "line":
                    return self.stepper.cursor.to_bind(place=str(wanted.line), backwards=backwards)
                return self._to_hit(search, backwards)

            self.stepper.find(f"moment where {wanted.text}", find)

        self.stepper.ask("next moment where (h.max() > 10, h became NaN, line 12)", go)

    def _to_hit(self, search: ConditionSearch, backwards: bool) -> bool | str:
        """Go to the nearest moment where the condition holds. If none is found, return False or the reason."""
        cursor = self.stepper.cursor
        found: tuple[int, Hit] | None = None
        for hit in search.hits():
            position = origins.birth(cursor, hit.named.number).position
            if position < cursor.position and backwards:
                found = position, hit
            elif position > cursor.position and not backwards:
                found = position, hit
                break
        if found is None:
            return "; ".join(filter(None, (search.ended, unknown_text(search.unknown)))) or False
        ledger(self.stepper.recording).iterations.update(found[1].iterations)
        return cursor.go(found[0])

    def _selected(self) -> Named | None:
        return self.selected() if self.stepper.focus == "values" else None

    def _pick(self, word: str, choices: Sequence[OriginChoice], nothing: str) -> None:
        if not choices:
            self.stepper.say(nothing, "muted")
        elif len(choices) == 1:
            self._go(choices[0])
        else:
            shown = choices[:MOST_CHOICES]
            named = "  ".join(f"{i} {shortened(each.name, _LONGEST)}" for i, each in enumerate(shown, 1))
            more = f"  and {plural(len(choices) - len(shown), 'other')}" if len(choices) > len(shown) else ""

            def go(text: str) -> None:
                number = int(text) if text.isdecimal() else 0
                if 1 <= number <= len(shown):
                    self._go(shown[number - 1])
                else:
                    self.stepper.say(f"{text} is not a number from 1 to {len(shown)}", "muted")

            self.stepper.ask(f"{word}  {named}{more}", go, single=True)

    def _go(self, choice: OriginChoice) -> None:
        before = self.stepper.cursor.position
        if self.stepper.cursor.go(choice.position):
            self.back.append(before)
            self.stepper.move(True, "")
            if choice.said:
                self.stepper.say(choice.said, "muted")
        else:
            self.stepper.say(choice.said or f"{choice.name} was born here", "muted")
