"""What all interactive parts of a page need: a table of texts, data for a script, and an HTML element with the data,
the style, the script, and a content for pages without scripts.

A page loads nothing. Recorded data is never markup: it is JSON, and the script shows it as text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import Any

from minijax.tools.documents.document import Line, line
from minijax.tools.documents.html import css, layout, shown, stylesheet

# Pages without scripts say at their start how to get the stepper.
WITH_SCRIPTS = "with scripts enabled, the stepper is shown."
WITH_ANOTHER = "run this cell again for the stepper."
# Maximum number of lines of one program or file on the page.
MOST_LINES = 1000


class Texts:
    """Texts and lines, which are stored once and have numbers."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.roles: dict[str, int] = {}
        self.lines: dict[tuple[int, ...], int] = {}
        self._known: dict[Line, int] = {}

    def string(self, text: str) -> int:
        """The number of a text."""
        return self.strings.setdefault(shown(text), len(self.strings))

    def line(self, parts: Line) -> int:
        """The number of a line. Adjacent segments with the same role are joined first."""
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

    def block(self, lines: Iterable[Line], most: int = MOST_LINES) -> list[int]:
        """The numbers of the first ``most`` lines. If there are more, a line says how many are left out."""
        listed = list(lines)
        out = [self.line(each) for each in listed[:most]]
        if len(listed) > most:
            out.append(self.line(line(("muted", f"... {len(listed) - most} more lines"))))
        return out

    def tables(self) -> dict[str, Any]:
        """The tables of lines, roles and strings. A line is ``[role, string, role, string ...]``."""
        return {"lines": list(self.lines), "roles": list(self.roles), "strings": list(self.strings)}


class Track:
    """The items that a pane shows, moment by moment, stored as changes. A pane is empty before the first moment.

    ``changes`` has an entry for each moment at which the items change: ``[moments since the previous change, items kept
    at the beginning, items removed after them, items added in their place ...]``.
    """

    def __init__(self) -> None:
        self.changes: list[list[int]] = []
        self._items: list[int] = []
        self._position = 0

    def show(self, position: int, items: Sequence[int]) -> None:
        """From the moment ``position`` on, the pane shows ``items``."""
        wanted, old = list(items), self._items
        if wanted == old:
            return
        kept = len(commonprefix((old, wanted)))
        end = len(commonprefix((old[kept:][::-1], wanted[kept:][::-1])))
        self.changes.append([position - self._position, kept, len(old) - end - kept, *wanted[kept : len(wanted) - end]])
        self._items, self._position = wanted, position


def packed(data: Any, rename: Callable[[str], str] | None = None) -> str:
    """``data`` as JSON (changed by ``rename``), compressed by RFC 1951 and encoded as base64, for ``inflate.js``."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text if rename is None else rename(text)
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(squeezer.compress(text.encode()) + squeezer.flush()).decode("ascii")


def embedded(data: Any) -> str:
    """``data`` as JSON for a ``<script>`` element. No character in it can end the element or begin a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def script() -> tuple[str, str]:
    """The script and its version. A script starts only the elements that have its version."""
    # the last file starts the elements on the page
    names = ("inflate.js", "chooser.js", "stepper.js", "links.js", "stages.js", "live.js", "page.js")
    text = "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)
    version = hashlib.sha256(text.encode()).hexdigest()[:10]
    return "\n".join(["(() => {", '"use strict";', _squeezed(text, version), "})();"]), version


@functools.cache
def loader() -> str:
    """A module for live pages, which asks for the script if the page has none."""
    return _squeezed(Path(__file__).with_name("loader.js").read_text(encoding="utf-8"), script()[1])


def _squeezed(text: str, version: str) -> str:
    """A script without comments and indentation."""
    lines = [each.strip() for each in text.replace("@VERSION@", version).split("\n")]
    return "\n".join(each for each in lines if each and not each.startswith("// "))


def css_file(name: str) -> str:
    """The CSS rules in a file of this folder."""
    return css(Path(__file__).with_name(f"{name}.css"))


def style() -> str:
    """The CSS rules of documents and interactive parts."""
    return stylesheet() + css_file("page")


def element(data: dict[str, Any], otherwise: str) -> str:
    """The HTML element for the data, with its style and the script.

    ``otherwise`` is the content that is shown without scripts.
    """
    return bare_element(data, otherwise, _own_style()) + f"<script>{script()[0]}</script>"


def _own_style() -> str:
    # the script copies this style to elements that lack it: see ``lent``
    return f'<style class="mjw-style">{style()}</style>'


def has_script(markup: str) -> bool:
    """Whether the markup has an ``element`` with style and script."""
    return script()[0] in markup


def lent(markup: str) -> str:
    """``markup`` without style and script, for a page on which an earlier ``element`` has both. If that element
    is removed later, the page shows the static content, which has its layout and says how to get the stepper.
    """
    begin = f'<script>document.dispatchEvent(new Event("mjw{script()[1]}"))</script>'
    markup = markup.replace(_own_style(), f"<style>{layout()}</style>")
    markup = markup.replace(f"<script>{script()[0]}</script>", begin)
    return markup.replace(WITH_SCRIPTS, WITH_ANOTHER)


def bare_element(data: dict[str, Any], otherwise: str, before: str = "") -> str:
    """The element without style and script, for a page that has the style, and the script at its end."""
    return (
        # with this, JupyterLab's keyboard shortcuts are off while the focus is in the element
        '<div class="minijax mjw tex2jax_ignore mathjax_ignore" data-lm-suppress-shortcuts="true" '
        f'data-mjw="{script()[1]}">{before}<div class="mjw-static">{otherwise}</div>'
        f'<script type="application/json">{embedded(data)}</script></div>'
    )
