"""The guided tour, and the exercises at its end: %tour."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from minijax.errors import did_you_mean
from minijax.tools.commands.arguments import Arguments, Param
from minijax.tools.commands.command import Command
from minijax.tools.documents.document import Document
from minijax.tools.session.result import Result
from minijax.tools.usage import UsageError

if TYPE_CHECKING:
    from minijax.tools.exercises.course import ExerciseCourse
    from minijax.tools.session.session import Session

_MOVES = ("next", "back", "again", "stop")
_WORKING = ("edit", "check", "hint", "solution")
_EXERCISE = r"(?:exercises?|ex)(?:\s+(\S.*))?"


def run_tour(session: Session, args: Arguments) -> Result:
    word = args["where"].lower()
    if args["use"] and word != "solution":
        raise UsageError("%tour --use goes with solution: %tour solution --use")
    asked = re.fullmatch(_EXERCISE, word)
    if asked is not None:
        return _exercise(session, asked[1])
    if word in _WORKING:
        return _work(session, word, args["use"])
    course = session.exercises
    if word in _MOVES and session.tour is None and course is not None and course.open is not None:
        return _move(course, word)
    return _tour(session, word)


def _exercise(session: Session, which: str | None) -> Result:
    """Show the list of exercises, or open one of them."""
    course = _course(session)
    if which is None:
        return Result(course.overview())
    names = [each.name for each in course.exercises]
    if which in names:
        number = names.index(which)
    elif which.isdecimal():
        number = int(which) - 1
    else:
        raise UsageError(f"%tour ex takes a number from 1 to {len(names)}, not {which!r}.{did_you_mean(which, names)}")
    _refuse_levels(session)
    course.refuse_unknown(number)
    ended = Document() if session.tour is None else session.tour.end().document
    opened = course.start(number)
    return Result(ended + opened.document, error=opened.error)


def _work(session: Session, word: str, use: bool) -> Result:
    _refuse_levels(session)
    course = _course(session)
    if word == "solution":
        return course.solution(use)
    return {"edit": course.edit, "check": course.check, "hint": course.hint}[word]()


def _move(course: ExerciseCourse, word: str) -> Result:
    """Go from one exercise to another."""
    if word == "again":
        return course.again()
    return course.leave() if word == "stop" else course.next(1 if word == "next" else -1)


def _course(session: Session) -> ExerciseCourse:
    # imported late: only this command needs it
    from minijax.tools.exercises.course import ExerciseCourse

    if session.exercises is None:
        session.exercises = ExerciseCourse(session)
    course: ExerciseCourse = session.exercises
    return course


def _refuse_levels(session: Session) -> None:
    if session.levels and session.tour is None:
        raise UsageError("exercises begin at evaluation, and levels are open: %pop EXPR or %pop --all closes them")


def _tour(session: Session, word: str) -> Result:
    """Start the guided tour or move in it."""
    from minijax.tools.commands.guide import Tour
    from minijax.tools.commands.tour_parts import PARTS

    number = re.fullmatch(r"(\d+)(?:\.(\d+))?", word)
    if number is None and word not in ("", *_MOVES):
        first, _, rest = word.partition(" ")
        if rest and first in (*_MOVES, *_WORKING):
            answer = " Write your answer at the prompt first." if first == "check" else ""
            raise UsageError(f"%tour {first} takes no argument {rest!r}.{answer}")
        hint = did_you_mean(word, (*_MOVES, *_WORKING, "exercises"))
        raise UsageError(
            f"%tour takes a part such as 3, a stop such as 3.2, {', '.join(_MOVES)}, or exercises, not {word!r}.{hint}"
        )
    tour = session.tour
    if number is not None:
        part, stop = int(number[1]) - 1, int(number[2] or 1) - 1
        if not 0 <= part < len(PARTS):
            raise UsageError(f"%tour has parts 1 to {len(PARTS)}, and no part {part + 1}")
        if not 0 <= stop < len(PARTS[part].stops):
            raise UsageError(f"part {part + 1} of %tour has stops {part + 1}.1 to {part + 1}.{len(PARTS[part].stops)}")
    elif tour is None:
        if word in ("back", "again", "stop"):
            raise UsageError("the tour is not under way: %tour begins it, %tour 3 begins at part 3")
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
        left = Document()
        if session.exercises is not None and session.exercises.open is not None:
            left = session.exercises.leave().document
        tour = session.tour = Tour(session, PARTS)
        shown = tour.go(part, stop)
        return Result(left + shown.document, shown.value, shown.recording) if left else shown
    return tour.go(part, stop)


COMMANDS = (
    Command(
        "tour",
        (
            Param(
                "where",
                "text",
                "a part such as 3, a stop such as 3.2, next, back, again, stop; exercises, ex 3, edit, check, hint, "
                "solution",
            ),
            Param("use", "flag", "with solution: define it"),
        ),
        "A guided tour in seven parts, live: each stop runs a line here and shows what it did.\n\n"
        "Part 1 is about transformations as interpreters, 2 about jaxprs, 3 about jit, 4 about linearize, vjp and "
        "grad, 5 about control flow, 6 about many devices, 7 about whole programs. %tour alone goes on. Type what you "
        "like between the stops. If a part uses a name of yours, your value is saved at the first stop that needs the "
        "name, and comes back when the part ends.\n\n"
        "%tour exercises lists the tasks at the end of the tour, %tour ex 3 opens one and defines its start code. "
        "Write your answer at the prompt: %tour edit puts your answer so far there. %tour check runs it, and says what "
        "is right or wrong. %tour hint gives hints one by one, %tour solution shows an answer, %tour stop "
        "brings your names back.",
        "%tour 1\n%tour next\n%tour stop\n%tour exercises\n%tour ex 1",
        run_tour,
        group="session",
    ),
)
