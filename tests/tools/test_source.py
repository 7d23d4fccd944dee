"""Complete inputs are recognised, files split into inputs, and ``%doc`` describes objects typed at a prompt."""

import pytest

from minijax.repl import batch
from minijax.tools.commands.arguments import Param, parse
from minijax.tools.documents.document import plain
from minijax.tools.session import source


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "complete"),
        ("def f(x): return x", "complete"),
        ("def f(x):", "incomplete"),
        ("def f(x):\n    return x\n", "complete"),
        ("def f(x):\n    return x\n    ", "complete"),
        ("@jit", "incomplete"),
        ("x = (1,", "incomplete"),
        ("x = '''abc", "incomplete"),
        ("x = )", "invalid"),
        ("x = 1 \\", "incomplete"),
        ("a\x00b", "invalid"),
        ("%grad f(", "complete"),
        ("%%jaxpr x=f32[3]", "incomplete"),
        ("%%jaxpr x=f32[3]\nx\n", "complete"),
    ],
)
def test_an_input_is_complete_incomplete_or_invalid(text, status):
    assert source.status(text) == status


def test_a_file_is_split_into_inputs():
    text = '''\
import math
x = 1; y = 2

@decorator
def f(x):
    return x

s = """
%not a command
"""
%grad f(3.0)
%%jaxpr x=f32[3]
y = x

z = f(
    x
)
%stack
if x:
    pass
else:
    y
'''
    assert list(source.inputs(text)) == [
        "import math",
        "x = 1; y = 2",
        "@decorator\ndef f(x):\n    return x",
        's = """\n%not a command\n"""',
        "%grad f(3.0)",
        "%%jaxpr x=f32[3]\ny = x\n",
        "z = f(\n    x\n)",
        "%stack",
        "if x:\n    pass\nelse:\n    y",
    ]


def test_the_next_line_is_indented():
    assert source.next_indent("if x:") == "    "
    assert source.next_indent("if x:\n    y = 1") == "    "
    assert source.next_indent("if x:\n    if y:") == "        "
    assert source.next_indent("def f(x):\n    return x") == ""
    assert source.next_indent("if x:\n    for y in x:\n        break") == "    "
    assert source.next_indent("def f(x):\n    return (x,") == "    "
    assert source.next_indent("def f(x):\n    returned = x") == "    "


PARAMS = (
    Param("expr", "text", "an expression", required=True),
    Param("count", "int", "a number"),
    Param("numbers", "ints", "numbers"),
    Param("check", "flag", "yes or no", default=False),
    Param("value", "expression", "a value"),
    Param("stage", "word", "which", default="a", choices=("a", "b")),
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("f(x)", {"expr": "f(x)"}),
        ("f(x) --count 3", {"expr": "f(x)", "count": 3}),
        ("--check f(x)", {"expr": "f(x)", "check": True}),
        ("f(x) --numbers 0,1 --check", {"numbers": (0, 1), "check": True}),
        ("f(x) --value (1., {'a': 2}) --check", {"value": "(1., {'a': 2})", "check": True}),
        ("f(x) --stage=b", {"stage": "b"}),
        ("f(x --count)", {"expr": "f(x --count)"}),
        ("x --1", {"expr": "x --1"}),
        ("f('''it's --check''')", {"check": False}),
        (r"f('\' --check')", {"check": False}),
    ],
)
def test_arguments_of_a_command_line_are_parsed(line, expected):
    found = parse("try", PARAMS, line)
    assert {name: found[name] for name in expected} == expected


def test_deeply_nested_input_counts_as_complete():
    deep = "x = " + "-" * 20_000 + "1"
    assert source.status(deep) == "complete" and source.syntax_error(deep) is None
    assert list(source.inputs(deep + "\n%help\n2")) == [deep, "%help", "2"]
    outcome = batch.new_session({}).run_line(deep)
    assert type(outcome.error) in (RecursionError, MemoryError, SyntaxError)


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ("f?", "%doc f"),
        ("f??", "%doc f --source"),
        ("?f", "%doc f"),
        ("?", "%help"),
        ("%grad?", "%help %grad"),
        ("x = 1", "x = 1"),
        ("# why?", "# why?"),
        ("'a?", "'a?"),
        ("1?", "1?"),
    ],
)
def test_questions_become_commands(asked, command):
    assert source.as_command(asked) == command
    assert source.is_command(asked) == (asked != command)


@pytest.mark.parametrize(
    ("pasted", "code"),
    [
        (">>> y = 3\n>>> y + 1\n4", "y = 3\ny + 1\n"),
        (">>> def f(x):\n...     return x\n...\n>>> f(2)\n2", "def f(x):\n    return x\n\nf(2)\n"),
        ("In [12]: y = 3\n    ...: y", "y = 3\ny\n"),
        ("    y = 3\n    y", "y = 3\ny"),
        ("y = '>>> 3'", "y = '>>> 3'"),
        ("y\n    .z", "y\n    .z"),
    ],
)
def test_pasted_code_loses_prompts_and_indent(pasted, code):
    assert source.cleaned(pasted) == code
    if "." not in code:
        assert source.status(pasted) == "complete"


@pytest.mark.parametrize(("typed", "command"), [("!ls -l", "%sh ls -l"), ("x != y", None), ("f('!ls')", None)])
def test_lines_for_the_shell_become_commands(typed, command):
    assert source.is_command(typed) == (command is not None)
    if command is not None:
        assert source.as_command(typed) == command
        assert list(source.inputs(f"a = 1\n{typed}\nb = 2")) == ["a = 1", typed, "b = 2"]


def test_old_sources_are_dropped(monkeypatch):
    import linecache

    monkeypatch.setattr(source, "MOST_REGISTERED", 3)
    monkeypatch.setattr(source, "_registered", {})
    for i in (0, 1, 2, 0, 3, 4):  # the second 0 is input 0 of another session in the process
        source.register(f"<bounded-{i}>", "x")
    assert [f"<bounded-{i}>" in linecache.cache for i in range(5)] == [True, False, False, True, True]


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


def test_a_class_shows_where_it_was_typed(session):
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
