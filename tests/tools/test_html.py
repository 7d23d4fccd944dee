"""Documents as HTML: the blocks that only pages treat in a way of their own, and text that would do harm."""

import re

from minijax.tools.documents.document import (
    Columns,
    Interactive,
    Pair,
    Picture,
    Row,
    document,
    line,
    plain,
    text,
    unbroken,
)
from minijax.tools.documents.html import markup, shown
from minijax.tools.session.tracebacks import error_document


def test_columns_keep_their_indentation_whatever_rewrites_the_page():
    pair = Pair("+", line("    b = sin a"), line(("value", "  <c>")))
    made = markup(document(Columns((line("left"), line("right")), lambda width: (pair,))))
    assert "<td><pre>    b = sin a</pre></td>" in made
    assert '<td><pre><span class="mj-value">  &lt;c&gt;</span></pre></td>' in made
    assert '<span class="mj-good">+</span>' in made


def test_pictures_and_interactive_parts_take_the_place_of_what_is_drawn():
    drawn = text("drawn")
    assert markup(document(Picture("<svg></svg>", drawn))) == '<div class="mj-picture"><svg></svg></div>'
    asked = []
    part = Interactive(lambda highlight: asked.append(highlight) or "<b>part</b>", drawn)
    assert str(document(part)) == "drawn" and asked == []
    assert markup(document(part), len) == "<b>part</b>" and asked == [len]


def test_long_lines_are_broken_and_go_on_further_in():
    made = markup(document(Row("name", (line("words"), line("more")))))
    assert made.startswith('<pre class="mj-wrap" style="--mj-in:10"><div>') and made.count("<div>") == 2
    assert re.sub(r"<[^>]*>", "", made) == "name      words\n          more\n"
    assert markup(document(text("a  table", wrap=False))) == "<pre>a  table</pre>"
    error = error_document(ValueError("what happened, at length"))
    assert markup(error).startswith('<pre class="mj-wrap"><div>')
    assert plain(error, 10) == "ValueError: what happened, at length"


def test_control_characters_and_directions_are_written_out():
    made = markup(document(text(line(("value", "a\x1b[31m\u202eb\x00")))))
    assert "\\x1b[31m\\u202eb\\x00" in made and "\x1b" not in made and "\u202e" not in made
    assert shown(unbroken("0.2 ms")) == "0.2 ms"
