"""Command lines for every row of the table, good and bad, with what each must say in every front end.

Each area's lines stand in a file of their own, which has the name of the commands' module of that area; those of
``rules`` and ``compare`` are in ``programs``, those of ``panels`` in ``recording``. Programs of the real JAX are an
area of their own.
"""

from tests.tools.lines import (
    backward,
    compile,
    debug,
    explain,
    export,
    gallery,
    live,
    origins,
    programs,
    real_jax,
    recording,
    run,
    session,
    shell,
    step,
    tour,
    transform,
    tree,
    values,
)

# What every session has run before: names the lines below use.
SETUP = (
    "import minijax",
    "import minijax.numpy as jnp",
    "from minijax import grad, jit, vmap",
    "def f(x): return jnp.sin(x) * 2.0 - x",
    "x = 3.0; v = jnp.arange(3.0)",
)

AREAS = {
    "transform": transform,
    "backward": backward,
    "compile": compile,
    "step": step,
    "tree": tree,
    "debug": debug,
    "values": values,
    "explain": explain,
    "origins": origins,
    "programs": programs,
    "live": live,
    "export": export,
    "gallery": gallery,
    "tour": tour,
    "recording": recording,
    "session": session,
    "run": run,
    "shell": shell,
    "real_jax": real_jax,
}

# area -> (line, texts that the output must hold), in the order in which one session runs them
STORIES = {name: area.GOOD for name, area in AREAS.items()}

GOOD = tuple(row for area in AREAS.values() for row in area.GOOD)

# (line, what the usage error must say)
BAD = tuple(row for area in AREAS.values() for row in area.BAD)
