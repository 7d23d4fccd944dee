"""In the guided tour, every line runs, every figure is right, and at the end the user's names come back."""

import re

import numpy as np
import pytest

import minijax
from minijax.core.trace import stack_depth
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.repl import batch
from minijax.tools.commands.tour_parts import PARTS
from minijax.tools.documents.document import plain
from minijax.tools.session.lent import names_in

# line -> its value in 64-bit mode, from the published tutorial.
FIGURES = {
    "jvp(f, (3.,), (1.,))": (2.7177599838802657, 2.979984993200891),
    "d1 = derivative(sin)": [-0.9899924966004454, -0.1411200080598672, 0.9899924966004454, 0.1411200080598672],
    "[derivative(g)(3.), derivative(g)(-3.)]": [2.0, 1.0],
    "jvp(lambda x: {'hi'": (
        {"hi": 2.7177599838802657, "there": [3.0, 0.2822400161197344]},
        {"hi": 2.979984993200891, "there": [1.0, -1.9799849932008908]},
    ),
    "%pop t": [1.0, 2.0, 3.0],
    "vmap(lambda v: jvp(sin": np.diag([1.0, 0.54030231, -0.41614684]),
    "jaxpr_as_fun(p)(3.)": [2.7177599838802657],
    "h(3., 4.)": -0.09224219304455371,
    "h(4., 5.)": -0.21467624978306993,
    "vmap(f)(jnp.array([0., 1., 2.]))": [0.0, -0.68294197, 0.18140515],
    "jit(lambda v: reduce_sum": 6.0,
    "[out, linear(1.), linear(10.)]": [0.1411200080598672, -0.9899924966004454, -9.899924966004454],
    "pullback(1.)": (-0.9899924966004454,),
    "grad(lambda x: -(2. * sin(x)) + x)(3.)": 2.979984993200891,
    "[grad(grad(f))(3.)": [0.2822400161197344] * 3,
    "%grad f(3.0) --check": (2.7177599838802657, 2.979984993200891),
    "lax.cond(True, lambda: 3": 3,
    "jvp(lambda x: lax.cond(True": (1.0, 2.0),
    "vmap(lambda x: lax.cond(True": [2.0, 3.0, 4.0],
    "jit(lambda: lax.cond(False": 2,
    "linear(3.14)": 3.14,
    "grad(lambda x: lax.cond(True": 2.0,
    "lax.scan(": (6.0, [0.0, 0.0, 1.0, 3.0]),
}
PROGRAMS = {
    "make_jaxpr(lambda x: 2. * x)(3.)": ["mul"],
    "make_jaxpr(lambda: mul(2., 2.))()": ["mul"],
    "%pop w": ["sin", "mul", "add", "mul"],
    "unknown": ["mul", "neg"],
    "from minijax.interpreters.partial_eval": ["sin", "cos", "neg"],
}
STOPS = [(p, s) for p, part in enumerate(PARTS) for s in range(len(part.stops))]


def shown_text(outcome):
    assert outcome.error is None
    return plain(outcome.shown, 80)


@pytest.fixture(scope="module")
def walk():
    """Run the whole tour in 64-bit mode; keep each stop's line, value and page."""
    session = batch.new_session({})
    pages = {}
    with minijax.enable_x64(True):
        for i, place in enumerate(STOPS):
            outcome = session.run_line("%tour" if i == 0 else "%tour next")
            pages[place] = (PARTS[place[0]].stops[place[1]], outcome.value, shown_text(outcome))
        ended = session.run_line("%tour next")
        assert "The tour has ended." in shown_text(ended) and session.tour is None
    assert stack_depth() == 0
    return pages


def test_every_stop_shows_the_right_figures(walk):
    for (part, stop), (about, value, page) in walk.items():
        assert f"{part + 1}.{stop + 1} " in page and "did not expect" not in page
        assert ("Error" in page) == about.fails
        if about.after:
            text = " ".join(page.split())
            for words in re.split(r"\{[^{}]+\}", about.after):
                assert words.strip() in text
            assert "?" not in text[text.rindex(words.strip()) - 40 :]
        for line, expected in FIGURES.items():
            if about.line.startswith(line) or line in about.line.split("\n"):
                assert_close(value, expected)
        for line, names in PROGRAMS.items():
            if about.line.startswith(line):
                assert isinstance(value, ClosedJaxpr) and [eqn.primitive.name for eqn in value.eqns] == names
    lines = [line for stop, _, _ in walk.values() for line in (stop.line, *stop.line.split("\n"))]
    for start in (*FIGURES, *PROGRAMS):
        assert any(line.startswith(start) for line in lines), start


def assert_close(value, expected):
    leaves, tree = minijax.tree_util.tree_flatten(value)
    if isinstance(expected, list | np.ndarray) and not isinstance(value, list):
        np.testing.assert_allclose(value, expected, atol=1e-8)
        return
    wanted, like = minijax.tree_util.tree_flatten(expected)
    if len(wanted) != len(leaves):  # the value is one array, and the expected value a list of its elements
        wanted = [np.asarray(each) for each in expected]
    else:
        assert tree == like
    for a, b in zip(leaves, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def namespace_of(session):
    return {name: value for name, value in session.namespace.items() if name.strip("_") and name not in ("In", "Out")}


def test_the_names_that_a_line_assigns_are_found():
    assert list(names_in("import numpy as pair, os.path\ndef f(x): y = x")[0]) == ["f", "pair", "os", "y"]


def test_stopping_the_tour_restores_user_names():
    session = batch.new_session({})
    session.run_line("f = 'mine'; x = [1]; y = 2; sin = 'my sin'; unrelated = 7")
    before = namespace_of(session)
    page = shown_text(session.run_line("%tour"))
    assert "The tour uses the name sin from here on; yours comes back when the part ends." in " ".join(page.split())
    # the tour takes over a user's name only at the stop that needs it
    assert session.namespace["f"] == "mine" and session.namespace["x"] is before["x"]
    pages = [page]
    while session.tour.stop < 4:
        pages.append(shown_text(session.run_line("%tour next")))
    text = " ".join("".join(pages).split())
    uses = re.findall(r"The tour uses the names? ([\w, ]+) from here on", text)
    assert sorted(name for each in uses for name in each.split(", ")) == ["f", "sin", "x", "y"]
    assert "yours" not in shown_text(session.run_line("%tour 1.2"))
    for line in ("%tour 4.2", "%tour again"):  # another part, or the same part again
        assert "yours come" in " ".join(shown_text(session.run_line(line)).split())
    for line in ("%tour 1.5", "x = 'changed'", "new = y", "unrelated = 8", "%push vmap q=[1., 2.]", "1 / 0"):
        session.run_line(line)
    assert session.prompt_label() == "vmap:2"
    returned = re.search(r"Yours again: (.*?)\.", shown_text(session.run_line("%tour stop")))
    assert returned is not None and set(returned[1].split(", ")) == {"f", "x", "y", "sin"}
    after = namespace_of(session)
    assert stack_depth() == 0 and after.pop("new") is not None and after.pop("unrelated") == 8
    del before["unrelated"]
    after.pop("q", None)
    assert after.keys() == before.keys() and all(after[name] is before[name] for name in before)


def test_commands_move_between_stops():
    session = batch.new_session({})

    def page(line):
        return shown_text(session.run_line(line))

    straight = [page("%tour") if i == 0 else page("%tour next") for i in range(7)]
    # going to a stop directly runs the stops before it
    assert page("%tour 1.7") == straight[6]
    assert page("%tour back") == straight[5] and page("%tour again") == straight[5]
    assert page("%tour") == straight[6]
    session.run_line("f = None")
    assert "did not expect" in page("%tour next")
    assert "2.979985" in page("%tour again") and "did not expect" not in page("%tour again")
    assert "Part 5 of 7" in page("%tour 5") and "Part 1" not in page("%tour next")
    assert page("%tour 5.1") and "4.18" in page("%tour back")
    page("%tour 1")
    assert "this is where the tour begins" in plain(session.run_line("%tour back").shown)
    session.run_line("%tour stop")
