"""Exercises accept right answers, give the matching hint for wrong ones, and restore the user's names."""

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from minijax.core.trace import stack_depth
from minijax.extend.rules import known_primitives
from minijax.repl import batch
from minijax.tools.documents.document import plain
from minijax.tools.exercises.catalogue import EXERCISES
from minijax.tools.exercises.course import given_names
from minijax.tools.exercises.model import Answer, NotYet
from minijax.tools.exercises.rules import forget_primitives
from minijax.tools.session.lent import LentNames
from tests.repl.test_app import BACKSPACE, ENTER, Typed

ANSWERS = Path(__file__).with_name("answers.md").read_text(encoding="utf-8")
# name of an exercise -> (code of a wrong answer, words of the hint that it must get)
WRONG = {
    part.partition("\n")[0]: [(code, words) for words, code in re.findall(r"> (.*)\n\n```python\n([^`]*)```", part)]
    for part in ANSWERS.split("\n## ")[1:]
}
BY_NAME = {each.name: each for each in EXERCISES}


@pytest.fixture(autouse=True)
def no_primitives_left():
    """Remove the primitives that exercises define, because other tests look at all primitives."""
    before = known_primitives()
    yield
    left = [each for each in known_primitives() if each not in before]
    forget_primitives(left)
    assert {each.name for each in left} <= {"sinmul", "steps", "overlap"} and known_primitives() == before


def begun(exercise, *codes):
    """The names after the exercise's start code and ``codes`` have run, as at a prompt."""
    names = {**batch.new_session({}).namespace, **given_names(exercise)}
    for code in (exercise.start, *codes):
        exec(compile(code, f"<{exercise.name}>", "exec"), names)
    return names


def page(session, code):
    return " ".join(plain(session.run_line(code).shown, 80).split())


@pytest.mark.parametrize("name", BY_NAME)
def test_right_answers_are_accepted(name):
    exercise = BY_NAME[name]
    assert len(exercise.solutions) >= 2 and len(exercise.hints) >= 3
    for solution in exercise.solutions:
        assert exercise.check(Answer(begun(exercise, solution))).said
    assert stack_depth() == 0


@pytest.mark.parametrize("name", BY_NAME)
def test_wrong_answers_get_the_hint_of_their_mistake(name):
    exercise = BY_NAME[name]
    assert len(WRONG[name]) >= 5
    hints = {}
    for code, words in (("", ""), *WRONG[name]):
        with pytest.raises(NotYet) as refused:
            exercise.check(Answer(begun(exercise, code)))
        text = str(refused.value)
        assert words in text, (code, text)
        assert stack_depth() == 0
        hints[code] = words
    assert len(set(hints.values())) == len(hints)


def test_an_exercise_is_opened_checked_and_solved():
    session = batch.new_session({})
    assert "0 of 11 done 1 · Predict the jaxpr" in page(session, "%tour exercises")
    opened = page(session, "%tour ex predict-the-jaxpr")
    assert "Exercise 1 of 11: Predict the jaxpr" in opened and "answer = (0, 0)" in opened
    assert "1 not yet. 0 is too few" in page(session, "%tour check") and session.namespace["answer"] == (0, 0)
    assert "This is still the start code" in page(session, "%tour check")
    session.run_line("answer = (9, 8)")
    text = page(session, "%tour check")
    assert "dce reads the program backwards" in text and "start code" not in text and "%tour hint: 3 left" in text
    assert "1 ~ Predict the jaxpr open" in page(session, "%tour exercises")
    hints = [page(session, "%tour hint") for _ in range(3)]
    assert "hint 1 What would Python do?" in hints[0] and "hint 2" not in hints[0] and "2 left" in hints[0]
    assert "hint 1" in hints[2] and "hint 3 Now backwards" in hints[2] and "that was the last hint" in hints[2]
    assert "answer = (9, 7)" in page(session, "%tour solution") and session.namespace["answer"] == (9, 8)
    page(session, "%tour solution --use")
    assert "1 ✓ right. 9 equations, and 7 when dce is done." in page(session, "%tour check")
    assert "1 of 11 done 1 ✓ Predict" in page(session, "%tour exercises")
    assert "Exercise 2 of 11" in page(session, "%tour next") and "Exercise 1 of 11" in page(session, "%tour back")
    assert "answer = (0, 0)" in page(session, "%tour again")
    assert "You have left the exercises" in page(session, "%tour stop") and "answer" not in session.namespace


def test_user_names_are_restored_and_answers_are_kept():
    session = batch.new_session({})
    session.run_line("def grow(x): return 'mine'")
    session.run_line("lax = 'my lax'; rates = 3")
    opened = page(session, "%tour ex 2")
    assert "The exercise uses the names grow, lax; yours come back at %tour stop." in opened
    session.run_line("def grow(x, rates): return lax.scan(lambda x, r: (x + r * jnp.sin(x), None), x, rates)[0]")
    text = page(session, "%tour ex 1")
    assert "Yours again: grow." in text and "lax" not in text.partition("answer = ")[2]
    assert page(session, "grow(1)") == "'mine'"
    assert "Your earlier answer is back" in page(session, "%tour ex 2")
    assert "2 ✓ right." in page(session, "%tour check")
    # opening the exercise again shows it and keeps the answer
    assert "Exercise 2 of 11: A loop that is one equation ✓" in page(session, "%tour ex 2")
    assert "2 ✓ right." in page(session, "%tour check")
    page(session, "%tour again")
    assert "60 equations for 12 rates" in page(session, "%tour check")
    del session.namespace["grow"]
    assert "There is no grow any more: %tour again" in page(session, "%tour check")
    session.run_line("grow = 3")
    assert "should be a function" in page(session, "%tour check")
    assert "Yours again: grow, lax." in page(session, "%tour stop")
    assert page(session, "grow(1)") == "'mine'" and session.namespace["rates"] == 3


def test_an_exception_in_an_answer_keeps_its_traceback():
    session = batch.new_session({})
    before = known_primitives()
    page(session, "%tour ex 3")
    session.run_line("def sinmul_jvp(primals, tangents):\n    return None, jnp.ones(3) + jnp.ones(2)")
    outcome = session.run_line("%tour check")
    text = " ".join(plain(outcome.shown, 80).split())
    assert outcome.error is not None and "raised an exception when it was checked" in text
    assert "in sinmul_jvp" in text and "jnp.ones(3) + jnp.ones(2)" in text
    assert stack_depth() == 0 and session.run_line("%tour check").error is not None
    # here the answer itself raises: the message names the mistake, and the traceback leads into the answer
    page(session, "%tour ex 5")
    session.run_line("def overlap_batch(args, dims): return jnp.sum(args[0] * args[1], axis=1), len(dims[7:9]) / 0")
    text = page(session, "%tour check")
    assert "For in_axes (0, 0), with f32[2,3] and f32[2,3], overlap_batch raised" in text and "ZeroDivision" in text
    # leaving the exercises removes their primitives
    assert known_primitives() != before
    page(session, "%tour stop")
    assert known_primitives() == before


def test_exercises_and_the_tour_close_each_other():
    session = batch.new_session({})
    session.run_line("f = 'mine'")
    assert "You" not in page(session, "%tour 1.4") and session.prompt_label() == "jvp:1"
    assert "Exercise 2 of 11" in page(session, "%tour ex 2")
    assert session.tour is None and stack_depth() == 0 and session.namespace["f"] == "mine"
    assert "Part 2 of 7" in page(session, "%tour 2") and "grow" not in session.namespace
    assert session.exercises.open is None and "The tour has ended" in page(session, "%tour stop")
    page(session, "%push jvp x=3.")
    for line in ("%tour ex 1", "%tour check"):
        assert "levels are open" in page(session, line)
    page(session, "%pop --all")
    assert "no exercise is open" in page(session, "%tour check")


def test_tour_edit_puts_the_current_answer_on_the_prompt():
    typed = Typed(
        "%tour ex leaked-tracer", ENTER, "%tour edit", ENTER, BACKSPACE, 'cash"', ENTER, "%tour check", ENTER,
        "%tour edit", ENTER, BACKSPACE * 3, 'che"', ENTER, "%tour check", ENTER, ENTER, "%tour stop", ENTER,
    )  # fmt: skip
    assert [each for each in typed.inputs if "suspect" in each] == ['suspect = "cash"', 'suspect = "cache"']
    assert "Did you mean cache?" in typed.printed and "8  ✓ right." in typed.printed
    # Enter alone goes on only in the tour
    assert "%tour next" not in typed.inputs


def test_an_interrupt_while_names_are_replaced_restores_them(monkeypatch):
    session = batch.new_session({})
    session.run_line("suspect = 3.0; scale = 4.0")
    borrow = LentNames.borrow

    def interrupted(self, names, given):
        names = list(names)
        borrow(self, names[: len(names) // 2], given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LentNames, "borrow", interrupted)
        assert isinstance(session.run_line("%tour ex 8").error, KeyboardInterrupt)
    assert (session.namespace["suspect"], session.namespace["scale"]) == (3.0, 4.0)
    assert "no exercise is open" in str(session.run_line("%tour check").error)
    assert "The exercise uses the name suspect" in page(session, "%tour ex 8")
    page(session, "%tour stop")
    assert (session.namespace["suspect"], session.namespace["scale"]) == (3.0, 4.0)


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_ipython_cells_answer_exercises(shell):
    shell.run_line_magic("load_ext", "minijax")
    shell.run_cell("norm = 'mine'")

    def run(line):
        with capture_output() as captured:
            result = shell.run_cell(line)
        text = captured.stdout if result.result is None else repr(result.result)
        return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())

    assert "The exercise uses the name norm" in run("%tour ex safe-where")
    run("%tour edit")
    assert shell.rl_next_input == BY_NAME["safe-where"].start.rstrip("\n")
    assert "10 not yet." in run("%tour check")
    assert run("def norm(v): return 1 // 0") == ""
    assert "ZeroDivisionError" in run("%tour check") and "def norm(v): return 1 // 0" in run("%tour check")
    shell.run_cell(BY_NAME["safe-where"].solutions[1])
    assert "10 ✓ right." in run("%tour check")
    assert "You have left" in run("%tour stop") and shell.user_ns["norm"] == "mine"
    assert "jvp" not in shell.user_ns
