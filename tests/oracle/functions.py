"""The table of functions. Each is written once for either library, which it receives as ``ns``."""

from __future__ import annotations

import numpy as np

from .case import CASES, bfloat16, bools, case, floats, ints

__all__ = ["CASES"]

# --- elementwise -------------------------------------------------------------------------------------------


@case(floats(5))
def sine_and_tangent(ns, x):
    return ns.lax.sin(x) * ns.numpy.cos(x) + ns.numpy.sin(x) * ns.lax.atan(x) - ns.lax.tan(x)


@case(floats(4, low=0.5, high=2.0))
def integer_powers(ns, x):
    return x**3 + x**-2 + ns.lax.integer_pow(x, 4) + x**2 + x**1


@case(floats(4, low=0.5, high=2.0), floats(4))
def float_powers(ns, x, y):
    return x**y + ns.lax.pow(x, 1.5 + y) + x**0.5


@case(floats(6, low=-3.0, high=3.0))
def piecewise_constant(ns, x):
    return ns.lax.sign(x) * ns.lax.floor(x) + ns.numpy.ceil(x) * x - ns.lax.round(x)


@case(floats(5), floats(5, low=-1.0))
def larger_and_smaller(ns, x, y):
    return ns.numpy.maximum(x, y) * ns.lax.min(x, 0.5) + ns.numpy.minimum(y, x * 2)


@case(floats(6))
def clip_to_scalars(ns, x):
    return ns.numpy.clip(x, -1.0, 1.0) * x


@case(floats(5), floats(5, low=0.7, high=1.7))
def python_modulo(ns, x, y):
    return x % y


@case(floats(4), floats(4, low=-1.0), reverse=False)
def comparisons(ns, x, y):
    return x < y, x <= y, x > 0, x >= y, x == y, ns.numpy.not_equal(x, x)


# --- reductions --------------------------------------------------------------------------------------------


@case(floats(2, 3, 2))
def sums(ns, x):
    return ns.numpy.sum(x, axis=(0, -1)) + x.sum(axis=1, keepdims=True).sum()


@case(floats(5))
def variance(ns, x):
    return ns.numpy.var(x) + ns.numpy.sqrt(x.var())


@case(floats(3, 4))
def extremes(ns, x):
    return ns.numpy.max(x, axis=1, keepdims=True) - x.min() * ns.numpy.max(x, axis=0)


@case(bools(2, 3))
def all_and_any(ns, p):
    return ns.numpy.all(p, axis=0), ns.numpy.any(p), p.all()


@case(floats(5))
def log_sum_exp(ns, x):
    peak = ns.lax.stop_gradient(ns.numpy.max(x))
    return ns.numpy.log(ns.numpy.sum(ns.numpy.exp(x - peak))) + peak


# --- products of matrices ----------------------------------------------------------------------------------


@case(floats(3, 4), floats(4))
def matrix_times_vector(ns, a, x):
    return a @ x + ns.numpy.dot(a, x) * 0.5


@case(floats(2, 3), floats(3, 2))
def matrix_times_matrix(ns, a, b):
    return a @ b - ns.numpy.matmul(b.T, a.T).T * 2


@case(floats(2, 2, 3), floats(2, 3, 2))
def batched_matrix_product(ns, a, b):
    return ns.numpy.matmul(a, b)


# --- shapes ------------------------------------------------------------------------------------------------


@case(floats(2, 3, 4))
def axis_permutations(ns, x):
    return ns.numpy.transpose(x, (2, 0, 1)) + ns.numpy.moveaxis(ns.numpy.swapaxes(x, 0, 1), 2, 0).swapaxes(1, 2)


@case(floats(3), floats(2, 1))
def broadcasting(ns, x, y):
    return x + y * ns.numpy.broadcast_to(x, (2, 3)) - ns.lax.broadcast(x, (2,))


@case(floats(2, 2), floats(1, 2), floats(2))
def joining(ns, x, y, z):
    rows = ns.numpy.concatenate([x, y, x * 2], axis=0)
    return rows.sum(0) * z, ns.numpy.stack([z, z * z], axis=1), ns.numpy.hstack([z, z])


@case(floats(2, 3))
def padding(ns, x):
    return ns.lax.pad(x, 0.5, ((1, 0, 1), (0, 2, 0))) * 2, ns.numpy.pad(x, ((0, 1), (1, 0)))


@case(floats(4, 3))
def slice_indexing(ns, x):
    return x[1:3] * x[::2] + x[::-1][:2] - x[None, :2, :][0]


@case(floats(3))
def constant_arrays(ns, x):
    jnp = ns.numpy
    return jnp.zeros(3) + jnp.ones(3) * x + jnp.full((3,), 2.5) + jnp.arange(3) + jnp.zeros_like(x) + jnp.ones_like(x)


@case(floats(3, 3))
def masks_from_iota(ns, x):
    rows = ns.lax.broadcasted_iota(np.int32, (3, 3), 0)
    cols = ns.lax.broadcasted_iota(np.int32, (3, 3), 1)
    return ns.numpy.where(rows >= cols, x, 0.0) + ns.numpy.eye(3) * x


# --- choice ------------------------------------------------------------------------------------------------


@case(floats(5))
def where_with_scalar(ns, x):
    return ns.numpy.where(x > 0, ns.numpy.sin(x), 0.0)


@case(ints(4, low=0, high=3, dtype=np.int32), floats(4), floats(4, low=-1.0))
def select_of_three(ns, i, x, y):
    return ns.lax.select_n(i, x, y, x * y)


# --- compositions ------------------------------------------------------------------------------------------


@case(floats(2, 4))
def softmax(ns, x):
    unnormalised = ns.numpy.exp(x - ns.lax.stop_gradient(x.max(axis=-1, keepdims=True)))
    return unnormalised / unnormalised.sum(axis=-1, keepdims=True)


@case(floats(2, 5), floats(5, low=0.5, high=1.5), floats(5))
def layer_norm(ns, x, gain, shift):
    mean = x.mean(axis=-1, keepdims=True)
    spread = ns.numpy.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return gain * (x - mean) * ns.lax.rsqrt(spread + 1e-5) + shift


@case([(floats(3, 4), floats(4)), (floats(4, 2, low=-1.0), floats(2))], floats(5, 3))
def two_layer_network(ns, params, x):
    for weights, bias in params[:-1]:
        x = ns.numpy.tanh(x @ weights + bias)
    weights, bias = params[-1]
    return x @ weights + bias


@case(floats(3, 4), floats(3, 4, low=-1.0), floats(3, 4, low=0.0), second=False)
def attention(ns, q, k, v):
    scores = ns.numpy.exp(q @ k.T / 2.0)
    return scores / scores.sum(1, keepdims=True) @ v


@case(floats(3))
def polynomial(ns, x):
    result = ns.numpy.zeros_like(x)
    for coefficient in (0.5, -1.0, 2.0, 3):
        result = result * x + coefficient
    return result


@case(floats(2))
def himmelblau(ns, p):
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


@case(floats(), floats(low=1.0))
def autodidax_f(ns, x, y):
    return -(ns.numpy.sin(x) * 2.0) + x * y


# --- trees -------------------------------------------------------------------------------------------------


@case({"a": floats(2), "b": (floats(), [floats(3)])})
def tree_in_tree_out(ns, tree):
    a, (b, [c]) = tree["a"], tree["b"]
    return {"sum": a.sum() + b, "list": [c * b, (a,)], "none": None}


@case(floats(3), floats(2))
def unused_and_returned_arguments(ns, x, y):
    return x, ns.numpy.ones(2), 3.0


@case((floats(2), floats(2)), floats())
def tree_map_inside(ns, pair, step):
    return ns.tree_util.tree_map(lambda v: v - step * ns.numpy.sin(v), pair)


# --- dtypes and weak types ---------------------------------------------------------------------------------


@case(ints(4), floats(4))
def integers_meet_floats(ns, i, x):
    return i * x, i + 1, i / 2, i * 2.5, ns.numpy.sin(i)


@case(ints(5), ints(5, low=1, high=4))
def integer_arithmetic(ns, i, j):
    return (
        i // j,
        i % j,
        i - j * 2,
        -i,
        abs(i),
        i**2,
        ns.numpy.maximum(i, 0),
        ns.lax.sign(i),
        ns.lax.div(i, j),
    )


@case(bools(3), ints(3), floats(3))
def booleans_as_numbers(ns, p, i, x):
    return p + 1, p * x, p + i, ns.numpy.where(p, i, x)


@case(
    ints(3, dtype=np.int8),
    ints(3, low=0, dtype=np.uint8),
    ints(3, dtype=np.int16),
    floats(3, dtype=np.float32),
)
def promotion_of_small_types(ns, a, b, c, x):
    return a + b, a * c, b + c, a + x, b + 1, c * 2.0


@case(floats(4, dtype=bfloat16))
def half_precision_chain(ns, x):
    return ns.numpy.sin(x * 2) + x


@case(2.5, 3, vmap=False)
def python_scalars_in(ns, x, n):
    return x * 2, n + 1, x + n, ns.numpy.sin(x), n * ns.numpy.ones(2)


@case(floats(3), 0.75)
def weak_and_strong(ns, x, scale):
    return x * scale, ns.numpy.cos(scale), scale * 2 + ns.numpy.float32(1.0) * x


@case(floats(3), ints(3), coarse="float32")
def conversions(ns, x, i):
    jnp = ns.numpy
    return (
        x.astype(jnp.int32),
        i.astype(jnp.float32) * x,
        jnp.asarray(x, jnp.float32),
        ns.lax.convert_element_type(x, bool),
    )


@case(floats(3), floats(3, low=0.0))
def numpy_constants(ns, x, y):
    return x * np.array([1.0, 2.0, 3.0]) + np.float32(2.0) * y + np.ones(3, np.float32)


@case(floats(2), floats(2), grads=False)
def complex_numbers(ns, x, y):
    z = ns.lax.complex(x, y)
    w = z * z + 1
    return ns.numpy.real(w), ns.numpy.imag(w), ns.numpy.conj(z), abs(z)


# --- structure: closures, nested jit and nested transformations --------------------------------------------


@case(floats(3))
def closure_over_array(ns, x):
    table = ns.numpy.array([0.5, 1.5, 2.5])

    def inner(y):
        return y * table + x

    return inner(inner(x))


@case(floats(3))
def branch_on_shape(ns, x):
    def inner(y):
        return ns.numpy.sum(y) if y.shape[0] > 2 else y

    return inner(x) * x


@case(floats(3))
def nested_jit(ns, x):
    @ns.jit
    def inner(y):
        return ns.numpy.sin(y) * y

    return inner(x) + inner(x * 2)


@case(floats(3), floats(3))
def nested_jit_of_trees(ns, x, y):
    @ns.jit
    def inner(tree):
        return {"sum": tree["x"] + tree["y"], "product": (tree["x"] * tree["y"], 2.0)}

    out = inner({"x": x, "y": y})
    return out["sum"] * out["product"][0] * out["product"][1]


@case(floats(3))
def nested_jit_with_static_argument(ns, x):
    def power(y, exponent):
        return y**exponent

    jitted = ns.jit(power, static_argnums=1)
    return jitted(x, 2) + jitted(x, 3)


@case(floats(3))
def nested_jit_of_constants_and_unused(ns, x):
    constant = ns.jit(lambda: ns.numpy.arange(3) * 2.0)
    ignores = ns.jit(lambda y: ns.numpy.ones(3))
    returns = ns.jit(lambda y: (y, y))
    return constant() * x + ignores(x) + returns(x)[1]


@case(floats())
def derivative_inside(ns, x):
    return ns.grad(lambda y: ns.numpy.sin(y) * x)(x) * x


@case(floats(2, 3), floats(3))
def vmap_inside(ns, a, x):
    return ns.vmap(lambda row: ns.numpy.dot(row, x) * row[0])(a)


@case(floats(3))
def derivative_of_nested_jit_inside(ns, x):
    energy = ns.jit(lambda y: ns.numpy.sum(y * y * ns.numpy.sin(y)))
    return ns.jit(ns.grad(energy))(x) * x


@case(floats(3))
def stopped_gradient(ns, x):
    return x * ns.lax.stop_gradient(x) + ns.lax.stop_gradient(ns.numpy.sin(x))


@case(floats(2))
def newton_step(ns, x):
    def residual(y):
        return ns.numpy.sum(y**4) - 2.0

    slope = ns.grad(residual)(x)
    return x - residual(x) * slope / ns.numpy.dot(slope, slope)
