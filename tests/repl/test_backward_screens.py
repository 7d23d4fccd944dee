"""The backward pass on the stepper's screen, at three sizes: where a cotangent adds up, and a step of a scan."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from minijax import numpy as jnp
from minijax.repl.stepper.model import Stepper
from minijax.repl.stepper.screen import compose
from minijax.tools.commands import find
from minijax.tools.documents import words
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.recording.timeline import timeline
from minijax.tools.session.result import Step
from minijax.tools.session.session import Session
from minijax.tools.stepper.backward import backward_lines, passes_of
from minijax.tools.values.moment import Worth, ledger
from minijax.tools.values.table import values_pane

X = jnp.arange(6.0).reshape(2, 3) / 6
W = jnp.linspace(-1.0, 1.0, 9).reshape(3, 3)

MLP = """\
def mlp(w1, w2):
    h = jnp.tanh(x @ w1)
    y = h @ w2
    return jnp.sum(y * h)
"""
RNN = """\
def rnn(w, xs):
    def step(h, x):
        a = w * h + x
        h = jnp.tanh(a)
        return h, h
    h, ys = lax.scan(step, 0.5, xs)
    return jnp.sum(ys)
"""
SHARED = """\
def shared(w1):
    y = jnp.tanh(x @ w1)
    err = y - 1.0
    return jnp.sum(err * y)
def alone(w1):
    y = x @ w1
    err = y - 1.0
    return jnp.sum(err ** 2)
"""
SIZES = [(80, 24), (120, 40), (200, 60)]


@functools.cache
def recorded(program: str, call: str) -> Recording:
    session = Session(find)
    needed = "import minijax; import minijax.numpy as jnp; from minijax import grad, lax"
    for line in (needed, program, "x = jnp.arange(6.).reshape(2, 3) / 6", "w = jnp.linspace(-1., 1., 9).reshape(3, 3)"):
        assert session.run_line(line).error is None
    outcome = session.run_line(call)
    assert outcome.step is not None
    return outcome.step.recording


def shown(recording: Recording, position: int, size: tuple[int, int], iteration: int | None = None) -> str:
    stepper = Stepper(Step(recording))
    stepper.cursor.go(position)
    if iteration is not None:
        stepper.values.typed_digit(iteration)
        stepper.values.iterate(1)
        stepper.before_key()
    lines = compose(stepper, *size)
    return "\n".join("".join(piece for _, piece in line).rstrip() for line in lines)


def moment_after(recording: Recording, which: int, name: str, count: int) -> int:
    """The first moment at which so many cotangents have arrived at ``name`` in the pass with this number."""
    backward = passes_of(recording)[which]
    variable = next(variable for variable, each in backward.names.items() if each == name)
    events = [step.at for step in backward.record.steps for part in step.found if part.variable == variable]
    stepper = Stepper(Step(recording))
    assert stepper.cursor.find(lambda moment: moment.at >= events[count - 1])
    return stepper.cursor.position


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words.seconds_text, "__code__", (lambda seconds: "1.0 ms").__code__)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_where_the_cotangent_of_h_adds_up(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    recording = recorded(MLP, "%step grad(mlp, (0, 1))(w, w.T)")
    position = moment_after(recording, 0, "h", 2)
    screen = shown(recording, position, size)
    assert "ct of h" in screen and "adds" in screen
    golden(f"screens/backward_mlp_{size[0]}.txt", screen)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_step_of_a_scan_by_iteration(size: tuple[int, int], golden: Callable[[str, str], None]) -> None:
    recording = recorded(RNN, "%step grad(rnn)(0.3, x[0])")
    position = moment_after(recording, 1, "a", 2)
    screens = [shown(recording, position, size, iteration) for iteration in (0, 2)]
    assert all("ct of a" in each for each in screens) and "iteration 2 of 3" in screens[1] and screens[0] != screens[1]
    golden(f"screens/backward_rnn_{size[0]}.txt", ("\n" + "=" * size[0] + "\n").join(screens))


def test_the_row_whose_cotangent_changed_last_is_selected() -> None:
    recording = recorded(MLP, "%step grad(mlp, (0, 1))(w, w.T)")
    stepper = Stepper(Step(recording))
    record = passes_of(recording)[0].recorded
    seen = []
    for position, moment in enumerate(stepper.cursor.moments):
        if record.begun < moment.at <= record.ended:
            stepper.cursor.go(position)
            named = stepper.values.named()
            assert named is not None
            seen.append(named.name)
            rows = ["".join(piece for _, piece in line) for line in values_pane(stepper.cursor).blocks[0].lines]
            assert [row.startswith(f"▶ {named.name} ") for row in rows].count(True) == 1
    changed = [name for before, name in zip(["", *seen], seen, strict=False) if name != before]
    assert changed == ["jnp.sum(y * h)", "y * h", "h", "y", "w2", "h", "x @ w1", "w1"]


@pytest.mark.parametrize(("call", "said"), [("shared", "with y"), ("alone", "")])
def test_a_cotangent_of_two_values_says_so_where_it_is_not_the_ones_alone(call: str, said: str) -> None:
    recording = recorded(SHARED, f"%step grad({call})(w)")
    backward = passes_of(recording)[0]
    assert "y and err" in backward.names.values()
    stepper = Stepper(Step(recording))
    stepper.cursor.go(len(stepper.cursor.moments) - 1)
    rows = ["".join(piece for _, piece in line).rstrip() for line in values_pane(stepper.cursor).blocks[0].lines]
    assert [row.endswith(" with y") for row in rows if row[2:].startswith("err  ")] == [bool(said)]
    assert not any(" with " in row for row in rows if row[2:].startswith(("y  ", "w1  ")))
    y = jnp.tanh(X @ W) if call == "shared" else X @ W
    number = next(each for each in backward.recorded.primals if naming_of(recording).name(each) == "y")
    shown = ledger(recording).cotangent(number)
    assert isinstance(shown, Worth)
    assert np.allclose(shown.array, 2 * y - 1 if call == "shared" else 2 * (y - 1))


@pytest.mark.parametrize("worded", [False, True])
def test_no_letter_is_the_name_of_another_value(worded: bool) -> None:
    recording = recorded(MLP, "%step grad(mlp, (0, 1))(w, w.T)")
    stepper = Stepper(Step(recording))
    stepper.cursor.named = worded
    stepper.cursor.go(moment_after(recording, 0, "h", 2))
    lines = ["".join(piece for _, piece in line) for line in backward_lines(stepper.cursor)]
    equations = [line[2:].partition("  ")[0] for line in lines]
    assert f"h' = dot_general {'x w1_dot' if worded else 'a f'}" in equations
    assert ("h_dot" if worded else "k") + " = mul j c" in equations


def test_a_body_that_the_engine_runs_again_has_the_names_of_its_program() -> None:
    recording = recorded(RNN, "%step grad(rnn)(0.3, x[0])")
    naming = naming_of(recording)
    again = [n for n in timeline(recording).nodes if isinstance(n, BindRecord) and n.level == "linearize:3"]
    said = {naming.operation(bind) for bind in again}
    assert {"a = add(convert_element_type(w * h), x)", "h = tanh(a)"} <= said
    sums = [n for n in timeline(recording).nodes if isinstance(n, BindRecord) and n.primitive == "add_any"]
    names = [naming.assigned(bind) for bind in sums if bind.level == "jaxpr:1"]
    assert names[:2] == ["ct of h", "ct of a"] and not any(names[2:])
