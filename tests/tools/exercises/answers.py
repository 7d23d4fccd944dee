"""Wrong answers to each exercise, with words of the hint that each mistake must get."""

_JVP = "def sinmul_jvp(primals, tangents):\n    x, y = primals\n    dx, dy = map(ad.instantiate_zeros, tangents)\n"
_JVP_RETURN = _JVP + "    return sinmul(x, y), "
_BATCH = "def overlap_batch(args, dims):\n    x, y = args\n    return "
_STEPS = "def steps_transpose(ct, x):\n    return "
_GROW = "def grow(x, rates):\n"
_STEP = "@jit\ndef step(w, total, rate):\n    return w - rate * 2 * w, total + jnp.sum(w)\n"
_TRAIN = "def train(w):\n    total = {}\n    for epoch in range({}):\n        w, total = {}\n    return w, total\n"
_BWD = "def softplus_bwd(x, ct):\n    return "

# name of an exercise -> (code of the answer, words of the hint)
WRONG = {
    "predict-the-jaxpr": (
        ("answer = 9", "two integers"),
        ("answer = (10, 7)", "are Python numbers"),
        ("answer = (8, 7)", "sin(x) is there twice in f, and c counts too"),
        ("answer = (7, 7)", "A Python loop is over when the program is staged"),
        ("answer = (6, 6)", "whether or not its result is used"),
        ("answer = (12, 7)", "too many for what is written down"),
        ("answer = (9, 9)", "finds something to take away"),
        ("answer = (9, 8)", "dce reads the program backwards"),
        ("answer = (9, 6)", "not repeated ones"),
        ("answer = (9, 3)", "go back to x"),
    ),
    "one-equation": (
        (_GROW + "    return jit(lambda: x)()\n", "is not what it should be"),
        (
            "@jit\n" + _GROW + "    for rate in rates:\n        x = x + rate * jnp.sin(x)\n    return x\n",
            "wrapped up, and still unrolled",
        ),
        (_GROW + "    return lax.scan(lambda x, r: (x + r * jnp.sin(x), None), x, rates)\n", "the carry alone is"),
        (
            _GROW + "    return lax.scan(lambda x, r: (x + r * jnp.sin(x), None), x, rates[1:])[0]\n",
            "The first rate is left out",
        ),
        (
            _GROW + "    return lax.fori_loop(0, len(rates) - 1, lambda i, x: x + rates[i] * jnp.sin(x), x)\n",
            "The last rate is left out",
        ),
        (
            _GROW + "    def turn(s):\n        return s[0] + 1, s[1] + rates[s[0]] * jnp.sin(s[1])\n"
            "    return lax.while_loop(lambda s: s[0] < len(rates), turn, (0, x))[1]\n",
            "reverse mode cannot keep",
        ),
        (
            _GROW + "    return lax.fori_loop(0, 12, lambda i, x: x + rates[i] * jnp.sin(x), x)\n",
            "12 is a number of this call only",
        ),
        (
            _GROW + "    return lax.scan(lambda rate, x: (x + rate * jnp.sin(x), None), x, rates)[0]\n",
            "The arguments of the step are exchanged",
        ),
        (
            _GROW + "    return lax.scan(lambda x, r: (x + r * jnp.sin(x), x), x, rates)[1]\n",
            "that is what the steps stacked",
        ),
        (_GROW + "    return lax.map(lambda r: x + r * jnp.sin(x), rates)\n", "an x of its own from the first one"),
        (
            _GROW + "    return lax.scan(lambda x, r: (r * jnp.sin(x), None), x, rates)[0]\n",
            "With the first rate alone it gives 0.04794256, and 0.5479426 is expected",
        ),
        (_GROW + "    return x + jnp.sum(rates) * jnp.sin(x)\n", "The x of one step is the carry"),
        (
            _GROW + "    return lax.scan(lambda x, r: (x + r * jnp.sin(x), None), x, jnp.sin(rates * 0) + rates)[0]\n",
            "the others are mul, sin, add",
        ),
        (
            _GROW + "    return lax.scan(lambda x, r: (x + r * jnp.sin(lax.stop_gradient(x)), None), x, rates)[0]\n",
            "grad(grow) is not what it should be",
        ),
    ),
    "jvp-rule": (
        (_JVP_RETURN + "sinmul(x, y)\n", "That is the value once more"),
        (_JVP_RETURN + "dx * jnp.sin(y)\n", "dy is not in it"),
        (_JVP_RETURN + "x * jnp.cos(y) * dy\n", "dx is not in it"),
        (_JVP_RETURN + "jnp.sin(y) + x * jnp.cos(y)\n", "derivatives, without the tangents"),
        (_JVP_RETURN + "dx * jnp.sin(y) - x * jnp.cos(y) * dy\n", "the derivative of sin is cos, not -cos"),
        (_JVP_RETURN + "dx * jnp.sin(y) + jnp.cos(y) * dy\n", "lacks a factor"),
        (_JVP_RETURN + "dy * jnp.sin(y) + x * jnp.cos(y) * dx\n", "dx and dy are exchanged"),
        (_JVP_RETURN + "dx * dy * jnp.cos(y)\n", "The tangents are multiplied with each other"),
        (_JVP_RETURN + "dx ** 2 + dy ** 2\n", "not linear in the tangents"),
        (_JVP + "    return dx * jnp.sin(y) + x * jnp.cos(y) * dy\n", "It returns a pair"),
        ("def sinmul_jvp(primals, tangents): return jvp(sinmul, primals, tangents)\n", "so it calls itself"),
        (_JVP_RETURN + "dx * jnp.sin(y) + x * jnp.cos(y)\n", "the other is the derivative by y, without"),
        (_JVP_RETURN + "jnp.sin(y) + x * jnp.cos(y) * dy\n", "the other is the derivative by x, without"),
        ("import math\n" + _JVP_RETURN + "dx * math.sin(y) + x * math.cos(y) * dy\n", "values of its arguments"),
        (_JVP_RETURN + "None\n", "of type NoneType; an array is expected"),
        (_JVP + "    return dx * jnp.sin(y) + x * jnp.cos(y) * dy, sinmul(x, y)\n", "The value comes first"),
        (
            "def sinmul_jvp(primals, tangents):\n    (x, y), (dx, dy) = primals, tangents\n"
            "    return sinmul(x, y), dx * jnp.sin(y) + x * jnp.cos(y) * dy\n",
            "gives an ad.Zero for dy",
        ),
        (_JVP_RETURN + "dx * np.sin(np.asarray(y)) + x * np.cos(np.asarray(y)) * dy\n", "to NumPy arrays"),
    ),
    "transpose-rule": (
        (_STEPS + "jnp.pad(ct, (1, 0)) - jnp.pad(ct, (0, 1))\n", "a list with one cotangent for each operand"),
        (_STEPS + "[jnp.pad(ct, (0, 1)) - jnp.pad(ct, (1, 0))]\n", "The signs are exchanged"),
        (_STEPS + "[jnp.pad(ct, (1, 0))]\n", "x[:-1] went into the result too"),
        (_STEPS + "[-jnp.pad(ct, (0, 1))]\n", "x[1:] went into the result too"),
        (_STEPS + "[jnp.pad(ct, (1, 0)) + jnp.pad(ct, (0, 1))]\n", "x[:-1] went in with a minus"),
        (_STEPS + "[jnp.append(ct, 0.0)]\n", "but it went into the result with a minus"),
        (_STEPS + "list(linear_transpose(steps, x.aval)(ct))\n", "the transpose of steps, so it calls itself"),
        (_STEPS + "[steps(ct)]\n", "steps once more, forwards"),
        (_STEPS + "[(jnp.pad(ct, (1, 0)) - jnp.pad(ct, (0, 1)))[::-1]]\n", "it does not turn the array round"),
        (_STEPS + "[2 * (jnp.pad(ct, (1, 0)) - jnp.pad(ct, (0, 1)))]\n", "<steps(t), ct> is 1.7, and <t, ct_x> is 3.4"),
        (_STEPS + "[x]\n", "of type UndefinedPrimal; an array is expected"),
        (_STEPS + "[jnp.sum(ct)]\n", "It must have the type of x"),
    ),
    "batching-rule": (
        (_BATCH + "jnp.sum(x * y), 0\n", "the examples have been added up too"),
        (_BATCH + "jnp.sum(x * y, axis=0), 0\n", "added up along the batch axis"),
        (_BATCH + "jnp.sum(x * y, axis=1)\n", "It returns a pair"),
        (_BATCH + "jnp.sum(x * y, axis=1), None\n", "It has one: which?"),
        (_BATCH + "jnp.sum(x * y, axis=1), 1\n", "has only axis 0"),
        ("def overlap_batch(args, dims): return vmap(overlap, dims)(*args), 0\n", "so it calls itself"),
        (_BATCH + "x * y, 0\n", "one number for each of 2 examples"),
        (
            "def overlap_batch(args, dims):\n    x, y = (jnp.moveaxis(v, d, 0) for v, d in zip(args, dims))\n"
            "    return jnp.sum(x * y, axis=1), 0\n",
            "None says that y is one vector",
        ),
        (
            "def overlap_batch(args, dims):\n    x, y = args\n    axis = 0 if 1 in dims else 1\n"
            "    return jnp.sum(x * y, axis=axis), 0\n",
            "differ here: move both to one place",
        ),
        (
            "def overlap_batch(args, dims):\n"
            "    x, y = (v if d is None else jnp.moveaxis(v, d, 0) for v, d in zip(args, dims))\n"
            "    return 2 * jnp.sum(x * y, axis=-1), 0\n",
            "vmap and a loop give different results",
        ),
    ),
    "compile-once": (
        (_STEP, "is weakly typed; the result of step"),
        (_TRAIN.format("jnp.zeros(())", 4, "step(w, total, 0.1 / (epoch + 1))"), "rate is a static argument"),
        ("def step(w, total, rate):\n    return w - rate * 2 * w, total + jnp.sum(w)\n", "Nothing was compiled"),
        (_STEP + _TRAIN.format("jnp.zeros(())", 3, "step(w, total, 0.1 / (epoch + 1))"), "An epoch is missing"),
        (_STEP + _TRAIN.format("jnp.zeros(())", 4, "step(w, total, 0.1)"), "The rate does not get smaller"),
        (
            _TRAIN.format(
                "jnp.zeros(())", 4, "jit(lambda w, t, r: (w - r * 2 * w, t + jnp.sum(w)))(w, total, 0.1 / (epoch + 1))"
            ),
            "make it once",
        ),
        (_STEP + _TRAIN.format("jnp.ones(())", 4, "step(w, total, 0.1 / (epoch + 1))"), "total begins at 0"),
        (_STEP + "def train(w):\n    return step(w, jnp.zeros(()), 0.1)[0]\n", "train returns (w, total)"),
        (
            _STEP + _TRAIN.format("jnp.zeros((), jnp.int32)", 4, "step(w, total, 0.1 / (epoch + 1))"),
            "another type after the first",
        ),
        (
            "@jit\n" + _TRAIN.format("jnp.zeros(())", 4, "step(w, total, 0.1 / (epoch + 1))"),
            "It compiled once, and was traced 5 times. rate is a static argument",
        ),
    ),
    "halve-the-peak": (
        ("@checkpoint\ndef loss(ws, x):\n    return jnp.sum(lax.scan(layer, x, ws)[0])\n", "around the whole loop"),
        (
            "def loss(ws, x):\n    keep = minijax.checkpoint_policies.everything_saveable\n"
            "    return jnp.sum(lax.scan(checkpoint(layer, policy=keep), x, ws)[0])\n",
            "leave the policy out",
        ),
        ("def loss(ws, x):\n    return jnp.sum(lax.scan(checkpoint(layer), x, ws[:-1])[0])\n", "A layer is missing"),
        (
            "def loss(ws, x):\n    return jnp.sum(lax.scan(layer, lax.stop_gradient(x), lax.stop_gradient(ws))[0])\n",
            "The gradient is zero",
        ),
        ("def loss(ws, x):\n    return jnp.mean(lax.scan(checkpoint(layer), x, ws)[0])\n", "That is the mean"),
        (
            "def loss(ws, x):\n    part = checkpoint(lambda x, w: jnp.sin(x * w))\n"
            "    return jnp.sum(lax.scan(lambda x, w: (jnp.sin(jnp.sin(jnp.sin(part(x, w)))), None), x, ws)[0])\n",
            "a part of the step only",
        ),
        (
            "def loss(ws, x):\n    ws, x = ws.astype(jnp.bfloat16), x.astype(jnp.bfloat16)\n"
            "    return jnp.sum(lax.scan(layer, x, ws)[0]).astype(jnp.float32)\n",
            "near, but not equal",
        ),
        ("def loss(ws, x):\n    return jnp.sum(lax.scan(layer, x, ws, unroll=2)[0])\n", "Nothing is recomputed yet"),
    ),
    "leaked-tracer": (
        ("suspect = 'shapes'", "shapes holds [(3,)]"),
        ("suspect = 'history'", "history holds arrays"),
        ("suspect = 'normalize'", "where the tracer was made"),
        ("suspect = 'scale'", "ended when normalize returned"),
        ("suspect = 'v'", "the argument of normalize"),
        ("suspect = 'cash'", "Did you mean cache?"),
        ("suspect = cache", "in quotes"),
        ("suspect = next(iter(cache.values()))", "suspect is the tracer itself"),
        ("suspect = ''", "still empty"),
    ),
    "first-nan": (
        ("culprit = 'mul'", "mul makes the first NaN"),
        ("culprit = 'div'", "part of the jvp rule of a primitive"),
        ("culprit = 'where'", "only chooses"),
        ("culprit = 'jnp.log'", "The log is of 1 + far"),
        ("culprit = 'integer_pow'", "passes it on"),
        ("culprit = 'distance'", "It is in distance, right"),
        ("culprit = 'slice'", "slice passes its values on"),
        ("culprit = 'tanh'", "not in the program of energy"),
        ("culprit = 'transpose rule of mul'", "The inf is older"),
        ("culprit = '-'", "its derivatives are 1 and -1"),
        ("culprit = jnp.sqrt", "in quotes"),
    ),
    "safe-where": (
        ("def norm(v):\n    return jnp.nan_to_num(jnp.sqrt(jnp.sum(v * v)))\n", "choosing afterwards is too late"),
        ("def norm(v):\n    return jnp.sqrt(jnp.sum(v * v) + 1e-12)\n", "Something small was added"),
        ("def norm(v):\n    s = jnp.sum(v * v)\n    return jnp.sqrt(s) if s > 0 else 0.0 * s\n", "a Python if"),
        (
            "def norm(v):\n    s = jnp.sum(v * v)\n    return jnp.sqrt(jnp.where(s > 0.0, s, 1.0))\n",
            "choose once more, after the root",
        ),
        ("def norm(v):\n    return jnp.sqrt(jnp.maximum(jnp.sum(v * v), 1e-30))\n", "or put in the place of 0"),
        ("def norm(v):\n    return jnp.sum(v * v)\n", "the square of the norm"),
        ("def norm(v):\n    return lax.stop_gradient(jnp.sqrt(jnp.sum(v * v)))\n", "The gradient is zero everywhere"),
        (
            "def norm(v):\n    s = jnp.sum(v * v)\n"
            "    return jnp.where(s > 0.0, jnp.sqrt(jnp.where(s > 0.0, s, 1.0)), jnp.sum(v))\n",
            "must not depend on v",
        ),
        ("def norm(v):\n    return jnp.sum(jnp.abs(v))\n", "norm itself must stay as it was"),
    ),
    "custom-vjp": (
        (_BWD + "(nn.sigmoid(x),)\n", "That does not depend on ct"),
        (_BWD + "ct * nn.sigmoid(x)\n", "It returns a tuple"),
        (_BWD + "(ct + nn.sigmoid(x),)\n", "ct is added"),
        (_BWD + "(ct * softplus(x),)\n", "ct times the value"),
        ("def softplus_bwd(ct, x): return (ct * nn.sigmoid(x),)\n", "The arguments are exchanged"),
        (_BWD + "(ct,)\n", "the derivative is missing"),
        (_BWD + "(ct * nn.sigmoid(-x),)\n", "the derivative of softplus(-x)"),
        (_BWD + "(ct * jnp.exp(x) / (1.0 + jnp.exp(x)),)\n", "does not overflow"),
        (_BWD + "(ct * nn.sigmoid(x), ct)\n", "softplus has one argument"),
        (_BWD + "(ct * jnp.exp(x),)\n", "exp(x) is the derivative of the log's argument"),
        ("def softplus_fwd(x):\n    return x, softplus(x)\n", "The value comes first"),
    ),
}
