"""The whole site, the gallery's pages included: ``python -m tests.docs.every_page`` builds it and opens each page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser.page import browser
from tests.docs.pages import broken_links, built, faults

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, browser() as window:
        folder = Path(name).resolve()
        print(built(folder).strip())
        wrong = broken_links(folder)
        for page in sorted(folder.rglob("*.html")):
            found = faults(window, page)
            wrong += [f"{page.relative_to(folder)}: {each}" for each in found]
            print(f"{page.relative_to(folder)}: {page.stat().st_size / 1000:,.0f} kB, {len(found)} faults", flush=True)
    raise SystemExit("\n".join(wrong))
