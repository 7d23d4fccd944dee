"""Command lines for ``tools/commands/origins.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%origin f(3.0)", ("3 of 3 operations · 1 of 1 argument", "x  argument", "sin(x)", "0.14112", "result")),
    ("def layer(w, x): a = w * x; u = jnp.exp(x); h = jnp.tanh(a); return jnp.sum(h), u", ()),
    ("%origin layer(v, v) --of h", ("h in layer(v, v)  2 of 4 operations · 2 of 2 arguments", "a = mul(w, x)")),
    ("%origin layer(v, x)[1]", ("1 of 5 operations · 1 of 2 arguments", "u = exp(x)")),
    ("%origin grad(lambda w: layer(w, x)[0])(v) --depth 1", ("1 of 1 argument", "a = mul(w, 3.0)", "h = tanh(a)")),
    ("%origin f(3.0) --most 1", ("the last 1 of 3 steps", "3 of 3 operations")),
    ("two = jit(lambda a, b: (jnp.sin(a), b * 2.0))", ()),
    ("%origin two(x, v)[0]", ("1 of 2 operations · 1 of 2 arguments", "jit(x, v)", "sin(a)")),
    ("%origin v * 2.0 + x", ("3 of 3 operations · 2 of 2 arguments",)),
    ("%graph layer(v, x) --of h", ("h in layer(v, x) · 3 of 5 operations", "h:f32[3] = tanh a")),
    ("%find h.max() > 0.5 in layer(v, v)", ("found", "h", "h = tanh(a)", "h = jnp.tanh(a);", "--step")),
    ("%find nan(h) in layer(v, v)", ("never: nan(h) holds of none of 1 value",)),
    ("%find h became NaN in layer(v * jnp.inf, v)", ("found", "h", "nan")),
    ("%find x.dtype changed in f(3.0)", ("never",)),
    ("%find line 1 in layer(v, v)", ("a = mul(",)),
    ("summed = lambda xs: minijax.lax.scan(lambda c, t: (c + t, c), 0.0, xs)[0]", ()),
    ("%find c > 0.5 in summed(v)", ("c", "iteration 2", "1.0")),
    ("%find t >= 1.0 and c < 0.5 in summed(v)", ("iteration 1", "1.0")),
    ("%find c changed", ("iteration 2",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%origin", "needs EXPR"),
    ("%origin f", "f is a function: give it arguments"),
    ("%origin f(f32[3])", "an argument that is only a type"),
    ("%origin f(3.0) --of", "needs a value"),
    ("%origin f(3.0) --of u", "no variable u held a value in it; there are x"),
    ("%origin f(3.0) --depth 0", "needs a number from 1, not 0"),
    ("%origin f(3.0) --most 0", "--most needs a number from 1, not 0"),
    ("%origin f(3.0) --dept 2", "Did you mean --depth?"),
    ("%origin 'text'", "gives no array"),
    ("%origin f(3.0", "is none"),
    ("%find", "needs CONDITION"),
    ("%find 3 > 2 in f(3.0)", "names no variable"),
    ("%find y > in f(3.0)", "is no condition"),
    ("%find open('x') in f(3.0)", "cannot be asked"),
    ("%find y.dot(y) > 1 in f(3.0)", "cannot be asked: there are max"),
    ("%find [y for y in x] in f(3.0)", "is no condition"),
    ("%find z > 1 in f(3.0)", "no variable z of f(3.0) held a value; there are x"),
    ("%find y > 1 in f", "f is a function: give it arguments"),
    ("%find y > 1 in f(f32[3])", "an argument that is only a type"),
    ("%graph f(3.0) --of u", "no variable u held a value"),
    ("%graph f(3.0) --of x --static 0", "runs the call as it is"),
)
