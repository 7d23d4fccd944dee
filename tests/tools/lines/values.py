"""Command lines for ``tools/commands/values.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%values grad(f)(3.0)", ("primal", "cotangent", "x", "3.0", "-2.979985", "jnp.sin(x)", "0.14112")),
    ("%values grad(lambda x: f(x) * x)(3.0)", ("in f", "jnp.sin(x)", "in <lambda>", "f(x) * x")),
    ("%values minijax.jvp(f, (3.0,), (1.0,))", ("tangent", "-0.9899925", "-1.979985")),
    ("%values minijax.vjp(f, 3.0)[1](1.0)", ("cotangent", "-2.979985", "0.14112")),
    ("%values jit(f)(v)", ("f · jit:1", "[0.0, 0.841471, 0.9092974]")),
    ("%values jit(f)(v)", ("the trace of f came from a cache", "--retrace", "jnp.sin(x)", "0.9092974")),
    ("%values jit(f)(v) --retrace", ("[0.0, 0.841471, 0.9092974]",)),
    ("%values vmap(grad(f))(v)", ("3× [0.0, 1.0, 2.0]", "3× [1.0, 0.080604")),
    ("%values vmap(grad(f))(v) --example 2 --of x", ("2.0", "-1.832294", "example 2 of vmap:1")),
    ("%values minijax.make_jaxpr(f)(3.0)", ("jnp.sin(x)", "0.14112")),
    ("def body(c, a): new = c * a; return new, new", ()),
    ("def roll(x): return minijax.lax.scan(body, x, v + 1.0)[0]", ()),
    ("%values grad(roll)(2.0)", ("iteration 0 of 3", "roll · linearize:1")),
    ("%values jit(roll)(2.0)", ("trace from a cache", "iteration 0 of 3", "new")),
    ("%values grad(roll)(2.0) --retrace --iteration 2 --of new", ("iteration 2 of 3", "12.0", "1.0")),
    ("table = jnp.arange(12.0).reshape(3, 4)", ()),
    ("def rows(m): s = jnp.sin(m); return s.sum()", ()),
    ("%values grad(rows)(table) --of s", ("f32[3,4]", "-0.9589", "s · primal", "s · cotangent")),
    ("%values grad(rows)(table) --most 1", ("... ", "earlier", "--most")),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%values", "needs EXPR"),
    ("%values (i for i in [1])", "is a generator, and computes nothing: give it a call such as f(3.0)"),
    ("%values [1, 2]", "[1, 2] ran, and computed nothing with arrays: give it a call such as f(3.0)"),
    ("%values None", "None computes nothing"),
    ("%values grad(f)(3.0) --of y", "nothing in grad(f)(3.0) is called y"),
    ("%values v(3.0)", "cannot be called: %values takes a call of a function"),
    ("%values grad(f)(3.0) --iteration 0", "no variable that is shown is in a loop: leave it out"),
    ("%values minijax.lax.scan(lambda c, a: (c * a, c), 2.0, v) --iteration 7", "iterations here are 0 to 2"),
    ("%values grad(f)(3.0) --example 0", "no value that is shown is mapped: leave it out"),
    ("%values vmap(f)(v) --example 3", "examples of vmap:1 are 0 to 2"),
    ("%values vmap(f)(v) --example 0,1", "takes 1 number here"),
    ("%values f(3.0) --iterations 1", "Did you mean --iteration?"),
)
