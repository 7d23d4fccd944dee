"""What the interactive parts of a page share: texts kept once, data that can stand in a script element, and the
element itself with its style, its script, and what is read where scripts are off.

Nothing is loaded from outside, and nothing that was recorded becomes markup: it travels as JSON and is shown as text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from minijax.tools.documents.document import Line, line
from minijax.tools.documents.html import layout, shown, stylesheet

# What stands above the text that is read where scripts are off.
WITH_SCRIPTS = "where scripts are on, a stepper stands here."
WITH_ANOTHER = "run its cell again for a stepper."
# Of one program or file no more lines than this are put into the page.
MOST_LINES = 1000


class Texts:
    """Texts and lines by number: those that occur twice are kept once."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.roles: dict[str, int] = {}
        self.lines: dict[tuple[int, ...], int] = {}
        self.varying: list[tuple[tuple[int, ...], list[int]]] = []
        self._known: dict[Line, int] = {}

    def string(self, text: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(shown(text), len(self.strings))

    def line(self, parts: Line) -> int:
        """The number of a line; neighbours of one role are joined."""
        known = self._known.get(parts)
        if known is None:
            known = self._known[parts] = self._line(parts)
        return known

    def _line(self, parts: Line) -> int:
        joined: list[tuple[str, str]] = []
        for role, text in parts:
            if joined and joined[-1][0] == role:
                joined[-1] = (role, joined[-1][1] + text)
            elif text:
                joined.append((role, text))
        flat = [
            number
            for role, text in joined
            for number in (self.roles.setdefault(role, len(self.roles)), self.string(text))
        ]
        return self.lines.setdefault(tuple(flat), len(self.lines))

    def varied(self, choices: tuple[int, ...]) -> tuple[int, list[int]]:
        """The number of a line that is one of several, by what is chosen of each of ``choices``; and the list that is
        to have their numbers, what is chosen of the last choice changing fastest.
        """
        picks: list[int] = []
        self.varying.append((choices, picks))
        return self.lines.setdefault((-len(self.varying),), len(self.lines)), picks

    def block(self, lines: Iterable[Line], most: int = MOST_LINES) -> list[int]:
        """The numbers of lines, those beyond ``most`` counted."""
        listed = list(lines)
        out = [self.line(each) for each in listed[:most]]
        if len(listed) > most:
            out.append(self.line(line(("muted", f"... {len(listed) - most} more lines"))))
        return out

    def tables(self) -> dict[str, Any]:
        """What the numbers stand for. A line is ``[role, string, role, string ...]``, or one that varies: ``[-1]`` is
        the first of these.
        """
        tables = {"lines": list(self.lines), "roles": list(self.roles), "strings": list(self.strings)}
        return {**tables, "varying": self.varying} if self.varying else tables


def packed(data: Any, rename: Callable[[str], str] | None = None) -> str:
    """``data`` as JSON, compressed (RFC 1951) and in letters (base64): ``inflate.js`` reads it. ``rename`` changes the
    text before.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text if rename is None else rename(text)
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(squeezer.compress(text.encode()) + squeezer.flush()).decode("ascii")


def embedded(data: Any) -> str:
    """``data`` as JSON that can stand in a ``<script>`` element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def script() -> tuple[str, str]:
    """The script and its version, by which it finds the widgets that it knows how to start."""
    # the last one starts what is on the page
    names = ("inflate.js", "chooser.js", "stepper.js", "links.js", "stages.js", "live.js", "page.js")
    text = "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
    version = hashlib.sha256(text.encode()).hexdigest()[:10]
    return "\n".join(["(() => {", '"use strict";', _squeezed(text, version), "})();"]), version


@functools.cache
def loader() -> str:
    """The module of a live page, which gets the script where that is not on the page."""
    return _squeezed(Path(__file__).with_name("loader.js").read_text(encoding="utf-8"), script()[1])


def _squeezed(text: str, version: str) -> str:
    """A script without comments and indentation."""
    lines = [each.strip() for each in text.replace("@VERSION@", version).split("\n")]
    return "\n".join(each for each in lines if each and not each.startswith("// "))


@functools.cache
def style() -> str:
    """The rules of documents and of these parts."""
    text = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return stylesheet() + text.replace("\n", "")


def element(data: dict[str, Any], otherwise: str) -> str:
    """The element that the script brings to life, with its style and the script.

    ``otherwise`` is the markup that is read where scripts are off.
    """
    return bare_element(data, otherwise, _own_style()) + f"<script>{script()[0]}</script>"


def _own_style() -> str:
    # the script keeps a copy of it for elements that have none: see ``lent``
    return f'<style class="mjw-style">{style()}</style>'


def has_script(markup: str) -> bool:
    """Whether an ``element`` with style and script is in it."""
    return script()[0] in markup


def lent(markup: str) -> str:
    """``markup`` for a page on which an ``element`` brought style and script already. Where these have gone from the
    page, what is read where scripts are off is laid out as it is to be, and says how to get the rest.
    """
    begin = f'<script>document.dispatchEvent(new Event("mjw{script()[1]}"))</script>'
    markup = markup.replace(_own_style(), f"<style>{layout()}</style>")
    markup = markup.replace(f"<script>{script()[0]}</script>", begin)
    return markup.replace(WITH_SCRIPTS, WITH_ANOTHER)


def bare_element(data: dict[str, Any], otherwise: str, before: str = "") -> str:
    """The element alone, for a page that has ``style`` and, below all of them, ``script``."""
    return (
        # JupyterLab's own shortcuts rest while the focus is inside
        '<div class="minijax mjw tex2jax_ignore mathjax_ignore" data-lm-suppress-shortcuts="true" '
        f'data-mjw="{script()[1]}">{before}<div class="mjw-static">{otherwise}</div>'
        f'<script type="application/json">{embedded(data)}</script></div>'
    )
