"""Documents are laid out, coloured and folded for terminals; in ANSI and HTML every text is escaped."""

import re
from html.parser import HTMLParser
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minijax.ir import doc as pp
from minijax.tools.documents.document import (
    Code,
    Columns,
    Indent,
    Interactive,
    Pair,
    Picture,
    Printout,
    Row,
    Section,
    Table,
    Text,
    columns,
    document,
    folded,
    lay_out,
    length,
    line,
    plain,
    text,
    unbroken,
    wrapped,
)
from minijax.tools.documents.html import markup, to_html
from minijax.tools.documents.theme import LINE_COLOURS, STYLES, line_role, resolved, sgr, to_text, visible
from minijax.tools.session.tracebacks import error_document


def test_the_right_part_of_a_row_moves_below_if_there_is_no_room():
    row = document(Row("stack", (line("eval ▸ jvp:1"),), line(("muted", "2 levels"))))
    assert plain(row, 60) == " stack    eval ▸ jvp:1" + " " * 30 + "2 levels"
    assert plain(row, 28) == " stack    eval ▸ jvp:1\n          2 levels"


def test_long_lines_break_between_words_and_indent_the_rest():
    doc = document(text("one two three four", hanging=2))
    assert plain(doc, 20) == "one two three four"
    lines = list(wrapped(line("aaa bbb", ("error", "ccc"), " ddd eee"), 8, 2))
    assert ["".join(p for _, p in each) for each in lines] == ["aaa", "  bbbccc", "  ddd", "  eee"]


def test_the_last_column_of_a_table_wraps_below_its_start():
    rows = ((("", "panels"), ("", "stack tracers jaxpr hlo".replace(" ", "\xa0")), ("", "those shown after a line")),)
    lines = plain(document(Table(("name", "value", ""), rows)), 50).split("\n")
    assert lines[1:] == ["panels  stack tracers jaxpr hlo  those shown after", " " * 33 + "a line"]
    # at this width the last column has no room beside the others, so its words go below
    assert plain(document(Table(("name", "value", ""), rows)), 40).split("\n")[2] == "    shown after a line"


def test_programs_fill_the_width_and_are_cut_with_a_hint():
    program = pp.group(pp.text("{") + pp.nest(2, pp.concat([pp.brk() + pp.text(f"line {i}") for i in range(9)])))
    assert len(list(lay_out(document(Printout(program)), 200))) == 1
    cut = plain(document(Indent(Printout(program), 2, most=4, rest="(more)")), 30)
    assert cut.split("\n") == ["  {", "    line 0", "    line 1", "  ... 7 more lines (more)"]


def test_texts_cannot_send_escape_codes():
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


def test_columns_keep_their_indentation_in_html():
    pair = Pair("+", line("    b = sin a"), line(("value", "  <c>")))
    made = markup(document(Columns((line("left"), line("right")), lambda width: (pair,))))
    assert "<td><pre>    b = sin a</pre></td>" in made
    assert '<td><pre><span class="mj-value">  &lt;c&gt;</span></pre></td>' in made
    assert '<span class="mj-good">+</span>' in made


def test_pictures_and_widgets_replace_text_drawings():
    drawn = text("drawn")
    assert markup(document(Picture("<svg></svg>", drawn))) == '<div class="mj-picture"><svg></svg></div>'
    asked = []
    part = Interactive(lambda highlight: asked.append(highlight) or "<b>part</b>", drawn)
    assert str(document(part)) == "drawn" and asked == []
    assert markup(document(part), len) == "<b>part</b>" and asked == [len]


def test_long_lines_wrap_with_a_hanging_indent():
    made = markup(document(Row("name", (line("words"), line("more")))))
    assert made.startswith('<pre class="mj-wrap" style="--mj-in:10"><div>') and made.count("<div>") == 2
    assert re.sub(r"<[^>]*>", "", made) == "name      words\n          more\n"
    assert markup(document(text("a  table", wrap=False))) == "<pre>a  table</pre>"
    error = error_document(ValueError("what happened, at length"))
    assert markup(error).startswith('<pre class="mj-wrap"><div>')
    assert plain(error, 10) == "ValueError: what happened, at length"


def fold(text, width):
    return ["".join(piece for _, piece in each).rstrip() for each in folded((("", text),), width)]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 10, ["short"]),
        ("Array([1., 2.], dtype=float32)", 20, ["Array([1., 2.],", "  dtype=float32)"]),
        ("    b:f32[] = mul a 2.0:f32[]", 24, ["    b:f32[] = mul a", "      2.0:f32[]"]),
        ("a" * 25, 10, ["a" * 10, "  " + "a" * 8, "  " + "a" * 7]),
        ("path/to/some/file.py:123", 14, ["path/to/some/", "  file.py:123"]),
        ("one two", 6, ["one", "  two"]),
        ("日本語日本語", 7, ["日本語", "  日本", "  語"]),
        ("", 5, [""]),
    ],
)
def test_long_lines_break_at_these_points(text, width, lines):
    assert fold(text, width) == lines


def test_wide_characters_take_two_columns():
    lines = [*wrapped((("", "日本語 " * 30),), 40)]
    assert len(lines) == 6 and all(length(each) <= 40 for each in lines)
    assert columns("abc") == 3 and columns("日本") == 4 and columns("e\u0301") == 1 and columns("\t") == 8
    rows = str(document(Table(("a", "b"), ((("", "日本"), ("", "x")), (("", "c"), ("", "y")))))).split("\n")
    assert rows[1:] == ["日本  x", "c     y"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(8, 60))
def test_wrapping_loses_no_text_and_fits_the_width(text, width):
    shown = visible(text).replace("\n", " ").replace("\t", " ")
    lines = fold(shown, width)
    assert all(columns(each) <= width for each in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())


def test_roles_stay_with_their_text():
    pieces = list(folded((("a", "one two "), ("b", "three four")), 10))
    assert pieces == [(("a", "one two "),), (("", "  "), ("b", "three ")), (("", "  "), ("b", "four"))]


def test_unbreakable_pieces_stay_together():
    doc = document(Row("time", (line("trace ", ("time", unbroken("0.2 ms")), " and more"),)))
    assert plain(doc, 20) == " time     trace\n            0.2 ms\n            and more"
    assert "\xa0" not in plain(doc, 80)


def test_only_terminals_fold():
    doc = document(Text((line("x" * 30),), wrap=False))
    assert to_text(doc, 20) == "x" * 30
    assert max(map(len, to_text(doc, 20, fold=True).split("\n"))) == 20


LIGHT, DARK = "#ffffff", "#1e1e1e"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("role", STYLES)
def test_every_role_has_contrast_on_light_and_dark_pages(role):
    assert contrast(STYLES[role].light, LIGHT) >= 4.5 and contrast(STYLES[role].dark, DARK) >= 4.5


def test_the_colours_of_lines_differ():
    roles = [line_role(number) for number in range(LINE_COLOURS)]
    assert len(set(roles)) == LINE_COLOURS >= 8 and line_role(LINE_COLOURS) == roles[0]
    for theme, bits in (("terminal", 4), ("light", 24), ("light", 8), ("dark", 24), ("dark", 8), ("dark", 4)):
        assert len({sgr(STYLES[role], theme, bits) for role in roles}) == LINE_COLOURS, (theme, bits)
    for page in ("light", "dark"):
        colours = [[int(getattr(STYLES[role], page)[i : i + 2], 16) for i in (1, 3, 5)] for role in roles]
        apart = [sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5 for pair in combinations(colours, 2)]
        assert min(apart) > 55


@pytest.mark.parametrize(
    ("theme", "environment", "expected"),
    [
        ("auto", {}, "terminal"),
        ("auto", {"COLORFGBG": "15;0"}, "dark"),
        ("auto", {"COLORFGBG": "0;15"}, "light"),
        ("auto", {"COLORFGBG": "0;default;7"}, "light"),
        ("auto", {"COLORFGBG": "default;default"}, "terminal"),
        ("auto", {"COLORFGBG": ""}, "terminal"),
        ("light", {"COLORFGBG": "15;0"}, "light"),
        ("none", {}, "none"),
    ],
)
def test_the_theme_follows_the_environment(theme, environment, expected):
    assert resolved(theme, environment) == expected
