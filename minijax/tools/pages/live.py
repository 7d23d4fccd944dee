"""A recording on a page that is connected to its process. The process makes a part of the page when the reader gets to
it, and records the call again when the reader changes an argument.

``LivePage`` answers messages of the page. Messages and answers are JSON data, which the front end transports.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from minijax.core import miss_log, observe
from minijax.core.array import Array
from minijax.core.trace import Tracer
from minijax.interop.uses import is_jax_array
from minijax.tools.documents.document import Highlighter
from minijax.tools.documents.html import layout, shown
from minijax.tools.documents.words import shortened
from minijax.tools.pages.page import css_file, packed, script, style
from minijax.tools.pages.part import WIDTH
from minijax.tools.pages.widget import MOST_RECORDS, SteppedPage, log_lines
from minijax.tools.recording.cursor import Cursor
from minijax.tools.recording.records import Recording, place_parts
from minijax.tools.recording.timeline import timeline
from minijax.tools.session.result import Step
from minijax.tools.values.moment import at_hand
from minijax.tools.values.table import PageTable

# Maximum number of records on the page. A longer recording is cut to the records around the moment shown first.
MOST_LIVE = 200_000
# Maximum number of arguments with sliders, and maximum number of elements in an array with sliders.
MOST_ARGUMENTS = 12
MOST_ELEMENTS = 256
# The number of steps of a slider for floats, and the largest number that it can show.
_STEPS = 200
_WIDEST = 1e300


class LivePage:
    """Answers the messages that the script sends about the recording in ``step``.

    Args:
      rename: replaces names in the texts.
      ended: is called after user code has run.
    """

    def __init__(
        self,
        step: Step,
        highlight: Highlighter | None = None,
        rename: Callable[[str], str] = str,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.step = step
        self.highlight = highlight
        self.rename = rename
        self.ended = ended
        self.leaves = [value for _, value in step.given]
        movable = list(_controls(step)) if step.again is not None else []
        self.controls = movable[:MOST_ARGUMENTS]
        # how many arguments have no sliders only because there are too many arguments
        self.left = len(movable) - len(self.controls)
        places = (getattr(node, "place", "") for _, node in step.recording.walk())
        # the line that the first call was made from, for later calls, which the notebook makes
        self.place = next((place for place in places if place_parts(place)[2] == "<module>"), "")
        self._show(step.recording, step.position)

    def _show(self, recording: Recording, start: int) -> None:
        self.recording = recording
        start = min(max(start, 0), len(timeline(recording)) - 1)
        self.page = SteppedPage(recording, self.highlight, MOST_LIVE, start)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message of the script. If the answer is of kind "failed", its ``said`` is the reason."""
        kind = asked.get("kind")
        if kind == "script":
            return {"kind": "script", "script": script()[0], "style": style()}
        if kind == "page":
            return self._whole()
        if kind == "part":
            return self._part(int(asked["begin"]))
        if kind == "again":
            index = tuple(int(i) for i in asked["index"])
            return self._again(int(asked["control"]), index, float(asked["value"]), int(asked["moment"]))
        return {"kind": "failed", "said": f"the kernel does not know the question {kind!r}"}

    def _whole(self) -> dict[str, Any]:
        """The whole page, together with the part that is visible first."""
        page = self.page
        first = max(begin for begin in page.parts if begin <= page.begin)
        made = packed(page.part(first), self.rename)
        parts = [[begin, made if begin == first else None] for begin in page.parts]
        data = {**page.header(), "parts": parts, **page.texts.tables()}
        return {"kind": "page", "data": data, "controls": self.controls, "left": self.left}

    def _part(self, begin: int) -> dict[str, Any]:
        if begin not in self.page.parts:
            return {"kind": "failed", "said": f"this recording has no part that begins at {begin}"}
        made = packed(self.page.part(begin), self.rename)
        return {"kind": "part", "begin": begin, "data": made, "choices": self.page.choices}

    def _again(self, number: int, index: tuple[int, ...], value: float, moment: int) -> dict[str, Any]:
        """Record the call again with one number changed. The page stays at the reader's moment."""
        control = self.controls[number]
        leaf = control["leaf"]
        before = self.leaves[leaf]
        try:
            self.leaves[leaf] = changed(before, index, value)
            assert self.step.again is not None
            recording, error = _called_at(self.place, partial(self.step.again, self.leaves))
        except Exception as failed:  # user code may raise any error, and the number may not fit the type
            recording, error = None, failed
        finally:
            if self.ended is not None:
                self.ended()
        if recording is None or recording.blank:
            self.leaves[leaf] = before
            message = "" if error is None else f"{type(error).__name__}: {error}"
            message = shortened(self.rename(message), 300) or "nothing was computed"
            # the page shows the new number already: send the old numbers to replace it
            return {"kind": "failed", "said": message, "controls": self.controls}
        control["values"] = _elements(self.leaves[leaf])
        self._show(recording, moment)
        return self._whole()


def _called_at(place: str, call: Callable[[], Any]) -> Any:
    """The result of ``call``, called from a line of the user."""
    file, number, _ = place_parts(place)
    code = compile("\n" * (number - 1) + "call()", file or "<call>", "eval")
    return eval(code, {"call": call})


def changed(leaf: Any, index: tuple[int, ...], value: float) -> Any:
    """A copy of ``leaf``, of the same type, with one element replaced by ``value``."""
    if isinstance(leaf, (int, float)):
        return type(leaf)(value)
    low, high = _bounds(leaf)
    if not low <= value <= high:
        raise OverflowError(f"{value:g} is no {leaf.dtype}, a number from {low:g} to {high:g}")
    if isinstance(leaf, (np.ndarray, np.generic)):
        made = np.array(leaf)
        made[index] = value
        return made if isinstance(leaf, np.ndarray) else made[()]
    # the user did not ask for this trace: keep it out of recordings and cache misses
    with miss_log.unkept(), observe.unobserved():
        return leaf.at[index].set(int(value) if _kind(leaf) in "iu" else value)


def _controls(step: Step) -> Iterator[dict[str, Any]]:
    """For each argument that is a number or a small array, the data of the sliders for its elements."""
    for leaf, (name, value) in enumerate(step.given):
        elements = _elements(value)
        if elements:
            whole = _kind(value) in "iu"
            own = {"leaf": leaf, "name": shown(name), "shape": list(np.shape(value)), "whole": whole}
            yield own | {"values": elements} | _range(elements, whole, _bounds(value))


def _elements(value: Any) -> list[float]:
    """The elements of an argument for its sliders; [] if it is not numeric, or has too many or too large elements."""
    if not _kind(value) or math.prod(np.shape(value)) > MOST_ELEMENTS:
        return []
    try:
        numbers = [float(x) for x in np.asarray(value).reshape(-1)]
    except OverflowError:  # a Python integer may be too large for a float
        return []
    return numbers if all(abs(x) <= _WIDEST for x in numbers) else []


def _kind(value: Any) -> str:
    """The kind of a number or array: ``f`` for floats, ``i`` and ``u`` for integers, '' if it gets no slider."""
    if isinstance(value, (int, float)):
        return "" if isinstance(value, bool) else "i" if isinstance(value, int) else "f"
    if isinstance(value, Tracer) or not (isinstance(value, (Array, np.ndarray, np.generic)) or is_jax_array(value)):
        return ""
    kind = getattr(value.dtype, "kind", "")
    return kind if kind in ("f", "i", "u") else ""


def _bounds(value: Any) -> tuple[float, float]:
    """The smallest and the largest number that an argument's type can hold."""
    if isinstance(value, (int, float)):
        return -math.inf, math.inf
    known = np.iinfo(value.dtype) if _kind(value) in "iu" else np.finfo(value.dtype)
    return float(known.min), float(known.max)


def _range(elements: list[float], whole: bool, bounds: tuple[float, float]) -> dict[str, float]:
    """The range of a slider: about twice the largest element in both directions, but within the type's ``bounds``."""
    widest = max(2 * max(map(abs, elements)), 10.0 if whole else 1.0)
    # round up to 1, 2 or 5 times a power of ten
    power = 10.0 ** math.floor(math.log10(widest))
    widest = next(power * times for times in (1, 2, 5, 10) if power * times >= widest)
    low, high = max(-widest, bounds[0]), min(widest, bounds[1])
    return {"low": low, "high": high, "step": 1 if whole else 2 * widest / _STEPS}


def static_html(recording: Recording, start: int = 0, rename: Callable[[str], str] = str) -> str:
    """What a saved notebook shows if the page is not live: the folded log, and the values at the first moment."""
    log = "".join(log_lines(recording, MOST_RECORDS, start, "in a notebook with a kernel, the stepper is shown."))
    values = "\n".join(html.escape(shown(each)) for each in _values(recording, start))
    table = f"<pre>values at the first moment\n{values}</pre>" if values else ""
    around = '<div class="minijax mjw-static mjw-kept tex2jax_ignore mathjax_ignore">'
    return rename(f"{around}<style>{layout()}{css_file('kept')}</style>{table}{log}</div>")


def _values(recording: Recording, start: int) -> Iterator[str]:
    known = at_hand(recording)
    if known is None:
        return
    cursor = Cursor(recording)
    cursor.go(start)
    for each in PageTable(known, WIDTH).lines(cursor.moment.at):
        yield "".join(piece for _, piece in each)
