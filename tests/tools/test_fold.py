"""Lines broken for a terminal: never wider than it, nothing lost, broken where a reader would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minijax.tools.documents.document import Row, Text, document, line, plain, unbroken
from minijax.tools.documents.fold import columns, folded
from minijax.tools.documents.theme import to_text, visible


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
def test_where_it_breaks(text, width, lines):
    assert fold(text, width) == lines


def test_columns():
    assert columns("abc") == 3 and columns("日本") == 4 and columns("e\u0301") == 1 and columns("\t") == 8


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(8, 60))
def test_nothing_is_lost_and_nothing_too_wide(text, width):
    shown = visible(text).replace("\n", " ").replace("\t", " ")
    lines = fold(shown, width)
    assert all(columns(each) <= width for each in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())


def test_roles_stay_with_their_text():
    pieces = list(folded((("a", "one two "), ("b", "three four")), 10))
    assert pieces == [(("a", "one two "),), (("", "  "), ("b", "three ")), (("", "  "), ("b", "four"))]


def test_what_belongs_together_is_not_broken():
    doc = document(Row("time", (line("trace ", ("time", unbroken("0.2 ms")), " and more"),)))
    assert plain(doc, 20) == " time     trace\n            0.2 ms\n            and more"
    assert "\xa0" not in plain(doc, 80)


def test_only_terminals_fold():
    doc = document(Text((line("x" * 30),), wrap=False))
    assert to_text(doc, 20) == "x" * 30
    assert max(map(len, to_text(doc, 20, fold=True).split("\n"))) == 20
