"""Where the results of real libraries' programs come from: slices of recordings beside what the jaxpr says."""

from __future__ import annotations

from typing import Any

import pytest

import minijax.numpy as jnp
from minijax.pytree import tree_flatten
from minijax.tools.session import real_jax
from tests.ecosystem.beside_jax import program
from tests.tools.moments.programs import LIBRARIES, differentiated
from tests.tools.values.slicing import check_slices


@pytest.mark.parametrize("name", LIBRARIES)
def test_slices_of_a_librarys_program_are_what_the_jaxpr_says(name: str) -> None:
    call, args = differentiated(program(name))
    carried = real_jax.carried("origin", name, call, args, {})
    assert carried is not None
    leaves, tree = tree_flatten(carried.args)

    def fun(*given: Any) -> Any:
        return carried.fun(*tree.unflatten(given), **carried.kwargs)

    assert check_slices(fun, fun, [jnp.asarray(x) for x in leaves]) > 1
