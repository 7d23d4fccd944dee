"""The guided tour: %tour."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.session.session import Session


def run_tour(session: Session, args: Arguments) -> Result:
    # what only this command needs
    from minijax.tools.commands.guide import Tour
    from minijax.tools.commands.tour_parts import PARTS

    word = args["where"].lower()
    number = re.fullmatch(r"(\d+)(?:\.(\d+))?", word)
    if number is None and word not in ("", "next", "back", "again", "stop"):
        raise UsageError(f"%tour takes a part such as 3, a stop such as 3.2, next, back, again or stop, not {word!r}")
    tour = session.tour
    if number is not None:
        part, stop = int(number[1]) - 1, int(number[2] or 1) - 1
        if not 0 <= part < len(PARTS):
            raise UsageError(f"%tour has parts 1 to {len(PARTS)}, and no part {part + 1}")
        if not 0 <= stop < len(PARTS[part].stops):
            raise UsageError(f"part {part + 1} of %tour has stops {part + 1}.1 to {part + 1}.{len(PARTS[part].stops)}")
    elif tour is None:
        if word in ("back", "again", "stop"):
            raise UsageError("the tour is not under way: %tour begins it, %tour 3 at part 3")
        part, stop = 0, 0
    elif word == "back":
        return tour.back()
    elif word == "again":
        return tour.again()
    else:
        return tour.end() if word == "stop" else tour.next()
    if tour is None:
        if session.levels:
            raise UsageError("the tour begins at evaluation, and levels are open: %pop EXPR or %pop --all closes them")
        tour = session.tour = Tour(session, PARTS)
    return tour.go(part, stop)


COMMANDS = (
    Command(
        "tour",
        (
            Param(
                "where",
                "text",
                "a part such as 3, a stop such as 3.2, next, back, again or stop",
            ),
        ),
        "A guided tour in six parts, live: each stop runs a line here and shows what it did.\n\n"
        "Part 1 is about transformations as interpreters, 2 about jaxprs, 3 about jit, 4 about linearize, vjp and "
        "grad, 5 about control flow, 6 about whole programs. %tour alone goes on. Type what you like between the "
        "stops. A name of yours that a part uses is set aside at the first stop that needs it, and comes back when "
        "the part ends.",
        "%tour 1\n%tour next\n%tour stop",
        run_tour,
        group="session",
    ),
)
