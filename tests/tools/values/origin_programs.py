"""Programs over all constructs whose results' origins are known from their jaxprs; each has what leads nowhere too."""

from __future__ import annotations

import functools
from typing import Any

import jax

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.interop import from_jax

V = [1.0, 2.0, 3.0]


def staged(x, y):
    both = minijax.jit(lambda a, b: (jnp.sin(a), b * 2.0))
    p, q = both(x, y)
    return p + 1.0, q


def chosen_by_python(x, y, high=None):
    if x.sum() > 3.0 if high is None else high:
        x = x * 3.0
    return jnp.cos(x), y


def scanned(x, y, z):
    def body(carry, t):
        c, d, e = carry
        return (c * t, d + 1.0, e * c), (d, jnp.exp(e))

    (a, b, c), (s, t) = lax.scan(body, (x[0], y[0], z[0]), x)
    return a, b, c, s, t


def while_loop(x, y, z):
    def body(carry):
        i, v, w = carry
        return i * 0.5, v + jnp.sin(v), w * 2.0

    return lax.while_loop(lambda c: c[0] > z[0], body, (x.sum(), y, z))


def branches_in_jit(x, y, z):
    return minijax.jit(lambda p: lax.cond(p, lambda: jnp.sin(y), lambda: z * 2.0))(x.sum() > 0.0)


@minijax.custom_jvp
def own_jvp(x, y):
    return jnp.sin(x) + y, y * 3.0


@own_jvp.defjvp
def own_jvp_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return own_jvp(x, y), (dx * 5.0, dy)


@minijax.custom_vjp
def own_vjp(x, y):
    return jnp.sin(x) * y


own_vjp.defvjp(lambda x, y: (own_vjp(x, y), x), lambda x, ct: (ct * x, ct * 2.0))


def custom_forward(x, y):
    return own_jvp(x, y), own_vjp(x, y)


def custom_jvp_derivative(x, y):
    return minijax.jvp(lambda x: own_jvp(x, y), (x,), (y,))


def gradient_per_example(x, y):
    return minijax.vmap(minijax.grad(lambda a, b: jnp.sin(a) * b), in_axes=(0, 0))(x, y)


def gradient_of_scan(x, y):
    def loss(x):
        def step(c, t):
            new = jnp.tanh(c * t)
            return new, new

        last, _ = lax.scan(step, x[0], x)
        return last * y[1]

    return minijax.grad(loss)(x)


def hessian_product(x, y):
    return minijax.jvp(minijax.grad(lambda a: jnp.sum(jnp.sin(a) * a)), (x,), (y,))


def cached_trace(x, y):
    return _cached(_cached(x, y)[0], y)


_cached = minijax.jit(lambda a, b: (a + 1.0, b * 2.0))


def where_and_index(x, y):
    return jnp.where(x > 1.5, x, y), x.at[0].set(9.0), y[1:]


def solved(x, y):
    return lax.custom_linear_solve(
        lambda v: v * x, y, lambda matvec, b: b / x, lambda vecmat, b: b / x, symmetric=True
    )


def stopped(x, y):
    return lax.stop_gradient(x) * y


def mapped_cond(x, y):
    return minijax.vmap(lambda a, b: lax.cond(a > 1.5, jnp.sin, lambda v: v * 2.0, b))(x, y)


@from_jax
def of_jax(a, b):
    carried, seen = jax.lax.scan(lambda c, t: (c * t, c), a[0], b)
    return jax.numpy.tanh(a) * carried, seen, b + 1.0


def imported(x, y):
    first, seen, _ = of_jax(x, y)
    return first + y, seen, minijax.grad(lambda a: of_jax(a, y)[0].sum())(x)


# what is staged in place of a function whose Python asks for values
STAGED = {chosen_by_python: functools.partial(chosen_by_python, high=True)}
def cond_in_scan(x, y, z):
    def body(c, t):
        return lax.cond(t > 1.5, lambda: c * z[0], lambda: c + y[0]), c

    return minijax.jit(lambda: lax.scan(body, 1.0, x))()


def reference(x, y, z):
    def written():
        box = minijax.new_ref(x)
        box[0] = y[1]
        kept = box[...]
        box[1] = z[2]
        return kept * 2.0, kept + box[...]

    return minijax.jit(written)()


# references are gone from what runs: there are other operations in place of theirs
DISCHARGED = ("reference",)
W = [0.5, -1.0, 2.0]
_ARGS: dict[int, list[Any]] = {2: [V, W], 3: [V, W, [0.1, 0.2, 0.3]]}
PROGRAMS = {
    fun.__name__: (fun, STAGED.get(fun, fun), _ARGS[fun.__code__.co_argcount - len(fun.__defaults__ or ())])
    for fun in (
        staged,
        chosen_by_python,
        scanned,
        while_loop,
        branches_in_jit,
        custom_forward,
        custom_jvp_derivative,
        gradient_per_example,
        gradient_of_scan,
        hessian_product,
        cached_trace,
        where_and_index,
        solved,
        stopped,
        mapped_cond,
        cond_in_scan,
        reference,
        imported,
    )
}
