"""The stepper's screens of a model of Flax's, where its user would stop to look."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax

from tests.ecosystem.beside_jax import program
from tests.repl.stops import SIZES, Stop, screen, stopped, to


def test_a_model_of_flax_has_its_names_and_values_on_the_screen(golden: Callable[[str, str], None]) -> None:
    fun = program("flax.linen_mlp")
    variables, xs = fun.example.arguments()
    to_tanh = to("done linearize:1 tanh(nn.Dense(8)(x))")
    stop = Stop(("import jax",), "%step jax.grad(loss)(variables, xs)", to_tanh, "values")
    stepper = stopped(stop, {"jax": jax, "loss": fun, "variables": variables, "xs": xs})
    for size in SIZES:
        shown = screen(stepper, *size)
        assert "nn.tanh(nn.Dense" in shown and "['kernel']" in shown and "-0.5983 … 0.5911" in shown
        # the folder that the program is in is another elsewhere
        shown = re.sub(r"(?m)(in Perceptron\.__call__)([^│\n]*)", lambda found: found[1] + " " * len(found[2]), shown)
        golden(f"screens/flax_model_{size[0]}.txt", shown)
