"""Markdown to HTML: headings to link to, links between pages, names of commands that lead to the reference."""

from __future__ import annotations

import html
import re
from typing import Any

import mistune

from docs.site.blocks import Blocks
from minijax.tools.commands.table import COMMANDS

REFERENCE = "commands.html"
_COMMAND = re.compile(r"%{1,2}(\w+)")


def slug(text: str) -> str:
    """The name by which a heading is linked to."""
    return re.sub(r"[^\w]+", "-", re.sub(r"<[^>]*>", "", html.unescape(text)).lower()).strip("-")


class Prose(mistune.HTMLRenderer):
    """What mistune is asked to make of each part of a text."""

    def __init__(self, blocks: Blocks, up: str = "") -> None:
        super().__init__(escape=True)
        self.blocks = blocks
        self.up = up

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        name = slug(text)
        return f'<h{level} id="{name}"><a href="#{name}">{text}</a></h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        # the pages are linked to as the Markdown that they are in the repository
        if "://" not in url and (match := re.fullmatch(r"([\w/-]+)\.md(#[\w-]+)?", url)):
            url = f"{self.up}{match[1]}.html{match[2] or ''}"
        return super().link(text, url, title)

    def codespan(self, text: str) -> str:
        shown = super().codespan(text)
        match = _COMMAND.match(text)
        known = match is not None and match[1] in COMMANDS
        return f'<a href="{self.up}{REFERENCE}#{match[1]}">{shown}</a>' if match is not None and known else shown

    def block_code(self, code: str, info: str | None = None) -> str:
        kind, *words = (info or "").split()
        return f"{CLOSE}{self.blocks.run(kind, words, code)}{OPEN}"


OPEN, CLOSE = '<div class="prose">', "</div>\n"


def to_html(text: str, blocks: Blocks, up: str = "") -> str:
    """Markdown as HTML; ``up`` leads from the page to the folder of the site."""
    made = mistune.create_markdown(renderer=Prose(blocks, up), plugins=["table"])(text)
    return f"{OPEN}{made}{CLOSE}".replace(f"{OPEN}{CLOSE}", "")
