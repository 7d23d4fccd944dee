"""The words that complete a command's text: settings, panels, transformations, primitives, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from minijax.config import config
from minijax.extend.rules import known_primitives
from minijax.tools.commands.table import COMMANDS
from minijax.tools.gallery import PAGES
from minijax.tools.live.kinds import KINDS
from minijax.tools.session.settings import CHOICES
from minijax.tools.session.specs import DTYPES

# Maximum number of files offered from one folder.
MOST_FILES = 500
# Shapes offered after a type. The user may type others.
_SHAPES = ("[]", "[3]", "[2,3]")


def config_words(before: list[str]) -> Iterable[str]:
    """The names of settings, or after the name of a setting the values that it takes."""
    if not before:
        return (*CHOICES, *config.values, "save")
    if before[0] in CHOICES:
        return (*CHOICES[before[0]], *(("on", "off") if before[0] in ("panels", "full") else ()))
    return ("on", "off") if isinstance(config.values.get(before[0]), bool) else ()


def primitive_words(before: list[str]) -> Iterable[str]:
    return () if before else (*sorted({primitive.name for primitive in known_primitives()}), "--missing")


def _numbers(parts: Sequence[object]) -> tuple[str, ...]:
    """The numbers ``1``, ``2``, ... of the parts."""
    return tuple(str(number) for number in range(1, len(parts) + 1))


def tour_words(before: list[str]) -> Iterable[str]:
    """The parts and commands of the tour. After ``ex``, the numbers of the exercises."""
    if before[:1] in (["ex"], ["exercises"]):
        # imported late: few users need it
        from minijax.tools.exercises.catalogue import EXERCISES

        return _numbers(EXERCISES) if len(before) == 1 else ()
    from minijax.tools.commands.tour_parts import PARTS

    moves = ("next", "back", "again", "stop", "exercises", "ex", "edit", "check", "hint", "solution")
    return () if before else (*_numbers(PARTS), *moves)


# command -> a function from the words before the cursor to the possible next words. Other commands complete Python.
WORDS: dict[str, Callable[[list[str]], Iterable[str]]] = {
    "gallery": lambda before: () if before else tuple(PAGES),
    "help": lambda before: () if before else tuple(COMMANDS),
    "config": config_words,
    "push": lambda before: () if before else KINDS,
    "rules": primitive_words,
    "tour": tour_words,
    "x64": lambda before: () if before else ("on", "off"),
}
# Commands and options that take a file name.
FILES = ("cd", "export", "run", "--file")


def spec_words(word: str) -> Iterable[str]:
    """Types such as ``z=f32[3]``, after the user has typed the name of an input and ``=``."""
    name, equals, _ = word.partition("=")
    return [f"{name}={kind}{shape}" for kind in DTYPES for shape in _SHAPES] if equals and name.isidentifier() else ()


def file_words(typed: str) -> list[str]:
    """The files and folders whose paths begin with ``typed``; ``~`` is the user's home folder."""
    folder, _, start = typed.rpartition("/")
    where = os.path.expanduser(folder + "/" if "/" in typed else ".")
    try:
        with os.scandir(where) as entries:
            found = [entry for _, entry in zip(range(MOST_FILES), entries, strict=False)]
            names = [entry.name + ("/" if entry.is_dir() else "") for entry in found]
    except OSError:
        return []
    before = folder + "/" if "/" in typed else ""
    return sorted(
        before + name for name in names if name.startswith(start) and (start.startswith(".") or name[0] != ".")
    )
