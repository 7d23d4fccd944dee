"""Chains of 100,000 operations raise no recursion error, and their time grows linearly."""

import gc
import sys
import time

import numpy as np
import pytest

import minijax as mj
from minijax import lax

LONG = 100_000
# With ten times the operations, the CPU time may grow by this factor. The processor's caches may make it more than ten;
# a quadratic algorithm would take a hundred times as long. Python's garbage collector is off while time is measured: it
# would cost 3.5 us per equation in a graph of 100,000 equations and nothing in one of 10,000.
TIME_RATIO = 14.0


def chain(n):
    """n operations one after the other."""

    def function(x):
        for _ in range(n // 2):
            x = lax.sin(x)
            x = lax.add(x, x)
        return x

    return function


def fan(n):
    """n operations that all use the argument: its gradient sums n cotangents."""

    def function(x):
        total = x
        for _ in range(n // 2):
            total = lax.add(total, lax.mul(x, x))
        return total

    return function


X = np.float32(0.5)
WORK = {
    "evaluate": lambda n: chain(n)(X),
    "jvp": lambda n: mj.jvp(chain(n), (X,), (X,)),
    "grad": lambda n: mj.grad(chain(n))(X),
    "grad of a fan": lambda n: mj.grad(fan(n))(X),
    "make_jaxpr of vmap of grad": lambda n: mj.make_jaxpr(mj.vmap(mj.grad(chain(n))))(np.ones(2, np.float32)),
    "grad of grad": lambda n: mj.grad(mj.grad(chain(n // 2)))(X),
    "lower": lambda n: mj.jit(chain(n)).lower(X),
}

# These run at full length. A quarter of the length is enough to show that the other programs are linear.
FULL_LENGTH = {"evaluate", "jvp", "grad"}


def seconds(work, n):
    """The CPU time of one run in seconds, including the deallocation of the result."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        result = work(n)
        del result
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.parametrize("name", list(WORK))
def test_time_is_linear(name):
    """Ten times the operations take about ten times the CPU time, at the default recursion limit."""
    work, length = WORK[name], LONG if name in FULL_LENGTH else LONG // 4
    assert sys.getrecursionlimit() < length
    work(100)
    ratios = []
    for _ in range(5):
        short = min(seconds(work, length // 10) for _ in range(2))
        ratios.append(seconds(work, length) / short)
        if ratios[-1] <= TIME_RATIO:
            return
    pytest.fail(f"{name}: ten times the operations take {ratios} times as long")


def test_a_long_graph_can_be_dropped_and_printed():
    """Deleting a long graph and printing a long jaxpr do not recurse."""
    _, linear = mj.linearize(chain(LONG), X)
    del linear
    closed = mj.make_jaxpr(chain(LONG // 10))(X)
    assert len(closed.jaxpr.eqns) == LONG // 10
    assert str(closed).count("\n") >= LONG // 10
