"""The widget's markup and data; what it does in a browser is tested in tests/browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minijax
import minijax.numpy as jnp
from minijax import grad, make_jaxpr, vmap
from minijax.tools import Recording, record
from minijax.tools.documents.document import LINK, MARK, plain
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages import part as page_part
from minijax.tools.pages import widget
from minijax.tools.pages.page import Texts, element, embedded, script, style
from minijax.tools.pages.part import WIDTH
from minijax.tools.pages.rows import REACH
from minijax.tools.pages.widget import MOST_NESTED, payload, widget_html
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import ScopeRecord
from minijax.tools.stepper import panes
from minijax.tools.stepper.tree import tree_rows


def chain(x, length=60):
    for _ in range(length):
        x = jnp.sin(x) * 2.0
    return x.sum()


def short(x):
    return chain(x, 5)


class _Elements(HTMLParser):
    """Elements counted, and whether they are closed in order; scripts and styles are no markup, as in a browser."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.open: list[str] = []
        self.deepest = 0

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.open.append(tag)
        self.deepest = max(self.deepest, len(self.open))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def elements(markup: str) -> _Elements:
    parser = _Elements()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    return parser


def parts_of(data: dict) -> list[dict]:
    return [part for _, part in data["parts"]]


def moments_of(data: dict) -> list[tuple[dict, dict[str, list[int]]]]:
    """The part of each moment, and what its tracks show."""
    out = []
    ends = [begin for begin, _ in data["parts"][1:]] + [len(data["moves"]) + 2]
    for (begin, part), end in zip(data["parts"], ends, strict=True):
        shown = {name: replayed(changes, end - begin) for name, changes in part["tracks"].items()}
        out += [(part, {name: items[i] for name, items in shown.items()}) for i in range(end - begin)]
    return out


def test_a_recording_of_a_thousand_events_is_small():
    _, recording = record(grad(chain), jnp.ones(3))
    markup = widget_html(recording, highlight)
    assert 900 < recording.events < 2200
    assert len(markup) < 150_000 * max(recording.events / 1000, 1)
    assert elements(markup).tags["script"] == 2


def test_a_recording_that_was_saved_shows_the_same(monkeypatch: pytest.MonkeyPatch):
    _, recording = record(vmap(grad(short)), jnp.ones((2, 3)))
    loaded = storage.from_json(json.loads(json.dumps(storage.to_json(recording))))
    here = strings(payload(recording, highlight))
    # but for values, which live in the process that recorded them
    monkeypatch.setattr(page_part, "at_hand", lambda recording: None)
    told = payload(recording, highlight)
    assert payload(loaded, highlight) == told
    lacking = strings(told)
    assert any(said.startswith("opened from a file") for said in lacking - here)
    assert any(said.startswith("all ") for said in here - lacking)


def strings(data: dict) -> set[str]:
    return {text for part in parts_of(data) for text in part["strings"]}


def text_of(data: dict, line: int) -> str:
    return "".join(data["strings"][number] for number in data["lines"][line][1::2])


def rows(data: dict, items: list[int]) -> list[str]:
    """The items of a pane as the script draws them."""
    out = []
    for item in items:
        if item >= 0:
            out.append(text_of(data, item))
            continue
        number, start, end = data["parts"][-1 - item]
        first, *lines = data["lists"][number]
        assert 0 <= start <= end <= len(lines)
        out += [
            (f"{first + start + i} " if first else "") + text_of(data, lines[start + i]) for i in range(end - start)
        ]
    return out


def replayed(changes: list[list], count: int) -> list[list[int]]:
    """What a track shows at each of ``count`` moments."""
    out: list[list[int]] = []
    items: list[int] = []
    for step, *change in changes:
        out += [items] * step
        if change and isinstance(change[0], list):
            new: list[int] = []
            i = 0
            for kept, taken, *put in change:
                new += items[i : i + kept] + put
                i += kept + taken
            items = new + items[i:]
        else:
            items = change
    return out + [items] * (count - len(out))


def moments_kept(cursor: Cursor, most: int, first: int = 0) -> list[int]:
    """The moments of a recording that belong to ``most`` of its records from the ``first`` on, and to those around
    them, and its beginning and end.
    """
    number, out = -1, []
    entered = set()
    starts = [i for i, moment in enumerate(cursor.moments) if moment.node is not None and moment.kind != LEAVE]
    for index, moment in enumerate(cursor.moments):
        if moment.kind == LEAVE:
            if moment.other in entered:
                out.append(index)
        elif moment.node is None:
            out.append(index)
        else:
            number += 1
            if first <= number < first + most or index < starts[first] < moment.other:
                entered.add(index)
                out.append(index)
    return out


def squeezed(lines: Iterable[str]) -> list[str]:
    """Lines without the terminal's marks, white space made equal, empty ones left out."""
    return [words for each in lines if (words := " ".join(each.replace(MARK, "").replace(LINK, "").split()))]


def test_what_is_kept_shows_at_every_moment_what_the_panes_show(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(panes, "MOST_EQUATIONS", 7)
    monkeypatch.setattr(panes, "MOST_TRACERS", 5)
    monkeypatch.setattr(page_part, "MOST_PROGRAM_LINES", 1000)
    monkeypatch.setattr(widget, "MOMENTS_IN_PART", 170)
    _, recording = record(make_jaxpr(grad(chain)), jnp.ones(3))
    cursor = Cursor(recording)
    first = sum(1 for _ in recording.walk()) - 300
    kept = moments_kept(cursor, 300, first)
    data = payload(recording, None, 300, len(cursor.moments))
    assert data["start"] == len(kept) - 1
    moments = moments_of(data)
    assert len(moments) == len(kept) > 400 and len(data["parts"]) > 2
    for (part, shown), index in zip(moments, kept, strict=True):
        cursor.go(index)
        for name, view, width in (("stack", panes.stack_pane, 1000), ("program", panes.program_pane, WIDTH)):
            wanted = plain(view(cursor), width).split("\n")
            assert squeezed(rows(part, shown[name])) == squeezed(wanted), (name, index)
        lines = plain(panes.stack_pane(cursor), 1000).split("\n")
        assert [i for i, each in enumerate(lines) if MARK in each] == [i for i in shown["marks"][:1] if i >= 0], index
        assert [i for i, each in enumerate(lines) if LINK in each] == shown["marks"][1:], index
        said = "".join(text_of(part, line) for line in shown["status"])
        if index < len(cursor.moments) - 1:
            told = panes.moment_line(cursor.moment, naming_of(recording))
            assert said.startswith("".join(words for _, words in told)), index
        tree = tree_rows(cursor, REACH, REACH)
        assert tree_of(part, shown) == [squeezed(["".join(text for _, text in each)]) for each in tree.lines], index
        places = [part["rows"][item][2] for item in shown["tree"]]
        assert [kept[place] if place >= 0 else -1 for place in places] == [
            each if each in set(kept) else -1 for each in tree.positions
        ], index
        assert shown["row"][0] == tree.current, index
    assert said == ""


def tree_of(part: dict, shown: dict[str, list[int]]) -> list[list[str]]:
    """The rows of the tree, white space made equal."""
    return [squeezed([text_of(part, part["rows"][item][0])]) for item in shown["tree"]]


def test_what_is_too_much_is_cut_and_says_how_to_see_the_rest():
    _, recording = record(grad(chain), jnp.ones(3))
    total = len(list(recording.walk()))
    data = payload(recording, most=50)
    signs = {sign: data["moves"].count(sign) for sign in "(.)"}
    assert signs["("] + signs["."] == 50 and signs["("] == signs[")"]
    cursor = Cursor(recording)
    cut = moments_kept(cursor, 50)
    last = len(cursor.moments) - 1
    said = f"cut here: {total - 50:,} of {total:,} records are missing; %export FILE.html --recording writes more"
    assert text_of(data, data["note"]) == f"{said}. This page holds moments 1 to {cut[-2]:,} of {last:,}"
    assert data["numbers"][0] == [0, 0] and data["numbers"][-1] == [len(cut) - 1, last] and data["last"] == last
    (part, before), (_, end) = moments_of(data)[-2:]
    assert end["status"] == []
    earlier = sum(each.node is not None and each.kind != LEAVE for each in cursor.moments[: cut[-2]]) - 50
    assert text_of(part, before["status"][-1]) == f"  · {earlier} records before this left out"
    assert f"... {total - 50:,} more records" in widget_html(recording, most=50)
    assert len(embedded(data)) < len(embedded(payload(recording))) / 4
    # a moment that is left out is begun at the last one before it
    assert payload(recording, most=50, start=cut[30] + 1)["start"] in (30, 31)


def test_a_deep_tree_is_no_deep_markup():
    def nested(x, depth):
        return x if depth == 0 else minijax.jvp(lambda y: nested(y, depth - 1), (x,), (1.0,))[0] * 2.0

    _, recording = record(nested, 1.0, 3)
    deep: tuple = recording.tree
    for _ in range(300):
        deep = (ScopeRecord(0, 1, "jvp:1", 1, "", ("eval", "jvp:1"), deep),)
    markup = widget_html(Recording("full", tree=deep, events=5))
    assert elements(markup).deepest < 2 * MOST_NESTED + 10


def test_the_script_has_no_way_out():
    source, version = script()
    for word in ("innerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch", "XMLHttp", "import("):
        assert word not in source, word
    assert "@VERSION@" not in source and version in source
    assert "</" not in source and "<!--" not in source
    assert not re.search(r"url\(|@import|https?:", style() + source)


@given(st.recursive(st.text(st.sampled_from("<>&\"'/!-\u2028\u2029\\ascript\u202e")), st.lists, max_leaves=5))
def test_data_cannot_end_its_element(data):
    text = embedded(data)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == data


@given(st.text(st.sampled_from("<>&\"'/!- \u2028ascript\u202e\x07{}$"), max_size=60))
def test_hostile_text_makes_no_element(text):
    texts = Texts()
    texts.line((("value", text), ("", text)))
    counted = elements(element({"programs": [], **texts.tables()}, "<pre></pre>")).tags
    assert counted == {"div": 2, "style": 1, "pre": 1, "script": 2}
    assert not any("\u202e" in each or "\x07" in each for each in texts.strings)
