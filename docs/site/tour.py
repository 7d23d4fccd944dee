"""The tour as a page: the text and output of each stop of ``%tour``, and the list of its exercises."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from docs.site.blocks import Blocks
from docs.site.prose import code, slug
from minijax.tools.commands.guide import Part, Tour
from minijax.tools.commands.tour_parts import PARTS

# Words of a stop that are shown as code: a command, or a word with brackets, or with inner dots or underscores.
_CODE = re.compile(r"(?<![\w%])%{1,2}[a-z]\w*(?: --?[\w-]+)*|\b[A-Za-z]\w*(?:[._]\w+)+\b|\b[A-Za-z]\w*\(\w*\)")


def tour() -> Iterator[str]:
    """The body of the page."""
    yield "<h1>The tour</h1>"
    yield (
        f"<p>This is what <code>%tour</code> shows, in {len(PARTS)} parts, each in a session of its own. Take "
        "it at the prompt, where you can type anything between two stops: <code>%tour</code> begins the tour, "
        "<code>%tour next</code> goes on, <code>%tour 3.2</code> goes to a stop. This page used eight devices: "
        "<code>JAX_NUM_CPU_DEVICES=8 minijax-repl</code>.</p>"
    )
    titles = [f'<li><a href="#{slug(each.title)}">{html.escape(_title(each))}</a></li>' for each in PARTS]
    yield f"<ol>{''.join(titles)}</ol>"
    for number, part in enumerate(PARTS, 1):
        yield from _part(number, part)
    yield '<h2 id="exercises"><a href="#exercises">Exercises</a></h2>'
    yield "<p>The tour ends with exercises. You write your answer at the prompt, and minijax checks it.</p>"
    with Blocks("the exercises") as blocks:
        yield blocks.run("minijax", [], "%tour exercises")


def _title(part: Part) -> str:
    return part.title[:1].upper() + part.title[1:]


def _part(number: int, part: Part) -> Iterator[str]:
    name = slug(part.title)
    yield f'<h2 id="{name}"><a href="#{name}">{number}. {html.escape(_title(part))}</a></h2><p>{_words(part.about)}</p>'
    with Blocks(f"part {number} of the tour") as blocks:
        guide = Tour(blocks.session(), (part,))
        for at, stop in enumerate(part.stops, 1):
            yield f'<p id="{number}.{at}"><b>{number}.{at}</b> {_words(stop.text)}</p>'
            shown = blocks.entry(stop.line.rstrip(), ["panels", "text"], stop.fails)
            yield blocks.neutral(f'<div class="block">{shown}</div>')
            assert blocks.outcome is not None
            if stop.after:
                yield f"<p>{_words(guide.filled(stop.after, blocks.outcome))}</p>"


def _words(text: str) -> str:
    return _CODE.sub(lambda match: code(match[0]), html.escape(text, quote=False))
