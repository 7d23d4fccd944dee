"""The user's lines that a program comes from: which equations are of which, and the number of each line's colour."""

from __future__ import annotations

from collections.abc import Iterable

from minijax.tools.documents.theme import line_role
from minijax.tools.programs.links import LinkedPrograms

# A line of the user's: the file, and the line's number from 1.
Spot = tuple[str, int]


class UserLines:
    """The lines of one program.

    Attributes:
      spots: the lines that equations come from, file by file, in order.
      colours: the place of each among them: front ends give it the colour of this number.
      of_equation: the line of each equation; those without one are not in it.
      main_file: the file that most equations come from.
    """

    def __init__(self, linked: LinkedPrograms) -> None:
        self.spots = spots(linked)
        self.colours = {spot: i for i, spot in enumerate(self.spots)}
        found = ((each.number, spot_of(linked, each.number)) for each in linked.equations)
        self.of_equation = {number: spot for number, spot in found if spot is not None}
        self.main_file = main_file(linked)

    def places(self, numbers: Iterable[int]) -> tuple[Spot, ...]:
        """The lines that equations come from, in order."""
        found = {self.of_equation[number] for number in numbers if number in self.of_equation}
        return tuple(sorted(found, key=self.colours.__getitem__))

    def role(self, spot: Spot) -> str:
        """The role of a line's colour."""
        return line_role(self.colours[spot])


def user_lines(linked: LinkedPrograms) -> UserLines:
    """The user's lines of a program, found once."""
    known = linked.__dict__.get("_user_lines")
    if known is None:
        known = linked.__dict__["_user_lines"] = UserLines(linked)
    return known  # type: ignore[no-any-return]


def spot_of(linked: LinkedPrograms, number: int) -> Spot | None:
    """The user's line that an equation comes from, or the one that it is inside of; None if none is known."""
    todo, seen = [number], {number}
    while todo:
        each = linked.equation(todo.pop(0))
        if each.line:
            return each.file, each.line
        todo += [outer for outer in each.inside if outer not in seen]
        seen.update(each.inside)
    return None


def spots(linked: LinkedPrograms) -> tuple[Spot, ...]:
    """The user's lines that equations come from, file by file, in order."""
    found = {spot for each in linked.equations if (spot := spot_of(linked, each.number)) is not None}
    files = {pane.title: i for i, pane in enumerate(linked.python)}
    return tuple(sorted(found, key=lambda spot: (files.get(spot[0], len(files)), *spot)))


def main_file(linked: LinkedPrograms) -> str:
    """The file that most equations come from; '' if none is known."""
    files = [each.file for each in linked.equations if each.line]
    return max(dict.fromkeys(files), key=files.count, default="")
