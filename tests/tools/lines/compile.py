"""Command lines for ``tools/commands/compile.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%jit f(3.0)", ("value", "-2.71776", "again", "the best of")),
    ("%jit f(f32[4])", ("StableHLO ops", "cache", "compiled and not run")),
    ("%%jit x=3.0\njnp.sin(x) * 2.0", ("0.28224", "compile")),
    ("%hlo f(f32[8])", ("stablehlo.sine", "tensor<8xf32>", "sine 1")),
    ("%hlo f(f32[8]) --stage optimized", ("HloModule", "fusion", "cost", "memory")),
    ("%hlo f(f32[8]) --stage=optimized --metadata", ("HloModule",)),
    ("%%hlo x=f32[2]\nx + 1.0", ("stablehlo.add", "cost")),
    (
        "%hlo f(f32[8]) --links",
        ("stablehlo.sine", "// eqn 1 · ", "1 · sin", "// eqn 3", "--stage optimized adds what XLA made of it"),
    ),
    ("%hlo f(f32[8]) --links --stage optimized", ("sine(", "// eqns 1–3 · ", "sin, mul, sub", "memory")),
    ("%hlo f(f32[8]) --links --metadata", ("stablehlo.sine", "loc(#loc", "// eqn 1 · ")),
    ("%hlo f(f32[8]) --links --metadata --stage optimized", ('op_name="jit(f)/sin"', "// eqn 1 · ")),
    ("%hlo f(f32[8]) --metadata", ('loc("jit(f)/sin"',)),
    ("%hlo f(f32[8]) --eqn 2", ("jnp.sin(x) * 2.0", "mul b 2.0", "eqn 2", "stablehlo.multiply")),
    ("%hlo f(f32[8]) --eqn 2 --stage optimized", ("stablehlo.multiply", "optimised HLO", "fusion(")),
    ("%hlo f(f32[8]) --line 1", ("eqns 1–3", "stablehlo.sine", "stablehlo.subtract")),
    ("%hlo f(jnp.ones(0)) --links", ("tensor<0xf32>", "// eqn 1")),
    ("%hlo jit(lambda n, x: x * n, static_argnums=0)(3, x) --links", ("stablehlo.multiply", "mul")),
    ("%hlo f(x=x) --links", ("stablehlo.sine", "sin")),
    ("%hlo (lambda d: d['a'] + d['b'][0])({'a': v, 'b': (v, 1.0)}) --links", ("stablehlo.add", "add")),
    ("%hlo minijax.pmap(f)(jnp.ones((1, 3))) --links", ("stablehlo", "pmap")),
    ("%hlo (lambda a: minijax.debug.print('{}', a))(v) --links", ("custom_call", "debug_print")),
    ("%hlo (lambda a: a)(v) --links --stage optimized", ("HloModule",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%jit", "needs EXPR"),
    ("%hlo f(3.0) --stage opt", "Did you mean optimized?"),
    ("%hlo f(3.0) --eqn 4", "has equations 1 to 3"),
    ("%hlo f(3.0) --eqn two", "--eqn"),
    ("%hlo f(3.0) --line 7", "no equation comes from that line; they come from"),
    ("%hlo (lambda a: a)(v) --line 1", "no line that is known"),
    ("%hlo (lambda a: a)(v) --eqn 1", "the jaxpr has no equations"),
    ("%hlo f(3.0) --line 1 --eqn 1", "not both"),
)
