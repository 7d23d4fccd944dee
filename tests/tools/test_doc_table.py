"""Documents saved as rows of JSON values come back equal, and cut documents count the omitted rows."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from minijax.ir import doc as pp
from minijax.tools.recording.doc_table import DocTable, read_table

docs = st.recursive(
    st.one_of(
        st.builds(pp.text, st.text(alphabet="ab λ", max_size=5), st.sampled_from(pp.ROLES)),
        st.builds(pp.brk, st.sampled_from(["", " ", "; "])),
        st.builds(pp.note, st.text(alphabet="xy", max_size=4)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(pp.concat),
        st.builds(pp.nest, st.integers(0, 8), inner),
        st.builds(pp.align, inner),
        st.builds(pp.group, inner),
        st.builds(pp.rows, st.just(pp.brk("; ")), st.lists(inner, min_size=1, max_size=4), st.integers(0, 3)),
    ),
    max_leaves=20,
)


@settings(max_examples=40)
@given(doc=docs)
def test_any_document_comes_back_equal(doc):
    table = DocTable()
    number = table.add(doc)
    back = read_table(json.loads(json.dumps(table.rows)))[number]
    for width in (5, 20, 80):
        assert list(pp.segments(doc, width)) == list(pp.segments(back, width))
    for most in (1, 2):
        assert str(pp.cut_rows(doc, most)) == str(pp.cut_rows(back, most))


def test_equal_parts_of_documents_are_saved_once():
    table = DocTable()
    part = pp.group(pp.concat([pp.text("a", "var"), pp.brk(), pp.text("b", "var")]))
    again = pp.group(pp.concat([pp.text("a", "var"), pp.brk(), pp.text("b", "var")]))
    assert table.add(part) == table.add(again)
    assert len(table.rows) == 5


def test_cut_rows_count_all_omitted_rows():
    rows = [pp.text(f"row {i}") for i in range(10)]
    doc = pp.nest(2, pp.group(pp.rows(pp.brk("; "), rows, left_out=5)))
    assert str(pp.cut_rows(doc, 3)).endswith("row 2; ... (12 more equations)")
    assert str(pp.cut_rows(pp.cut_rows(doc, 5), 3)) == str(pp.cut_rows(doc, 3))
    assert pp.cut_rows(doc, 10) is doc
