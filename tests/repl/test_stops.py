"""What the stepper shows where a user would stop: what a value is, and where it comes from, is on each screen."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from minijax.repl.stepper.model import Stepper
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

STOPS = {
    "mlp_gradient": Stop(MLP, "%step grad(loss)(params, x, y)", to("done linearize:1 h = tanh"), "values"),
    "nan_backward": Stop(NAN, "%step grad(distance)(p, q)", to("linear part", "nan, nan"), "jaxpr"),
    "error_in_vmap_of_grad": Stop(ERROR, "%step vmap(grad(score), (None, 0))(w, xs)", lambda stepper: None, "values"),
    "retrace": Stop(RETRACE, "%step scaled(jnp.ones(4))", to("miss")),
}


# What the user came to see is on the screen at every size.
SAID = {
    "mlp_gradient": ("h = tanh(x @ params['w1'] + params['b1'])", "-0.8647 … 0.9387"),
    "nan_backward": ("squared = jnp.sum(d * d)", "a d = [0.0, 0.0]", "gives ct of p and d [nan, nan]", "[inf, inf]"),
    "error_in_vmap_of_grad": ("got (3,) and (4,)", "hidden", "weights [1.0, 1.0, 1.0, 1.0]"),
    "retrace": ("x: f32[3] became f32[4]", "def scaled(x, factor=2.0):"),
}


@functools.cache
def stepper_of(name: str) -> Stepper:
    return stopped(STOPS[name])


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_a_value_is_and_where_it_comes_from_is_on_the_screen(
    name: str, size: tuple[int, int], golden: Callable[[str, str], None]
) -> None:
    shown = screen(stepper_of(name), *size)
    words = " ".join(shown.split())
    for said in SAID[name]:
        assert said in words
    golden(f"screens/{name}_{size[0]}.txt", shown)
