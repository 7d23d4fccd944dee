"""Programs to replay, with their arguments. Each is written for a namespace ``m``, which is minijax or JAX.

The cotangents of outputs are ones. ``reverse`` is False if the program has no reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Replayed(NamedTuple):
    """A program ``build(m)``, its arguments, and whether reverse mode can differentiate it."""

    build: Callable[[Any], Callable[..., Any]]
    args: tuple[Any, ...]
    reverse: bool = True


X = np.array([0.5, -1.25, 2.0], np.float32)
M = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def straight(m):
    def f(x, y):
        h = m.numpy.sin(x) * y
        return m.numpy.sum(h * h + x), h

    return f


def jit_in_jit(m):
    inner = m.jit(lambda x, y: (m.numpy.tanh(x) @ y, x * 2))

    @m.jit
    def outer(x, y):
        a, b = inner(x, y)
        c, _ = inner(b, y)
        return m.numpy.cos(a) + c

    return lambda x, y: m.numpy.sum(outer(x, y) * outer(y.T, x.T)[0, 0])


def scan(reverse):
    def build(m):
        def f(w, init, xs):
            def body(carry, x):
                h, n = carry
                h = m.numpy.tanh(w * h + x)
                return (h, n + 1), (h * x, n)

            (h, n), (ys, ns) = m.lax.scan(body, (init, 0), xs, reverse=reverse)
            return h * n, ys, ns

        return f

    return build


def while_loop(m):
    def f(x, limit):
        def body(s):
            return s[0] * 2.0 + m.numpy.sin(x), s[1] + 1

        y, n = m.lax.while_loop(lambda s: m.numpy.abs(s[0]) < limit, body, (x, 0))
        return y * x, n

    return f


def cond_in_scan(m):
    def f(x, xs):
        def body(c, a):
            c = m.lax.cond(a > 0, lambda v: m.numpy.sin(v) + a, lambda v: v * 0.5, c)
            return c, c * a

        return m.lax.scan(body, x, xs)

    return f


def custom_jvp(m):
    @m.custom_jvp
    def g(x, y):
        return m.numpy.sin(x) * y

    @g.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return g(x, y), 10.0 * dx * y + m.numpy.sin(x) * dy

    def f(x, y):
        def body(c, a):
            return g(c, a), c * a

        return g(x * 2, y) + m.lax.scan(body, x, m.numpy.arange(3.0))[0]

    return f


def custom_vjp(m):
    @m.custom_vjp
    def g(x, y):
        return m.numpy.sin(x) * y

    g.defvjp(
        lambda x, y: (m.numpy.sin(x) * y, (m.numpy.cos(x), y)), lambda res, ct: (10.0 * ct * res[0] * res[1], ct * 3.0)
    )

    def f(x, y):
        def body(c, a):
            return g(c, a), c * a

        return g(x * 2, y) * x + m.lax.scan(body, y, m.numpy.arange(3.0))[0]

    return f


def symbolic_zeros(m):
    @m.custom_vjp
    def g(x, y):
        return x * y, m.numpy.sin(x) + y, m.numpy.int32(3)

    def backward(res, cts):
        unused = [type(ct) is m.custom_derivatives.SymbolicZero for ct in cts[:2]]
        return cts[0] * res[1], sum(7.0 if zero else 2.0 * ct for zero, ct in zip(unused, cts[:2], strict=True))

    g.defvjp(lambda x, y: (g(x.value, y.value), (x.value, y.value)), backward, symbolic_zeros=True)
    return lambda x, y: g(x * 2, y)[0] * y


def checkpoint(m):
    def block(x, w):
        return m.numpy.tanh(m.numpy.sin(x) @ w)

    plain = m.checkpoint(block)
    saving = m.checkpoint(block, policy=m.checkpoint_policies.dots_saveable)
    return lambda x, w: m.numpy.sum(saving(plain(x, w), w) * x)


def derivative(m):
    """The program to replay is a backward pass."""

    def loss(w, x):
        def body(h, a):
            h = m.numpy.tanh(w @ h + a)
            return h, m.numpy.sum(h)

        return m.numpy.sum(m.lax.scan(body, x, m.numpy.arange(3.0))[1])

    return m.grad(loss)


def backward_rules(m):
    """The program calls derivative rules of users while it is staged."""
    f, g = custom_vjp(m), custom_jvp(m)
    return lambda x, y: (m.grad(f, (0, 1))(x, y), m.jvp(g, (x, y), (y, x)))


def mapped_gradient(m):
    def loss(w, x):
        y = m.lax.scan(lambda h, a: (m.numpy.tanh(w * h + a), h), x, m.numpy.arange(2.0))[0]
        return m.lax.pmean(y * x, "batch")

    return lambda w, xs: m.vmap(m.grad(loss), (None, 0), axis_name="batch")(w, xs)


def linear_solve(m):
    def f(a, b):
        def solve(_, r):
            return m.numpy.array([a[1, 1] * r[0] - a[0, 1] * r[1], a[0, 0] * r[1] - a[1, 0] * r[0]]) / det

        det = a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
        return m.lax.custom_linear_solve(lambda v: a @ v, b, solve, symmetric=True) * b

    return f


PROGRAMS = {
    "straight": Replayed(straight, (X, X + 1)),
    "jit in jit": Replayed(jit_in_jit, (M, M.T.copy())),
    "scan": Replayed(scan(False), (np.float32(0.5), np.float32(1.0), X)),
    "scan backwards": Replayed(scan(True), (np.float32(0.5), np.float32(1.0), X)),
    "while": Replayed(while_loop, (np.float32(0.7), np.float32(20.0)), reverse=False),
    "cond in scan": Replayed(cond_in_scan, (np.float32(0.7), X)),
    "custom_jvp": Replayed(custom_jvp, (np.float32(0.7), np.float32(1.5))),
    "custom_vjp": Replayed(custom_vjp, (np.float32(0.7), np.float32(1.5))),
    "custom_vjp with symbolic zeros": Replayed(symbolic_zeros, (np.float32(0.7), np.float32(1.5))),
    "checkpoint": Replayed(checkpoint, (np.eye(3, dtype=np.float32) + X, np.eye(3, dtype=np.float32) - X)),
    "rules that were staged": Replayed(backward_rules, (np.float32(0.7), np.float32(1.5))),
    "gradient under vmap": Replayed(mapped_gradient, (np.float32(0.7), X)),
    "linear solve": Replayed(linear_solve, (np.float32([[3, 1], [1, 2]]), X[:2])),
    "derivative": Replayed(derivative, (np.eye(2, dtype=np.float32) * 0.5, X[:2])),
}
