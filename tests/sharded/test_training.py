"""Training on eight devices, sharded in many ways, has the losses of one device and of JAX, and JAX's collectives."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.on_devices import printed

# Shardings change the order of float32 sums. The command shows that the losses differ by at most 5e-7.
NEAR = 2e-6
CHOSEN = (
    "perceptron: data",
    "perceptron: data x model, gathered, named",
    "perceptron: data x model, constrained",
    "perceptron: model, mapped",
    "perceptron: data x model, gathered, mapped",
    "transformer: data x model",
    "transformer: data x model, mapped",
)


@functools.cache
def found() -> dict[str, Any]:
    options = ("--json", "--small", "--steps", "3")
    programs: dict[str, Any] = printed("-m", "tests.sharded.training", *options, *CHOSEN, quickly=True)
    return programs


def kinds(name: str) -> dict[tuple[str, int], int]:
    """(kind of collective, number of devices that take part) -> number of such collectives in a program."""
    counts: dict[tuple[str, int], int] = {}
    for kind, size, _, _, count in found()[name]["collectives"]:
        counts[kind, size] = counts.get((kind, size), 0) + count
    return counts


def test_every_chosen_program_ran() -> None:
    assert {*found()} == {*CHOSEN}


@pytest.mark.parametrize("name", CHOSEN)
def test_losses_match_one_device_and_jax(name: str) -> None:
    it = found()[name]
    assert it["from one device"] < NEAR
    assert it["from JAX"] < NEAR
    assert it["losses"][0] > it["losses"][-1]
    assert not it["differs"], "collectives, donated memory or shardings are not JAX's"
    assert it["collectives"]
    assert it["donated arguments"] == len(it["donated memory"]) > 0


def test_each_plan_has_its_collectives() -> None:
    # one all-reduce sums the gradients of all parameters and the loss
    assert kinds("perceptron: data") == {("all-reduce", 8): 1}
    # each layer needs one sum in the forward pass and, except for the first layer, one in the backward pass
    assert kinds("perceptron: model, mapped") == {("all-reduce", 8): 1}
    gathered = kinds("perceptron: data x model, gathered, mapped")
    assert gathered == {("all-gather", 2): 2, ("reduce-scatter", 2): 2, ("all-reduce", 4): 1, ("all-reduce", 2): 1}
