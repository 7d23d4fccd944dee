"""The gallery: a page for each recording. It has a section of gallery.md, which says what to look at, and a stepper."""

from __future__ import annotations

import html
import importlib.util
import re
from collections.abc import Iterable, Iterator

from docs.site.blocks import Blocks
from docs.site.layout import PageError
from docs.site.prose import to_html
from minijax.tools import gallery
from minijax.tools.commands import step
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.widget import MOST_EXPORTED, widget_html
from minijax.tools.recording.records import Recording, SourceRecord
from tests.programs import PAGES, record


def sections(text: str) -> tuple[str, dict[str, str]]:
    """The introduction of gallery.md, and a dictionary from recording names to sections."""
    before, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    found = {}
    for part in parts:
        name, _, body = part.partition("\n")
        found[name.strip()] = body.strip()
    if set(found) != set(gallery.PAGES):
        raise PageError(f"gallery.md and the gallery differ: {sorted(set(found) ^ set(gallery.PAGES))}")
    return before, found


def recorded(name: str) -> tuple[Recording, str]:
    """Return a recording of one training step, and a remark for its page. If the program's libraries are installed,
    the step is recorded now, with all values. Otherwise the recording is the one that minijax ships.
    """
    missing = [each for each in PAGES[name] if importlib.util.find_spec(each) is None]
    if missing:
        remark = f"Array values are missing: this page was made without {' and '.join(missing)}."
        return gallery.recording(name), remark
    _, made = record.second_step(name)
    file = str(record.ROOT / record.file(name))
    text = (record.ROOT / record.file(name)).read_text(encoding="utf-8")
    sources = [SourceRecord(file, 1, text), *[each for each in made.sources if each.file != file]]
    return made.replace(source=record.file(name), sources=tuple(sources)).holding(made.kept), ""


def recording_page(name: str, section: str) -> tuple[str, int]:
    """The body of a recording's page, and its number of events."""
    recording, missing = recorded(name)
    with Blocks(f"gallery.md: {name}") as blocks:
        about = to_html(section, blocks, "../")
    start, _ = step.start(recording)
    stepper = widget_html(recording, highlight, MOST_EXPORTED, start=start, in_page=True, rename=record.shortened)
    facts = (
        f"{recording.events:,} events of one training step of <code>{html.escape(record.file(name))}</code>, recorded "
        f"without <code>jit</code>.{' The recording was cut.' if recording.truncated else ''} {missing} Click into the "
        "stepper and its keys work: i into, n over, o out, b back, / searches, t and Enter follow a value."
    )
    title = f"<h1>{html.escape(_plain(gallery.PAGES[name]))}</h1>"
    body = f'{title}{about}<p class="muted">{facts}</p><div class="wide">{record.shortened(stepper)}</div>'
    return body, recording.events


def overview(before: str, sizes: dict[str, tuple[int, int]], blocks: Blocks) -> Iterator[str]:
    """The body of the page that lists the recordings. ``sizes`` has each recording's number of events and the size of
    its page in bytes.
    """
    yield to_html(before, blocks)
    yield '<div class="cards">'
    for name, (events, size) in sizes.items():
        yield (
            f'<a href="gallery/{name}.html"><b>{name}</b><span>{html.escape(_plain(gallery.PAGES[name]))}</span>'
            f'<span class="muted">{events:,} events · {size / 1000:,.0f} kB</span></a>'
        )
    yield "</div>"


def _plain(text: str) -> str:
    return text.replace("``", "")


def chosen(names: Iterable[str] | None) -> list[str]:
    """The selected recordings; None selects all."""
    if names is None:
        return list(gallery.PAGES)
    unknown = sorted(set(names) - set(gallery.PAGES))
    if unknown:
        raise PageError(f"the gallery has no {', '.join(unknown)}")
    return [name for name in gallery.PAGES if name in set(names)]
