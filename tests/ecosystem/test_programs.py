"""Programs of real libraries through ``from_jax``: values, derivatives, batches and random bits are JAX's own."""

from __future__ import annotations

import importlib

import pytest

import minijax
from minijax.interop import from_jax
from tests.ecosystem.beside_jax import COMPILED, EAGER, assert_near, expected, program
from tests.ecosystem.programs import ALL, NOT_YET, PROGRAMS

pytestmark = pytest.mark.usefixtures("compiled_quickly")


def named(name: str) -> object:
    reason = NOT_YET.get(name)
    marks = [pytest.mark.xfail(reason=reason, strict=False)] if reason else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(map(named, ALL)))
def test_value_gradient_and_batch_are_jaxs(name: str) -> None:
    """Evaluated operation by operation, and compiled."""
    fun, wanted = program(name), expected(name)
    example, mine = fun.example, from_jax(fun)
    arguments = example.arguments()
    assert_near(mine(*arguments), wanted.value, EAGER)
    if not example.whole:
        assert_near(minijax.jit(mine)(*arguments), wanted.value, COMPILED)
    if example.grad is not None:
        gradient = minijax.grad(mine, example.grad)
        assert_near(gradient(*arguments), wanted.grad, EAGER)
        assert_near(minijax.jit(gradient)(*arguments), wanted.grad, COMPILED)
    if example.batch is not None:
        batch, axes = example.batched()
        mapped = minijax.vmap(mine, axes)
        assert_near(mapped(*batch), wanted.vmap, EAGER)
        assert_near(minijax.jit(mapped)(*batch), wanted.vmap, COMPILED)


@pytest.mark.parametrize("file", PROGRAMS)
def test_every_program_of_a_file_is_listed(file: str) -> None:
    module = importlib.import_module(program(f"{file}.{PROGRAMS[file][0]}").__module__)
    assert tuple(name for name, value in vars(module).items() if hasattr(value, "example")) == PROGRAMS[file]
