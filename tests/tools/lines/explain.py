"""Command lines for ``tools/commands/explain.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%why", ("",)),
    ("%why jit(f)(f32[7])", ("f would be traced", "advice")),
    ("%why f(3.0)", ("f is not jitted; its call, which was made, asked no cache: it called no jitted",)),
    ("%%nan y=0.0\nz = jnp.log(y)\nz * 2.0", ("log", "-inf")),
    ("twice = jit(lambda z: z * 2.0)", ()),
    ("def outer(x): return twice(x) + twice(x * v).sum()", ()),
    ("%why outer(3.0)", ("<lambda> was traced", "first call", "z: f32[] (weak_type) became f32[3]")),
    ("%why outer(4.0)", ("cached", "hit <lambda> ×2")),
    ("%leaks", ("",)),
    ("%leaks --all", ("",)),
    ("%nan f(3.0)", ("nothing: no operation of f(3.0)", "--grad")),
    ("%nan jnp.inf - jnp.inf", ("nothing: no operation", "not finite: what minijax was given was finite", "NumPy")),
    ("%nan jnp.log(v - 1.0)", ("first NaN made by log (forward)", "min -1", "at [0]: -1", "%origin jnp.log(v")),
    ("%nan jnp.sqrt(x - 3.0) --grad", ("first infinity made by div (jvp rule of sqrt)", "equation", "inf")),
    ("%nan grad(jnp.sqrt)(0.0)", ("jvp rule of sqrt",)),
    ("%keys minijax.random.normal(minijax.random.key(7))", ("none: ", "1 random key, once", "key(7)  used by normal")),
    ("%keys f(x)", ("uses no random key",)),
    ("k = minijax.random.key(2)", ()),
    ("%keys minijax.random.normal(k) + minijax.random.gamma(k, x)", ("used twice: k", "gamma at", "advice", "split")),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%why 3(2.0)", "which cannot be called: %why takes a call of a jitted function"),
    ("%why f(f32[3])", "f is not jitted, so its call has to be made, and an argument is only a type"),
    ("%why 3(2.0)", "3 is of type int, which cannot be called"),
    ("%why x", "needs a call of a function, such as f(3.0), not 'x'"),
    ("%leaks all", "does not understand 'all'"),
    ("%nan", "needs EXPR"),
    ("%nan jnp.sin", "jnp.sin is a function: give it arguments, as in jnp.sin(3.0)"),
    ("%nan f(3) --grad", "no floating-point argument"),
    ("%nan f(3.0) --gard", "Did you mean --grad?"),
    ("%keys", "needs EXPR"),
)
