"""The list of all exercises, in the order of the course."""

from __future__ import annotations

from minijax.tools.exercises import compiling, debugging, gradients, rules, staging
from minijax.tools.exercises.model import Exercise

EXERCISES: tuple[Exercise, ...] = (
    *staging.EXERCISES,
    *rules.EXERCISES,
    *compiling.EXERCISES,
    *debugging.EXERCISES,
    *gradients.EXERCISES,
)
