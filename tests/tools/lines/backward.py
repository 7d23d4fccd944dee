GOOD = (
    (
        "%backward f(3.0)",
        ("f · 3 steps", "= sub", "ct of jnp.sin(x) * 2.0  1.0", "sum -2.98", "-2.979985", "weak_type=True", "residual"),
    ),
    ("%backward f(3.0) --cotangent 2.0", ("ct of x  -2.0", "-5.95997")),
    ("%backward v.sum() * x * x", ("reduce_sum", "→ ct of v  [9.0, 9.0, 9.0]", "+ ct of x", "bytes")),
    ("%backward grad(f)(3.0)", ("the call itself differentiates", "derivative of f · ", "-2.979985", "0.28224")),
    ("%backward x * 12345.6", ("ct of x  12345.6",)),
    ("%backward f(x) * x", ("ct of x", "+ ct of", "✓")),
    ("%backward jit(f)(3.0)", ("› jit", "-2.979985")),
    ("%backward minijax.checkpoint(lambda x: f(f(x)))(2.0)", ("bytes of residuals", "8 saved", "run again: sin cos")),
    ("%backward v.sum() * f(x) --names", ("x_dot", "ct of x")),
    ("%backward v * v --names", ("  v = [",)),
    ("%backward 2.0 * v --most 1", ("gradient", "[2., 2., 2.]")),
    ("sums = lambda xs: minijax.lax.scan(lambda c, t: (c * t, c), 1.0, xs)[0]", ()),
    ("%backward sums(v + 1.0)", ("4 steps · iteration 0 of 3, from the result back",)),
    ("%backward sums(v + 1.0) --iteration 2", ("4 steps · iteration 2 of 3, from the result back",)),
    ("%backward (lambda x: 1.0)(x)", ("nothing is differentiated",)),
)

BAD = (
    ("%backward f()", "needs an argument"),
    ("%backward f(3.0) --iteration 1", "%backward --iteration: no variable that is shown is in a loop"),
    ("%backward f(3.0) --most 0", "needs a number from 1"),
    ("%backward f(3.0) --cotangent v", "must be f32[]"),
)
