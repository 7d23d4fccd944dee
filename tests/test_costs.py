"""The cost of one operation under each transformation, as counts, which do not depend on how busy the machine is.

The program is a chain of sines and multiplications by a number. Two counts are made per operation: the calls of
Python functions, and the memory blocks that are still held after the work while its result is alive. A change that
lowers a count lowers the number in this file; a change that raises one gives the reason in its commit.
``python -m tests.bench`` measures times.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.core import avals, primitive

FEW, MANY = 2_000, 4_000  # chains long enough that the free lists of CPython's tuples do not matter
FACTOR = jnp.asarray(1.00001)
X = jnp.asarray(0.9)


Function = Callable[[Any], Any]
Work = Callable[[Function], Any]


def chain(length):
    def f(x):
        for _ in range(length // 2):
            x = lax.mul(lax.sin(x), FACTOR)
        return x

    return f


class Cost(NamedTuple):
    """The cost per operation: calls of Python functions, and memory blocks."""

    calls: float
    blocks: float


WORKS = {
    "eager": lambda f: f(X),
    "jvp": lambda f: minijax.jvp(f, (X,), (X,)),
    "linearize": lambda f: minijax.linearize(f, X),
    "vjp": lambda f: minijax.vjp(f, X),
    "grad": lambda f: minijax.grad(f)(X),
    "vmap": lambda f: minijax.vmap(f)(jnp.full(8, X)),
    "make_jaxpr": lambda f: minijax.make_jaxpr(f)(X),
    "make_jaxpr of grad": lambda f: minijax.make_jaxpr(minijax.grad(f))(X),
    "grad of grad": lambda f: minijax.grad(minijax.grad(f))(X),
    "vmap of vmap of grad": lambda f: minijax.vmap(minijax.vmap(minijax.grad(f)))(jnp.full((2, 4), X)),
}
COSTS = {
    "eager": Cost(2, 0),
    "jvp": Cost(4, 0),
    "linearize": Cost(5, 3.5),
    "vjp": Cost(5, 3.5),
    "grad": Cost(5, 0),
    "vmap": Cost(10.5, 0),
    "make_jaxpr": Cost(4.5, 7),
    "make_jaxpr of grad": Cost(35.5, 17.5),
    "grad of grad": Cost(38.5, 0),
    "vmap of vmap of grad": Cost(5, 0),
}


@pytest.fixture(autouse=True)
def plain_types(monkeypatch):
    """Undo what other tests did: after the first sharded or unreduced type, every operation checks for such types."""
    monkeypatch.setattr(avals, "sharded_types_made", False)
    monkeypatch.setattr(primitive, "bind_hooks", [])


def blocks_held(work, f):
    before = sys.getallocatedblocks()
    kept = work(f)
    held = sys.getallocatedblocks() - before
    del kept
    return held


def calls_made(work, f):
    """The smaller count of two runs, so that one-time work and deallocations do not count."""
    return min(calls_of_one_run(work, f) for _ in range(2))


def calls_of_one_run(work, f):
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work(f)
    finally:
        sys.setprofile(None)
    return calls


def cost(work):
    """The cost of one operation: the difference between a long and a short chain, per operation."""
    few, many = chain(FEW), chain(MANY)
    work(many)  # fills the caches
    gc.disable()
    try:
        calls = calls_made(work, few) - calls_made(work, chain(FEW // 2))
        blocks = blocks_held(work, many) - blocks_held(work, few)
    finally:
        gc.enable()
    return Cost(calls / (FEW - FEW // 2), blocks / (MANY - FEW))


def nested(transformation, times):
    f = jnp.sin
    for _ in range(times):
        f = transformation(f)
    return f


VECTOR = jnp.arange(50, dtype=jnp.float32)
# name -> (call of a function with few operations, its number of Python function calls).
CALLS = {
    "jvp of sin": (lambda: minijax.jvp(lax.sin, (X,), (X,)), 55),
    "grad six times": (functools.partial(nested(minijax.grad, 6), X), 1106),
    "jacfwd": (functools.partial(minijax.jacfwd(jnp.tanh), VECTOR), 102),
    "hessian": (functools.partial(minijax.hessian(lambda x: jnp.sum(jnp.tanh(x))), VECTOR), 366),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_call_makes_few_python_calls(name):
    call, known = CALLS[name]
    for _ in range(8):  # the caches keep a signature only after they have seen it a few times
        call()
    found = min(calls_of_one_run(lambda _: call(), lax.sin) for _ in range(2))
    assert 0.95 * known - 2 < found <= known, found


@pytest.mark.parametrize(
    ("function", "tree", "known"),
    [
        (lambda x: x * 2, lambda x: x, 8),
        (lambda tree: {key: x * 2 for key, x in tree.items()}, lambda x: {f"w{i}": x for i in range(10)}, 11),
    ],
    ids=["one array", "ten in a dict"],
)
def test_a_call_over_a_mesh_makes_few_python_calls(function, tree, known):
    mesh = minijax.sharding.Mesh(minijax.devices(), "x")
    sharding = minijax.sharding.NamedSharding(mesh, minijax.sharding.PartitionSpec("x"))
    jitted, argument = minijax.jit(function), tree(minijax.device_put(jnp.ones((8, 8)), sharding))
    for _ in range(2):
        jitted(argument)
    found = min(calls_of_one_run(lambda _: jitted(argument), lax.sin) for _ in range(2)) - 1  # minus the lambda
    assert found == known, found


@pytest.mark.parametrize("name", WORKS)
def test_calls_and_memory_of_an_operation_match_the_known_costs(name):
    known, found = COSTS[name], cost(WORKS[name])
    assert found.calls <= known.calls + 0.1 and found.blocks <= known.blocks + 0.1, found
    # a known number that is too high would hide a later slowdown
    assert found.calls > known.calls - 1 and found.blocks > known.blocks - 1, f"it is better now: {found}"
