"""``%doc`` of what was typed at a prompt, which is in no file."""

import pytest

from minijax.repl import batch
from minijax.tools.documents.document import plain

SETUP = (
    'class C:\n    """The first."""\n    def m(self): return 1',
    "old, of_old = C, C()",
    "import functools\n@functools.total_ordering\nclass C:\n    n = 3\n    def __lt__(self, other): return False",
    "class Bare: n = 4",
    "def make():\n    class Inner:\n        a = 1\n    return Inner",
    "class Inner: pass",
    "inner = make()",
    "%push jaxpr z=f32[]",
    "%pop z",
    "dynamic = type('Nowhere', (), {})",
)


@pytest.fixture(scope="module")
def session():
    made = batch.new_session({"__name__": "__main__"})
    for code in SETUP:
        outcome = made.run_line(code)
        assert outcome.error is None, (code, outcome.error)
    return made


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("C", "@functools.total_ordering\nclass C:\n    n = 3\n    def __lt__"),
        ("old", 'class C:\n    """The first."""\n    def m(self): return 1'),
        ("of_old", 'class C:\n    """The first."""'),
        ("Bare", "class Bare: n = 4"),
        ("inner", "    class Inner:\n        a = 1"),
        ("Inner", "class Inner: pass"),
    ],
)
def test_a_class_typed_at_the_prompt_has_its_source(session, name, source):
    shown = plain(session.run_line(f"{name}??").shown, 100)
    assert source in shown and "source is not known" not in shown


def test_where_a_class_was_typed(session):
    assert "from <minijax-3>:2" in plain(session.run_line("C?").shown, 100)
    assert "from <minijax-5>:2" in plain(session.run_line("inner?").shown, 100)


@pytest.mark.parametrize("name", ["dynamic", "int", "inner.a"])
def test_a_missing_source_is_reported(session, name):
    assert "its source is not known" in plain(session.run_line(f"{name}??").shown, 100)


def test_a_docstring_wider_than_the_page_is_wrapped(session):
    source = '"""What it is, in a first line.\n\n    Args:\n'
    source += "      fun: a function of arrays that gives arrays, as long\n"
    source += '        as they are.\n      other: nothing.\n\n        >>> f(1)   # kept as it stands\n    """'
    session.run_line(f"def documented(x):\n    {source}")
    wide = plain(session.run_line("documented?").shown, 80)
    assert "\n  fun: a function of arrays that gives arrays, as long\n    as they are.\n  other: nothing." in wide
    narrow = plain(session.run_line("documented?").shown, 36)
    assert "\n  fun: a function of arrays that\n    gives arrays, as long as they\n    are.\n  other:" in narrow
    assert "\n    >>> f(1)   # kept as it stands" in narrow
