"""Properties of primitives: errors, exact sums, dtypes, derivatives, definitions that hold for all shapes."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minijax
from minijax import lax
from minijax.config import default_matmul_precision
from minijax.ops.accumulate import accumulated, sum_of

from ..oracle.subject import QUICKLY
from .table import bfloat16, values

sizes = st.integers(0, 4)


@st.composite
def products(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, Any, str]:
    """(left operand, right operand, dimension numbers, the same product as subscripts of einsum)."""
    letters = iter("abcdefghijk")
    kinds = draw(st.lists(st.sampled_from(["batch", "contract", "left", "right"]), max_size=5))
    named = [(kind, next(letters), draw(sizes)) for kind in kinds]
    left = draw(st.permutations([n for n in named if n[0] != "right"]))
    right = draw(st.permutations([n for n in named if n[0] != "left"]))
    batch = [n for n in named if n[0] == "batch"]
    contract = [n for n in named if n[0] == "contract"]
    out = [*batch, *[n for n in left if n[0] == "left"], *[n for n in right if n[0] == "right"]]
    numbers = (
        (tuple(left.index(n) for n in contract), tuple(right.index(n) for n in contract)),
        (tuple(left.index(n) for n in batch), tuple(right.index(n) for n in batch)),
    )
    spec = f"{''.join(n[1] for n in left)},{''.join(n[1] for n in right)}->{''.join(n[1] for n in out)}"
    return values(*[n[2] for n in left]), values(*[n[2] for n in right]), numbers, spec


@given(products())
@settings(max_examples=150)
def test_dot_general_is_einsum(product: Any) -> None:
    """Draws any contraction, some with sizes of 0 or 1. The gradients of a contraction are contractions too."""
    x, y, numbers, spec = product
    out = lax.dot_general(x, y, numbers)
    wanted = np.einsum(spec, x, y)
    assert out.shape == wanted.shape and out.dtype == np.float32
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
    ct = values(*wanted.shape)
    x_bar, y_bar = minijax.vjp(lambda x, y: lax.dot_general(x, y, numbers), x, y)[1](ct)
    inputs, result = spec.split("->")
    left, right = inputs.split(",")
    np.testing.assert_allclose(x_bar, np.einsum(f"{result},{right}->{left}", ct, y), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y_bar, np.einsum(f"{left},{result}->{right}", x, ct), rtol=1e-5, atol=1e-5)


def padded(x: np.ndarray, value: float, config: list[tuple[int, int, int]]) -> np.ndarray | None:
    """``pad`` by its definition: space the elements out, then add or remove elements at both ends.

    Return None if an axis would have a negative size.
    """
    for axis, (low, high, interior) in enumerate(config):
        n = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = n + max(n - 1, 0) * interior
        wide = np.full(shape, value, x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, interior + 1),)] = x
        total = shape[axis] + low + high
        if total < 0:
            return None
        shape[axis] = total
        x = np.full(shape, value, x.dtype)
        for i in range(wide.shape[axis]):
            if 0 <= i + low < total:
                x[(slice(None),) * axis + (i + low,)] = wide[(slice(None),) * axis + (i,)]
    return x


@given(st.lists(st.tuples(sizes, st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2)), max_size=2))
@settings(max_examples=200)
def test_pad_matches_its_definition(axes: Any) -> None:
    """The low and high padding may be positive or negative. The interior padding is never negative."""
    x = values(*[n for n, *_ in axes])
    config = [(low, high, interior) for _, low, high, interior in axes]
    wanted = padded(x, 7.0, config)
    if wanted is None:
        with pytest.raises(ValueError, match="not at least 0"):
            lax.pad(x, np.float32(7), config)
    else:
        np.testing.assert_array_equal(lax.pad(x, np.float32(7), config), wanted)


def test_missing_derivative_rules_raise() -> None:
    """As in JAX, a missing derivative rule is an error, not a zero derivative."""
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'nextafter' not implemented"):
        minijax.grad(lambda x: lax.nextafter(x, 2.0))(1.0)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'nextafter' not implemented"):
        minijax.jvp(lambda x: minijax.numpy.nextafter(1.0, x), (1.0,), (1.0,))
    with pytest.raises(ValueError, match="polygamma gradient with respect to m is not supported"):
        minijax.grad(lambda m: lax.polygamma(m, 2.0))(1.0)


def test_cumlogsumexp_takes_complex_numbers_and_refuses_integers() -> None:
    """Complex numbers give JAX's results, evaluated and compiled. Integers raise OverflowError, at run time only."""
    x = np.array([1 + 2j, 0.5 - 1j, -3 + 0.1j, 2j, 1 + 3j], np.complex64)
    for reverse in (False, True):
        wanted = jax.lax.cumlogsumexp(x, reverse=reverse)
        np.testing.assert_allclose(lax.cumlogsumexp(x, reverse=reverse), wanted, rtol=2e-6)
        jitted = minijax.jit(lambda x: lax.cumlogsumexp(x, reverse=reverse))  # noqa: B023
        np.testing.assert_allclose(jitted(x), wanted, rtol=1e-6)
    for running in (lax.cumlogsumexp, minijax.jit(lax.cumlogsumexp)):
        with pytest.raises(OverflowError, match="cannot convert float infinity to integer.*int32 cannot hold"):
            running(np.arange(4, dtype=np.int32))
    assert minijax.eval_shape(lax.cumlogsumexp, np.arange(4, dtype=np.int32)).dtype == np.int32


@pytest.mark.parametrize("name", ["reduce_max", "reduce_min", "cummax", "cummin"])
def test_extrema_of_zeros_and_of_complex_numbers_match_jax(name: str) -> None:
    """0 is greater than -0 in any position. Complex numbers are compared by real part, then by imaginary part."""
    x = np.array([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [-3, -0.0], [3, -0.0]], np.float32)
    z = np.array([[1 + 2j, 1 + 3j], [-3 + 0.1j, 2j], [1 - 1j, 1 - 2j]], np.complex64)

    def extrema(ns: Any) -> Any:
        f = getattr(ns.lax, name)
        return lambda x, z: [f(a, (1,)) if name.startswith("reduce") else f(a, axis=1) for a in (x, z)]

    ours, jitted, wanted = extrema(minijax)(x, z), minijax.jit(extrema(minijax))(x, z), jax.jit(extrema(jax))(x, z)
    for found in (ours, jitted):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(wanted[0]))


def test_vmap_of_a_reduction_by_a_function_matches_jax() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)

    def mapped(ns: Any, axis: int | None, start: Any) -> Any:
        reduced = lambda x, start: ns.lax.reduce(x, start, lambda a, b: a + b + a * b, (0,))  # noqa: E731
        return ns.vmap(reduced, (1, axis))(x, start)

    wanted = mapped(jax, None, np.float32(0))
    np.testing.assert_array_equal(mapped(minijax, None, np.float32(0)), wanted)
    np.testing.assert_array_equal(mapped(minijax, 0, np.zeros(3, np.float32)), wanted)


def test_later_writes_to_an_argument_do_not_change_a_result() -> None:
    """A result may be a view of an operand, so an operand that comes from the caller is copied first."""
    x = np.arange(6.0, dtype=np.float32)
    taken = [lax.slice(x, (1,), (4,)), lax.reshape(x, (2, 3)), lax.rev(x, (0,)), *lax.split(x, (2, 4))]
    before = [np.array(y) for y in taken]
    x[:] = -1
    for y, was in zip(taken, before, strict=True):
        np.testing.assert_array_equal(y, was)
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(y)[...] = 0


def test_results_have_exactly_the_abstract_dtype() -> None:
    """NumPy would widen small integers in sums and products; the value must have the dtype of the aval."""
    for dtype in (np.int8, np.uint16, np.float16, bfloat16):
        x = values(2, 3, dtype=dtype)
        outs = [
            lax.reduce_sum(x, (0,)),
            lax.reduce_prod(x, (0, 1)),
            lax.cumsum(x, 1),
            lax.dot(x, lax.transpose(x, (1, 0))),
            lax.clamp(x[0, 0], x, x[1, 1]),
            lax.pad(x, x[0, 0], ((1, 1, 1), (0, 0, 0))),
        ]
        for out in outs:
            assert out.dtype == dtype and out._value().dtype == dtype


LONG = 40_000
# name -> a reduction of LONG terms, as a function of (library, x, y, z). Shapes: (LONG, 2), (2, LONG), (3, LONG/3, 4)
REDUCTIONS: dict[str, Any] = {
    "sum axis 0": lambda ns, x, y, z: ns.numpy.sum(x, 0),
    "sum axis 1": lambda ns, x, y, z: ns.numpy.sum(y, 1),
    "sum in the middle": lambda ns, x, y, z: ns.numpy.sum(z, 1),
    "sum in front": lambda ns, x, y, z: ns.numpy.sum(z, (0, 1)),
    "sum at both ends": lambda ns, x, y, z: ns.numpy.sum(ns.numpy.reshape(x, (-1, 2, 4)), (0, 2)),
    "sum of a transpose": lambda ns, x, y, z: ns.numpy.sum(y.T, 0),
    "sum of all of a slice": lambda ns, x, y, z: ns.numpy.sum(z[:, :, 1:3]),
    "sum of a column": lambda ns, x, y, z: ns.numpy.sum(x[:, 1]),
    "sum reversed": lambda ns, x, y, z: ns.numpy.sum(x[::-1], 0),
    "mapped sum": lambda ns, x, y, z: ns.vmap(ns.numpy.sum, in_axes=1)(x),
    "mean": lambda ns, x, y, z: ns.numpy.mean(x, 0),
    "var": lambda ns, x, y, z: ns.numpy.var(x, 0),
    "std": lambda ns, x, y, z: ns.numpy.std(z, 1),
    "norm": lambda ns, x, y, z: ns.numpy.linalg.norm(x, axis=0),
    "einsum of one": lambda ns, x, y, z: ns.numpy.einsum("ij->j", x),
    "einsum of two": lambda ns, x, y, z: ns.numpy.einsum("ij,ij->j", x, x),
    "dot": lambda ns, x, y, z: ns.numpy.dot(y[0], y[1]),
    "matmul": lambda ns, x, y, z: y @ x,
    "matmul of transposes": lambda ns, x, y, z: x.T @ y.T,
    "vector matrix": lambda ns, x, y, z: y[0] @ x,
    "batched matmul": lambda ns, x, y, z: ns.numpy.einsum("bij,bik->bjk", z, z),
    "prod": lambda ns, x, y, z: ns.numpy.prod(1 + (x - 0.1) * 0.01, 0),
    "cumsum axis 0": lambda ns, x, y, z: ns.numpy.cumsum(x, 0)[-3:],
    "cumsum axis 1": lambda ns, x, y, z: ns.numpy.cumsum(y, 1)[:, ::1001],
    "cumsum reversed": lambda ns, x, y, z: ns.lax.cumsum(z, 1, True)[:, :3],
    "cumprod": lambda ns, x, y, z: ns.lax.cumprod(1 + (x - 0.1) * 0.01, 0)[-1],
    "gradient of a sum": lambda ns, x, y, z: ns.grad(lambda b: ((b + x) * x).sum().real)(x[0]),
    "segments": lambda ns, x, y, z: ns.numpy.zeros((2, 2), x.dtype).at[np.arange(LONG) % 2].add(x),
}
OF_FLOATS: dict[str, Any] = {
    "logsumexp": lambda ns, x, y, z: ns.nn.logsumexp(x, 0),
    "cumlogsumexp": lambda ns, x, y, z: ns.lax.cumlogsumexp(x, 0)[-1],
    "gradient of softmax": lambda ns, x, y, z: ns.grad(lambda x: (ns.nn.softmax(x, 0) * y.T).sum())(x)[:3],
}


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_long_reductions_are_as_exact_as_in_jax(dtype: Any) -> None:
    """NumPy adds terms one by one along all axes but the last, and so loses digits; minijax must not."""
    rng = np.random.default_rng(1)
    # nearly equal terms are the worst case, because all sums round in the same direction
    x, y, z = ((0.1 + 1e-3 * rng.random(shape)).astype(dtype) for shape in ((LONG, 2), (2, LONG), (3, LONG // 3, 4)))
    table = REDUCTIONS if dtype is np.complex64 else {**REDUCTIONS, **OF_FLOATS}
    theirs = jax.jit(lambda *args: [f(jax, *args) for f in table.values()], compiler_options=QUICKLY)(x, y, z)
    wide = [np.asarray(a).astype(np.complex128 if dtype is np.complex64 else np.float64) for a in (x, y, z)]
    worse = []
    for (name, f), their in zip(table.items(), theirs, strict=True):
        with minijax.enable_x64(True):
            exact = np.asarray(f(minijax, *map(minijax.numpy.asarray, wide)))
        ours = np.asarray(f(minijax, *map(minijax.numpy.asarray, (x, y, z))))
        assert ours.dtype == np.asarray(their).dtype, name
        size = np.abs(exact).max()
        error, wanted = (float(np.abs(np.asarray(a) - exact).max() / size) for a in (ours, their))
        if error > 3 * wanted + 1e-6:
            worse.append(f"{name}: {error:.1e}, JAX {wanted:.1e}")
    assert not worse, worse


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
def test_small_floats_are_added_in_float32(axis: int, dtype: Any) -> None:
    """Sums, running sums and means along either axis are rounded to the operand's dtype only at the end."""
    x = (values(700, 700) % 1 / 16).astype(dtype)
    exact = x.astype(np.float64)
    sums = {
        lax.reduce_sum: exact.sum(axis),
        lax.cumsum: exact.cumsum(axis),
        minijax.numpy.mean: exact.mean(axis),
    }
    for f, wanted in sums.items():
        out = np.asarray(f(x, (axis,) if f is lax.reduce_sum else axis))
        assert out.dtype == dtype
        np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=float(ml_dtypes.finfo(dtype).eps))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=3), st.data())
@settings(max_examples=60)
def test_sums_in_pieces_add_every_term_once(shape: list[int], data: st.DataObject) -> None:
    """For all lengths, axes and strides, each term is added exactly once."""
    while np.prod(shape) > 200_000:
        shape = [n // 2 + 1 for n in shape]
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    order = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.sampled_from([1, -1, 2]))
    x = (np.arange(np.prod(shape)) % 97).astype(np.float32).reshape(shape)[::step].transpose(order)
    np.testing.assert_array_equal(sum_of(x, tuple(axes), x.dtype), x.astype(np.int64).sum(tuple(axes)))
    axis = min(axes)
    np.testing.assert_array_equal(accumulated(np.add, x, axis, x.dtype), x.astype(np.int64).cumsum(axis))


def test_tangents_of_integers_are_float0() -> None:
    """An integer result, such as an index, ends differentiation: its tangent has dtype float0."""
    float0 = np.dtype([("float0", "V")])
    for f in (lambda x: lax.convert_element_type(x, np.int32), lambda x: lax.argmax(x, 0, np.int32)):
        out, tangent = minijax.jvp(f, (values(3),), (values(3),))
        assert tangent.dtype == float0 and tangent.shape == out.shape


def test_stop_gradient_stops_nested_differentiation() -> None:
    """``stop_gradient`` stops all enclosing differentiations, not only the innermost."""
    f = minijax.grad(minijax.grad(lambda x: lax.stop_gradient(x) * x * x))
    assert float(f(3.0)) == 6.0
    assert float(minijax.vmap(f)(np.array([3.0], np.float32))[0]) == 6.0


def test_default_precision_comes_from_the_configuration() -> None:
    """``default_matmul_precision`` is written into the equation, as in JAX."""
    x = values(2, 2)
    with default_matmul_precision("float32"):
        jaxpr = minijax.make_jaxpr(lax.dot)(x, x)
    assert "precision=(Precision.HIGHEST, Precision.HIGHEST)" in str(jaxpr)
    assert "precision" not in str(minijax.make_jaxpr(lax.dot)(x, x))
