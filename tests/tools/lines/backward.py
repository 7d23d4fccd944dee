"""Command lines for ``tools/commands/backward.py``: see the package."""

from __future__ import annotations

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("%backward f(3.0)", ("backward pass of f", "= sub", "ct of the result  1.0", "gradient", "-2.979985", "residual")),
    ("%backward f(3.0) --cotangent 2.0", ("ct of the result  2.0", "-5.95997")),
    ("%backward jnp.sum(v * v * x)", ("reduce_sum", "sum [", "x  Array(", "bytes")),
    ("%backward f(x) * x", ("ct of x", "✓")),
    ("%backward jit(f)(3.0) --retrace", ("› jit", "-2.979985")),
    ("%backward minijax.checkpoint(lambda x: f(f(x)))(2.0)", ("checkpoint", "bytes of residuals", "saved")),
    ("%backward 2.0 * v --most 1", ("gradient", "[2., 2., 2.]")),
    ("%backward (lambda x: 1.0)(x)", ("nothing is differentiated",)),
)

BAD: tuple[tuple[str, str], ...] = (
    ("%backward", "needs EXPR"),
    ("%backward f", "f is a function: give it arguments"),
    ("%backward f()", "missing"),
    ("%backward f(3.0) --most 0", "a number from 1 on"),
    ("%backward f(3.0) --cotangent v", "must be f32[]"),
    ("%backward f(nothing)", "nothing"),
)
