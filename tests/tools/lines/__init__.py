"""Good and bad lines for every command, with texts that every front end must show.

The module of each area has the same name as the module of its commands. But the lines of ``rules`` and ``compare`` are
in ``programs``, the lines of ``panels`` are in ``recording``, and programs of the real JAX have their own area.
"""

from importlib import import_module

# Every session runs these lines first. They define the names that the other lines use.
SETUP = (
    "import minijax",
    "import minijax.numpy as jnp",
    "from minijax import grad, jit, vmap",
    "def f(x): return jnp.sin(x) * 2.0 - x",
    "x = 3.0; v = jnp.arange(3.0)",
)

NAMES = (
    "transform backward compile step tree debug values explain origins programs live export gallery tour recording "
    "session run shell real_jax"
)
AREAS = {name: import_module(f"{__name__}.{name}") for name in NAMES.split()}

# area -> rows (line, texts that the output must hold), in the order in which one session runs them
STORIES = {name: area.GOOD for name, area in AREAS.items()}

GOOD = tuple(row for area in AREAS.values() for row in area.GOOD)

# rows (line, text of the usage error)
BAD = tuple(row for area in AREAS.values() for row in area.BAD)
