"""The exercises in the order of the course: the texts of ``exercises.md``, each with its checker."""

from __future__ import annotations

from collections.abc import Iterator

from minijax.tools.exercises import compiling, debugging, gradients, rules, staging
from minijax.tools.exercises.model import Exercise
from minijax.tools.exercises.pages import EXERCISES as TEXTS
from minijax.tools.exercises.pages import pages

CHECKS = {**staging.CHECKS, **rules.CHECKS, **compiling.CHECKS, **debugging.CHECKS, **gradients.CHECKS}


def _exercises() -> Iterator[Exercise]:
    for heading, (lesson, task, start, hints, *solutions, why) in pages(TEXTS):
        name, _, title = heading.partition(": ")
        codes = tuple(each.text + "\n" for each in solutions)
        texts = lesson.text, task.text, start.text + "\n", start.words
        yield Exercise(name, title, *texts, CHECKS[name], hints.items, codes, why.text, rules.GIVEN.get(name, dict))


EXERCISES: tuple[Exercise, ...] = tuple(_exercises())
