"""Jaxprs as text: what minijax prints is what JAX prints, without the parameters that only JAX's sharding
needs.

The expected texts stand here in full, and JAX itself is asked for them too.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
importlib.import_module(mj.__name__ + ".numpy")

# reduce_sum[axes=(0,) out_sharding=None] -> reduce_sum[axes=(0,)]; and vmapped axes are np.int64 in JAX.
SHARDING = re.compile(r" ?\b(out_sharding|sharding)=None")
NUMPY_INTEGER = re.compile(r"np\.int64\((-?\d+)\)")

VECTOR = np.ones(8, np.float32)
MATRIX = np.ones((4, 8), np.float32)

SUM = """
    { lambda ; a:f32[8] b:f32[8]. let
        c:f32[8] = sin b
        d:f32[8] = mul c 3.0:f32[]
        e:f32[8] = add a d
        f:f32[] = reduce_sum[axes=(0,)] e
      in (f,) }
"""


def text(ns: Any, function: Callable[..., Any], *args: Any) -> str:
    """The jaxpr's text, JAX's own parameters for sharding removed."""
    return NUMPY_INTEGER.sub(r"\1", SHARDING.sub("", str(ns.make_jaxpr(function)(*args))))


def check(make: Callable[[Any], Callable[..., Any]], args: tuple[Any, ...], expected: str) -> None:
    """``make(ns)`` is the function, written once; its text must be ``expected`` in minijax and in JAX."""
    expected = dedent(expected).strip()
    assert text(jax, make(jax), *args) == expected, "JAX itself prints something else"
    if mj is not jax:
        assert str(mj.make_jaxpr(make(mj))(*args)) == expected


def direct(ns: Any) -> Callable[..., Any]:
    """The documented function in one expression."""
    return lambda first, second: ns.numpy.sum(first + ns.numpy.sin(second) * 3.0)


def by_inner_functions(ns: Any) -> Callable[..., Any]:
    """The same work done by inner Python functions: they leave no trace."""

    def scaled_sine(x: Any) -> Any:
        return ns.numpy.sin(x) * 3.0

    def outer(first: Any, second: Any) -> Any:
        def add_and_sum(y: Any) -> Any:
            return ns.numpy.sum(first + y)

        return add_and_sum(scaled_sine(second))

    return outer


def branching_on_shape(ns: Any) -> Callable[..., Any]:
    """An inner function decides by ``shape[0]``, which is known while tracing."""

    def inner(second: Any) -> Any:
        if second.shape[0] > 4:
            return ns.numpy.sin(second) * 3.0
        raise AssertionError("shape[0] is 8")

    return lambda first, second: ns.numpy.sum(first + inner(second))


def of_a_pair(ns: Any) -> Callable[..., Any]:
    """One argument that is a pair: its leaves are the jaxpr's arguments."""
    return lambda pair: direct(ns)(pair[0], pair[1])


@pytest.mark.parametrize("make", [direct, by_inner_functions, branching_on_shape])
def test_sum_of_two_vectors(make: Callable[[Any], Callable[..., Any]]) -> None:
    check(make, (VECTOR, VECTOR), SUM)


def test_sum_of_one_pair() -> None:
    check(of_a_pair, ((VECTOR, VECTOR),), SUM)


def test_arguments_that_are_library_arrays_or_shapes() -> None:
    array = mj.numpy.ones(8)
    assert str(mj.make_jaxpr(direct(mj))(array, array)).count("\n") == 5
    if mj is not jax:
        assert str(mj.make_jaxpr(direct(mj))(array, array)) == dedent(SUM).strip()


def test_jitted_inner_function_closing_over_an_argument() -> None:
    def make(ns: Any) -> Callable[..., Any]:
        def function(arg: Any) -> Any:
            @ns.jit
            def inner(x: Any) -> Any:
                return x + arg * ns.numpy.ones(1)

            return arg + inner(arg - 2.0)

        return function

    expected = """
        { lambda ; a:f32[]. let
            b:f32[] = sub a 2.0:f32[]
            c:f32[1] = jit[
              name=inner
              jaxpr={ lambda ; a:f32[] b:f32[]. let
                  d:f32[1] = broadcast_in_dim 1.0:f32[]
                  e:f32[] = convert_element_type[new_dtype=float32 weak_type=False] a
                  f:f32[1] = mul e d
                  g:f32[] = convert_element_type[new_dtype=float32 weak_type=False] b
                  c:f32[1] = add g f
                in (c,) }
            ] a b
            h:f32[] = convert_element_type[new_dtype=float32 weak_type=False] a
            i:f32[1] = add h c
          in (i,) }
    """
    check(make, (1.0,), expected)


def test_gradient_of_the_sum() -> None:
    expected = """
        { lambda ; a:f32[8] b:f32[8]. let
            c:f32[8] = sin b
            d:f32[8] = mul c 3.0:f32[]
            e:f32[8] = add a d
            _:f32[] = reduce_sum[axes=(0,)] e
            f:f32[8] = broadcast_in_dim 1.0:f32[]
          in (f,) }
    """
    check(lambda ns: ns.grad(direct(ns)), (VECTOR, VECTOR), expected)


def test_gradient_of_the_sum_in_both_arguments() -> None:
    expected = """
        { lambda ; a:f32[8] b:f32[8]. let
            c:f32[8] = sin b
            d:f32[8] = cos b
            e:f32[8] = mul c 3.0:f32[]
            f:f32[8] = add a e
            _:f32[] = reduce_sum[axes=(0,)] f
            g:f32[8] = broadcast_in_dim 1.0:f32[]
            h:f32[8] = mul g 3.0:f32[]
            i:f32[8] = mul h d
          in (g, i) }
    """
    check(lambda ns: ns.grad(direct(ns), argnums=(0, 1)), (VECTOR, VECTOR), expected)


def test_vmap_of_the_sum() -> None:
    expected = """
        { lambda ; a:f32[4,8] b:f32[4,8]. let
            c:f32[4,8] = sin b
            d:f32[4,8] = mul c 3.0:f32[]
            e:f32[4,8] = add a d
            f:f32[4] = reduce_sum[axes=(1,)] e
          in (f,) }
    """
    check(lambda ns: ns.vmap(direct(ns)), (MATRIX, MATRIX), expected)
