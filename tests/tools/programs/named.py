"""Programs whose operations have names: a program for each way to assign a value to a variable, and one for each kind
of construct in the engine.

Their golden texts are in tests/golden/names, without line numbers. Compare the names with the source in this file.
"""

# ruff: noqa: F841 - variables that no code reads have names too

from inspect import isfunction, signature
from types import ModuleType, SimpleNamespace

import minijax
import minijax.numpy as jnp
from minijax import lax
from minijax.tools.recording.naming import Naming, operations
from minijax.tools.recording.recorder import Recorder
from minijax.tools.recording.records import place_parts

SCALE = jnp.float32(2.0)
WEIGHTS = {"w": jnp.ones((2, 2)), "b": [jnp.zeros(2)]}
settings = ModuleType("settings")
settings.data = ModuleType("settings.data")
settings.data.xs = jnp.ones((3, 2))
settings.plan = SimpleNamespace(rate=jnp.float32(0.1))


def with_custom_jvp():
    @minijax.custom_jvp
    def log1pexp(x):
        e = jnp.exp(x)
        return jnp.log(1.0 + e)

    @log1pexp.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        slope = 1.0 - 1.0 / (1.0 + jnp.exp(x))
        return log1pexp(x), slope * t

    g = minijax.grad(lambda v: log1pexp(v) * 2.0)(jnp.float32(0.5))


def with_custom_vjp():
    @minijax.custom_vjp
    def clipped(x):
        return x

    def forward(x):
        return x, x > 0.0

    def backward(positive, ct):
        kept = jnp.where(positive, ct, 0.0)
        return (kept,)

    clipped.defvjp(forward, backward)
    g = minijax.grad(lambda x: clipped(jnp.sin(x)) * 2.0)(jnp.float32(2.0))


def staged_alone():
    def f(x, table):
        picked = table[2]
        rows = table[:, None] * x
        return rows.sum() + picked

    minijax.make_jaxpr(f)(1.0, jnp.arange(4.0))


class Model:
    def __init__(self):
        self.w = jnp.full(2, 0.5)
        self.h = jnp.zeros(2)

    def __call__(self, x):
        self.h = jnp.tanh(self.w * self.h + x)
        return self.h.sum()


def model_with_state():
    model = Model()
    for x in (1.0, 2.0):
        out = model(x)


def closures_and_globals():
    rate = jnp.float32(0.3)

    def outer(x):
        shift = x * SCALE

        def inner(y):
            return y * rate + shift

        return inner(shift)

    minijax.vmap(outer)(jnp.arange(2.0))


def variables_of_modules():
    def affine(inputs):
        rate = settings.plan.rate
        return inputs @ WEIGHTS["w"] * rate + WEIGHTS["b"][0]

    def loss(scale):
        return sum(jnp.sum(affine(each)) for each in [settings.data.xs]) * scale * SCALE

    minijax.grad(loss)(1.0)


def rebinding():
    x = jnp.float32(1.0)
    alias = x
    for _ in range(2):
        x = jnp.sin(x)
        y = jnp.cos(x) * jnp.cos(x)
    alias += y
    kept = [jnp.mean(x * i) for i in (1.0, 2.0)]
    return kept[0] - sum(kept)


def arguments(*args, scale=1.0, **others):
    a, b = args
    (c, d), e = (a + b, a - b), others["z"] * scale
    return c * d * e


def all_kinds_of_arguments():
    one, two, three = jnp.float32(1.0), jnp.float32(2.0), jnp.float32(3.0)
    minijax.jvp(lambda x: arguments(x, two, scale=x, z=three), (one,), (one,))


def doubled(function):
    def wrapper(*args):
        result = function(*args)
        return result * 2.0

    return wrapper


@doubled
def decorated(x):
    return x + 1.0


def generators_and_decorators():
    def powers(x):
        power = x
        while True:
            yield power
            power = power * x

    steps = powers(jnp.float32(2.0))
    total = next(steps) + next(steps)
    total = total - decorated(next(steps))


def error_inside():
    def loss(w, x):
        h = jnp.tanh(x * w)
        try:
            failed = jnp.exp(h)
            jnp.dot(failed, jnp.ones(3))
        except TypeError:
            h = jnp.cos(failed)
        scaled = h * 3.0
        return jnp.dot(scaled, jnp.ones(4))

    minijax.grad(loss)(jnp.ones(2), jnp.ones(2))


def written_for_jax():
    import jax

    def energy(q, p):
        kinetic = jax.numpy.sum(p**2) / 2
        return kinetic + jax.numpy.sum(jax.lax.map(lambda x: jax.nn.relu(x) ** 2, q))

    def leapfrog(q, p):
        force = -jax.grad(energy)(q, p)
        p = p + 0.1 * force
        return q + 0.1 * p, p

    from minijax.interop import from_jax

    q, p = from_jax(leapfrog)(jnp.ones(2), jnp.zeros(2))
    total = q + p


PROGRAMS = {name: each for name, each in vars().items() if isfunction(each) and not signature(each).parameters}


def named_operations(program):
    """The source lines of ``program``, each followed by its operations with their names."""
    recorder = Recorder("full", program.__name__, True)
    error = ""
    try:
        with recorder:
            program()
    except TypeError as raised:
        error = type(raised).__name__
    recording = recorder.recording
    naming = Naming(recording)
    lines = []
    last = ""
    for bind, _ in operations(recording):
        if not bind.expression:
            continue  # no source: the engine evaluated an equation
        if bind.place != last:
            last = bind.place
            file, line, function = place_parts(last)
            lines.append(f"{(recording.source_line(file, line) or '').strip()}    # {function}")
        held = naming.assigned(bind)
        called = ", ".join(map(naming.name, bind.results))
        results = f"  # {called}" if called != held and not bind.error else ""
        lines.append(f"    {bind.level}  {naming.operation(bind)}{results}{'  raised' if bind.error else ''}")
    return "\n".join(lines + [error] * bool(error))


def _layer(z, w, b):
    return jnp.tanh(z @ w + b)


def _predict(params, x):
    for w, b in params:
        x = _layer(x, w, b)
    return x


def _loss(params, x):
    error = _predict(params, x) - 1.0
    return jnp.mean(error**2)


def _recurrent(w, xs):
    @minijax.jit
    def cell(h, x):
        h = jnp.tanh(w * h + x)
        return h, h

    last, states = lax.scan(cell, jnp.zeros(2), xs)
    return last + states.sum(0)


_PARAMS = [(jnp.ones((3, 4)), jnp.zeros(4)), (jnp.ones((4, 2)), jnp.zeros(2))]
# name -> (function to stage, its arguments)
STAGED = {
    "gradient of mlp": (minijax.grad(_loss), (_PARAMS, jnp.ones(3))),
    "scan of jit": (_recurrent, (jnp.float32(0.5), jnp.ones((3, 2)))),
}
