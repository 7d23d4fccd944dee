GOOD = (
    ("%log grad(f)(3.0)", ("  sin(x) = 0.14112\n", "linearize took")),
    ("%log grad(f)(3.0) --verbose", ("linearize:1 sin", "derived from jvp rule", "linearize took")),
    ("%log minijax.jacrev(f)(3.0)", ("linear part of f ·",)),
    ("%%log y=3.0\nz = jnp.sin(y)\ngrad(f)(z)", ("z = sin(3.0)", "linearize took")),
    ("%%step y=3.0 --text\nz = jnp.sin(y)\nz * 2.0", ("z = sin(3.0)",)),
    ("%log minijax.linearize(f, 3.0)[1](1.0)", ("linearize:1 begins for f", "mul(1.0, cos(3.0))")),
    ("%step minijax.vjp(f, 3.0)[1](1.0) --text", ("linearize:1 begins for f", "transpose took")),
    ("%log f(3.0) --most 2", ("more records (--most",)),
    ("%log jit(f)(3.0) --retrace", ("jit:1 begins for f", "jaxpr f staged")),
    ("%step grad(f)(3.0) --text --verbose", ("linearize:1 sin", "derived from jvp rule", "linearize took")),
    ("%step --text --most 1", ("more records (--most",)),  # shows the recording that the line above made
    ("%step jit(f)(v) --text --into f --most 1", ("jit:1 begins for f", "more records")),
    ("%step grad(f)(3.0) --text --at 1", ("  sin(x) = 0.14112\n",)),
    ("%step f(x) * v --text", ("mul(jnp.sin(x), 2.0) = 0.28224",)),
)

BAD = (
    ("%log f(3.0) --most 0", "--most needs a number from 1"),
    ("%step f(f32[3])", "needs values"),
    ("%step f(3.0) --into nothing", "nothing called nothing was traced"),
    ("%step f(3.0) --at 99", "no operation of that line was recorded"),
    ("%step --file no/such/file.json", "cannot read no/such/file.json"),
    ("%step --file", "needs a value"),
    ("%step f(3.0) --file x.json", "not both"),
)
