"""Checks that every page of the documentation must pass, in a browser without network access.

``python -m tests.docs.pages`` builds the whole site, with the gallery, and opens each page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from tests.browser.page import CONTRASTS, Browser, browser

ROOT = Path(__file__).resolve().parents[2]
# The size limit of a page in bytes; pages of the gallery are the largest.
LARGEST = 2_500_000


def built(folder: Path, *recordings: str) -> str:
    """Write the site into ``folder``, with these recordings (default: all); return the output of ``python -m docs``."""
    chosen = ["--gallery", ",".join(recordings)] if recordings else []
    command = [sys.executable, "-m", "docs", str(folder), *chosen]
    environment = {**os.environ, "PYTHONWARNINGS": "error::DeprecationWarning:minijax"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Links(HTMLParser):
    """The links, anchors and loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        elif found.get("src") or found.get("href"):
            self.loaded.append(str(found.get("src") or found.get("href")))
        if found.get("id"):
            self.names.add(str(found["id"]))


def broken_links(folder: Path) -> list[str]:
    """Links to missing pages or anchors, and the address of every resource that a page loads."""
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    return [
        f"{page.relative_to(folder)}: {link}"
        for page, found in pages.items()
        for link in [*filter(lambda link: not _leads(pages, page, link), found.links), *_loads(found.loaded)]
    ]


def _leads(pages: dict[Path, Links], page: Path, link: str) -> bool:
    file, name = urldefrag(link)
    target = (page.parent / unquote(file)).resolve() if file else page
    return target in pages and (not name or name in pages[target].names)


def _loads(sources: Iterable[str]) -> list[str]:
    return [source for source in sources if not source.startswith("data:")]


def faults(window: Browser, path: Path) -> list[str]:
    """The faults of a page, first wide with light colours, then narrow with dark colours."""
    found = []
    for dark, width in ((False, 1200), (True, 480)):
        window.open(path, dark=dark, width=width)
        found += [f"requests {url}" for url in window.addresses() - {path.as_uri()}]
        found += window.console()
        if not window.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth"):
            found.append(f"is wider than {width}")
        contrasts = window.run(CONTRASTS)
        found += [f"{text!r}: {ratio}" for text, ratio, _ in contrasts if ratio < 4.5]
        found += [] if contrasts and (contrasts[0][2] < 0.2) == dark else ["has the wrong background"]
        if 'class="minijax mjw' in path.read_text(encoding="utf-8") and not window.all(".mjw-stage, .mjw-programs"):
            found.append("has a stepper that does not start")
    if path.stat().st_size > LARGEST:
        found.append(f"has {path.stat().st_size:,} bytes")
    text = re.sub(r"<script.*?</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    found += [f"contains the path {folder}" for folder in (str(ROOT), sys.prefix) if folder in text]
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, browser() as window:
        built(site := Path(name).resolve())
        wrong = broken_links(site)
        for page in sorted(site.rglob("*.html")):
            wrong += [f"{page.relative_to(site)}: {each}" for each in faults(window, page)]
    raise SystemExit("\n".join(wrong))
