"""The audit of one program: the claims of every command about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.claims.checks import CHECKS as FIRST
from tests.claims.checks import Asked, Claim
from tests.claims.more_checks import MORE
from tests.claims.programs import program

CHECKS = FIRST | MORE


def claims_of(seed: int, commands: Iterable[str] = tuple(CHECKS)) -> tuple[list[Claim], Counter[str]]:
    """The claims about the program of a seed, and how many values were printed that JAX does not compute."""
    asked = Asked(program(seed))
    for name in commands:
        CHECKS[name](asked)
    return asked.claims, asked.unchecked
