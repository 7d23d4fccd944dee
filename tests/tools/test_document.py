"""Documents: layout at any width, ANSI and HTML that nothing can escape from."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from minijax.ir import doc as pp
from minijax.tools.documents.document import (
    Code,
    Indent,
    Printout,
    Row,
    Section,
    Table,
    document,
    lay_out,
    line,
    plain,
    text,
    wrapped,
)
from minijax.tools.documents.html import to_html
from minijax.tools.documents.theme import STYLES, to_text, visible


def test_rows_put_the_right_part_where_there_is_room():
    row = document(Row("stack", (line("eval ▸ jvp:1"),), line(("muted", "2 levels"))))
    assert plain(row, 60) == " stack    eval ▸ jvp:1" + " " * 30 + "2 levels"
    assert plain(row, 28) == " stack    eval ▸ jvp:1\n          2 levels"


def test_long_lines_break_between_words_and_hang():
    doc = document(text("one two three four", hanging=2))
    assert plain(doc, 20) == "one two three four"
    lines = list(wrapped(line("aaa bbb", ("error", "ccc"), " ddd eee"), 8, 2))
    assert ["".join(p for _, p in each) for each in lines] == ["aaa", "  bbbccc", "  ddd", "  eee"]


def test_the_last_column_of_a_table_goes_on_below_its_own_beginning():
    rows = ((("", "panels"), ("", "stack tracers jaxpr hlo".replace(" ", "\xa0")), ("", "those shown after a line")),)
    lines = plain(document(Table(("name", "value", ""), rows)), 50).split("\n")
    assert lines[1:] == ["panels  stack tracers jaxpr hlo  those shown after", " " * 33 + "a line"]
    # where there is no room for words beside the others
    assert plain(document(Table(("name", "value", ""), rows)), 40).split("\n")[2] == "    shown after a line"


def test_programs_fill_the_width_and_are_cut_with_a_hint():
    program = pp.group(pp.text("{") + pp.nest(2, pp.concat([pp.brk() + pp.text(f"line {i}") for i in range(9)])))
    assert len(list(lay_out(document(Printout(program)), 200))) == 1
    cut = plain(document(Indent(Printout(program), 2, most=4, rest="(more)")), 30)
    assert cut.split("\n") == ["  {", "    line 0", "    line 1", "  ... 7 more lines (more)"]


def test_nothing_in_a_text_commands_the_terminal():
    doc = document(text("a\x1b[2Jb\x07\r\x9bc"), Row("x", (line(("value", "\x1b]0;title\x07")),)))
    for colour in (False, True):
        shown = to_text(doc, 80, colour)
        assert not re.sub(r"\x1b\[[0-9;]*m", "", shown).count("\x1b")
        assert "\x07" not in shown and "\x9b" not in shown
    assert visible("tab\t ok é") == "tab\t ok é"


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.open = []
        self.data = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.data += data


def parsed(markup):
    parser = _Tags()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    return parser


HOSTILE = st.text(st.sampled_from("<>&\"'/=` \nscript;:{}ax"), max_size=40)


@given(HOSTILE, HOSTILE, st.sampled_from([*STYLES, "unknown", ""]))
def test_html_escapes_every_text(first, second, role):
    flat = first.replace("\n", " ")
    doc = document(
        text(first, role=role),
        Row(flat, (line((role, second)),), line((role, first))),
        Table((flat, "b"), (((role, second), ("", first)),)),
        Section(line((role, first)), (Code(second, "stablehlo"), Printout(pp.text(flat, role)))),
        Indent(text(second)),
    )
    found = parsed(to_html(doc))
    assert set(found.tags) <= {"div", "style", "pre", "span", "table", "tr", "th", "td", "details", "summary"}
    assert set(found.attributes) <= {"class", "style", "open"}
    squeezed = re.sub(r"\s", "", found.data)
    wanted = re.sub(r"\s", "", second)
    assert not wanted or squeezed.count(wanted) >= 3


def test_html_of_very_long_output_is_cut():
    markup = to_html(document(text(*[line("word " * 10)] * 60_000)))
    assert len(markup) < 155_000
    kept = markup.count("word " * 10)
    assert f"... {60_000 - kept:,} more lines" in markup
