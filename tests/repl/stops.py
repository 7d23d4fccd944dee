"""Programs stopped at moments that a user would look at, and their screens, drawn without a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from minijax import errors
from minijax.core.records import NamedTuple
from minijax.repl import batch
from minijax.repl.stepper.model import Stepper
from minijax.repl.stepper.screen import compose
from minijax.tools.documents import words
from minijax.tools.documents.document import length
from minijax.tools.recording.naming import naming_of
from minijax.tools.stepper.panes import moment_line

SIZES = ((80, 24), (120, 40), (200, 60))


class Stop(NamedTuple):
    """A program and one of its moments.

    inputs: the lines that define the program. line: the line to step through. go: moves the stepper to the moment.
    focus: the focused pane; a small screen shows only this pane and the tree.
    """

    inputs: tuple[str, ...]
    line: str
    go: Callable[[Stepper], None]
    focus: str = "source"


def to(*texts: str) -> Callable[[Stepper], None]:
    """A function that moves to the first moment whose line has the first text, then on to the second text, etc."""

    def go(stepper: Stepper) -> None:
        naming = naming_of(stepper.recording)
        stepper.cursor.first()
        for each in texts:
            lines = ("".join(piece for _, piece in moment_line(m, naming)) for m in stepper.cursor.moments)
            found = [i for i, line in enumerate(lines) if each in line and i > stepper.cursor.position]
            assert found, f"{each!r} is not shown after {stepper.cursor.position}"
            stepper.move(stepper.cursor.go(found[0]), "")

    return go


def stopped(stop: Stop, namespace: Mapping[str, Any] | None = None) -> Stepper:
    """A stepper for the line of ``stop``, moved to the moment. The test's own files do not count as user code."""
    session = batch.new_session({})
    session.namespace.update(namespace or {})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(errors, "_excluded", (*errors._excluded, *files_of_the_caller()))
        errors._is_user.clear()
        for code in stop.inputs:
            outcome = session.run_line(code)
            assert outcome.error is None, outcome.error
        step = session.run_line(stop.line).step
    errors._is_user.clear()
    assert step is not None
    stepper = Stepper(step, session.renamed_places)
    stop.go(stepper)
    stepper.focus = stop.focus
    return stepper


def files_of_the_caller() -> set[str]:
    """The files of all functions on the call stack, including ``<string>``, the file of a test worker's code."""
    frame: FrameType | None = sys._getframe(1)
    files: set[str] = set()
    while frame is not None:
        files |= {frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename)}
        frame = frame.f_back
    return files


def screen(stepper: Stepper, columns: int, rows: int) -> str:
    """The screen at this size, with all durations shown as 1.0 ms."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(words.seconds_text, "__code__", (lambda seconds: "1.0 ms").__code__)
        drawn = compose(stepper, columns, rows)
    assert len(drawn) == rows and max(map(length, drawn)) <= columns
    return "\n".join("".join(piece for _, piece in each).rstrip() for each in drawn)
