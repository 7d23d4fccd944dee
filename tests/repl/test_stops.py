"""Where a user would stop, the stepper's screen shows a value and where the value comes from."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from minijax import numpy as jnp
from minijax.repl.stepper.model import Stepper
from minijax.tools.recording.naming import naming_of
from minijax.tools.stepper.backward import backward_lines, passes_of
from minijax.tools.values.moment import Worth, ledger
from minijax.tools.values.table import values_pane
from tests.repl.stops import SIZES, Stop, screen, stopped, to

NUMPY = "import minijax.numpy as jnp"


MLP = (
    NUMPY,
    "def loss(params, x, y):\n"
    "    h = jnp.tanh(x @ params['w1'] + params['b1'])\n"
    "    out = h @ params['w2']\n"
    "    error = out - y\n"
    "    return jnp.mean(error ** 2)",
    "params = {'w1': jnp.linspace(-1., 1., 12).reshape(3, 4), 'b1': jnp.zeros(4), 'w2': jnp.linspace(1., 2., 4)}",
    "x, y = jnp.arange(15.).reshape(5, 3) / 7, jnp.ones(5)",
)
NAN = (
    NUMPY,
    "def distance(p, q):\n    d = p - q\n    squared = jnp.sum(d * d)\n    return jnp.sqrt(squared)",
    "p, q = jnp.array([1., 2.]), jnp.array([1., 2.])",
)
ERROR = (
    NUMPY,
    "def score(w, x):\n    hidden = jnp.tanh(x * w)\n    weights = jnp.ones(4)\n    return jnp.sum(hidden @ weights)",
    "w, xs = jnp.ones(3), jnp.arange(6.).reshape(2, 3)",
)
RETRACE = (
    NUMPY,
    "@jit\ndef scaled(x, factor=2.0):\n    y = x * factor\n    return jnp.sum(y)",
    "a = scaled(jnp.ones(3))",
)
ARRAYS = (NUMPY, "x, w = jnp.arange(6.).reshape(2, 3) / 6, jnp.linspace(-1., 1., 9).reshape(3, 3)")
LAYERS = (
    *ARRAYS,
    "def mlp(w1, w2):\n    h = jnp.tanh(x @ w1)\n    y = h @ w2\n    return jnp.sum(y * h)",
    "def shared(w1):\n    y = jnp.tanh(x @ w1)\n    err = y - 1.0\n    return jnp.sum(err * y)",
    "def alone(w1):\n    y = x @ w1\n    err = y - 1.0\n    return jnp.sum(err ** 2)",
)
RNN = (
    *ARRAYS,
    "from minijax import lax\ndef rnn(w, xs):\n"
    "    def step(h, x):\n        a = w * h + x\n        h = jnp.tanh(a)\n        return h, h\n"
    "    h, ys = lax.scan(step, 0.5, xs)\n    return jnp.sum(ys)",
)


def arrived(which: int, name: str, iteration: int = 0) -> Callable[[Stepper], None]:
    """Go to the moment after two summands of the cotangent of ``name`` are known, in backward pass ``which``."""

    def go(stepper: Stepper) -> None:
        backward = passes_of(stepper.recording)[which]
        variable = next(variable for variable, each in backward.names.items() if each == name)
        events = [step.at for step in backward.record.steps for part in step.found if part.variable == variable]
        assert stepper.cursor.find(lambda moment: moment.at >= events[1])
        if iteration:
            stepper.values.typed_digit(iteration)
            stepper.values.iterate(1)
            stepper.before_key()

    return go


STOPS = {
    "mlp_gradient": Stop(MLP, "%step grad(loss)(params, x, y)", to("done linearize:1 h = tanh"), "values"),
    "nan_backward": Stop(NAN, "%step grad(distance)(p, q)", to("linear part", "nan, nan"), "jaxpr"),
    "error_in_vmap_of_grad": Stop(ERROR, "%step vmap(grad(score), (None, 0))(w, xs)", lambda stepper: None, "values"),
    "retrace": Stop(RETRACE, "%step scaled(jnp.ones(4))", to("miss")),
    "backward_mlp": Stop(LAYERS, "%step grad(mlp, (0, 1))(w, w.T)", arrived(0, "h"), "tree"),
    "backward_rnn": Stop(RNN, "%step grad(rnn)(0.3, x[0])", arrived(1, "a", 2), "tree"),
}


# Texts that every screen must show, whatever its size.
TEXTS = {
    "mlp_gradient": ("h = tanh(x @ params['w1'] + params['b1'])", "-0.8647 … 0.9387"),
    "nan_backward": ("squared = jnp.sum(d * d)", "a d = [0.0, 0.0]", "gives ct of p and d [nan, nan]", "[inf, inf]"),
    "error_in_vmap_of_grad": ("got (3,) and (4,)", "hidden", "weights [1.0, 1.0, 1.0, 1.0]"),
    "retrace": ("x: f32[3] became f32[4]", "def scaled(x, factor=2.0):"),
    "backward_mlp": ("ct of h", "adds"),
    "backward_rnn": ("ct of a", "iteration 2 of 3"),
}


@functools.cache
def stepper_of(name: str) -> Stepper:
    return stopped(STOPS[name])


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_screen_shows_a_value_and_its_provenance(name, size, golden):
    shown = screen(stepper_of(name), *size)
    words = " ".join(shown.split())
    for expected in TEXTS[name]:
        assert expected in words
    golden(f"screens/{name}_{size[0]}.txt", shown)


def rows_of_values(stepper: Stepper) -> list[str]:
    return ["".join(piece for _, piece in line).rstrip() for line in values_pane(stepper.cursor).blocks[0].lines]


def test_the_row_whose_cotangent_changed_last_is_selected():
    stepper = stopped(STOPS["backward_mlp"])
    record = passes_of(stepper.recording)[0].recorded
    seen = [""]
    for position, moment in enumerate(stepper.cursor.moments):
        if record.begun < moment.at <= record.ended:
            stepper.cursor.go(position)
            named = stepper.values.named()
            assert named is not None
            seen += [named.name] if named.name != seen[-1] else []
            assert [row.startswith(f"▶ {named.name} ") for row in rows_of_values(stepper)].count(True) == 1
    assert seen == ["", "jnp.sum(y * h)", "y * h", "h", "y", "w2", "h", "x @ w1", "w1"]


@pytest.mark.parametrize(("call", "expected"), [("shared", "with y"), ("alone", "")])
def test_a_cotangent_shared_by_two_values_is_marked(call, expected):
    stepper = stopped(Stop(LAYERS, f"%step grad({call})(w)", lambda stepper: stepper.go("last")))
    backward = passes_of(stepper.recording)[0]
    assert "y and err" in backward.names.values()
    rows = rows_of_values(stepper)
    assert [row.endswith(" with y") for row in rows if row[2:].startswith("err  ")] == [bool(expected)]
    assert not any(" with " in row for row in rows if row[2:].startswith(("y  ", "w1  ")))
    product = jnp.arange(6.0).reshape(2, 3) / 6 @ jnp.linspace(-1.0, 1.0, 9).reshape(3, 3)
    number = next(each for each in backward.recorded.primals if naming_of(stepper.recording).name(each) == "y")
    shown = ledger(stepper.recording).cotangent(number)
    assert isinstance(shown, Worth)
    assert np.allclose(shown.array, 2 * jnp.tanh(product) - 1 if call == "shared" else 2 * (product - 1))


@pytest.mark.parametrize("worded", [False, True])
def test_letters_avoid_names_of_other_values(worded):
    stepper = stopped(STOPS["backward_mlp"])
    stepper.cursor.named = worded
    lines = backward_lines(stepper.cursor)
    roles = {piece.strip(): role for line in lines for role, piece in line}
    assert roles[f"h' = dot_general {'x w1_dot' if worded else 'a f'}"] == "muted"  # not reached yet
    assert roles[("h_dot" if worded else "k") + " = mul j c"] == ""
    held = next("".join(piece for _, piece in line).strip() for line in lines if ("muted", "with ") in line)
    assert held.partition(" = ")[0] == ("with w2" if worded else "with d w2")
