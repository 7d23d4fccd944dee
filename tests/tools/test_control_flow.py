"""The tools work on every kind of equation: loops, branches, custom rules, callbacks and named scopes."""

import pytest

from minijax.core.trace import stack_depth
from minijax.tools.commands import find
from minijax.tools.documents.document import plain
from minijax.tools.session.namespace import initial_names
from minijax.tools.session.session import Session

SETUP = (
    "def step(c, x): return c * sin(x), c + x",
    "xs = jnp.arange(4.0)",
    "y = 2.0",
    "def fo(n, x): return lax.fori_loop(0, n, lambda i, s: s * x + i, x)",
    "def act(x, how): return how(x) * 2.0",
    'def dbg(x): debug.print("x = {x}", x=x); return x * 2.0',
    'def scoped(x):\n    with named_scope("outer"): return sin(x)',
    "@custom_jvp\ndef sq(x): return x * x",
    "@sq.defjvp\ndef sq_rule(primals, tangents): (x,), (t,) = primals, tangents; return sq(x), 2.0 * x * t",
    "def fails(x): return pure_callback(lambda x: 1 / 0, ShapeDtypeStruct((), jnp.float32), x)",
)


@pytest.fixture(scope="module")
def session():
    session = Session(find, initial_names())
    for line in SETUP:
        outcome = session.run_line(line)
        assert outcome.error is None, outcome.error
    return session


def shown(session, line):
    """Everything that the session shows for an input, on lines that are long enough never to wrap."""
    outcome = session.run_line(line)
    assert stack_depth() == 0
    return plain(outcome.shown, 400) + "\n" + plain(outcome.summary, 400)


# (line, texts that it shows, texts that it must not show)
LINES = [
    # if an argument cannot be traced, the function closes over it
    ("%jaxpr lax.scan(step, 1.0, xs)", ("lambda ; a:f32[] b:f32[4].", "= scan[", "length=4"), ()),
    ("%jaxpr lax.cond(y > 0, sin, cos, f32[])", ("branches=(", "] 1:i32[] a"), ()),
    # %grad differentiates with respect to the first float argument
    ("%grad fo(3, y)", ("gradient x", "33."), ()),
    ("%grad fo(3, 2)", ("%grad needs an argument to differentiate by",), ("value_and_grad",)),
    # named scopes
    ("%jaxpr scoped(y) --scopes", ("# [outer]",), ()),
    # names in the log are short, and the user's own
    (
        "%log --verbose jvp(sq, (3.0,), (1.0,))",
        ("fun=sq jvp=sq_rule", "by jvp rule", "  sq_rule"),
        ("Written", "rule rule"),
    ),
    ("%log --verbose grad(sin)(y)", ("sin_jvp", "for sin\n"), ("<locals>", "ufuncs.py")),
    ("%log --verbose lax.cond(True, sin, cos, y)", ("{ jaxpr of 1 equation }",), ("1 equations",)),
    ("%log --verbose dbg(y)", ("debug_print[",), (") = ",)),
    ("jit(dbg)(y)", ("np_printoptions=(('edgeitems', 3), ", "..."), ("override_repr",)),
]


@pytest.mark.parametrize(("line", "there", "absent"), LINES, ids=[line for line, _, _ in LINES])
def test_each_line_shows_the_expected_texts(session, line, there, absent):
    text = shown(session, line)
    for piece in there:
        assert piece in text, text
    for piece in absent:
        assert piece not in text, text


def test_code_with_effects_runs_once(session, capsys):
    text = shown(session, "%jit dbg(5.0)")
    assert capsys.readouterr().out.count("x = 5.0") == 1
    assert "run once only: it has effects" in text and "again" not in text


def test_a_quoted_traceback_shows_only_user_frames(session):
    text = shown(session, "jit(fails)(1.0)")
    assert "ZeroDivisionError: division by zero" in text and 'File "<minijax-' in text
    assert "evaluate.py" not in text and "pjrt.py" not in text
    assert text.count("\n") < 10
    session.run_line("%config frames all")
    try:
        assert "evaluate.py" in shown(session, "jit(fails)(1.0)")
    finally:
        session.run_line("%config frames user")


def test_the_outermost_programs_are_shown_first(session, monkeypatch):
    line = "jit(grad(lambda c: lax.scan(lambda c, x: (lax.cond(c > x, exp, {}, c) * x, c), c, xs)[0]))(y)"
    text = shown(session, line.format("tan"))
    titles = [row.split("·")[0].strip() for row in text.splitlines() if row.startswith(" jaxpr ")]
    assert len(titles) == 2 and "jaxpr    <lambda> staged" in titles, titles
    assert "more (%panels --all)" in text and "reverse=True" in shown(session, "%panels --all")
    # a recording that may keep only two jaxprs keeps the outermost
    monkeypatch.setattr("minijax.tools.recording.summary.MOST_JAXPRS", 2)
    session.run_line(line.format("sinh"))
    assert "reverse=True" in shown(session, "%panels --all")
