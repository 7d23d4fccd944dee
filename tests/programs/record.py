"""Record the gallery's pages for ``%gallery NAME``. ``python -m tests.programs.record [PAGE ...]`` replaces outdated
recordings.

Each recording shows the second training step: all caches are warm then. The step runs without ``jit``. A recording
includes the text of its page. Files are named by their paths in the repository or in ``site-packages``.
"""

import json
import re
import site
import sys
from pathlib import Path

from minijax.tools import gallery, record
from minijax.tools.recording import storage
from minijax.tools.recording.records import BindRecord, RuleRecord, ScopeRecord, SourceRecord
from tests.programs import PAGES
from tests.programs.pages import on_minijax

ROOT = Path(__file__).resolve().parents[2]


def file(page):
    return f"tests/programs/{page}.py"


def second_step(page):
    """The losses of the first two steps, and a recording of the second."""
    module = on_minijax(page)
    data = module.data()
    state, first = module.step(module.start(), *data)
    (_, second), recording = record(module.step, state, *data, retrace=True)
    return [float(first), float(second)], recording


def recorded(page):
    """The results of ``second_step``. The recording also has the page's text, but no folders of this machine."""
    losses, recording = second_step(page)
    whole = SourceRecord(file(page), 1, (ROOT / file(page)).read_text(encoding="utf-8"))
    named = without_folders(recording)
    sources = [whole, *[source for source in named.sources if source.file != whole.file]]
    return losses, named.replace(source=whole.file, sources=tuple(sources))


def without_folders(recording):
    return storage.from_json(json.loads(shortened(json.dumps(storage.to_json(recording)))))


def shortened(text):
    """The JSON ``text`` without the folders of this machine."""
    for folder in (*site.getsitepackages(), str(ROOT)):
        text = text.replace(json.dumps(f"{folder}/")[1:-1], "")
    return text


def outline(recording):
    """The operations of the step with their interpreters, lines and types. If they differ, a recording is outdated.

    It leaves out values (their last digits differ between machines), the inside of operations, and the names of rules,
    which may change.
    """

    def of(nodes):
        for node in nodes:
            if isinstance(node, ScopeRecord):
                yield f"{node.level} for {node.subject}"
                yield from of(node.children)
            elif isinstance(node, BindRecord):
                yield f"{node.level} {node.primitive} {node.in_types} -> {node.types} @ {node.place}"
            elif isinstance(node, RuleRecord):
                yield f"{node.table} {node.primitive} @ {node.place}"

    return [re.sub("0x[0-9a-f]+", "0x...", each) for each in of(recording.tree)]


def is_current(page, recording):
    """Whether the stored recording of the page has the same text and operations as ``recording``, a new one."""
    if not gallery.path(page).exists():
        return False
    kept = gallery.recording(page)
    return gallery.program(kept) == gallery.program(recording) and outline(kept) == outline(recording)


if __name__ == "__main__":
    for page in sys.argv[1:] or PAGES:
        _, recording = recorded(page)
        if is_current(page, recording):
            print(f"{page}: as it was")
        else:
            storage.save(recording, gallery.path(page))
            gallery.path(page).chmod(0o644)
            print(f"{page}: {recording.events} events, {gallery.path(page).stat().st_size / 1000:.1f} kB")
