"""``--json``: one line with a JSON object for every input, for programs that drive a session.

The fields:

- ``format``: 1, the version of this list. Fields may be added; existing ones keep their meaning.
- ``number``, ``input``: the input's number and text.
- ``value``: the repr of the last expression's value; null if there was none.
- ``shown``: what a prompt would show above the panels, as plain text.
- ``printed``: the input's standard output. If it is long, it is cut, and ``printed_cut`` is true.
- ``error``: null, or an object with ``type``, ``message``, ``place`` (``file:line``, innermost in user code, or null).
- ``data``: a command's output as data; the field is absent if there is none. ``%values`` gives a list of rows.
- ``panels``: null for an input that traced nothing, else as ``tools.recording.panel_data`` describes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.recording.panel_data import panel_data
from minijax.tools.session.result import NOTHING
from minijax.tools.session.session import Outcome, Session
from minijax.tools.session.tracebacks import last_user_place

FORMAT = 1
WIDTH = 100
MOST_PRINTED = 1_000_000


class CapturedPrint(io.TextIOBase):
    """Keeps what an input prints, up to a bound, so that a program that prints forever does not fill the memory."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.room = MOST_PRINTED
        self.cut = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self.room]
        if kept:
            self.pieces.append(kept)
            self.room -= len(kept)
        self.cut = self.cut or len(kept) < len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.pieces)


def run(session: Session, code: str, stop: bool) -> int:
    """Run every input of ``code``; return 1 if an input raised. With ``stop``, the first error ends the run."""
    with _own_output() as out:

        def step(each: str) -> BaseException | None:
            printed = CapturedPrint()
            try:
                with contextlib.redirect_stdout(printed):
                    outcome = session.run_line(each)
            except SystemExit as leaving:
                left = {"leaving": leaving.code if isinstance(leaving.code, (int, str)) else None}
                _write(out, _head(len(session.inputs) - 1, each, printed) | left)
                raise
            _write(out, as_data(session, each, outcome, printed))
            return outcome.error

        return batch.each_input(code, step, stop)


@contextlib.contextmanager
def _own_output() -> Iterator[TextIO]:
    """Reserve standard output for the JSON objects; other text written to its descriptor goes to standard error."""
    sys.stdout.flush()
    try:
        ours = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # the descriptor does not exist
        yield sys.stdout
        return
    with open(ours, "w", encoding="ascii") as out:
        try:
            yield out
        finally:
            out.flush()
            os.dup2(ours, 1)


def _write(out: TextIO, data: dict[str, Any]) -> None:
    # in ASCII with escapes, because UTF-8 cannot encode half of a surrogate pair
    out.write(json.dumps(data, allow_nan=False) + "\n")
    out.flush()


def _head(number: int, code: str, printed: CapturedPrint) -> dict[str, Any]:
    head: dict[str, Any] = {"format": FORMAT, "number": number, "input": code, "value": None, "shown": ""}
    head |= {"printed": printed.text(), "error": None, "panels": None}
    return head | ({"printed_cut": True} if printed.cut else {})


def as_data(session: Session, code: str, outcome: Outcome, printed: CapturedPrint) -> dict[str, Any]:
    data = _head(outcome.number, code, printed)
    if outcome.value is not NOTHING and outcome.value is not None:
        data["value"] = _repr(outcome.value)
    data["shown"] = plain(outcome.shown, WIDTH)
    if outcome.error is not None:
        data["error"] = {
            "type": type(outcome.error).__name__,
            "message": _text(outcome.error),
            "place": last_user_place(outcome.error) or None,
        }
    if outcome.data is not None:
        data["data"] = outcome.data
    if outcome.recording is not None and outcome.recording.traced:
        data["panels"] = panel_data(outcome.recording, session.settings.style)
    return data


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # raised by the user's class
        return f"<repr raised {type(error).__name__}>"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
