"""Programs that compute with the real JAX, under every command that watches one: see the package."""

from __future__ import annotations

# below every answer
CARRIED = "carried over from JAX"

GOOD: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("import jax, jax.numpy as rnp, jax.scipy.special", ()),
    ("w = rnp.arange(1.0, 4.0); params = {'w': w, 'b': rnp.float32(1.0)}", ()),
    ("def log(x): return rnp.log(x)", ()),
    ("def loss(p, x): return rnp.sum((rnp.dot(p['w'], x) + p['b']) ** 2)", ()),
    ("fast = jax.jit(lambda x: rnp.sin(x) * 2.0)", ()),
    ("%nan log(w - 2.0)", ("first NaN made by log (forward)", "(log)", "at [0]: -1", CARRIED)),
    ("%nan loss(params, w) --grad", ("nothing: no operation of loss(params, w)", CARRIED)),
    ("%compare loss(params, w)", ("the same, to the last bit", "the same · 4 equations", "jax", CARRIED)),
    ("%compare jax.random.split(jax.random.key(3))", ("key<fry>", "the same, to the last bit", "random_split")),
    ("%compare jax.scipy.special.hyp1f1(1.5, 2.5, w)", ("kept whole", "jax.scipy.special.hyp1f1")),
    ("%step jax.grad(loss)(params, w) --text", ("linearize:1 begins for loss", "transpose rule of mul", CARRIED)),
    ("%values jax.grad(loss)(params, w)", ("cotangent", "p['w']", "[1.0, 2.0, 3.0]", "[30.0, 60.0, 90.0]", CARRIED)),
    ("%values fast(w) --retrace", ("[0.841471, 0.9092974, 0.1411200]"[:20], CARRIED)),
    ("%log fast(3.0)", ("staging cache of <lambda>: miss: first call", "0.28224", CARRIED)),
    ("%graph loss(params, w)", ("p['w']", "dot_general", CARRIED)),
    ("%diff log(3.0) --by grad", ("backward pass", "2 equations", CARRIED)),
    ("%hlo fast(w)", ("stablehlo.sine", "flops", CARRIED)),
    ("%time log(3.0)", ("trace", "jax", "eager", CARRIED)),
    ("%grad loss(params, w)", ("'b': Array(30., dtype=float32)", CARRIED)),
    ("%jaxpr loss(params, f32[3])", ("dot_general", "integer_pow", CARRIED)),
    ("%jaxpr jax.grad(log)(w.sum())", ("div 1.0:f32[] a", CARRIED)),
    ("%%jaxpr x=f32[3]\nrnp.sin(x) * w\n", ("sin b", CARRIED)),
    ("%jit fast(w)", ("hit <lambda>", "a call, the best of", CARRIED)),
    ("%jvp log(2.0)", ("tangent", "0.5", CARRIED)),
    ("%vmap log(w)", ("mapped", "f32[3], axis 0", CARRIED)),
    ("%check jax.nn.relu", ("relu at f32[3]", CARRIED)),
    ("fast(w)", ("1.6829419",)),
    ("%why", ("<lambda> was traced (jax)", "JAX had not seen this function before")),
    ("fast(w[:2])", ()),
    ("%why", ("x: f32[3] became f32[2]",)),
    ("%shards w", ("w · f32[3] on 1 device", "12 B on each device", "CPU 0")),
    ("%shards params", ("['b']", "f32[]", "['w']", "all of it on one")),
    ("apart = jax.device_put(w[:2], jax.NamedSharding(jax.make_mesh((1,), ('i',)), jax.P('i')))", ()),
    ("%shards apart", ("f32[2] on 1 device", "P('i',) over a mesh of i=1", "8 B on each device")),
    ("%why fast(w)", ("whether JAX would trace this call of fast",)),
    # what cannot be watched
    ("def hidden(x): return getattr(__import__('j' + 'ax').numpy, 's' + 'in')(x)", ()),
    ("%jaxpr hidden(2.0)", ("TypeError", "Call minijax.interop.from_jax(hidden)")),
)

BAD: tuple[tuple[str, str], ...] = ()
