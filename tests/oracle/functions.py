"""The table: functions written once and given either library as ``ns``."""

from __future__ import annotations

import numpy as np

from .case import CASES, bfloat16, bools, case, floats, ints

__all__ = ["CASES"]

# --- elementwise -------------------------------------------------------------------------------------------


@case(floats(5))
def sine_and_cosine(ns, x):
    return ns.lax.sin(x) * ns.numpy.cos(x) + ns.numpy.sin(x)


@case(floats(4, low=-1.2, high=1.2))
def tangents(ns, x):
    return ns.numpy.tan(x) - ns.numpy.tanh(x)


@case(floats(4, low=0.3, high=3.0))
def exponential_and_logarithm(ns, x):
    return ns.numpy.exp(-x) * ns.numpy.log(x)


@case(floats(4, low=0.1, high=1.5))
def exp2_expm1_log1p(ns, x):
    return ns.lax.exp2(x) + ns.numpy.expm1(x) * ns.numpy.log1p(x)


@case(floats(4))
def hyperbolic_functions(ns, x):
    return ns.numpy.sinh(x) / ns.numpy.cosh(x)


@case(floats(4, low=-0.9, high=0.9))
def inverse_trigonometric(ns, x):
    return ns.lax.asin(x) + ns.lax.acos(x * 0.5) * ns.lax.atan(x)


@case(floats(4, low=1.5, high=3.0))
def inverse_hyperbolic(ns, x):
    return ns.lax.asinh(x) * ns.lax.acosh(x) + ns.lax.atanh(1.0 / x)


@case(floats(4, low=0.2, high=4.0))
def roots(ns, x):
    return ns.numpy.sqrt(x) + ns.lax.rsqrt(x) * ns.lax.cbrt(x)


@case(floats(4, low=0.5, high=2.0))
def integer_powers(ns, x):
    return x**3 + x**-2 + ns.lax.integer_pow(x, 4) + x**2 + x**1


@case(floats(4, low=0.5, high=2.0), floats(4))
def float_powers(ns, x, y):
    return x**y + ns.lax.pow(x, 1.5 + y) + x**0.5


@case(floats(3, low=0.5, high=2.0))
def scalar_base_power(ns, x):
    return 2.0**x + 2 ** (x * x)


@case(floats(6, low=-3.0, high=3.0))
def piecewise_constant(ns, x):
    return ns.lax.sign(x) * ns.lax.floor(x) + ns.numpy.ceil(x) * x - ns.lax.round(x)


@case(floats(6, low=-3.0, high=3.0))
def absolute_value_and_negation(ns, x):
    return ns.numpy.abs(x) * -x + abs(x - 0.5) + (+x)


@case(floats(4))
def error_functions(ns, x):
    return ns.lax.erf(x) * ns.lax.erfc(x * 0.5)


@case(floats(3, low=-0.8, high=0.8), scale=10)
def inverse_error_function(ns, x):
    return ns.lax.erf_inv(x)


@case(floats(3, low=0.8, high=3.0), second=False, scale=10)
def log_gamma(ns, x):
    return ns.lax.lgamma(x) * x


@case(floats(3, low=0.8, high=3.0), grads=False, scale=10)
def digamma_function(ns, x):
    return ns.lax.digamma(x)


@case(floats(5))
def logistic_function(ns, x):
    return ns.lax.logistic(x) * x


@case(floats(5), floats(5, low=-1.0))
def larger_and_smaller(ns, x, y):
    return ns.numpy.maximum(x, y) * ns.lax.min(x, 0.5) + ns.numpy.minimum(y, x * 2)


@case(floats(6), vmap=False)
def clamp_to_scalars(ns, x):
    return ns.lax.clamp(-1.0, x, 1.0) * x


@case(floats(6))
def clip_to_scalars(ns, x):
    return ns.numpy.clip(x, -1.0, 1.0) * x


@case(floats(4, low=0.2), floats(4, low=0.5, high=3.0))
def angle_and_remainder(ns, x, y):
    return ns.numpy.arctan2(x, y) + ns.lax.rem(x, y)


@case(floats(5), floats(5, low=0.7, high=1.7))
def python_modulo(ns, x, y):
    return x % y


@case(floats(5), grads=False)
def integer_division_of_floats(ns, x):
    return x // 0.75


@case(floats(4), floats(4, low=-1.0), reverse=False)
def comparisons(ns, x, y):
    return x < y, x <= y, x > 0, x >= y, x == y, ns.numpy.not_equal(x, x)


@case(bools(4), bools(4)[::-1].copy())
def boolean_logic(ns, p, q):
    return p & q, p | q, p ^ q, ~p, ns.numpy.logical_not(q), ns.numpy.logical_and(p, q)


@case(ints(5, low=0, high=40), ints(5, low=0, high=4))
def bits_and_shifts(ns, i, j):
    return i & 12, i | j, i ^ j, ~i, i << j, i >> j, ns.lax.shift_right_logical(i, j)


@case(np.array([1.0, np.inf, np.nan, -np.inf]), grads=False)
def finite_or_not(ns, x):
    return ns.lax.is_finite(x), ns.numpy.isnan(x), ns.numpy.isinf(x)


@case(floats(3), floats(3, low=0.0), grads=False)
def next_representable(ns, x, y):
    return ns.lax.nextafter(x, y)


@case(floats(3), floats(3, low=0.5, high=1.5))
def division_and_square(ns, x, y):
    return x / y + ns.lax.square(x) - 1 / y + ns.lax.reciprocal(y)


# --- reductions --------------------------------------------------------------------------------------------


@case(floats(8), floats(8))
def documented_sum(ns, first, second):
    return ns.numpy.sum(first + ns.numpy.sin(second) * 3.0)


@case(floats(2, 3, 2))
def sums(ns, x):
    return ns.numpy.sum(x, axis=(0, -1)) + x.sum(axis=1, keepdims=True).sum()


@case(floats(2, 3))
def means(ns, x):
    return ns.numpy.mean(x, axis=0) * x.mean()


@case(floats(5))
def variance(ns, x):
    return ns.numpy.var(x) + ns.numpy.sqrt(x.var())


@case(floats(3, 4))
def extremes(ns, x):
    return ns.numpy.max(x, axis=1, keepdims=True) - x.min() * ns.numpy.max(x, axis=0)


@case(floats(2, 3, low=0.5))
def products(ns, x):
    return ns.numpy.prod(x, axis=1) * ns.numpy.prod(x)


@case(bools(2, 3))
def all_and_any(ns, p):
    return ns.numpy.all(p, axis=0), ns.numpy.any(p), p.all()


@case(floats(3, 4), reverse=False)
def arguments_of_extremes(ns, x):
    return ns.numpy.argmax(x, axis=1), ns.numpy.argmin(x, axis=0)


@case(floats(5))
def log_sum_exp(ns, x):
    peak = ns.lax.stop_gradient(ns.numpy.max(x))
    return ns.numpy.log(ns.numpy.sum(ns.numpy.exp(x - peak))) + peak


@case(ints(2, 3))
def integer_reductions(ns, i):
    return i.sum(), i.max(axis=0), ns.numpy.prod(i, axis=1), ns.numpy.mean(i), ns.numpy.sum(i > 0)


# --- products of matrices ----------------------------------------------------------------------------------


@case(floats(4), floats(4, low=-1.0))
def dot_of_vectors(ns, x, y):
    return ns.numpy.dot(x, y) * ns.numpy.vdot(x, x)


@case(floats(3, 4), floats(4))
def matrix_times_vector(ns, a, x):
    return a @ x + ns.numpy.dot(a, x) * 0.5


@case(floats(2, 3), floats(3, 2))
def matrix_times_matrix(ns, a, b):
    return a @ b - ns.numpy.matmul(b.T, a.T).T * 2


@case(floats(2, 2, 3), floats(2, 3, 2))
def batched_matrix_product(ns, a, b):
    return ns.numpy.matmul(a, b)


@case(floats(2, 3, 4), floats(2, 4, 3))
def general_dot(ns, a, b):
    return ns.lax.dot_general(a, b, (((1,), (2,)), ((0,), (0,))))


@case(floats(3), floats(2))
def outer_product(ns, x, y):
    return ns.numpy.outer(x, y) + ns.numpy.tensordot(x, y, axes=0)


@case(floats(3, 3))
def quadratic_form(ns, a):
    x = ns.numpy.arange(3.0)
    return x @ a @ x + (a * a.T).sum()


# --- shapes ------------------------------------------------------------------------------------------------


@case(floats(2, 6))
def reshapes(ns, x):
    return x.reshape(3, 4) * 2 + ns.numpy.reshape(x.ravel(), (3, -1))


@case(floats(2, 3, 4))
def axis_permutations(ns, x):
    return ns.numpy.transpose(x, (2, 0, 1)) + ns.numpy.moveaxis(ns.numpy.swapaxes(x, 0, 1), 2, 0).swapaxes(1, 2)


@case(floats(1, 3, 1))
def squeezes_and_expansions(ns, x):
    return ns.numpy.squeeze(x, 0) * ns.numpy.expand_dims(ns.numpy.squeeze(x), 1) + ns.lax.expand_dims(x[0], (0,))


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


@case(floats(5))
def negative_padding(ns, x):
    return ns.lax.pad(x, 0.0, ((-1, 2, 0),))


@case(floats(3, 2))
def reversals(ns, x):
    return ns.numpy.flip(x, 0) * x + ns.lax.rev(x, (0, 1))


@case(floats(4, 3))
def lax_slices(ns, x):
    return ns.lax.slice(x, (1, 0), (4, 3), (2, 1)) * ns.lax.slice_in_dim(x, 0, 2, axis=0)


@case(floats(4, 3))
def static_indexing(ns, x):
    return x[0] + x[-1] * x[1, 2] - x[2, ...] + x[:, 1][:3]


@case(floats(4, 3))
def slice_indexing(ns, x):
    return x[1:3] * x[::2] + x[::-1][:2] - x[None, :2, :][0]


@case(floats(2, 4))
def new_axes(ns, x):
    return x[:, None, 1:] * x[None, :, :3] + x[..., 0][:, None, None]


@case(floats(3, 2))
def unpacking(ns, x):
    a, b, c = x
    return a * b + c, len(x) * a.size


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


@case(bools(2, 1), floats(3), floats(2, 3, low=-1.0))
def where_with_broadcasting(ns, p, x, y):
    return ns.numpy.where(p, x, y) * x


@case(bools(4), floats(4), floats(4, low=-1.0))
def select_of_two(ns, p, x, y):
    return ns.lax.select(p, x * y, y)


@case(ints(4, low=0, high=3, dtype=np.int32), floats(4), floats(4, low=-1.0))
def select_of_three(ns, i, x, y):
    return ns.lax.select_n(i, x, y, x * y)


# --- compositions ------------------------------------------------------------------------------------------


@case(floats(5))
def rectified_linear(ns, x):
    return ns.numpy.maximum(x, 0)


@case(floats(5))
def gaussian_error_linear(ns, x):
    return x * 0.5 * (1.0 + ns.lax.erf(x / np.sqrt(2.0).item()))


@case(floats(2, 4))
def softmax(ns, x):
    unnormalised = ns.numpy.exp(x - ns.lax.stop_gradient(x.max(axis=-1, keepdims=True)))
    return unnormalised / unnormalised.sum(axis=-1, keepdims=True)


@case(floats(3, 4), np.eye(4)[:3])
def cross_entropy(ns, logits, targets):
    log_z = ns.numpy.log(ns.numpy.sum(ns.numpy.exp(logits), axis=1))
    return ns.numpy.mean(log_z - ns.numpy.sum(logits * targets, axis=1))


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


@case({"w": floats(3), "b": floats()}, floats(4, 3), bools(4))
def logistic_regression(ns, params, x, y):
    score = x @ params["w"] + params["b"]
    probability = 1.0 / (1.0 + ns.numpy.exp(-score))
    return -ns.numpy.sum(ns.numpy.log(ns.numpy.where(y, probability, 1 - probability)))


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


@case(floats(3, dtype=np.float16), floats(3, dtype=bfloat16), floats(3, dtype=np.float32), coarse="bfloat16")
def promotion_of_float_types(ns, x, y, z):
    return x + y, x * z, y * 2.0, x - 1, y + z


@case(floats(4, dtype=bfloat16))
def half_precision_chain(ns, x):
    return ns.numpy.sin(x * 2) + x


@case(ints(3, low=0, dtype=np.uint32), ints(3, low=1, dtype=np.uint32))
def unsigned_arithmetic(ns, a, b):
    return a + b, a // b, a % 7, a >> 1, a * b + 3


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


@case(floats(3), floats())
def nested_jit_closing_over_arguments(ns, x, scale):
    @ns.jit
    def inner(y):
        @ns.jit
        def innermost(z):
            return z * scale + y

        return innermost(y) * x

    return inner(ns.numpy.cos(x))


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


@case(floats(3))
def forward_derivative_inside(ns, x):
    primal, tangent = ns.jvp(lambda y: y * ns.numpy.sin(y), (x,), (ns.numpy.ones_like(x),))
    return primal * tangent


@case(floats(2, 3), floats(3))
def vmap_inside(ns, a, x):
    return ns.vmap(lambda row: ns.numpy.dot(row, x) * row[0])(a)


@case(floats(2, 3), floats(2))
def vmap_inside_over_other_axes(ns, a, x):
    return ns.vmap(lambda col, y: col * y.sum() + x, in_axes=(1, None), out_axes=-1)(a, a)


@case(floats(2, 3), floats(3, 2))
def nested_vmap_inside(ns, a, b):
    return ns.vmap(ns.vmap(lambda x, y: x * y, (None, 0)), (0, 1))(a, b)


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
