"""The stepper without a terminal: tests call its actions or send keys through a pipe, and read the drawn screen."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import ColorDepth, DummyOutput

import minijax
import minijax.numpy as jnp
from minijax.repl.browser.model import StageBrowser
from minijax.repl.drawing import cut, fitted, target_at
from minijax.repl.fullscreen import Console
from minijax.repl.stepper.app import StepperApp, run
from minijax.repl.stepper.model import Stepper
from minijax.repl.stepper.screen import compose
from minijax.repl.style import STYLE
from minijax.tools.documents.document import length
from minijax.tools.programs.links import linked_programs
from minijax.tools.recording import storage
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import BindRecord, Recording, place_parts
from minijax.tools.session.result import Step
from minijax.tools.stepper import panes
from minijax.tools.values.table import named_until
from minijax.tools.xla import moments, pipeline, stages
from tests.repl.screen import RecordingOutput

LEFT, RIGHT, UP, DOWN, HOME, END_KEY, PAGE_DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[6~"
ESCAPE, CTRL_C, SHIFT_TAB = "\x1b", "\x03", "\x1b[Z"


def slope(x):
    y = jnp.sin(x) * 2.0
    return y - x


def recorded(call: Callable[[], object], source: str = "", retrace: bool = False) -> Recording:
    recorder = Recorder("full", source, retrace)
    with recorder:
        call()
    return recorder.recording


@pytest.fixture(scope="module")
def step() -> Step:
    recording = recorded(lambda: minijax.grad(slope)(3.0), "grad(slope)(3.0)")
    return Step(recording, 0, None, lambda: linked_programs(slope, 3.0))


@pytest.fixture
def stepper(step: Step) -> Stepper:
    return Stepper(step)


def text(stepper: Stepper, columns: int = 80, rows: int = 24) -> str:
    return "\n".join("".join(piece for _, piece in each).rstrip() for each in compose(stepper, columns, rows))


def marked(stepper: Stepper) -> list[str]:
    """The marked lines of all panes."""
    pieces = [piece for each in text(stepper, 200, 50).split("\n") for piece in each.split("│")]
    return [piece for piece in pieces if piece.startswith(("▶", "•"))]


def pressed(step: Step, *keys: str) -> Stepper:
    """A stepper after these keys were sent through prompt_toolkit's pipe."""
    stepper = Stepper(step)
    with create_pipe_input() as keyboard:
        keyboard.send_text("".join(keys))
        StepperApp(stepper, Console(STYLE, None, keyboard, DummyOutput())).run()
    return stepper


def printed(
    step: Step, *chunks: str | tuple[str, str], columns: int = 200, rows: int = 50
) -> tuple[str, BaseException | None]:
    """The output of a stepper that gets chunks of keys. Each is sent after the previous chunk's screen is drawn.

    A chunk ``(awaited, keys)`` is sent when the text ``awaited`` has been drawn.
    """
    output = RecordingOutput(columns, rows)
    with create_pipe_input() as keyboard:

        def type_them() -> None:
            seen = 0
            for chunk in chunks:
                awaited, keys = chunk if isinstance(chunk, tuple) else ("step", chunk)
                with output.drawn:
                    output.drawn.wait_for(lambda: len(output.text) > seen and awaited in output.printed(), 20)  # noqa: B023
                    seen = len(output.text)
                keyboard.send_text(keys)

        typist = threading.Thread(target=type_them)
        typist.start()
        _, error = run(step, Console(STYLE, ColorDepth.DEPTH_1_BIT, keyboard, output))
        typist.join()
    return output.printed(), error


# --- the screen -------------------------------------------------------------------------------------------------


def test_the_screen_fits_every_terminal(stepper):
    widths = (1, 2, 5, 20, 39, 40, 80, 109, 110, 149, 150, 200)
    sizes = [(columns, rows) for columns in widths for rows in (1, 2, 3, 7, 8, 24)]
    for _ in range(6):
        stepper.go("into")
    stepper.linked = linked_programs(slope, 3.0)
    for programs in (False, True):
        stepper.show_programs(programs)
        for zoomed in (False, True):
            stepper.zoomed = zoomed
            for focus in stepper.panes:
                stepper.focus = focus
                for columns, rows in sizes:
                    screen = compose(stepper, columns, rows)
                    assert len(screen) == rows
                    assert max(map(length, screen)) <= columns
    stepper.toggle_help()
    for columns, rows in sizes:
        assert len(compose(stepper, columns, rows)) == rows


def test_a_pane_keeps_its_scroll_offset_when_another_is_focused(stepper):
    stepper.press("4")
    compose(stepper, 80, 24)
    stepper.press("1")
    assert "2 source 3 stack [4 jaxpr] 5 rule" in text(stepper)


def test_cut_lines_are_marked_and_can_be_scrolled():
    assert "".join(p for _, p in fitted((("", "abcdef"),), 4)) == "abc…"
    assert "".join(p for _, p in fitted((("", "ab"),), 4, fill=True)) == "ab  "
    assert length(fitted((("", "日本語日本語"),), 6)) == 6
    assert "".join(p for _, p in cut((("current", "▶"), ("", "abcdef")), 3)) == "▶def"
    assert "".join(p for _, p in fitted((("", "a\x1b[31mb\tc"),), 40)) == "a\\x1b[31mb    c"


def test_scrolling_stops_at_the_end_of_a_pane(stepper):
    stepper.go("into")
    stepper.press("2")
    first = text(stepper)
    stepper.scroll(10_000)
    last = text(stepper)
    assert first != last
    stepper.scroll(1)
    assert text(stepper) == last
    for _ in range(200):
        stepper.scroll(-20)
        compose(stepper, 80, 24)
    top = text(stepper)
    stepper.scroll(1)
    assert text(stepper) != top  # scrolling has stopped at the top, so one row down already changes the screen
    stepper.go("into")
    assert "▶" in text(stepper).split("source]")[1]


def test_the_backward_pass_keeps_its_heading():
    gradient = minijax.grad(lambda x: slope(slope(slope(slope(slope(x))))))
    stepper = Stepper(Step(recorded(lambda: gradient(1.0)), 0))
    stepper.press("4")
    stepper.go("last")
    assert stepper.cursor.to_bind("mul", level="linearize", backwards=True)
    assert "has recorded" not in text(stepper, rows=10) and "has recorded" in text(stepper, rows=40)
    stepper.go("last")
    assert stepper.cursor.to_bind("mul", backwards=True)
    assert "backward pass of" in text(stepper, rows=10)


def test_without_colour_the_current_line_is_marked(stepper):
    stepper.go("into")
    stepper.go("into")
    current = [each for each in compose(stepper, 80, 24) if any(role == "stepper-bar" for role, _ in each)]
    assert current and all("".join(p for _, p in each).startswith("▶") for each in current)
    assert all(length(each) == 80 for each in current)


def test_hostile_names_cannot_send_escape_codes():
    def hostile(x):
        return jnp.sin(x)

    hostile.__name__ = hostile.__qualname__ = "a\x1b]0;owned\x07\nb\x9b31m"
    recording = recorded(lambda: minijax.grad(hostile)(1.0), "x\x1b[2J")
    stepper = Stepper(Step(recording))
    for _ in range(5):
        stepper.go("into")
        for size in ((200, 40), (80, 24), (40, 20)):
            for each in compose(stepper, *size):
                assert "".join(piece for _, piece in each).isprintable()


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Stepper, StageBrowser])
def test_every_key_has_one_meaning_and_the_help_has_all_of_it(model):
    rows = [row for group in model.keys.values() for row in group]
    named = [name for _, _, bound in rows for names in bound for name in names.split()]
    assert len(named) == len(set(named))
    for columns in (40, 59, 80, 110, 120, 160, 200):
        lines = ["".join(piece for _, piece in line) for line in model.__new__(model).help_lines(columns)]
        assert max(map(len, lines)) <= columns
        half = columns // 2 if columns >= 110 else columns
        words = " ".join(" ".join([each[:half] for each in lines] + [each[half:] for each in lines]).split())
        assert all(shown in words and said in words for shown, said, _ in rows) and "…" not in words.replace("1…6", "")


def test_keys_step_into_over_out_and_back(step):
    there = pressed(step, "s", RIGHT, "i", " ", "q")
    assert there.cursor.position == 4 and there.result == "leave"
    assert pressed(step, "sssss", "b", LEFT, "b", "q").cursor.position == 2
    over = pressed(step, "ss", "n", "q").cursor
    assert over.moment.kind == LEAVE and over.moment.other == 2
    assert pressed(step, "ss", DOWN, UP, "q").cursor.position == 2
    assert pressed(step, "sss", "u", "q").cursor.moment.kind == LEAVE
    assert pressed(step, "sss", "U", "q").cursor.position == 2
    last = len(Stepper(step).cursor.moments) - 1
    assert pressed(step, "G", "q").cursor.position == last == pressed(step, END_KEY, "ss", "q").cursor.position
    assert pressed(step, "G", "g", "q").cursor.position == 0 == pressed(step, "G", HOME, "bb", "q").cursor.position


def doubled(z):
    q = z * 2.0
    return jnp.sin(q)


def traced(w, x):
    h = jnp.tanh(x * w)
    u = minijax.jit(doubled)(h)
    return jnp.sum(u * h)


# (keys, operation and kind of the moment that they lead to, message)
WALKS = [
    ("enter", "mul u * h leave", ""),
    ("enter enter 2", "tanh jnp.tanh(x * w) leave", ""),
    ("enter enter 1 enter 1", "sin jnp.sin(q) leave", ""),
    ("enter enter 1 enter 1 enter enter", "tanh jnp.tanh(x * w) leave", "z is an argument of the call"),
    ("enter enter 2 enter enter 2", "enter", "no operation made w: it came from outside"),
    ("enter enter 2 backspace backspace", "reduce_sum jnp.sum(u * h) enter", ""),
    ("backspace", "reduce_sum jnp.sum(u * h) enter", "Backspace returns from a move with Enter"),
    ("enter enter 2 t 1", "jit minijax.jit(doubled)(h) enter", ""),
    ("enter enter 2 t 2", "mul u * h enter", ""),
    ("enter enter 9", "mul u * h leave", "9 is not a number from 1 to 2"),
]


@pytest.fixture(scope="module")
def walked() -> Recording:
    w, x = jnp.arange(3.0), jnp.ones(3)
    return recorded(lambda: minijax.grad(traced)(w, x), retrace=True)


@pytest.mark.parametrize(("keys", "there", "expected"), WALKS)
def test_enter_walks_to_origins_and_backspace_returns(walked, keys, there, expected):
    stepper = Stepper(Step(walked))
    assert stepper.cursor.to_bind(primitive="reduce_sum")
    for key in keys.split():
        if stepper.question is not None:
            stepper.answer(key)
        else:
            stepper.press(key)
    assert stepper.question is None
    node = stepper.cursor.moment.node
    operation = f"{node.primitive} {node.expression}" if isinstance(node, BindRecord) else ""
    assert f"{operation} {stepper.cursor.moment.kind}".strip() == there
    assert stepper.message[1].startswith(expected) and bool(expected) == bool(stepper.message[1])


def test_enter_at_an_error_leads_to_the_operands_at_fault():
    def mismatched(w, x):
        a = x * 2.0
        b = w * 3.0
        return jnp.sum(a @ b)

    w, x = jnp.ones((3, 2)), jnp.ones(2)
    recorder = Recorder("full")
    with pytest.raises(TypeError), recorder:
        minijax.grad(mismatched)(w, x)
    stepper = Stepper(Step(recorder.recording))
    panes.to_failure(stepper.cursor)
    stepper.walk.to_origin()
    assert stepper.question is not None and stepper.question.label == "from  1 a  2 b"
    stepper.answer("2")
    file, line, _ = place_parts(stepper.cursor.state().place)
    assert (stepper.recording.source_line(file, line) or "").strip() == "b = w * 3.0"
    assert stepper.cursor.moment.kind == LEAVE


def test_enter_follows_the_selected_value(walked):
    # with the values pane focused, Enter goes to the origin of the selected value, computed last, in the inner jit
    there = pressed(Step(walked), "Pjit\r", "6", "\r", "q").cursor
    assert getattr(there.moment.node, "expression", "") == "jnp.sin(q)" and there.moment.kind == LEAVE


@pytest.mark.parametrize(
    ("keys", "expression"),
    [
        ("ch.max() > 0.9\r", "jnp.tanh(x * w)"),
        ("cq > -1.0\r", "z * 2.0"),
        ("cq > -1.0\r,", "z * 2.0"),
        ("Ggch.max() > 0.9 and q.sum() < 100\r", "z * 2.0"),
        ("Gcq.max() > 0\r", ""),
        ("Gcq.max() > 0\r,", "z * 2.0"),
        ("ch.open()\r", ""),
    ],
)
def test_c_goes_to_the_moment_where_a_condition_holds(walked, keys, expression):
    there = pressed(Step(walked), *keys, "q")
    assert getattr(there.cursor.moment.node, "expression", "") == expression


@pytest.mark.parametrize(
    ("keys", "primitive", "level"),
    [
        ("Pcos\r", "cos", "eval"),
        ("Llinearize\r", "sin", "linearize:1"),
        ("/tangent\r", "mul", "linearize:1"),
        ("/0.28224\r", "mul", "eval"),
        ("Sf32[]\r", "sin", "linearize:1"),
        ("/SUB\r", "sub", "linearize:1"),
        ("Pmul\r..", "mul", "eval"),
        ("Pmul\r...,", "mul", "eval"),
    ],
)
def test_a_search_goes_to_a_matching_operation(step, keys, primitive, level):
    node = pressed(step, keys, "q").cursor.moment.node
    assert isinstance(node, BindRecord) and (node.primitive, node.level) == (primitive, level)


def test_a_search_finds_a_line_or_a_function(step):
    cursor = Stepper(step).cursor
    cursor.to_bind(primitive="sub")
    line = cursor.state().place.partition(" (")[0].rpartition(":")[2]
    assert pressed(step, f":{line}\r", "q").cursor.position == cursor.position
    assert pressed(step, ":test_stepper.py:", line, "\r", "q").cursor.position == cursor.position
    assert pressed(step, "Fslope\r", "q").cursor.position == 1


def test_a_search_without_a_match_says_so_and_stays(step):
    stepper = pressed(step, "sss", "/nowhere\r", "q")
    assert stepper.cursor.position == 3
    stepper = Stepper(step)
    stepper.press("/")
    stepper.answer("nowhere")
    assert stepper.message[1] == "no 'nowhere' after this moment; the key , looks before it"
    stepper.press(",")
    assert "before this moment" in stepper.message[1]
    assert pressed(step, "!", "e", ".", "q").cursor.position == 0
    fresh = Stepper(step)
    fresh.again()
    assert "nothing has been searched for" in fresh.message[1]


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C])
def test_an_interrupted_search_reports_its_progress(step, key):
    stepper = Stepper(step)
    messages: list[str] = []
    stepper.say = lambda text, role="": messages.append(text)  # type: ignore[method-assign]
    with create_pipe_input() as keyboard:

        def endless(backwards: bool = False) -> bool:
            keyboard.send_text(f"sq{key}")  # the stepper takes these keys only after the search; Esc ends the search
            end = time.monotonic() + 20
            while time.monotonic() < end:
                stepper.heed(3, 7000)
            return False

        stepper.cursor.to_nonfinite = endless  # type: ignore[method-assign]
        keyboard.send_text("ss!")
        StepperApp(stepper, Console(STYLE, None, keyboard, DummyOutput())).run()
    assert "stopped: nothing in the first 3 of 7,000 moments; the key . starts the search again" in messages
    assert stepper.cursor.position == 3


def test_a_long_message_wraps(step):
    stepper = Stepper(step)
    stepper.say("no_value " * 30 + "end")
    shown = text(stepper)
    assert shown.count("no_value") == 30 and "end" in shown and len(shown.split("\n")) == 24
    stepper.say("x" * 3000)
    assert text(stepper).count("x" * 78) == 7 and re.search(r"… 2,3\d\d more characters", text(stepper))
    stepper.say("")
    stepper.ask("from  1 primal of (x @ w)  2 a long name  3 another long name  4 and another", print, single=True)
    assert "2 a long name" in text(stepper, 60) and stepper.question.fitting(60) == "from"  # type: ignore[union-attr]


def test_esc_closes_a_message_before_it_leaves(step):
    assert pressed(step, "sss", "/nowhere\r", ESCAPE, "s", ESCAPE).cursor.position == 4


def test_questions_can_be_cancelled_and_edited(step):
    assert pressed(step, "ss", "/cos", ESCAPE, "s", "q").cursor.position == 3
    assert pressed(step, "ss", "/cos", CTRL_C, "s", "q").cursor.position == 3
    assert pressed(step, "/\r", "s", "q").cursor.position == 1
    node = pressed(step, "/cox\x7fs\r", "q").cursor.moment.node
    assert isinstance(node, BindRecord) and node.primitive == "cos"


def test_questions_leave_room_for_an_answer(step):
    assert "next operation (its name, such as sin): " in printed(step, "P", ESCAPE, "q")[0]
    assert "next operation: " in printed(step, "P", ESCAPE, "q", columns=40, rows=20)[0]


def test_panes_can_be_focused_scrolled_and_zoomed(step):
    assert pressed(step, "\t\t", "q").focus == "stack"
    assert pressed(step, SHIFT_TAB, "q").focus == "values"
    assert pressed(step, "4", "q").focus == "jaxpr"
    assert pressed(step, "+++-", "q").share == 12
    assert pressed(step, "z", "q").zoomed
    assert pressed(step, ">><", "q").fold == Stepper(step).fold + 1
    stepper = pressed(step, "s", "2", PAGE_DOWN, "jj", "k", "ll", "h", "q")
    assert stepper.scrolled["source"][1] == 8


# --- values ------------------------------------------------------------------------------------------------------


def rolled(x):
    def turn(carry, each):
        new = carry * each
        return new, new

    last, every = minijax.lax.scan(turn, x, jnp.array([2.0, 3.0, 4.0]))
    return last + jnp.sum(every)


@pytest.fixture(scope="module")
def loop() -> Step:
    return Step(recorded(lambda: minijax.vmap(minijax.grad(rolled))(jnp.array([1.0, 10.0])), "rolled"), 0)


def values(stepper: Stepper) -> str:
    stepper.focus = "values"
    stepper.zoomed = True
    return text(stepper, 100, 40)


def test_the_values_pane_follows_the_moment(step):
    stepper = Stepper(step)
    assert "no variable has a value yet" in values(stepper)
    stepper.go("last")
    rows = values(stepper).split("\n")
    assert next(each for each in rows if each.strip(" ▶").startswith("x ")).split() == ["▶", "x", "3.0", "-2.979985"]
    assert next(each for each in rows if each.strip(" ▶").startswith("y ")).split()[-2:] == ["0.28224", "1.0"]
    stepper.press("P")
    stepper.go("first")
    stepper.find("sub", lambda back: stepper.cursor.to_bind(primitive="sub", backwards=back))
    assert "cotangent" not in values(stepper) and "0.28224" in values(stepper)


def test_keys_choose_the_iteration_and_the_example(loop):
    stepper = Stepper(loop)
    stepper.go("last")
    assert "iteration 0 of 3" in values(stepper) and "2× [2.0, 20.0]" in values(stepper)
    assert "iteration 1 of 3" in text(pressed_on(stepper, "]"), 100, 40)
    assert "2× [6.0, 60.0]" in values(stepper)
    assert "iteration 2 of 3" in text(pressed_on(stepper, "2", "]"), 100, 40) and stepper.focus == "values"
    assert "2× [24.0, 240.0]" in values(stepper)
    assert "iteration 2 of 3" in text(pressed_on(stepper, "9", "]"), 100, 40)
    assert "iteration 1 of 3" in text(pressed_on(stepper, "["), 100, 40)
    pressed_on(stepper, "}", "}")
    assert "example 1 of 2" in stepper.message[1] and "  60.0  " in values(stepper)
    pressed_on(stepper, "{", "{")
    assert "all 2 examples" in stepper.message[1] and "2× [6.0, 60.0]" in values(stepper)
    pressed_on(stepper, "1", "[", "[", "1", "6", "]")
    assert "iteration 2 of 3" in stepper.message[1]
    pressed_on(stepper, "[", "[", "1", "s", "6", "]")  # 6 only focuses the values pane: it does not choose an iteration
    assert "iteration 1 of 3" in stepper.message[1] and stepper.focus == "values"
    pressed_on(stepper, "1", "s", "]")  # any other key cancels the number
    assert "iteration" in stepper.message[1] or "no variable of a loop" in stepper.message[1]


def pressed_on(stepper: Stepper, *keys: str) -> Stepper:
    """Press these keys; return the stepper."""
    for each in keys:
        stepper.press(each)
    return stepper


def test_expressions_use_the_names_of_a_moment(step, loop):
    stepper = Stepper(step)
    stepper.go("last")
    for expression, expected, role in (
        ("x * 2.0", "x * 2.0 = 6.0", "good"),
        ("float(jnp.sin(x)) > 0 and np.pi > y", "= True", "good"),
        ("[x, y]", "= [array(3., dtype=float32), array(0.28224, dtype=float32)]", "good"),
        ("nothing + 1", "no variable nothing holds a value here; there are x, y", "error"),
        ("1 +", "SyntaxError: invalid syntax", "error"),
        ("1 / 0", "ZeroDivisionError: division by zero", "error"),
    ):
        stepper.values.ask_expression()
        stepper.answer(expression)
        assert expected in stepper.message[1] and stepper.message[0] == role, (expression, stepper.message)
    stepper.go("first")
    stepper.values.ask_expression()
    stepper.answer("y + 1.0")
    first = int(re.search(r"y has no value yet .* its first value is at step (\d+): the key \.", stepper.message[1])[1])
    stepper.again()
    assert stepper.cursor.position == first and "y" in values(stepper)
    stepper.go("back")
    assert all(named.name != "y" for named in named_until(stepper.values.known, stepper.values.at))
    yet = f"no value yet at this moment; its first value is at step {first}"
    for expression, expected in (("y + 1.0", yet), ("zz", "no variable zz")):
        stepper.values.ask_watch()
        stepper.answer(expression)
        assert expected in stepper.message[1]
    mapped = Stepper(loop)
    mapped.go("last")
    mapped.values.ask_expression()
    mapped.answer("last.max()")
    assert mapped.message[1] == "last.max() = 240.0  over the 2 examples of vmap:1"


def test_watches_are_above_the_values_and_mark_changes(step):
    stepper = Stepper(step)
    for watched in ("y * 10.0", "1 +"):
        stepper.values.ask_watch()
        stepper.answer(watched)
    assert stepper.values.watches == ["y * 10.0"] and "SyntaxError" in stepper.message[1]
    assert "  y * 10.0 = no value yet" in values(stepper)
    while "no value yet" in values(stepper):
        assert stepper.cursor.into()
    assert "* y * 10.0 = 2.8224" in values(stepper)
    stepper.zoomed = False
    small = text(stepper, 60, 14)  # the watch stays visible even if there is room for only a few rows of the table
    assert "* y * 10.0 = 2.8224" in small and "name" in small
    stepper.cursor.into()
    assert "  y * 10.0 = 2.8224" in values(stepper)
    stepper.values.ask_watch()
    stepper.answer("y * 10.0")
    assert not stepper.values.watches and "y * 10.0 =" not in values(stepper)


def test_the_elements_of_a_value_scroll_by_rows_columns_and_slices(loop):
    stepper = Stepper(loop)
    pressed_on(stepper, "v")
    assert stepper.message[1] == "no variable has a value yet"
    stepper.go("last")
    stepper.focus = "values"
    for _ in range(20):
        if stepper.values.named().name == "every":  # type: ignore[union-attr]
            break
        stepper.scroll(1)
    pressed_on(stepper, "v")
    screen = text(stepper, 60, 20)
    assert "━ every · primal" in screen and screen.split("\n")[3].split() == ["0", "1", "2"]
    rows = [each.split() for each in screen.split("\n")[4:6]]
    assert rows == [["0", "2.0", "6.0", "24.0"], ["1", "20.0", "60.0", "240.0"]]
    pressed_on(stepper, "down", "right")
    assert [each.split() for each in text(stepper, 60, 20).split("\n")[3:5]] == [["1", "2"], ["1", "60.0", "240.0"]]
    pressed_on(stepper, "tab")
    assert "━ every · cotangent" in text(stepper, 60, 20)
    pressed_on(stepper, "]")
    assert "one slice" in stepper.message[1]
    for columns, rows in ((1, 1), (3, 4), (20, 7), (80, 24)):
        screen_lines = compose(stepper, columns, rows)
        assert len(screen_lines) == rows and max(map(length, screen_lines)) <= columns
    pressed_on(stepper, "q")
    assert stepper.values.viewer is None and not stepper.result


# --- programs, retracing, saving --------------------------------------------------------------------------------


def test_the_programs_follow_the_cursor_and_the_chosen_line(stepper):
    stepper.linked = linked_programs(slope, 3.0)
    stepper.toggle_programs()
    stepper.press("P")
    stepper.answer("sub")
    shown = marked(stepper)
    assert any("stablehlo.subtract" in each for each in shown) and any("sub c a" in each for each in shown)
    assert any(each.startswith("▶") and "return y - x" in each for each in shown)
    assert not any("stablehlo.sine" in each for each in shown)
    stepper.press("2")
    stepper.scroll(-1)
    stepper.scroll(-1)
    shown = marked(stepper)
    assert any("stablehlo.sine" in each for each in shown)
    both = f"L{slope.__code__.co_firstlineno + 1}+"  # the fusion computes both lines of ``slope``
    assert any(both in each and "fusion" in each for each in shown)
    assert any(each.startswith("▶") and "sin" in each for each in shown)
    assert "eqn 1" in text(stepper, 200, 50).split("\n")[-1]
    stepper.toggle_programs()
    assert stepper.focus == "tree" and "1 tree" in text(stepper) and "eqn 1" not in text(stepper).split("\n")[-1]


def test_programs_are_compiled_after_the_screen_closes(step):
    with create_pipe_input() as keyboard:
        keyboard.send_text("p")
        stepper = Stepper(step)
        assert StepperApp(stepper, Console(STYLE, None, keyboard, DummyOutput())).run() == "programs"
    shown, error = printed(step, "p", "sss", "q")
    assert error is None and "stablehlo.sine" in shown and "4 optimized" in shown


def test_the_stepper_survives_programs_that_cannot_be_made(step):
    def fail() -> object:
        raise TypeError("no\nsecond line")

    shown, _ = printed(Step(step.recording, 0, None, fail), "p", "s", "q")  # type: ignore[arg-type]
    assert "no programs: TypeError: no" in shown and "second line" not in shown
    opened = Stepper(Step(step.recording))
    opened.toggle_programs()
    opened.retrace()
    assert "opened, not made here" in opened.message[1] and not opened.result


def test_x_browses_the_stages_of_the_call_at_the_cursor():
    jitted = minijax.jit(slope)
    recording = recorded(lambda: jitted(3.0), "jitted(3.0)")
    step = Step(recording)
    stepper = Stepper(step)
    # the program is compiled by the call, so before the call there is none to browse
    stepper.browse()
    assert "no compiled program" in stepper.message[1] and not stepper.result
    shown, error = printed(step, "Gb", "x", ("passes", "q"), ("step", "q"), columns=80, rows=24)
    assert error is None and "jit(slope)" in shown and "optimised HLO" in shown
    # this call compiles nothing: the browser shows the whole line, compiled as jit would compile it
    whole = Step(recording, stages=lambda: stages.stages(pipeline.descent(jitted.lower(3.0), ["x"])))
    shown, _ = printed(whole, "x", ("passes", "q"), ("step", "q"), columns=80, rows=24)
    assert "this is the whole call" in shown

    def fail() -> object:
        raise TypeError("not for XLA")

    shown, _ = printed(Step(recording, stages=fail), "x", "q")
    assert "no stages: TypeError: not for XLA" in shown


def test_arguments_of_an_inner_call_are_named_by_their_variables():
    product = minijax.jit(lambda p, b, c: jnp.sin(p["w"] * 2.0) @ b + c)

    def f(params, y):
        h = jnp.cos(y)
        return product(params, h, h).sum() + product(params, h, y).sum()

    params, y = {"w": jnp.ones((3, 3))}, jnp.ones(3)
    recording = recorded(lambda: f(params, y))
    found = {}
    for at in range(len((cursor := Cursor(recording)).moments)):
        cursor.go(at)
        call = moments.compiled_call(cursor)
        if call is not None and call.at not in found:
            found[call.at] = moments.call_stages(call, naming_of(recording)).descent.arguments
    # if two arguments have the same name, neither name is shown
    assert [*found.values()] == [("params['w']", "", ""), ("params['w']", "h", "y")]


def test_a_recording_is_saved_and_overwrites_no_file(step, tmp_path):
    path = tmp_path / "a recording.json"
    stepper = Stepper(step)
    stepper.save()
    stepper.answer(str(path))
    assert "saved" in stepper.message[1]
    assert len(storage.load(str(path)).tree) == len(step.recording.tree)
    stepper.save()
    stepper.answer(str(path))
    assert "is there already" in stepper.message[1]
    stepper.save()
    stepper.answer(str(tmp_path / "no" / "folder.json"))
    assert "not saved" in stepper.message[1]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_the_mouse_selects_tree_rows_and_scrolls_the_pane_under_it(step, size):
    stepper = Stepper(step)
    lines = compose(stepper, *size)
    rows = [(x, y) for y in range(size[1]) for x in (1,) if target_at(lines, x, y)[1]]
    # a click on a row of the tree goes to that row's moment
    assert [int(target_at(lines, *place)[1]) for place in rows] == list(stepper.tree_shown)[: len(rows)]
    last = max(int(target_at(lines, *place)[1]) for place in rows)
    stepper.click("tree", str(last))
    assert stepper.cursor.position == last and stepper.focus == "tree"
    # a click on a visible pane focuses it
    seen = {target_at(lines, x, y)[0] for y in range(size[1]) for x in range(size[0])} - {""}
    assert {"tree", "source", "jaxpr"} <= seen <= set(stepper.panes)
    for name in seen:
        stepper.click(name, "")
        assert stepper.focus == name
    stepper.wheel("jaxpr", 3)
    assert stepper.focus == "jaxpr" and stepper.scrolled["jaxpr"][0] == 3
    assert target_at(lines, size[0] + 5, 2)[0] in seen and target_at(lines, 0, size[1] + 5) == ("", "")


def test_the_devices_pane_appears_in_a_shard_map_and_a_key_changes_the_device():
    def total(x):
        return minijax.lax.psum(jnp.sin(x), "i")

    spec = minijax.sharding.PartitionSpec
    mesh = minijax.make_mesh((2, 1), ("i", "j"), axis_types=(minijax.sharding.AxisType.Auto,) * 2)
    mapped = minijax.shard_map(total, mesh=mesh, in_specs=spec("i"), out_specs=spec())
    stepper = Stepper(Step(recorded(lambda: mapped(jnp.arange(4.0)))))
    tab = f"[{7} devices]"  # not written in one piece, because the screen also shows the source of this test

    def pane() -> str:
        return text(stepper, 112, 32).partition(tab)[2]

    stepper.go("first")
    assert not pane()
    assert stepper.cursor.to_bind(primitive="psum_invariant")
    stepper.go("over")
    assert "2 devices · i=2 × j=1 · [ ] device 0 (i=0" in pane()
    stepper.values.iterate(1)
    assert stepper.message[1].startswith("device 1 of 2 (i=1, j=0)")
    assert "device 1 (i=1" in pane() and "▶ 1 1 " in " ".join(pane().split())
    assert "─┬─┬▶" in pane() and "─┘ └▶" in pane()
