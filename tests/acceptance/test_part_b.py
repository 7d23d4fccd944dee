"""Printed jaxprs of small programs are those that JAX prints. ``tests/golden`` holds the texts of most of them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
importlib.import_module(mj.__name__ + ".numpy")

VECTOR = np.ones(8, np.float32)
MATRIX = np.ones((4, 8), np.float32)
# A name -> a program for each library, and its arguments.
PROGRAMS: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Any, ...]]] = {}


def program(*args: Any) -> Callable[[Any], Any]:
    def noted(make: Callable[[Any], Callable[..., Any]]) -> Any:
        PROGRAMS[make.__name__] = (make, args)
        return make

    return noted


@program(VECTOR, VECTOR)
def a_sum(ns: Any) -> Callable[..., Any]:
    return lambda first, second: ns.numpy.sum(first + ns.numpy.sin(second) * 3.0)


@program((VECTOR, VECTOR))
def a_sum_of_a_pair(ns: Any) -> Callable[..., Any]:
    return lambda pair: a_sum(ns)(*pair)


@program(VECTOR, VECTOR)
def its_gradient(ns: Any) -> Callable[..., Any]:
    return ns.grad(a_sum(ns), argnums=(0, 1))


@program(MATRIX, MATRIX)
def its_vmap(ns: Any) -> Callable[..., Any]:
    return ns.vmap(a_sum(ns))


@program(VECTOR, VECTOR)
def inner_functions_that_branch_on_a_shape(ns: Any) -> Callable[..., Any]:
    def scaled_sine(x: Any) -> Any:
        if x.shape[0] > 4:
            return ns.numpy.sin(x) * 3.0
        raise AssertionError("shape[0] is 8")

    return lambda first, second: ns.numpy.sum(first + scaled_sine(second))


@program(np.ones(16), 5.0)
def a_scan(ns: Any) -> Callable[..., Any]:
    def function(arr: Any, extra: Any) -> Any:
        def body(carry: Any, slices: Any) -> Any:
            a, b = slices
            return carry + a * b + extra, carry

        return ns.lax.scan(body, 0.0, (arr, ns.numpy.ones(arr.shape)))

    return function


@program(1.0)
def a_jitted_closure(ns: Any) -> Callable[..., Any]:
    def function(arg: Any) -> Any:
        inner = ns.jit(lambda x: x + arg * ns.numpy.ones(1))
        return arg + inner(arg - 2.0)

    return function


@program(np.ones(16), 5)
def a_loop_with_a_traced_bound(ns: Any) -> Callable[..., Any]:
    def function(arg: Any, n: Any) -> Any:
        ones = ns.numpy.ones(arg.shape)
        return ns.lax.fori_loop(0, n, lambda i, carry: carry + ones * 3.0 + arg, arg + ones)

    return function


@program(1, 5.0)
def a_switch(ns: Any) -> Callable[..., Any]:
    branches = [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0]
    return lambda index, arg: ns.lax.switch(index, branches, arg)


@program(5.0, (np.zeros(1, np.float32), 2.0))
def a_cond_with_a_constant_in_one_branch(ns: Any) -> Callable[..., Any]:
    def function(arg1: Any, arg2: Any) -> Any:
        return ns.lax.cond(arg1 >= 0.0, lambda pair: pair[0], lambda pair: ns.numpy.array([1]) + pair[1], arg2)

    return function


@program(np.ones((2, 3), np.float32), 5.0)
def a_pmap(ns: Any) -> Callable[..., Any]:
    """Rows on devices, each divided by the sum of all; ``extra`` is closed over."""

    def function(arr: Any, extra: Any) -> Any:
        def inner(x: Any) -> Any:
            return (x + extra + ns.numpy.ones(1)) / ns.lax.psum(x, "rows")

        return ns.pmap(inner, axis_name="rows")(arr)

    return function


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_printed_jaxpr(name: str) -> None:
    make, args = PROGRAMS[name]
    if name == "a_pmap":
        if mj.device_count() < 2:
            pytest.skip(f"needs two devices, there is {mj.device_count()}")
        np.testing.assert_allclose(np.asarray(make(mj)(*args)), np.full((2, 3), 3.5))
    assert str(mj.make_jaxpr(make(mj))(*args)) == str(jax.make_jaxpr(make(jax))(*args))
