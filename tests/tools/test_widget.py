"""The widget has the right markup and data. ``tests/browser`` tests its behaviour in a browser."""

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
from minijax.tools.pages import part as page_part
from minijax.tools.pages.page import Texts, element, embedded, script, style
from minijax.tools.pages.widget import MOST_NESTED, payload, widget_html
from minijax.tools.recording import storage
from minijax.tools.recording.records import ScopeRecord
from minijax.tools.stepper import panes


def chain(x, length=60):
    for _ in range(length):
        x = jnp.sin(x) * 2.0
    return x.sum()


def short(x):
    return chain(x, 5)


class _Elements(HTMLParser):
    """Counts elements and checks their nesting. Like a browser, it ignores markup inside scripts and styles."""

    def __init__(self):
        super().__init__()
        self.tags = {}
        self.open = []
        self.deepest = 0

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.open.append(tag)
        self.deepest = max(self.deepest, len(self.open))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def elements(markup):
    parser = _Elements()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    return parser


def parts_of(data):
    return [part for _, part in data["parts"]]


def test_a_saved_recording_shows_the_same(monkeypatch):
    _, recording = record(vmap(grad(short)), jnp.ones((2, 3)))
    loaded = storage.from_json(json.loads(json.dumps(storage.to_json(recording))))
    here = strings(payload(recording, highlight))
    # now compare with a page without values, because a file has none
    for module in (page_part, panes):
        monkeypatch.setattr(module, "at_hand", lambda recording: None)
    without_values = payload(recording, highlight)
    assert payload(loaded, highlight) == without_values
    lacking = strings(without_values)
    assert any(each.startswith("opened from a file") for each in lacking - here)
    assert any(each.startswith("all ") for each in here - lacking)


def test_vmaps_of_different_sizes_have_their_own_choices():
    def sine(x):
        y = jnp.sin(x)
        return y

    _, recording = record(lambda: (vmap(sine)(jnp.ones(2)), vmap(sine)(jnp.ones(5))))
    data = payload(recording)
    assert [each["states"] for each in data["choices"]] == [3, 6]
    assert {"all 2 examples of vmap:1", "example 4 of 5 of vmap:1"} <= strings(data)


def strings(data):
    return {text for part in parts_of(data) for text in part["strings"]}


def text_of(data, line):
    return "".join(data["strings"][number] for number in data["lines"][line][1::2])


def test_cut_records_are_counted_with_the_command_for_more():
    _, recording = record(grad(chain), jnp.ones(3))
    total = len(list(recording.walk()))
    data = payload(recording, most=50)
    signs = {sign: data["moves"].count(sign) for sign in "(.)"}
    assert signs["("] + signs["."] == 50 and signs["("] == signs[")"]
    text = f"cut here: {total - 50:,} of {total:,} records are missing; %export FILE.html --recording writes more"
    assert text_of(data, data["note"]).startswith(text)
    assert f"... {total - 50:,} more records" in widget_html(recording, most=50)
    assert len(embedded(data)) < len(embedded(payload(recording))) / 4


def test_a_deep_tree_gives_flat_markup():
    def nested(x, depth):
        return x if depth == 0 else minijax.jvp(lambda y: nested(y, depth - 1), (x,), (1.0,))[0] * 2.0

    _, recording = record(nested, 1.0, 3)
    deep = recording.tree
    for _ in range(300):
        deep = (ScopeRecord(0, 1, "jvp:1", 1, "", ("eval", "jvp:1"), deep),)
    markup = widget_html(Recording("full", tree=deep, events=5))
    assert elements(markup).deepest < 2 * MOST_NESTED + 10


def test_the_script_uses_no_unsafe_function_or_url():
    source, version = script()
    for word in ("innerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "fetch", "XMLHttp", "import("):
        assert word not in source, word
    assert "@VERSION@" not in source and version in source
    assert "</" not in source and "<!--" not in source
    assert not re.search(r"url\(|@import|https?:", style() + source)


@given(st.recursive(st.text(st.sampled_from("<>&\"'/!-\u2028\u2029\\ascript\u202e")), st.lists, max_leaves=5))
def test_data_cannot_close_its_script_element(data):
    text = embedded(data)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == data


@given(st.text(st.sampled_from("<>&\"'/!- \u2028ascript\u202e\x07{}$"), max_size=60))
def test_hostile_text_is_escaped(text):
    texts = Texts()
    texts.line((("value", text), ("", text)))
    counted = elements(element({"programs": [], **texts.tables()}, "<pre></pre>")).tags
    assert counted == {"div": 2, "style": 1, "pre": 1, "script": 2}
    assert not any("\u202e" in each or "\x07" in each for each in texts.strings)
