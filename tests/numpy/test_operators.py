"""Operators, conversions and functions raise JAX's classes of error, with its essential words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy
import numpy as np
import pytest

import minijax
import minijax.numpy as jnp
from minijax import errors
from minijax.core.array import Array

pytestmark = pytest.mark.usefixtures("tracebacks_whole")

A = np.array([1.0, 2.0, 3.0], np.float32)
M = np.arange(6, dtype=np.float32).reshape(2, 3)


CONVERSIONS: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "bool": (bool, errors.TracerBoolConversionError),
    "float": (float, errors.ConcretizationTypeError),
    "int": (int, errors.ConcretizationTypeError),
    "complex": (complex, errors.ConcretizationTypeError),
    "index": (lambda x: [0, 1][x.astype(int)], errors.TracerIntegerConversionError),
    "numpy": (np.asarray, errors.TracerArrayConversionError),
    "numpy_function": (np.sin, TypeError),
    "item": (lambda x: x.item(), errors.ConcretizationTypeError),
    "tolist": (lambda x: x.tolist(), errors.ConcretizationTypeError),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_an_abstract_tracer_is_no_python_value(name: str) -> None:
    convert, error = CONVERSIONS[name]
    with pytest.raises(error):
        minijax.make_jaxpr(lambda x: convert(x))(1.0)
    assert minijax.core.trace.stack_depth() == 0


def test_a_tracer_over_a_concrete_value_converts() -> None:
    """While ``grad`` of an eager function runs, Python may branch on values, as in JAX."""

    def f(x: Any) -> Any:
        assert int(x) == 2 and bool(x > 1)
        for kind in (float, complex):  # converting with these would silently lose the derivative
            with pytest.raises(minijax.errors.ConcretizationTypeError, match=f"`{kind.__name__}` function"):
                kind(x)
        assert [10, 20, 30][(x * 0 + 1).astype(int)] == 20
        assert x.item() == 2.0
        return x * 3 if x > 1 else x

    assert minijax.grad(f)(2.0) == 3.0


class Own:
    """A class that defines its own arithmetic."""

    def __radd__(self, other: Any) -> str:
        return "own"

    __rmatmul__ = __rmod__ = __rpow__ = __radd__

    def __lt__(self, other: Any) -> str:
        return "own <"


def test_reflected_operators_of_other_classes_run() -> None:
    x = jnp.asarray(A)
    assert x + Own() == "own" and x @ Own() == "own" and x % Own() == "own" and x ** Own() == "own"
    assert (x > Own()) == "own <"
    assert (x == object()) is False


@pytest.mark.parametrize("left", [np.ones(3, np.float32), np.float32(2), np.float64(2), np.int32(2)])
def test_numpy_on_the_left_gives_a_minijax_array(left: Any) -> None:
    x = jnp.asarray(A)
    for out in (left + x, left * x, left - x, left / x, left < x, left**x):
        assert type(out) is Array
    jaxpr = minijax.make_jaxpr(lambda y: left * y)(A)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["mul"]


def test_the_sign_of_zero_survives_the_cache_of_constants() -> None:
    x = jnp.asarray(np.ones(2, np.float32))
    for value in (0.0, -0.0, 0.0):
        assert np.signbit(np.asarray(x * value)).tolist() == [bool(np.signbit(value))] * 2


def test_equal_scalars_of_different_classes_are_different_constants() -> None:
    i = jnp.asarray(np.array([1, 2], np.int32))
    assert (i * 2).dtype == np.int32 and (i * 2.0).dtype == np.float32 and (i * True).dtype == np.int32
    b = jnp.asarray(np.array([True]))
    assert (b + True).dtype == bool and (b + 1).dtype == np.int32


def test_an_update_leaves_the_array_as_it_was() -> None:
    x = jnp.zeros(3)
    y, z = x.at[np.array([1])].set(5.0), minijax.lax.dynamic_update_slice(x, jnp.ones(2), (0,))
    assert (x.tolist(), y.tolist(), z.tolist()) == ([0, 0, 0], [0, 5, 0], [1, 1, 0])


def test_in_finds_elements() -> None:
    assert 2 in jnp.arange(3) and 5 not in jnp.arange(3)


def test_rank_promotion_can_raise_or_warn() -> None:
    x, m = jnp.asarray(A), jnp.asarray(M)
    with _rank_promotion("raise"):
        with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
            x + m
        assert (x + 1).shape == (3,)
    with _rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion"):
        x + m


def _rank_promotion(how: str) -> Any:
    from minijax.config import numpy_rank_promotion

    return numpy_rank_promotion(how)


N = np.array([1, 2, 3], np.int32)
PROMOTED: dict[str, Callable[[Any], Any]] = {
    "two kinds": lambda ns: ns.numpy.asarray(N) + ns.numpy.asarray(A),
    "two widths": lambda ns: ns.numpy.asarray(A) * np.float16(2),
    "a number of the kind": lambda ns: ns.numpy.asarray(A) * 2.0,
    "a higher number": lambda ns: ns.numpy.asarray(N) * 2.0,
    "a truth": lambda ns: ns.numpy.asarray(N) * True,
    "a quotient": lambda ns: ns.numpy.asarray(N) / 2,
    "a product": lambda ns: ns.numpy.dot(N, A),
    "a mean": lambda ns: ns.numpy.mean(N),
    "an update": lambda ns: ns.numpy.asarray(A).at[0].set(1),
    "a result's type": lambda ns: ns.numpy.result_type("int32", "float32"),
    "a narrow weak type": lambda ns: (
        ns.eval_shape(ns.numpy.reciprocal, ns.ShapeDtypeStruct((), np.dtype("float16"), weak_type=True)).dtype.name
    ),
}


@pytest.mark.parametrize("case", PROMOTED)
@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning")
def test_strict_promotion_matches_jax(case: str) -> None:
    def outcome(ns: Any) -> Any:
        try:
            found = PROMOTED[case](ns)
        except ValueError as error:
            what, _, _ = str(error).partition("=strict")  # the types may be listed in another order
            return type(error).__name__, sorted(re.findall(r"\w+", what))
        return str(getattr(found, "dtype", found)), np.asarray(getattr(found, "dtype", None) and found).tolist()

    usual = outcome(minijax)  # a strict call must not get the result that this call caches
    assert usual == outcome(jax)
    with minijax.numpy_dtype_promotion("strict"), jax.numpy_dtype_promotion("strict"):
        assert outcome(minijax) == outcome(jax)
    assert outcome(minijax) == usual


def test_arrays_and_tracers_are_instances_of_the_public_class() -> None:
    assert minijax.Array is jnp.ndarray and repr(minijax.Array) == "<class 'minijax.Array'>"
    for x, is_array in ((jnp.ones(2), True), (np.ones(2), False), (1.0, False), (np.float32(1), False)):
        assert isinstance(x, minijax.Array) is is_array
    seen = []

    def f(x: Any) -> Any:
        seen.append(isinstance(x, minijax.Array))
        return x

    minijax.make_jaxpr(f)(1.0), minijax.jit(f)(1.0), minijax.vmap(f)(A), minijax.grad(f)(1.0)
    minijax.jvp(f, (1.0,), (1.0,)), minijax.linearize(f, 1.0), minijax.vjp(f, 1.0)
    assert seen == [True] * 7


@pytest.mark.parametrize("width", [40, 75, 200])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), "float32"),
        ((4, 5), "float32"),
        ((30,), "float32"),
        ((1, 60), "float16"),
        ((3, 4, 3), "int32"),
        ((8,), "bool"),
        ((2, 3), "complex64"),
        ((2000,), "float32"),
        ((0, 3), "float32"),
        ((5,), "bfloat16"),
    ],
)
def test_reprs_of_arrays_match_jax(shape: tuple[int, ...], dtype: str, width: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape) * 3
    theirs = jax.numpy.asarray(x).astype(dtype)
    ours = jnp.asarray(np.asarray(theirs))
    with np.printoptions(linewidth=width):
        assert (repr(ours), str(ours)) == (repr(theirs), str(theirs))
        assert repr(ours * 2) == repr(theirs * 2)


def test_scalar_types_name_dtypes() -> None:
    assert jnp.zeros(2, jnp.float32).dtype == jnp.float32
    assert np.dtype(jnp.bfloat16).name == "bfloat16"
    assert jnp.float32 == np.float32 and hash(jnp.float32) == hash(np.float32)
    assert jnp.issubdtype(jnp.float32, jnp.floating) and not jnp.issubdtype(jnp.int32, jnp.inexact)
    assert jnp.result_type(jnp.float16, 2.0) == np.float16 and jnp.promote_types("int8", "uint8") == np.int16


def test_the_module_has_the_constants_of_numpy() -> None:
    assert jnp.pi == np.pi and jnp.newaxis is None and jnp.inf == np.inf and np.isnan(jnp.nan)
