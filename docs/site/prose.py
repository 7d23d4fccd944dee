"""Markdown to HTML, with linked headings, links between pages, and command names linked to the reference."""

from __future__ import annotations

import html
import re
from typing import Any

import mistune

from docs.site.blocks import Blocks
from minijax.tools.commands.table import COMMANDS

REFERENCE, TOUR = "commands.html", "tour.html"
# A link's target in the Markdown -> the page that is generated from that file.
MADE_OF = {"../minijax/tools/commands/table.py": REFERENCE, "../minijax/tools/commands/tour.md": TOUR}
# A placeholder for a code block that has not run yet. No text contains this character.
_PLACE = "\ue000{}\ue000"
_COMMAND = re.compile(r"%{1,2}(\w+)")


def slug(text: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w]+", "-", re.sub(r"<[^>]*>", "", html.unescape(text)).lower()).strip("-")


def code(escaped: str, up: str = "") -> str:
    """Inline code as HTML. If it begins with a command's name, it links to the command's description."""
    match = _COMMAND.match(escaped)
    shown = f"<code>{escaped}</code>"
    return f'<a href="{up}{REFERENCE}#{match[1]}">{shown}</a>' if match is not None and match[1] in COMMANDS else shown


class Prose(mistune.HTMLRenderer):
    """A mistune renderer; it collects the code blocks in ``found``."""

    def __init__(self, up: str = "") -> None:
        super().__init__(escape=True)
        self.up = up
        self.found: list[tuple[str, list[str], str]] = []

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        name = slug(text)
        return f'<h{level} id="{name}"><a href="#{name}">{text}</a></h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        # a link names the Markdown file of a page, or the source file that a page is generated from
        url = f"{self.up}{MADE_OF[url]}" if url in MADE_OF else url
        if "://" not in url and (match := re.fullmatch(r"([\w/-]+)\.md(#[\w-]+)?", url)):
            url = f"{self.up}{match[1]}.html{match[2] or ''}"
        return super().link(text, url, title)

    def codespan(self, text: str) -> str:
        return code(html.escape(text), self.up)

    def block_code(self, code: str, info: str | None = None) -> str:
        kind, *words = (info or "").split()
        self.found.append((kind, words, code))
        return f"{CLOSE}{_PLACE.format(len(self.found) - 1)}{OPEN}"


OPEN, CLOSE = '<div class="prose">', "</div>\n"


def to_html(text: str, blocks: Blocks, up: str = "") -> str:
    """Markdown as HTML; ``up`` is the relative path from the page to the folder of the site."""
    prose = Prose(up)
    made = mistune.create_markdown(renderer=prose, plugins=["table"])(text)
    whole = f"{OPEN}{made}{CLOSE}".replace(f"{OPEN}{CLOSE}", "")
    # blocks run here, outside mistune, to keep mistune out of their tracebacks and out of the provenance of values
    for number, (kind, words, code) in enumerate(prose.found):
        whole = whole.replace(_PLACE.format(number), blocks.run(kind, words, code), 1)
    return whole
