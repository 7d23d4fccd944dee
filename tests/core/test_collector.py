"""The garbage collector has other settings while programs are staged and lowered. Then the old settings return."""

import gc

import pytest

import minijax
import minijax.numpy as jnp

OURS = (800, 12, 9)


@pytest.fixture(autouse=True)
def settings():
    before = gc.get_threshold()
    gc.set_threshold(*OURS)
    yield
    gc.set_threshold(*before)


def staged(inner):
    minijax.make_jaxpr(lambda x: (inner(), x)[1])(1.0)


def test_old_objects_are_rarely_collected_while_staging():
    found = []
    staged(lambda: staged(lambda: found.append(gc.get_threshold())))
    staged(lambda: (staged(int), found.append(gc.get_threshold())))
    assert found == [(800, 1000, 9)] * 2  # during the inner staging, and after it
    assert gc.get_threshold() == OURS


def test_an_error_restores_the_setting():
    with pytest.raises(ZeroDivisionError):
        staged(lambda: 1 / 0)
    assert gc.get_threshold() == OURS


def test_full_collections_do_not_grow_with_the_program():
    generations = []

    def note(phase, info):
        generations.append(info["generation"])

    def chain(x):
        for _ in range(10_000):
            x = jnp.sin(x) * 1.5
        return x

    gc.collect()
    gc.callbacks.append(note)
    try:
        minijax.jit(chain).lower(1.0)
    finally:
        gc.callbacks.remove(note)
    assert generations.count(0) > 50  # a collection counts twice: at its start and at its end
    assert generations.count(1) + generations.count(2) <= 4, generations
