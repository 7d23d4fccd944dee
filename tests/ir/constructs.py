"""A program for each construct of the jaxpr language, for minijax and for JAX: ``programs(minijax)[name]``.

Each program is ``(function, args)``. The jaxprs are golden files (``test_constructs``) and test the parser and the
lexer.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

# Constructs whose text in JAX differs: JAX's debug_callback has a sharding parameter, and branches of its
# differentiated cond have an unused ``empty2``.
DIFFERENT_IN_JAX = {"debug_callback", "cond_grad"}

x8 = np.ones(8, np.float32)


def programs(ns: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The programs, written with the library ``ns``: ``minijax`` or ``jax``."""
    jnp, lax = ns.numpy, ns.lax
    importlib.import_module(f"{ns.__name__}.ref")
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def program(*args: Any) -> Any:
        def register(f: Any) -> Any:
            found[f.__name__] = (f, args)
            return f

        return register

    @program(x8)
    def scan(xs):
        return lax.scan(lambda c, x: (c * x, c + x), 1.0, xs)

    @program(x8)
    def scan_grad(xs):
        return ns.grad(lambda xs: lax.scan(lambda c, x: (jnp.sin(c) * x, None), 1.0, xs)[0])(xs)

    @program(3.0)
    def while_loop(x):
        return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * x), (0, x))

    @program(x8)
    def while_vmap_of_predicate(xs):
        return ns.vmap(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))(xs)

    @program(x8, 3)
    def fori_dynamic(x, n):
        return lax.fori_loop(0, n, lambda i, c: c * x, x)

    @program(x8)
    def fori_static(x):
        return lax.fori_loop(0, 3, lambda i, c: c * x, x)

    @program(1, 2.0)
    def switch(i, x):
        return lax.switch(i, [lambda x: x + 1, jnp.sin, jnp.cos], x)

    @program(2.0)
    def cond_grad(x):
        return ns.grad(lambda x: lax.cond(x > 0, jnp.sin, lambda x: x * x, x))(x)

    @program(x8)
    def cond_vmap(xs):
        return ns.vmap(lambda x: lax.cond(x > 0, jnp.sin, lambda x: x * x, x))(xs)

    @program(2.0)
    def checkpoint(x):
        return ns.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x)

    @program(2.0)
    def checkpoint_grad(x):
        return ns.grad(ns.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(x)

    @program(2.0)
    def checkpoint_policy(x):
        policy = ns.checkpoint_policies.everything_saveable
        return ns.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=policy)(x)

    @program(x8)
    def psum_in_vmap(xs):
        return ns.vmap(lambda x: (lax.psum(x, "i"), lax.axis_index("i")), axis_name="i")(xs)

    @program(np.ones((1, 2), np.float32))
    def pmap(x):
        return ns.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(x)

    @program(2.0)
    def custom_jvp(x):
        @ns.custom_jvp
        def f(x):
            return jnp.sin(x)

        @f.defjvp
        def f_jvp(primals, tangents):
            return f(primals[0]), tangents[0] * jnp.cos(primals[0])

        return f(x), ns.jvp(f, (x,), (x,))

    @program(2.0)
    def custom_vjp(x):
        @ns.custom_vjp
        def f(x):
            return jnp.sin(x)

        def f_fwd(x):
            return f(x), jnp.cos(x)

        def f_bwd(residual, ct):
            return (residual * ct,)

        f.defvjp(f_fwd, f_bwd)
        return f(x), ns.grad(f)(x)

    @program(2.0)
    def jits_shared(x):
        @ns.jit
        def helper(x):
            return jnp.sin(x) * 2

        @ns.jit
        def outer(x):
            return helper(x) - helper(x + 1)

        return outer(x), outer(x * 3), helper(x)

    @program(2.0)
    def debug_callback(x):
        ns.debug.callback(print, x, ordered=True)
        return x

    @program(2.0)
    def pure_callback(x):
        return ns.pure_callback(np.sin, ns.ShapeDtypeStruct((), np.float32), x)

    @program(np.eye(3, dtype=np.float32), np.ones(3, np.float32))
    def linear_solve(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, lambda mv, b: b, lambda mv, b: b, symmetric=True)

    @program(x8, 2)
    def references(x, i):
        r = ns.new_ref(jnp.zeros((4, 8)))
        r[0] = x
        r[i, :3] += x[5:]
        ns.ref.addupdate(r, (slice(1, 3), -1), x[:2])
        old = ns.ref.swap(r, 1, x)
        return r[...], r[i, 2], old, ns.freeze(r)

    @program(x8)
    def references_in_calls(x):
        r = ns.new_ref(x)

        def body(c, y):
            r[1] = c
            return c + r[0] * y, r[c.astype("int32")]

        def set_to(y):
            r[0] = y

        found = lax.scan(body, 0.0, x)
        lax.cond(x[0] > 0, set_to, lambda y: None, x[2])
        return found, ns.jit(lambda y: (set_to(y), r[...])[1])(x[1])

    return found
