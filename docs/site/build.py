"""Write the whole site into a folder: Markdown pages, command reference and gallery."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs.site import gallery
from docs.site.blocks import Blocks
from docs.site.layout import PageError, Place, page
from docs.site.prose import REFERENCE, TOUR, to_html
from docs.site.reference import reference

HERE = Path(__file__).resolve().parents[1]
# The Markdown pages in navigation order; the reference and the gallery follow them.
PAGES = (
    "index",
    "prompt",
    "transformations",
    "stepping",
    "values",
    "backward",
    "compiled",
    "sharding",
    "communication",
    "problems",
    "notebooks",
    "jax",
    "primitives",
    "python",
)
# page -> its number of devices, if it is not 1. Such a page is made in its own process with that many devices.
DEVICES = {"sharding": 8, "communication": 8, "tour": 8}
# page -> XLA flags. Unoptimised programs show the same communication, and compile in less than half the time.
FLAGS = {"communication": "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"}


def places(names: Iterable[str]) -> list[Place]:
    """The entries of the navigation; ``names`` are the recordings that have a page."""
    listed = [Place(f"{name}.html", title_of(name)) for name in PAGES]
    listed.insert(2, Place(TOUR, "The tour"))
    listed += [Place(REFERENCE, "Commands"), Place("gallery.html", title_of("gallery"))]
    return listed + [Place(f"gallery/{name}.html", name) for name in names]


def text_of(name: str) -> str:
    return (HERE / f"{name}.md").read_text(encoding="utf-8")


def title_of(name: str) -> str:
    """The title of a Markdown page: its first heading."""
    found = re.match(r"# (.+)\n", text_of(name))
    if found is None:
        raise PageError(f"{name}.md has no heading")
    return found[1]


def written_page(name: str) -> str:
    """The body of a Markdown page."""
    return made_apart(name, DEVICES[name]) if name in DEVICES else made_here(name)


def made_apart(name: str, devices: int) -> str:
    """The body of a page whose blocks run in another process with ``devices`` devices."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices)}
    if name in FLAGS:
        environment["XLA_FLAGS"] = FLAGS[name]
    command = [sys.executable, "-m", "docs.site.apart", name]
    done = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise PageError(done.stderr.strip())
    return done.stdout


def made_here(name: str) -> str:
    """The body of a page whose blocks run in this process."""
    with Blocks(f"{name}.md") as blocks:
        return to_html(text_of(name), blocks)


def bodies(names: list[str], folder: Path) -> Iterator[tuple[str, str]]:
    """The file and body of each page, gallery first. The caller writes each page into ``folder`` before it asks for the
    next one, because the gallery's overview reads the sizes of the files.
    """
    before, sections = gallery.sections(text_of("gallery"))
    sizes = {}
    for name in names:
        body, events = gallery.recording_page(name, sections[name])
        yield f"gallery/{name}.html", body
        sizes[name] = (events, (folder / f"gallery/{name}.html").stat().st_size)
    with Blocks("gallery.md") as blocks:
        yield "gallery.html", "".join(gallery.overview(before, sizes, blocks))
    for name in PAGES:
        yield f"{name}.html", written_page(name)
    yield TOUR, made_apart("tour", DEVICES["tour"])
    yield REFERENCE, "".join(reference())


def build(folder: Path, recordings: Iterable[str] | None = None) -> Iterator[Path]:
    """Write the site into ``folder`` and yield each file after writing it.

    ``recordings`` are the recordings that get a page; None means all.
    """
    names = gallery.chosen(recordings)
    navigation = places(names)
    by_file = {each.file: each for each in navigation}
    for file, body in bodies(names, folder):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(by_file[file], body, navigation, heading(body)), encoding="utf-8")
        yield path


def heading(body: str) -> str:
    """The text of a page's first heading."""
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body)
    return html.unescape(re.sub(r"<[^>]*>", "", found[1])) if found else ""
