"""Where the results of real libraries' programs come from: slices of recordings beside what the jaxpr says."""

from __future__ import annotations

from typing import Any

import jax
import pytest

import minijax.numpy as jnp
from minijax.pytree import tree_flatten
from minijax.tools.session import real_jax
from tests.ecosystem.beside_jax import program
from tests.tools.values.slicing import check_slices

LIBRARIES = ("flax.linen_mlp", "equinox.mlp", "haiku.mlp", "haiku.lstm", "optax.adam", "pure.control_flow")


@pytest.mark.parametrize("name", LIBRARIES)
def test_slices_of_a_librarys_program_are_what_the_jaxpr_says(name: str) -> None:
    fun = program(name)
    example = fun.example
    call, args = fun if example.grad is None else jax.value_and_grad(fun, example.grad), example.arguments()
    carried = real_jax.carried("origin", name, call, args, {})
    assert carried is not None
    leaves, tree = tree_flatten(carried.args)

    def fun(*given: Any) -> Any:
        return carried.fun(*tree.unflatten(given), **carried.kwargs)

    assert check_slices(fun, fun, [jnp.asarray(x) for x in leaves]) > 1
