"""Small programs as users of real libraries write them, one file per family of libraries.

Each is a function with an ``example`` of its arguments. Tests read the functions' names from the text of the files and
do not import the libraries, which ``pip install -e '.[test-ecosystem]'`` installs.
"""

import ast
from pathlib import Path

# file -> the libraries that it imports
NEEDS = {
    "decisions": ("rlax", "mctx", "ott", "e3nn_jax"),
    "distributions": ("distrax",),
    "equinox": ("equinox",),
    "flax": ("flax",),
    "haiku": ("haiku",),
    "jaxopt": ("jaxopt",),
    "kidger": ("diffrax", "lineax", "optimistix"),
    "optax": ("optax",),
    "probability": ("tinygp", "numpyro", "blackjax"),
    "pure": (),
}


def programs(file: str) -> list[str]:
    """The functions of a file that ``example`` decorates."""
    written = ast.parse(Path(__file__).with_name(f"{file}.py").read_text(encoding="utf-8")).body
    functions = [each for each in written if isinstance(each, ast.FunctionDef)]
    return [each.name for each in functions if any("id='example'" in ast.dump(by) for by in each.decorator_list)]


ALL = tuple(f"{file}.{name}" for file in NEEDS for name in programs(file))

# Programs whose libraries do not work if their imports of JAX import minijax instead.
NOT_REPLACED = (
    "flax.linen_lstm",
    "flax.nnx_model",
    "jaxopt.lbfgs",
    "jaxopt.projected_gradient",
    "kidger.ode",
    "kidger.sde",
    "kidger.root",
    "kidger.least_squares",
)
