"""Drive the prompt through prompt_toolkit's pipe: keys, validation, completion, history."""

from __future__ import annotations

import jax
import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input

from minijax.repl import batch
from minijax.repl.app import App
from minijax.tools.recording.panels import PANELS
from minijax.tools.session.session import Session
from tests.repl.screen import RecordingOutput

ENTER, CTRL_C, CTRL_D, CTRL_R, TAB, UP = "\r", "\x03", "\x04", "\x12", "\t", "\x1b[A"
BACKSPACE = "\x7f"
F1, F2, F3, F4 = "\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS"
F5, F6, F7, F8, F9 = "\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[19~", "\x1b[20~"
ALT_ENTER, END = "\x1b\r", "\x05"


class Typed:
    """Types these keys at a prompt, and keeps the session and its output."""

    def __init__(self, *keys: str, columns: int = 100, vi: bool = False, earlier: tuple[str, ...] = ()) -> None:
        self.session: Session = batch.new_session({})
        self.output = RecordingOutput(columns)
        self.history = InMemoryHistory(list(earlier))
        with create_pipe_input() as keyboard:
            # Ctrl-C clears the line, so Ctrl-D exits
            keyboard.send_text("".join(keys) + CTRL_C + CTRL_D)
            self.session.settings.keys = "vi" if vi else "emacs"
            app = App(self.session, history=self.history, input=keyboard, output=self.output)
            self.exit_code = app.run()

    @property
    def inputs(self) -> list[str]:
        return self.session.inputs[1:]

    @property
    def printed(self) -> str:
        return self.output.printed()


def test_lines_are_run_and_shown():
    typed = Typed("def f(x): return sin(x) * 2. - x", ENTER, "grad(f)(3.)", ENTER)
    assert typed.inputs == ["def f(x): return sin(x) * 2. - x", "grad(f)(3.)"]
    assert typed.exit_code == 0
    assert "out[2]: Array(-2.979985, dtype=float32, weak_type=True)" in typed.printed
    assert " stack    eval ▸ linearize:1" in typed.printed
    assert " jaxpr    linear part of f · 3 equations" in typed.printed
    assert "minijax 0." in typed.printed and "Ctrl-D leaves" in typed.printed


def test_enter_continues_and_indents_an_incomplete_block():
    typed = Typed("def f(x):", ENTER, "y = x", ENTER, "return y * 2", ENTER, ENTER, "f(4)", ENTER)
    assert typed.inputs == ["def f(x):\n    y = x\n    return y * 2\n", "f(4)"]
    assert "out[2]: 8" in typed.printed


def test_backspace_removes_one_step_of_indentation():
    typed = Typed("if 1:", ENTER, "x = 12", BACKSPACE, ENTER, BACKSPACE, ENTER, "x", ENTER)
    assert typed.inputs == ["if 1:\n    x = 1\n", "x"]


def test_alt_enter_is_always_a_line_break():
    assert Typed("x = 1", ALT_ENTER, "y = 2", ENTER).inputs == ["x = 1\ny = 2"]


def test_a_paste_with_line_breaks_is_one_input():
    typed = Typed("\x1b[200~def f(x):\n    return x\n\nf(5)\x1b[201~", ENTER)
    assert typed.inputs == ["def f(x):\n    return x\n\nf(5)"]
    assert "out[1]: 5" in typed.printed


def test_invalid_input_is_neither_run_nor_lost():
    typed = Typed("x = )", ENTER, END, "\x7f3", ENTER, "x", ENTER)
    assert typed.inputs == ["x = 3", "x"]


def test_ctrl_d_exits_only_on_an_empty_line():
    typed = Typed("12", "\x01", CTRL_D, ENTER, "3", ENTER)  # before text, Ctrl-D deletes a character
    assert typed.inputs == ["2", "3"]


def test_a_command_and_a_cell_run():
    typed = Typed("%grad sin(0.5) --check", ENTER, "%%jaxpr x=f32[3]", ENTER, "y = sin(x)", ENTER, "y", ENTER, ENTER)
    assert typed.inputs[1] == "%%jaxpr x=f32[3]\ny = sin(x)\ny\n"
    assert "agrees with finite differences" in typed.printed and "sin a" in typed.printed


def test_tab_indents_at_the_beginning_of_a_line():
    assert Typed("if 1:", ENTER, "\x15", TAB, "7", ENTER, ENTER).inputs[0].startswith("if 1:\n    7")


def test_history_comes_back_with_up():
    assert Typed(UP, ENTER, earlier=("6 * 7",)).inputs == ["6 * 7"]


def test_f2_folds_the_panels_away_and_back():
    typed = Typed("grad(sin)(1.)", ENTER, F2, "grad(sin)(2.)", ENTER, F2, "grad(sin)(3.)", ENTER)
    assert "panels off" in typed.printed and "panels on" in typed.printed
    assert typed.printed.count(" stack    eval") == 2


def test_f2_remembers_which_panels_were_chosen():
    typed = Typed("%panels time", ENTER, F2, F2, "grad(sin)(1.)", ENTER)
    assert "panels on: time" in typed.printed
    assert " time     " in typed.printed and " stack    eval" not in typed.printed


@pytest.mark.parametrize(
    ("key", "panel"), [(F3, "tracers"), (F4, "jaxpr"), (F5, "hlo"), (F6, "cache"), (F7, "time"), (F8, "stack")]
)
def test_a_key_shows_a_panel_in_full_then_hides_then_restores_it(key, panel):
    typed = Typed("jit(lambda x: grad(sin)(x) * x)(1.)", ENTER, key, key, "grad(sin)(2.)", ENTER, key)
    whole, _, rest = typed.printed.partition("again folds it away")
    assert f" {panel:<9}" in whole.rpartition("in [2]")[2]
    _, _, folded = rest.partition(f"{panel}: folded away")
    folded, shown, _ = folded.partition(f"{panel}: shown after each line")
    assert shown and "out[2]" in folded and f" {panel:<9}" not in folded
    assert typed.session.settings.panels == PANELS


def test_an_omission_names_its_key():
    typed = Typed("grad(lambda x: sin(x) * x + cos(x))(1.)", ENTER, F3)
    assert "more (F3)" in typed.printed and "tracers made by operations" in typed.printed


def test_panel_keys_report_that_nothing_is_recorded():
    assert "the last line had no tracers" in Typed(F3).printed
    assert "nothing has been recorded yet" in Typed(F9).printed


def test_f9_shows_everything_and_f1_helps():
    assert " binds    eval" in Typed("grad(sin)(1.)", ENTER, F9).printed
    printed = Typed(F1).printed
    for key in ("F1", "F2", "F3", "F8", "F9", "Ctrl-R", "Ctrl-Z"):
        assert f"  {key:<12}" in printed


def test_enter_alone_continues_the_tour_or_does_nothing():
    typed = Typed(ENTER, "%tour 1", ENTER, ENTER, "%tour stop", ENTER, ENTER)
    assert typed.inputs == ["%tour 1", "%tour next", "%tour stop"]
    assert "1.2 " in typed.printed and "1.3 " not in typed.printed


def test_question_marks_show_documentation():
    typed = Typed("def f(x):", ENTER, '"""Says what."""', ENTER, "return x", ENTER, ENTER, "f?", ENTER, "f??", ENTER)
    assert typed.printed.count("Says what.") >= 2 and "return x" in typed.printed.rpartition("Says what.")[2]
    assert "%help NAME tells more" in Typed("?", ENTER).printed
    assert "--argnums" in Typed("%grad?", ENTER).printed
    assert "there is nothing called g" in Typed("g?", ENTER).printed


def test_the_prompt_shows_what_is_pushed():
    typed = Typed("%push jvp x=3.", ENTER, "sin(x)", ENTER, "%pop", ENTER, "1", ENTER)
    assert "in [2] jvp:1 › sin(x)" in typed.printed
    assert "in [4]: 1" in typed.printed


def test_settings_change_at_once():
    typed = Typed("%config keys vi", ENTER, "1 + 2", "\x1b", "0", "x", "i", "4", ENTER)
    assert typed.inputs == ["%config keys vi", "4 + 2"]
    assert Typed("1 + 2", "\x1b", "0", "x", "i", "4", ENTER, vi=True).inputs == ["4 + 2"]
    bare = Typed("%config color never", ENTER, "make_jaxpr(sin)(1.)", ENTER)
    after = bare.output.text.rpartition("never")[2]
    assert "sin" in after and "\x1b[0;34" not in after
    dark = Typed("%config theme dark", ENTER, "make_jaxpr(sin)(1.)", ENTER)
    assert dark.output.text.rpartition("sin")[0] != bare.output.text.rpartition("sin")[0]


def test_a_long_value_is_folded_below_its_number():
    typed = Typed("'word ' * 20", ENTER, columns=40)
    assert "out[1]:\n'word word" in typed.printed
    assert all(len(each) <= 40 for each in typed.printed.partition("out[1]")[2].split("in [2]")[0].split("\n"))
    assert "  6.,  7." in Typed("jnp.arange(30.)", ENTER, columns=40).printed


@pytest.mark.parametrize("line", ["j", "{'j': j}"])
def test_a_jaxpr_of_jax_has_no_escape_codes_in_its_text(line, monkeypatch):
    monkeypatch.setattr(
        type(jax.make_jaxpr(abs)(1.0)), "__repr__", lambda self: "{ \x1b[34;1mlambda \x1b[39;22m; a\x1b[35m }"
    )
    typed = Typed("import jax; j = jax.make_jaxpr(jax.numpy.sin)(1.)", ENTER, line, ENTER)
    assert "{ lambda ; a }" in typed.printed and "[34" not in typed.printed


def test_an_endless_value_is_cut_at_the_prompt():
    typed = Typed("list(range(100000))", ENTER, "len(_)", ENTER)
    assert "... 668,890 more characters: print(_) shows them" in typed.printed and "99999" not in typed.printed
    assert "out[2]: 100000" in typed.printed and len(typed.printed) < 40_000


def test_typing_after_a_syntax_error_appends():
    typed = Typed("x = 'a", ENTER, "'", ENTER, "x", ENTER)
    assert typed.inputs == ["x = 'a'", "x"]


def test_exit_needs_no_parentheses():
    for word, code in (("exit", 0), ("quit", 0), ("raise SystemExit(5)", 5)):
        typed = Typed(word, ENTER, "never = 1", ENTER)
        assert typed.exit_code == code and "never = 1" not in typed.inputs
