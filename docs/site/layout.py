"""Builds a page around its body: navigation, style, and a content policy that blocks requests and foreign scripts."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from dataclasses import dataclass
from pathlib import Path

from minijax.tools.pages import page as widget


class PageError(Exception):
    """A page has a mistake and cannot be made."""


@dataclass(frozen=True)
class Place:
    """A page in the navigation: its file, relative to the site, and its title."""

    file: str
    title: str


# Marks a stepper in a page. A page with steppers has their script at its end.
STEPPER = 'class="minijax mjw '
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@functools.cache
def style() -> str:
    return widget.style() + Path(__file__).with_name("style.css").read_text(encoding="utf-8").replace("\n", "")


def page(place: Place, body: str, places: list[Place], title: str = "") -> str:
    """A whole page; ``places`` are the entries of the navigation, in order. ``place`` need not be one of them."""
    script = f"<script>{widget.script()[0]}</script>" if STEPPER in body else ""
    scripts = sorted(set(_SCRIPT.findall(body + script)))
    allowed = "".join(f" 'sha256-{_digest(each)}'" for each in scripts) or " 'none'"
    policy = (
        f"default-src 'none'; script-src{allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    up = "../" * place.file.count("/")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # without this link a browser requests a favicon from the server
        '<link rel="icon" href="data:,">'
        f"<title>{html.escape(title or place.title)} · minijax</title><style>{style()}</style></head>"
        f'<body class="minijax site"><input type="checkbox" id="menu" aria-label="Contents">'
        f'<header><a href="{up}index.html">minijax</a><label for="menu">Contents</label></header>'
        f"<nav>{_menu(place, places, up)}</nav><main>{body}{_neighbours(place, places, up)}</main>{script}"
        "</body></html>\n"
    )


def _digest(script: str) -> str:
    """The hash that allows a script in the content policy."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _menu(place: Place, places: list[Place], up: str) -> str:
    rows = []
    in_gallery = place.file.startswith("gallery")
    for each in places:
        if "/" in each.file and not in_gallery:
            continue
        here = ' aria-current="page"' if each.file == place.file else ""
        inside = ' class="within"' if "/" in each.file else ""
        rows.append(f'<li{inside}><a href="{up}{each.file}"{here}>{html.escape(each.title)}</a></li>')
    return f"<ul>{''.join(rows)}</ul>"


def _neighbours(place: Place, places: list[Place], up: str) -> str:
    """Links to the previous and the next page."""
    if place not in places:
        return ""
    at = places.index(place)
    before = f'<a href="{up}{places[at - 1].file}">← {html.escape(places[at - 1].title)}</a>' if at else "<span></span>"
    after = f'<a href="{up}{places[at + 1].file}">{html.escape(places[at + 1].title)} →</a>' if places[at + 1 :] else ""
    return f'<footer class="neighbours">{before}{after}</footer>'
