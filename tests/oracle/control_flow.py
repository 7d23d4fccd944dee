"""Programs with control flow and custom rules, written once for either library, which they receive as ``ns``."""

from __future__ import annotations

import functools

import numpy as np

from .case import Case, floats, into, ints

PROGRAMS: dict[str, Case] = {}
program = into(PROGRAMS)


# --- cond and switch -----------------------------------------------------------------------------------------


@program(np.float64(0.7), floats(3))
def cond_on_a_value(ns, p, x):
    return ns.lax.cond(p > 0.5, lambda x: ns.numpy.sin(x) * p, lambda x: x * x, x)


@program(floats(2), {"a": floats(2), "b": (floats(), floats(3))})
def cond_with_trees(ns, x, tree):
    def swap(t):
        return {"a": t["a"] * 2, "b": (t["b"][1].sum(), t["b"][1])}

    def keep(t):
        return {"a": ns.numpy.exp(t["a"]), "b": (t["b"][0], t["b"][1] * t["b"][0])}

    return ns.lax.cond(x[0] > x[1], swap, keep, tree)


@program(floats(), floats(3))
def cond_with_constants_of_each_branch(ns, p, x):
    table, other = ns.numpy.array([1.0, 2.0, 3.0]), ns.numpy.array([4, 5, 6])
    return ns.lax.cond(p > 0, lambda x: x * table, lambda x: x + other * table, x)


@program(floats(), floats(), floats(2))
def nested_conds(ns, p, q, x):
    def inner(x):
        return ns.lax.cond(q > 0, lambda x: x * q, ns.numpy.cos, x)

    return ns.lax.cond(p > 0, inner, lambda x: inner(x) + p, x)


@program(ints(), floats(3))
def switch_of_three(ns, i, x):
    return ns.lax.switch(i, [ns.numpy.sin, lambda x: x * x, lambda x: ns.numpy.full_like(x, 2.0)], x)


@program(floats(3), floats(3))
def cond_inside_vmap(ns, p, x):
    return ns.vmap(lambda p, x: ns.lax.cond(p > 0, ns.numpy.sin, lambda x: x * p, x))(p, x)


# --- while and fori ------------------------------------------------------------------------------------------


@program(floats(low=1.0, high=2.0), reverse=False)
def while_doubling(ns, x):
    return ns.lax.while_loop(lambda c: c < 100.0, lambda c: c * 2.5, x)


@program(floats(), floats(3), reverse=False)
def while_with_closures(ns, a, x):
    def body(c):
        i, y = c
        return i + 1, ns.numpy.sin(y) * a + x

    return ns.lax.while_loop(lambda c: c[0] < 4, body, (0, x))


@program(floats(3, low=0.5, high=3.0), reverse=False)
def while_inside_vmap(ns, x):
    def one(x):
        return ns.lax.while_loop(lambda c: c[1] < 20.0, lambda c: (c[0] + 1, c[1] * 1.7), (0, x))

    return ns.vmap(one)(x)


@program(floats(2), ints(low=2, high=5), reverse=False)
def while_with_a_carry_of_many_types(ns, x, n):
    def body(c):
        return {
            "i": c["i"] + 1,
            "flag": ns.numpy.logical_not(c["flag"]),
            "x": ns.numpy.where(c["flag"], c["x"] * 2, c["x"]),
        }

    return ns.lax.while_loop(lambda c: c["i"] < n, body, {"i": 0, "flag": True, "x": x})


@program(floats(2), np.int64(5), reverse=False)
def fori_with_a_dynamic_bound(ns, x, n):
    return ns.lax.fori_loop(0, n, lambda i, c: ns.numpy.sin(c) + i * x, x)


@program(floats(4))
def fori_updating_by_index(ns, x):
    return ns.lax.fori_loop(0, 4, lambda i, c: c.at[i].set(c[i] * x[i] + 1), x)


# --- scan and its relatives ----------------------------------------------------------------------------------


@program(floats(), floats(5))
def running_sum(ns, c, xs):
    return ns.lax.scan(lambda c, x: (c + x, c * x), c, xs)


@program(floats(3), floats(3, 3))
def recurrent_cell(ns, h, w):
    def cell(h, _):
        h = ns.numpy.tanh(w @ h)
        return h, h.sum()

    return ns.lax.scan(cell, h, None, length=4)


@program(floats(2), (floats(4, 2), {"k": ints(4)}))
def scan_over_trees(ns, c, xs):
    def cell(carry, x):
        a, n = carry
        y, d = x
        return (a * 0.5 + y, n + d["k"]), {"out": a * d["k"], "n": n}

    return ns.lax.scan(cell, (c, 0), xs)


@program(floats(), floats(4))
def scan_in_reverse(ns, c, xs):
    return ns.lax.scan(lambda c, x: (ns.numpy.sin(c) * x, c), c, xs, reverse=True)


@program(floats(), floats(6))
def scan_unrolled(ns, c, xs):
    return ns.lax.scan(lambda c, x: (c * x + 1, c), c, xs, unroll=2)


@program(floats(3, low=0.2, high=1.0))
def scan_closing_over_a_product(ns, x):
    z = ns.numpy.exp(x)
    return ns.lax.scan(lambda c, y: (c * z + y, (c * y).sum()), x, ns.numpy.arange(4.0))


@program(floats(), floats(4))
def scan_with_integer_and_bool_carries(ns, a, xs):
    def cell(carry, x):
        n, flag, y = carry
        return (n + 1, x > y, ns.numpy.where(flag, y * x, y + a)), n * 2

    return ns.lax.scan(cell, (0, False, a), xs)


@program(floats(2), floats(3, 2))
def scan_of_scan(ns, c, xs):
    def outer(c, x):
        inner, ys = ns.lax.scan(lambda d, y: (d * y + c.sum(), d), x[0], x)
        return c + inner, ys

    return ns.lax.scan(outer, c, xs)


@program(floats(), floats(3), reverse=False)
def scan_of_while_of_cond(ns, c, xs):
    def cell(c, x):
        def body(d):
            i, y = d
            return i + 1, ns.lax.cond(y > 1.0, lambda y: y * 0.5, lambda y: y + x, y)

        return ns.lax.while_loop(lambda d: d[0] < 3, body, (0, c))[1], c

    return ns.lax.scan(cell, c, xs)


@program(floats(), floats(4))
def scan_of_cond(ns, c, xs):
    return ns.lax.scan(lambda c, x: (ns.lax.cond(x > 0, lambda c: c * x, ns.numpy.sin, c), c), c, xs)


@program(floats(3), floats(3))
def grad_inside_scan(ns, c, xs):
    energy = lambda c, x: (ns.numpy.sin(c) * x).sum()  # noqa: E731
    return ns.lax.scan(lambda c, x: (c - 0.1 * ns.grad(energy)(c, x), energy(c, x)), c, xs)


@program(floats(4, 2))
def map_over_rows(ns, xs):
    return ns.lax.map(lambda x: ns.numpy.sin(x).sum() * x, xs)


@program(floats(6, low=0.5, high=1.5))
def associative_product(ns, x):
    return ns.lax.associative_scan(ns.numpy.multiply, x)


@program(floats(5, 2), floats(5, 2))
def associative_affine_maps_reversed(ns, a, b):
    def compose(f, g):
        return f[0] * g[0], g[0] * f[1] + g[1]

    return ns.lax.associative_scan(compose, (a, b), reverse=True)


# --- checkpoint ----------------------------------------------------------------------------------------------


@program(floats(2), floats(3))
def checkpointed_cell(ns, c, xs):
    @ns.checkpoint
    def cell(c, x):
        return ns.numpy.sin(c) * x, (c * c).sum()

    return ns.lax.scan(cell, c, xs)


@program(floats(2), floats(3))
def checkpointed_scan(ns, c, xs):
    return ns.checkpoint(lambda c, xs: ns.lax.scan(lambda c, x: (ns.numpy.cos(c) * x, c), c, xs))(c, xs)


@program(floats(2, 3), floats(3))
def checkpoint_saving_products(ns, w, x):
    f = ns.checkpoint(lambda x: ns.numpy.sin(w @ ns.numpy.cos(x)), policy=ns.checkpoint_policies.dots_saveable)
    return f(x)


# --- custom rules --------------------------------------------------------------------------------------------


def _clipped(ns):
    @functools.partial(ns.custom_vjp)
    def clip(x):
        return ns.numpy.sin(x)

    clip.defvjp(lambda x: (ns.numpy.sin(x), ns.numpy.cos(x)), lambda c, g: (ns.numpy.clip(g * c, -0.5, 0.5),))
    return clip


def _halved(ns):
    @ns.custom_jvp
    def halved(x, y):
        return x * ns.numpy.sin(y)

    @halved.defjvp
    def halved_jvp(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return halved(x, y), 0.5 * tx * ns.numpy.sin(y) + x * ns.numpy.cos(y) * ty

    return halved


@program(floats(3), forward=False)
def custom_vjp_plain(ns, x):
    return _clipped(ns)(x) * x


@program(floats(), floats(3), second=False, forward=False)
def custom_vjp_inside_scan(ns, c, xs):
    clip = _clipped(ns)
    return ns.lax.scan(lambda c, x: (clip(c) + x, c * x), c, xs)


@program(floats(3, 2), floats(3), second=False, forward=False)
def custom_vjp_inside_scan_inside_vmap(ns, xs, c):
    clip = _clipped(ns)
    return ns.vmap(lambda c, xs: ns.lax.scan(lambda c, x: (clip(c * x), c), c, xs))(c, xs)


@program(floats(3), floats(3))
def custom_jvp_plain(ns, x, y):
    return _halved(ns)(x, y) + x


@program(floats(), floats(3))
def custom_jvp_inside_scan(ns, c, xs):
    f = _halved(ns)
    return ns.lax.scan(lambda c, x: (f(c, x), c), c, xs)


@program(floats(3), second=False)
def relu_and_softplus(ns, x):
    return ns.nn.relu(x) * ns.nn.softplus(x)


# --- everything together -------------------------------------------------------------------------------------


@program(floats(), floats(4))
def jit_of_grad_of_checkpoint_of_scan(ns, c, xs):
    def loss(c, xs):
        return ns.checkpoint(lambda c, xs: ns.lax.scan(lambda c, x: (ns.numpy.sin(c * x), c), c, xs))(c, xs)[0]

    return ns.jit(ns.grad(loss, (0, 1)))(c, xs)


@program(floats(2), floats(3))
def grad_of_scan_closing_over_tracers(ns, a, xs):
    def loss(a):
        z = ns.numpy.exp(a)
        return ns.lax.scan(lambda c, x: (c * z * x + a, c), a, xs)[0].sum()

    return ns.grad(loss)(a)


@program(floats(2), floats(2, 3))
def psum_inside_scan_inside_vmap(ns, c, xs):
    def one(c, xs):
        return ns.lax.scan(lambda c, x: (ns.lax.psum(c * x, "i"), c), c, xs)

    return ns.vmap(one, axis_name="i")(c, xs)


@program(floats(3, 3), floats(3), second=False)
def linear_solve_by_iteration(ns, a, b):
    m = a @ a.T + 9 * ns.numpy.eye(3)
    x0 = ns.numpy.zeros(3)

    def solve(matvec, b):
        return ns.lax.scan(lambda x, _: (x + 0.05 * (b - matvec(x)), None), x0, None, length=8)[0]

    return ns.lax.custom_linear_solve(lambda v: m @ v, b, solve, symmetric=True)


@program(floats(low=0.5, high=3.0), second=False)
def root_by_iteration(ns, a):
    def newton(f, x):
        return ns.lax.fori_loop(0, 6, lambda i, x: x - f(x) / (2 * x), x)

    return ns.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
