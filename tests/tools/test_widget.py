"""The widget's markup and data; what it does in a browser is tested in tests/browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

import minijax
import minijax.numpy as jnp
from minijax import grad, vmap
from minijax.tools import Recording, record
from minijax.tools.documents.lexer import highlight
from minijax.tools.pages.page import Texts, element, embedded, script, style
from minijax.tools.pages.widget import MOST_NESTED, payload, widget_html
from minijax.tools.recording import storage
from minijax.tools.recording.records import BindRecord, ScopeRecord


def chain(x):
    for _ in range(60):
        x = jnp.sin(x) * 2.0
    return x.sum()


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


def data_of(markup: str) -> dict:
    (found,) = re.findall(r'<script type="application/json">(.*?)</script>', markup, re.S)
    return json.loads(found)


def test_a_recording_of_a_thousand_events_is_small():
    _, recording = record(grad(chain), jnp.ones(3))
    markup = widget_html(recording, highlight)
    assert 900 < recording.events < 2200
    assert len(markup) < 300_000 * max(recording.events / 1000, 1)
    assert elements(markup).tags["script"] == 2


def test_it_is_the_same_each_time():
    _, recording = record(vmap(grad(chain)), jnp.ones((2, 3)))
    assert widget_html(recording, highlight) == widget_html(recording, highlight)
    data = data_of(widget_html(recording, highlight))
    assert data == json.loads(json.dumps(payload(recording, highlight)))


def test_a_recording_that_was_saved_shows_the_same():
    _, recording = record(vmap(grad(chain)), jnp.ones((2, 3)))
    loaded = storage.from_json(json.loads(json.dumps(storage.to_json(recording))))
    assert payload(loaded, highlight) == payload(recording, highlight)


def test_every_record_is_there_and_every_number_means_something():
    _, recording = record(grad(chain), jnp.ones(3))
    data = payload(recording, highlight)
    walked = [node for _, node in recording.walk()]
    assert len(data["nodes"]) == len(walked)
    assert [node[1] for node in data["nodes"]] == [node.at for node in walked]
    entered = sum(isinstance(node, (BindRecord, ScopeRecord)) for node in walked)
    assert (data["moves"].count("("), data["moves"].count(")")) == (entered, entered)
    assert len(data["moves"]) == len(walked) + entered
    for line in data["lines"]:
        assert all(0 <= role < len(data["roles"]) for role in line[::2])
        assert all(0 <= text < len(data["strings"]) for text in line[1::2])
    assert len(set(data["strings"])) == len(data["strings"])


def test_what_is_too_much_is_cut_and_says_how_to_see_the_rest():
    _, recording = record(grad(chain), jnp.ones(3))
    total = len(list(recording.walk()))
    data = payload(recording, most=50)
    assert len(data["nodes"]) == 50 and data["moves"].count("(") == data["moves"].count(")")
    note = "".join(data["strings"][number] for number in data["lines"][data["note"]][1::2])
    said = f"cut here: {total - 50:,} of {total:,} records are missing; %export FILE.html --recording writes more"
    assert note == said
    assert f"... {total - 50:,} more records" in widget_html(recording, most=50)
    assert max(life[1] for life in data["lives"]) <= max(node[1] for node in data["nodes"])


def test_a_deep_tree_is_no_deep_markup():
    def nested(x, depth):
        return x if depth == 0 else minijax.jvp(lambda y: nested(y, depth - 1), (x,), (1.0,))[0] * 2.0

    _, recording = record(nested, 1.0, 30)
    deep: tuple = recording.tree
    for _ in range(1000):
        deep = (ScopeRecord(0, 1, "jvp:1", 1, "", ("eval", "jvp:1"), deep),)
    markup = widget_html(Recording("full", tree=deep, events=5))
    assert elements(markup).deepest < 2 * MOST_NESTED + 10


def test_an_empty_recording_and_one_without_a_tree():
    for recording in (Recording("full"), record(chain, 1.0, level="summary")[1]):
        data = data_of(widget_html(recording))
        assert data["moves"] == "" and data["nodes"] == []


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


def test_lines_are_kept_once():
    texts = Texts()
    first = texts.line((("value", "a"), ("", ""), ("value", "b")))
    assert texts.line((("value", "ab"),)) == first
    assert texts.line((("", "ab"),)) != first
    assert texts.block([(("", str(i)),) for i in range(2000)], 10)[-1] == len(texts.lines) - 1
    assert "... 1990 more lines" in texts.strings
