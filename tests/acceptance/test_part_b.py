"""Jaxprs as text: what minijax prints is what JAX prints, without the parameters that only JAX's sharding
needs.

The expected texts stand here in full, and JAX itself is asked for them too.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

mj = importlib.import_module(os.environ.get("MINIJAX_TEST_SUBJECT", "minijax"))
importlib.import_module(mj.__name__ + ".numpy")

VECTOR = np.ones(8, np.float32)
MATRIX = np.ones((4, 8), np.float32)

SUM = """
    { lambda ; a:f32[8] b:f32[8]. let
        c:f32[8] = sin b
        d:f32[8] = mul c 3.0:f32[]
        e:f32[8] = add a d
        f:f32[] = reduce_sum[axes=(0,) out_sharding=None] e
      in (f,) }
"""


def check(make: Callable[[Any], Callable[..., Any]], args: tuple[Any, ...], expected: str) -> None:
    """``make(ns)`` is the function, written once; its text must be ``expected`` in minijax and in JAX."""
    expected = dedent(expected).strip()
    assert str(jax.make_jaxpr(make(jax))(*args)) == expected, "JAX itself prints something else"
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


def test_scan_closing_over_an_argument() -> None:
    def make(ns: Any) -> Callable[..., Any]:
        def function(arr: Any, extra: Any) -> Any:
            ones = ns.numpy.ones(arr.shape)

            def body(carry: Any, slices: Any) -> Any:
                a, b = slices
                return carry + a * b + extra, carry

            return ns.lax.scan(body, 0.0, (arr, ones))

        return function

    expected = """
        { lambda ; a:f32[16] b:f32[]. let
            c:f32[16] = broadcast_in_dim 1.0:f32[]
            d:f32[] e:f32[16] = scan[
              jaxpr={ lambda ; f:f32[] g:f32[] h:f32[] i:f32[]. let
                  j:f32[] = mul h i
                  k:f32[] = convert_element_type[new_dtype=float32 weak_type=False] g
                  l:f32[] = add k j
                  m:f32[] = convert_element_type[new_dtype=float32 weak_type=False] f
                  n:f32[] = add l m
                in (n, g) }
              length=16
              num_carry=1
              num_consts=1
              reverse=False
              unroll=1
            ] b 0.0:f32[] a c
          in (d, e) }
    """
    check(make, (np.ones(16), 5.0), expected)


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
            _:f32[] = reduce_sum[axes=(0,) out_sharding=None] e
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
            _:f32[] = reduce_sum[axes=(0,) out_sharding=None] f
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
            f:f32[4] = reduce_sum[axes=(1,) out_sharding=None] e
          in (f,) }
    """
    check(lambda ns: ns.vmap(direct(ns)), (MATRIX, MATRIX), expected)


def test_fori_loop_with_a_traced_bound() -> None:
    def make(ns: Any) -> Callable[..., Any]:
        def function(arg: Any, n: Any) -> Any:
            ones = ns.numpy.ones(arg.shape)
            return ns.lax.fori_loop(0, n, lambda i, carry: carry + ones * 3.0 + arg, arg + ones)

        return function

    expected = """
        { lambda ; a:f32[16] b:i32[]. let
            c:f32[16] = broadcast_in_dim 1.0:f32[]
            d:f32[16] = add a c
            _:i32[] _:i32[] e:f32[16] = while[
              body_jaxpr={ lambda ; f:f32[16] g:f32[16] h:i32[] i:i32[] j:f32[16]. let
                  k:i32[] = add h 1:i32[]
                  l:f32[16] = mul f 3.0:f32[]
                  m:f32[16] = add j l
                  n:f32[16] = add m g
                in (k, i, n) }
              body_nconsts=2
              cond_jaxpr={ lambda ; o:i32[] p:i32[] q:f32[16]. let
                  r:bool[] = lt o p
                in (r,) }
              cond_nconsts=0
            ] c a 0:i32[] b d
          in (e,) }
    """
    check(make, (np.ones(16), 5), expected)


def test_switch() -> None:
    """The index is converted and clamped; the branches are printed in order."""
    expected = """
        { lambda ; a:i32[] b:f32[]. let
            c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] a
            d:i32[] = clamp 0:i32[] c 2:i32[]
            e:f32[] = cond[
              branches=(
                { lambda ; f:f32[]. let g:f32[] = add f 1.0:f32[] in (g,) }
                { lambda ; h:f32[]. let i:f32[] = sub h 2.0:f32[] in (i,) }
                { lambda ; j:f32[]. let k:f32[] = add j 3.0:f32[] in (k,) }
              )
            ] d b
          in (e,) }
    """

    def make(ns: Any) -> Callable[..., Any]:
        return lambda index, arg: ns.lax.switch(
            index, [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0], arg
        )

    check(make, (1, 5.0), expected)


def test_cond() -> None:
    """The predicate is an index; the branch for False comes first."""
    expected = """
        { lambda ; a:f32[]. let
            b:bool[] = ge a 0.0:f32[]
            c:i32[] = convert_element_type[new_dtype=int32 weak_type=False] b
            d:f32[] = cond[
              branches=(
                { lambda ; e:f32[]. let f:f32[] = sub e 3.0:f32[] in (f,) }
                { lambda ; g:f32[]. let h:f32[] = add g 3.0:f32[] in (h,) }
              )
            ] c a
          in (d,) }
    """
    check(lambda ns: lambda arg: ns.lax.cond(arg >= 0.0, lambda x: x + 3.0, lambda x: x - 3.0, arg), (5.0,), expected)


def test_cond_with_a_constant_in_one_branch() -> None:
    """The constant is hoisted to a constvar, and both branches take it."""
    expected = """
        { lambda a:i32[1]; b:f32[] c:f32[1] d:f32[]. let
            e:bool[] = ge b 0.0:f32[]
            f:i32[] = convert_element_type[new_dtype=int32 weak_type=False] e
            g:f32[1] = cond[
              branches=(
                { lambda ; h:i32[1] i:f32[1] j:f32[]. let
                    k:f32[1] = convert_element_type[new_dtype=float32 weak_type=True] h
                    l:f32[1] = add k j
                  in (l,) }
                { lambda ; m:i32[1] n:f32[1] o:f32[]. let  in (n,) }
              )
            ] f a c d
          in (g,) }
    """

    def make(ns: Any) -> Callable[..., Any]:
        def function(arg1: Any, arg2: Any) -> Any:
            return ns.lax.cond(arg1 >= 0.0, lambda pair: pair[0], lambda pair: ns.numpy.array([1]) + pair[1], arg2)

        return function

    check(make, (5.0, (np.zeros(1, np.float32), 2.0)), expected)


def pmapped(ns: Any) -> Callable[..., Any]:
    """Rows on devices, each divided by the sum of all; ``extra`` is closed over."""

    def function(arr: Any, extra: Any) -> Any:
        def inner(x: Any) -> Any:
            return (x + extra + ns.numpy.ones(1)) / ns.lax.psum(x, "rows")

        return ns.pmap(inner, axis_name="rows")(arr)

    return function


def test_pmap() -> None:
    """A program of each device, which drops the mapped dimension and adds it again; what it closes over is whole."""
    if mj.device_count() < 2:
        pytest.skip(f"needs two devices, there is {mj.device_count()}")
    expected = """
        { lambda ; a:f32[2,3] b:f32[]. let
            c:f32[2,3] = jit[
              name=_fun
              jaxpr={ lambda ; b:f32[] a:f32[2,3]. let
                  c:f32[2,3] = shard_map[
                    check_vma=False
                    in_specs=(P(), P('rows',))
                    jaxpr={ lambda ; d:f32[] e:f32[1,3]. let
                        f:f32[3] = squeeze[dimensions=(0,)] e
                        g:f32[] = convert_element_type[
                          new_dtype=float32
                          weak_type=False
                        ] d
                        h:f32[3] = add f g
                        i:f32[1] = broadcast_in_dim 1.0:f32[]
                        j:f32[3] = add h i
                        k:f32[3] = psum[axes=('rows',) axis_index_groups=None] f
                        l:f32[3] = div j k
                        m:f32[1,3] = broadcast_in_dim[broadcast_dimensions=(1,)] l
                      in (m,) }
                    mesh=Mesh('rows': 2, axis_types=(Auto,))
                    newly_manual_axes=frozenset({'rows'})
                    out_specs=(P('rows',),)
                  ] b a
                in (c,) }
            ] b a
          in (c,) }
    """
    rows = np.ones((2, 3), np.float32)
    assert str(mj.make_jaxpr(pmapped(mj))(rows, 5.0)) == dedent(expected).strip()
    np.testing.assert_allclose(np.asarray(pmapped(mj)(rows, 5.0)), np.full((2, 3), 3.5))
    ratio = mj.pmap(lambda x: x / mj.lax.psum(x, "rows"), axis_name="rows")
    found = np.asarray(ratio(np.arange(6, dtype=np.float32).reshape(2, 3)))
    np.testing.assert_allclose(found, [[0, 0.2, 0.2857143], [1, 0.8, 0.71428573]], rtol=1e-6)
