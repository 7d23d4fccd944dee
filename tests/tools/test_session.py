"""A session runs lines, keeps values and names, shows errors, and has a clean state after each line."""

import numpy as np
import pytest

import minijax
from minijax.core.trace import Tracer, stack_depth
from minijax.repl import batch
from minijax.repl.stepper.model import Stepper
from minijax.tools.documents.document import plain
from minijax.tools.session import outputs, tracebacks
from minijax.tools.session.result import NOTHING
from minijax.tools.usage import UsageError


@pytest.fixture
def session():
    return batch.new_session({})


def shown(outcome):
    return plain(outcome.shown)


def test_the_last_expression_is_the_value(session):
    assert session.run_line("a = 3; a + 1").value == 4
    assert session.run_line("a = 5").value is NOTHING
    assert session.run_line("None").value is NOTHING
    assert session.run_line("a;").value is NOTHING
    assert session.run_line("if a:\n    a = 7\na").value == 7


def test_names_hold_earlier_values_and_inputs(session):
    session.run_line("10")
    session.run_line("20")
    assert session.run_line("_ + __").value == 30
    assert session.run_line("Out[1] + Out[2]").value == 30
    assert session.run_line("In[1]").value == "10"
    assert session.run_line("_").value == "10"
    for line in ("def f(x): return x * _", "jnp.arange(2.0)"):
        session.run_line(line)
    assert shown(session.run_line("%log f(2.0)")) == "1  mul(2.0, [0.0, 1.0]) = [0.0, 2.0]"  # ``_`` names no value
    session.run_line("long = '" + "word " * 50 + "'")
    assert plain(session.run_line("%history 1").shown, 40) == "  10  long = '" + "word " * 50 + "'"


@pytest.mark.parametrize("made", ["jnp.zeros(50_000) + 1.0", "np.zeros(25_000) + 1.0"])
def test_results_are_kept_up_to_a_bound_of_bytes(session, monkeypatch, made):
    session.namespace["np"] = np
    monkeypatch.setattr(outputs, "MOST_BYTES", 1_000_000)
    for _ in range(10):
        session.run_line(made)
    session.run_line("[Out[10], Out[10], 1]")  # the same array twice counts only once
    assert sorted(session.outputs) == [8, 9, 10, 11] and session.outputs.dropped == 7
    error = str(session.run_line("Out[2]").error)
    assert "Out[2] is not kept: the prompt keeps at most 1,000 results" in error and "Name a result" in error
    assert str(session.run_line("Out[200]").error) == "200"
    session.run_line("jnp.zeros(500_000)")
    assert list(session.outputs) == [14] and session.run_line("_.shape").value == (500_000,)
    monkeypatch.setattr(outputs, "MOST_RESULTS", 20)
    for number in range(30):
        session.run_line(str(number))
    assert len(session.outputs) == 20


def test_errors_show_user_frames_and_the_message(session):
    session.run_line("def f(x):\n    y = sin(x)\n    return y if y > 0 else x\n")
    outcome = session.run_line("jit(f)(1.0)")
    assert isinstance(outcome.error, minijax.errors.TracerBoolConversionError)
    text = shown(outcome)
    assert "<minijax-2>:1 in <module>" in text and "<minijax-1>:3 in f" in text
    assert "return y if y > 0 else x" in text
    assert "minijax/core" not in text and "frames of minijax hidden" in text
    assert "TracerBoolConversionError: Attempted boolean conversion" in text
    session.run_line("%config frames all")
    everything = shown(session.run_line("jit(f)(1.0)"))
    assert "core/primitive.py" in everything or "interpreters/stage.py" in everything
    assert "tools/session/session.py" not in everything


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%origin inner", "%origin outer(2.0) --of inner"),
        ("%values inner + 1", "a variable inside outer(2.0), which was recorded before, not one of yours: %values"),
        ("%tree inner", "%values outer(2.0) --of inner"),
        ("%nan jnp.sin(inner)", "%values outer(2.0) --of inner"),
        ("%find inner > 1.0", "1.81859"),
        ("q", "NameError: name 'q' is not defined"),
        ("%values iner", "NameError: name 'iner' is not defined"),
        ("%backward outr", "NameError: name 'outr' is not defined. Did you mean outer?"),
        ("%origin outer(missing)", "NameError: name 'missing' is not defined"),
        ("outr(2.0)", "NameError: name 'outr' is not defined. Did you mean outer?"),
    ],
)
def test_unknown_names_are_searched_in_the_last_recordings(session, line, expected):
    session.run_line("def outer(x): inner = jnp.sin(x) * 2.0; return inner + x")
    session.run_line("%log outer(2.0)")
    session.run_line("%log outer()")  # this fails before the engine runs, so there is no recording of it
    before = list(session.recordings)
    outcome = session.run_line(line)
    assert expected in shown(outcome) and session.recordings == before and stack_depth() == 0


def test_a_stepper_computes_values_of_a_traced_program(session):
    session.run_line("def f(x): return jnp.sin(x) * 2.0")
    step = session.run_line("%step minijax.make_jaxpr(f)(3.0)").step
    stepper = Stepper(step)
    stepper.go("last")
    stepper.values.ask_expression()
    stepper.answer("x * 2.0")
    assert stepper.message == ("good", "x * 2.0 = 6.0")


def test_causes_and_contexts_are_shown(session):
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"
    text = shown(session.run_line(code))
    assert text.index("ZeroDivisionError") < text.index("direct cause") < text.index("KeyError: 'k'")
    code = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['q']\n"
    assert "another exception" in shown(session.run_line(code))


def test_syntax_errors_point_at_the_place(session):
    text = shown(session.run_line("x = (1 +"))
    assert "SyntaxError" in text and "x = (1 +" in text and "^" in text
    assert "session.py" not in text


def test_exit_passes_with_a_clean_stack(session):
    session.run_line("def leave(x): raise SystemExit(3)")
    with pytest.raises(SystemExit) as leaving:
        session.run_line("grad(leave)(1.0)")
    assert leaving.value.code == 3 and stack_depth() == 0


def test_a_session_runs_although_its_folder_is_gone(tmp_path, monkeypatch):
    session = batch.new_session({})
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    errors = [session.run_line(each).error for each in ("%cd", "sin(1.0) / nothing", "import no_such_module", "%cd /")]
    assert [type(each).__name__ for each in errors] == ["UsageError", "NameError", "ModuleNotFoundError", "NoneType"]
    assert "%cd ~ goes home" in str(errors[0])
    shown = plain(tracebacks.error_document(errors[1]))
    assert "sin(1.0) / nothing" in shown


def test_recursion_does_not_flood_the_screen(session):
    session.run_line("def r(n): return r(n + 1)")
    text = shown(session.run_line("r(0)"))
    assert "RecursionError" in text and len(text.splitlines()) < 100 and "left out" in text


def test_names_are_imported_when_they_are_read(monkeypatch):
    for name in ("cov", "vsplit", "trapezoid"):  # an earlier test may have imported them
        monkeypatch.delattr(minijax.numpy, name, raising=False)
    session = batch.new_session({}, late=True)
    session.run_line("hsplit = grad = 5")
    assert "cov" not in session.namespace
    assert session.run_line("cov(jnp.eye(2)).shape, hsplit, grad").value == ((2, 2), 5, 5)
    session.run_line("'vsplit', jnp.eye(2).trapezoid")  # neither a string nor an attribute reads a name
    assert session.namespace.keys().isdisjoint(["vsplit", "trapezoid"])


def test_a_similar_short_name_is_suggested(session):
    session.run_line("def rnn(x): return x")
    assert "name 'rnm' is not defined. Did you mean rnn?" in shown(session.run_line("rnm(1.0)"))
    assert shown(session.run_line("qqz(1.0)")).endswith(" is not defined")
    assert "name 'w' is not defined" in shown(session.run_line("w"))


def test_text_of_an_edited_file_is_not_shown(session, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_later.py"
    text = "from minijax import numpy as jnp\ndef f(x):\n    return jnp.dot(jnp.sin(x), jnp.ones(7))\n"
    file.write_text(text)
    session.run_line("import edited_later")
    assert "jnp.sin(x), jnp.ones(7))" in shown(session.run_line("edited_later.f(jnp.ones(3))"))
    file.write_text(text.replace("jnp.ones(7)", "jnp.ones(3) * 2.0"))
    for line in ("edited_later.f(jnp.ones(3))", "%debug"):
        found = shown(session.run_line(line))
        assert "ones(3) * 2.0" not in found and "(the file was edited after this code was loaded)" in found
    assert "file was edited" in shown(session.run_line("edited_later.f??"))
    recorded = session.run_line("%values edited_later.f(jnp.ones(7))")
    assert "ones(3)" not in shown(recorded).replace("edited_later.f(jnp.ones(3))", "")
    assert "* 2.0" not in "".join(each.text for each in recorded.recording.sources)


TRACING = "jaxpr grad jvp vjp linearize backward hlo graph nan keys values origin".split()


@pytest.mark.parametrize("command", TRACING)
def test_commands_leave_no_tracers_in_user_objects(session, command):
    session.run_line("class Box: pass")
    session.run_line("box, seen, held, count = Box(), [1.5], {'k': 0.5}, [0]")
    session.run_line(
        "def f(x):\n    global last\n    box.v = last = x * 2\n    held['k'] = (x, [x]); seen.append(x)\n"
        "    count[0] += 1\n    return box.v * x\n"
    )
    assert session.run_line(f"%{command} f(jnp.asarray(3.0))").error is None
    space = session.namespace
    left = [
        *vars(space["box"]).values(),
        space.get("last"),
        *space["seen"],
        *minijax.tree_util.tree_leaves(space["held"]),
    ]
    assert not any(isinstance(each, Tracer) for each in left)
    assert space["count"][0] > 0 and space["seen"][0] == 1.5


def test_every_result_of_a_comprehension_is_shown(session):
    session.run_line("x = jnp.arange(3.0)")
    found = shown(session.run_line("%values [x*i for i in range(3)]"))
    assert all(f"x*i   [0.0, {i}.0, {2 * i}.0]" in found for i in range(3))


@pytest.mark.parametrize("command", "graph rules time compare values diff jaxpr step".split())
def test_tracebacks_of_commands_have_no_frames_of_tools(session, command):
    session.run_line("def bad(x): raise ValueError('of the user')")
    error = session.run_line(
        f"%{command} " + ("bad(jnp.ones(3)) --by jvp" if command == "diff" else "bad(jnp.ones(3))")
    ).error
    if isinstance(error, UsageError):
        return
    at, files = error.__traceback__, []
    while at is not None:
        files.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    assert (
        "of the user" in str(error)
        and [each for each in files if "minijax/tools" in each and "session.py" not in each] == []
    )
