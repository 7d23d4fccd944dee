"""The first names at a prompt: JAX's public names, and elementary functions as in the tutorial "Autodidax".

Source of ``FUNCTIONS``: https://docs.jax.dev/en/latest/autodidax.html
"""

from __future__ import annotations

import builtins
import re
from types import ModuleType
from typing import Any

import numpy as np

from minijax import lax
from minijax import numpy as jnp
from minijax.core.borrowing import names_of
from minijax.core.lazy import HigherModule
from minijax.tools.session.lent import names_in

_public = HigherModule("public_names")
_WORD = re.compile(r"[^\W\d]\w*")
_BARE = re.compile(r"(?<![\w.])[^\W\d]\w*")

# A prompt defines these names of ``minijax``, except names that this version lacks (a test lists them).
NAMES = tuple(
    (
        "jit grad value_and_grad jvp vjp linearize linear_transpose vmap pmap jacfwd jacrev hessian make_jaxpr "
        "eval_shape checkpoint custom_jvp custom_vjp closure_convert pure_callback debug named_scope devices "
        "block_until_ready device_put device_get stop_gradient random nn tree_util enable_x64 Array ShapeDtypeStruct"
    ).split()
)

# name at the prompt -> name in ``minijax.numpy``: these functions take Python scalars and mixed types
FUNCTIONS = {name: name for name in "sin cos tan exp log sinh cosh tanh sqrt add greater less transpose".split()} | {
    "neg": "negative",
    "mul": "multiply",
    "reduce_sum": "sum",
    "reduce_max": "max",
}


def initial_names(imported_only: bool = False) -> dict[str, Any]:
    """The names that a new session defines. ``imported_only`` leaves out names that are not imported yet."""
    minijax = _public.load()

    def has(module: Any, name: str) -> bool:
        return name in vars(module) if imported_only else hasattr(module, name)

    names: dict[str, Any] = {"minijax": minijax, "jnp": jnp, "np": np, "lax": lax}
    names.update((name, getattr(minijax, name)) for name in NAMES if has(minijax, name))
    names.update((name, getattr(jnp, actual)) for name, actual in FUNCTIONS.items())
    # every name of ``minijax.numpy``, except single letters and names of builtins; names set above stay
    own = vars(jnp)
    public = [name for name, x in own.items() if type(x) is not ModuleType] if imported_only else jnp.__all__
    for name in public:
        if name in own and len(name) > 1 and name[0] != "_" and not hasattr(builtins, name):
            names.setdefault(name, own[name])
    return names


def names_read(code: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """The prompt's names that ``code`` reads and ``namespace`` lacks. This call imports or borrows their values."""
    minijax = _public.load()
    unknown = {word for word in _WORD.findall(code) if word not in namespace and not hasattr(builtins, word)}
    if unknown.isdisjoint([*NAMES, *names_of("minijax.numpy")]):
        return {}
    read, assigned = _read_and_assigned(code)
    read &= unknown
    found = {name: getattr(minijax, name) for name in read & {*NAMES} if hasattr(minijax, name)}
    # borrowing a function imports jax: do not borrow one whose name the code assigns
    functions = read & {*names_of("minijax.numpy")} - assigned - found.keys()
    return found | {name: getattr(jnp, name) for name in functions if len(name) > 1}


def _read_and_assigned(code: str) -> tuple[set[str], set[str]]:
    """The names that ``code`` reads and those that it assigns. In a command, all words but attributes count as read."""
    try:
        own, read = names_in(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(_BARE.findall(code)), set()
    return {*read}, {*own}
