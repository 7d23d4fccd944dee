"""A headless Chromium for the tests: Debian's browser and driver. Nothing is downloaded."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """Why no browser can be started; '' if one can."""
    if not any(map(shutil.which, BROWSERS)):
        return "no browser is installed (Debian: apt-get install chromium)"
    if not shutil.which("chromedriver"):
        return "chromedriver is not installed (Debian: apt-get install chromium-driver)"
    return ""


# [text, contrast, brightness of the background] for every visible text.
CONTRASTS = """
const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
    if (colour[3] !== 0) throw new Error('half transparent');
  }
  return [255, 255, 255];
};
const out = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || ['STYLE', 'SCRIPT'].includes(element.tagName)) continue;
  if (!element.closest('.minijax') || !element.checkVisibility()) continue;
  const [text, page] = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))];
  out.push([node.data, (Math.max(text, page) + 0.05) / (Math.min(text, page) + 0.05), page]);
}
return out;
"""


class Browser:
    """One browser window."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def show(self, *markup: str, **options: Any) -> str:
        """Show a page with these parts and return its address."""
        path, body = self.folder / "page.html", "\n".join(markup)
        path.write_text(f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body>{body}</body></html>', "utf-8")
        self.open(path, **options)
        return path.as_uri()

    def open(self, path: Path, dark: bool = False, scripts: bool = True, width: int = 1000) -> None:
        """Show a file in the light or the dark colour scheme."""
        command = self.driver.execute_cdp_cmd
        self.log()  # drops the log of earlier pages
        command("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        command("Emulation.setEmulatedMedia", {"features": features})
        self.driver.set_window_size(width, 900)
        self.driver.get(path.as_uri())

    def run(self, script: str, *args: Any) -> Any:
        """Run JavaScript and return its result."""
        return self.driver.execute_script(script, *args)

    def all(self, selector: str) -> list[Any]:
        """The elements that match a CSS selector."""
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        """The only element that matches a CSS selector."""
        (found,) = self.all(selector)
        return found

    def log(self) -> list[dict[str, Any]]:
        """The browser's performance and console entries since the last call."""
        return [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]

    def addresses(self) -> set[str]:
        """The addresses that the page has requested since the last call, without data URLs."""
        asked = [each["params"]["request"] for each in self.log() if each["method"] == "Network.requestWillBeSent"]
        return {each["url"] for each in asked if not each["url"].startswith("data:")}

    def readable(self, dark: bool) -> int:
        """Assert that every visible text has WCAG 2.1 contrast in this colour scheme; return the number of texts."""
        found = self.run(CONTRASTS)
        assert not [each for each in found if each[1] < 4.5 or (each[2] < 0.2) != dark]
        return len(found)

    def console(self) -> list[str]:
        """The console's errors and warnings since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser; skips the test, with the reason, if none is installed."""
    if reason := missing():
        pytest.skip(reason)
    # With both paths given, Selenium does not look for or download a browser or a driver.
    os.environ["SE_OFFLINE"] = "true"
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(found for name in BROWSERS if (found := shutil.which(name)))
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-extensions",
        "--no-first-run",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Browser(driver, Path(folder))
    finally:
        driver.quit()
