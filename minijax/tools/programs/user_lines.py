"""The source lines of a program: which equations come from which line, and the number of each line's colour."""

from __future__ import annotations

from collections.abc import Iterable

from minijax.tools.documents.theme import line_role
from minijax.tools.programs.links import LinkedPrograms

# A source line: the file, and the line number from 1.
Spot = tuple[str, int]


class UserLines:
    """The source lines of one program.

    Attributes:
      spots: the lines with equations, file by file, in order.
      colours: source line -> its index in ``spots``, which selects the line's colour.
      of_equation: number of an equation -> its source line. Equations without a source line are missing.
      main_file: the file with the most equations.
    """

    def __init__(self, linked: LinkedPrograms) -> None:
        found = ((each.number, spot_of(linked, each.number)) for each in linked.equations)
        self.of_equation = {number: spot for number, spot in found if spot is not None}
        order = {pane.title: i for i, pane in enumerate(linked.python)}
        every = {*self.of_equation.values()}
        self.spots = tuple(sorted(every, key=lambda spot: (order.get(spot[0], len(order)), *spot)))
        self.colours = {spot: i for i, spot in enumerate(self.spots)}
        files = [each.file for each in linked.equations if each.line]
        self.main_file = max(dict.fromkeys(files), key=files.count, default="")

    def places(self, numbers: Iterable[int]) -> tuple[Spot, ...]:
        """The source lines of these equations, in order."""
        found = {self.of_equation[number] for number in numbers if number in self.of_equation}
        return tuple(sorted(found, key=self.colours.__getitem__))

    def role(self, spot: Spot) -> str:
        """The role of a line's colour."""
        return line_role(self.colours[spot])


def user_lines(linked: LinkedPrograms) -> UserLines:
    """The source lines of a program, cached."""
    known = linked.__dict__.get("_user_lines")
    if known is None:
        known = linked.__dict__["_user_lines"] = UserLines(linked)
    return known  # type: ignore[no-any-return]


def spot_of(linked: LinkedPrograms, number: int) -> Spot | None:
    """The source line of an equation, or else of the nearest equation around it with a source line; else None."""
    todo, seen = [number], {number}
    while todo:
        each = linked.equation(todo.pop(0))
        if each.line:
            return each.file, each.line
        todo += [outer for outer in each.inside if outer not in seen]
        seen.update(each.inside)
    return None
