"""The panes of a stepper show the right text for recordings of real calls, without a terminal."""

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.repl.stepper.model import Stepper
from minijax.tools.commands import find
from minijax.tools.documents.document import MARK, Text, document, plain
from minijax.tools.pages.widget import payload
from minijax.tools.programs.links import linked_programs
from minijax.tools.recording import panels, storage, summary
from minijax.tools.recording.cursor import ENTER, LEAVE, Cursor
from minijax.tools.recording.log import log_document
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import ScopeRecord
from minijax.tools.recording.repeats import repeats_of
from minijax.tools.session.result import Step
from minijax.tools.session.session import Session
from minijax.tools.stepper import panes as stepping
from minijax.tools.stepper import programs as stepping_programs


def recorded(call, source="", retrace=False):
    recorder = Recorder("full", source, retrace)
    try:
        with recorder:
            call()
    except ValueError:
        pass
    return recorder.recording


def slope(x):
    y = jnp.sin(x) * 2.0
    return y - x


def wrong(x):
    y = jnp.sin(x)
    return lax.dot(y, jnp.ones((3, 4)))


@pytest.fixture(scope="module")
def gradient():
    return recorded(lambda: minijax.grad(slope)(3.0), "grad(slope)(3.0)")


@pytest.fixture(scope="module")
def mapped():
    rows = jnp.arange(3.0)
    return recorded(lambda: minijax.vmap(minijax.grad(slope))(rows))


def lines(document):
    return plain(document, 200).split("\n")


def at(recording, kind, primitive, level):
    """A cursor at the start or at the end of the first operation of ``primitive`` at ``level`` without tangents."""
    cursor = Cursor(recording)
    assert cursor.to_bind(primitive=primitive, level=level)
    while "tangent" in "".join(cursor.moment.node.args):
        assert cursor.to_bind(primitive=primitive, level=level)
    if kind == LEAVE:
        assert cursor.over()
    return cursor


def trained(steps, rate):
    w = jnp.float32(0.5)
    for _ in range(steps):
        g = minijax.grad(slope)(w)
        w = w - rate * g
    jnp.exp(w)


def test_equal_steps_are_one_row_that_opens_at_the_cursor():
    cursor = Cursor(recorded(lambda: trained(6, 0.1)))
    cursor.into()

    def rows():
        shown = lines(stepping.tree_lines(cursor, 100, 100, fold=1))
        assert sum(each.startswith(MARK) for each in shown) == 1
        return [each.partition("  +")[0] for each in shown]

    assert rows() == [" begin", f"{MARK}for _ in range(steps) ×6", " exp(w)", " end"]
    # inside the first step, this step is unfolded, and all later steps are one row
    cursor.into()
    opened = rows()
    assert opened[1].startswith(" linearize:1 begins") and opened[-3] == " for _ in range(steps) ×5"
    assert any(each.startswith(" w = sub(w, ") for each in opened)
    # inside the third step, the two earlier steps are one row, and the three later ones too
    starts = repeats_of(cursor.recording, cursor.moments).under(-1)[1][0].starts
    cursor.go(starts[2] + 3)
    shown = rows()
    assert shown[1] == " for _ in range(steps) ×2" and shown[-3] == " for _ in range(steps) ×3"
    # at the start of a step, one row covers this step and all later ones; ``over`` skips them all
    cursor.go(starts[2])
    assert rows()[1:3] == [" for _ in range(steps) ×2", f"{MARK}for _ in range(steps) ×4"]
    stepper = Stepper(Step(cursor.recording, starts[2]))
    stepper.go("over")
    assert getattr(stepper.cursor.moment.node, "primitive", "") == "exp"
    stepper.go("back")
    assert starts[5] < stepper.cursor.position


def test_steps_with_an_error_a_miss_or_a_nan_are_not_folded():
    def rows(call):
        cursor = Cursor(recorded(call))
        cursor.last()
        return lines(stepping.tree_lines(cursor, 1000, 1000, fold=1))

    def infinite():
        for x in (1.0, 2.0, 3.0, 0.0, 4.0, 5.0):
            jnp.float32(1.0) / jnp.float32(x)

    double = minijax.jit(lambda x: x * 2.0)

    def missing():
        for n in (1, 1, 1, 1, 2, 2, 2, 2):
            double(jnp.ones(n))

    assert [each.split("  +")[0] for each in rows(infinite)[1:-1]] == [
        " div(1.0, 1.0) ×3",
        " div(1.0, 0.0) = inf",
        " div(1.0, 4.0) = 0.25",
        " div(1.0, 5.0) = 0.2",
    ]
    shown = rows(missing)
    assert sum("cache of <lambda>: miss" in each for each in shown) >= 2
    assert sum(" ×3" in each for each in shown) == 2


def panes(cursor):
    for pane in stepping.PANES.values():
        yield plain(pane(cursor), 100)
    yield plain(stepping.status(cursor), 100)


def test_stepping_back_shows_the_same_screens(mapped):
    cursor = Cursor(mapped)
    there = [tuple(panes(cursor))]
    while cursor.into():
        there.append(tuple(panes(cursor)))
    back = [tuple(panes(cursor))]
    while cursor.back():
        back.append(tuple(panes(cursor)))
    assert there == back[::-1] and len(set(there)) == len(there)


@pytest.fixture
def session():
    made = Session(find, {"jnp": jnp, "grad": minijax.grad, "jit": minijax.jit, "vmap": minijax.vmap})
    made.run_line("def f(x): return jnp.sin(x) * 2.0 - x")
    return made


def test_a_failed_line_runs_again_and_opens_at_its_exception(session):
    session.run_line("ran = []")
    session.run_line("def bad(x): ran.append(1); return jnp.sin(x).nothing")
    session.run_line("%step grad(f)(3.0) --text")
    older = session.recordings[-1]
    for line in ("y = grad(bad)(3.0)", "%grad bad(3.0)"):
        assert isinstance(session.run_line(line).error, AttributeError)
        session.run_line("%history")  # this command makes no recording
        session.namespace["ran"].clear()
        outcome = session.run_line("%step")
        assert outcome.step is not None and isinstance(outcome.error, AttributeError)
        assert len(session.namespace["ran"]) == 1
        assert outcome.step.recording.source == line and "was run again" in outcome.step.note
        cursor = Cursor(*place(outcome.step))
        text = stepping.moment_line(cursor.moment, naming_of(cursor.recording))
        assert "AttributeError" in plain(document(Text((text,))))
        # the run is now the last full recording, so %step opens it and does not run the line a third time
        again = session.run_line("%step")
        assert again.step is not None and again.step.recording is outcome.step.recording
        assert again.step.position == outcome.step.position and len(session.namespace["ran"]) == 1
    session.run_line("%step grad(f)(3.0) --text")
    session.run_line("missing")
    after = session.run_line("%step").step
    assert after is not None and after.recording is not older and after.position == 2
    assert after.recording.source == "grad(f)(3.0)" and "failed before the engine did anything" in after.note
    # the second run of this line does not fail, and the note says this
    session.run_line("def once(x): ran.append(1); return jnp.sin(x).nothing if len(ran) == 1 else jnp.cos(x)")
    session.namespace["ran"].clear()
    session.run_line("grad(once)(3.0)")
    outcome = session.run_line("%step")
    assert outcome.error is None and outcome.step is not None and "this time it did not fail" in outcome.step.note


def page_note(data):
    return "".join(data["strings"][number] for number in data["lines"][data["note"]][1::2])


def place(step):
    return step.recording, step.position


def test_a_truncated_recording_is_marked_where_it_ends(monkeypatch):
    monkeypatch.setattr(summary, "MOST_EVENTS", 25)
    recording = recorded(lambda: minijax.grad(slope)(3.0), "grad(slope)(3.0)")
    kept = max(node.at for _, node in recording.walk())
    assert recording.events > 40 and kept <= 25
    for each in (recording, storage.from_json(storage.to_json(recording))):
        text = f"recording stopped here: {each.events - 25} of {each.events} events are missing"
        cursor = Cursor(each)
        assert "recording stopped before the end" in plain(stepping.status(cursor))
        cursor.last()
        model = Stepper(Step(each, len(cursor.moments)))
        model.go("into")
        views = (
            plain(stepping.status(cursor)),
            plain(stepping.tree_lines(cursor)),
            plain(log_document(each)),
            model.message[1],
            page_note(payload(each)),
        )
        for view in views:
            assert text in view and "the end" not in view.replace("before the end", ""), view
        assert f"{each.events - 25} of {each.events} events were only counted" in plain(panels.summary(each))


def test_without_a_recording_step_offers_the_last_line(session):
    assert "as in %step grad(f)(3.0)" in plain(session.run_line("%step").shown)
    session.run_line("grad(f)(2.0)")
    assert "%step grad(f)(2.0) records that line again" in plain(session.run_line("%step").shown)


def test_linked_programs_mark_the_equation_of_a_moment_or_line():
    jitted = minijax.jit(slope)
    recording = recorded(lambda: jitted(jnp.ones(3)))
    programs = linked_programs(jitted, jnp.ones(3))
    cursor = at(recording, ENTER, "mul", "jit")
    selection = stepping_programs.at_moment(programs, cursor)
    assert [programs.equation(n).primitive for n in selection.equations] == ["mul"]
    place = cursor.state().place
    words = {
        "python": ("y = jnp.sin(x) * 2.0", "return"),
        "jaxpr": ("mul b 2.0", "= sin"),
        "stablehlo": ("stablehlo.multiply", "stablehlo.sine"),
        "optimized": ("multiply", "= f32[3]{0} sine("),
    }
    for name, (word, other) in words.items():
        index = stepping_programs.pane_index(programs, name, selection, place)
        shown = lines(stepping_programs.linked_pane(programs, index, selection, place))
        assert (shown[0] == programs.panes[index].title) == (name == "python")
        marked = [each for each in shown if each[:1] in ("▶", "•")]
        assert any(word in each for each in marked), shown
        assert not any(other in each for each in marked), marked
        assert any(other in each for each in shown)
    # choosing a line of the StableHLO marks the equation
    pane = stepping_programs.pane_index(programs, "stablehlo", selection)
    line = next(i for i, each in enumerate(programs.panes[pane].lines) if "subtract" in each)
    chosen = stepping_programs.at_line(programs, pane, line)
    assert "sub" in plain(stepping_programs.linked_pane(programs, 1, chosen)).partition("•")[2].partition("\n")[0]
    selected = "".join(text for _, text in stepping_programs.selection_line(programs, chosen))
    assert "eqn 3" in selected and "sub" in selected
    nothing = stepping_programs.at_line(programs, pane, 0)
    assert "no equation" in "".join(text for _, text in stepping_programs.selection_line(programs, nothing))


def test_a_step_can_retrace_and_has_its_programs(session):
    session.run_line("g = jit(f)")
    session.run_line("g(3.0)")
    step = session.run_line("%step g(3.0)").step
    assert step is not None and step.retrace is not None and step.programs is not None
    recording, error = step.retrace()
    assert error is None and any(isinstance(node, ScopeRecord) for _, node in recording.walk())
    assert [each.primitive for each in step.programs().equations] == ["sin", "mul", "sub"]


def test_jaxprs_have_user_names_on_request():
    def layer(z, w):
        h = jnp.sin(z * w)
        return jnp.tanh(h)

    cursor = Cursor(recorded(lambda: minijax.jit(layer)(2.0, 3.0)))
    assert cursor.to_bind("tanh") and cursor.into()
    letters = plain(stepping.program_pane(cursor))
    stepper = Stepper(Step(cursor.recording, cursor.position))
    stepper.toggle_names()
    named = [" ".join(each.split()[1:]) for each in lines(stepping.program_pane(stepper.cursor))[1:]]
    assert named == ["c:f32[] = mul z w", "h:f32[] = sin c", "e:f32[] = tanh h"]
    stepper.toggle_names()
    assert plain(stepping.program_pane(stepper.cursor)) == letters and "d:f32[] = sin c" in letters
    assert stepper.cursor.find(lambda moment: type(moment.node).__name__ == "JaxprRecord")
    stepper.toggle_names()
    assert "h:f32[] = sin a" in plain(stepping.program_pane(stepper.cursor), 100)
