"""Move programs between minijax and the real JAX.

``from_jax`` turns a function written for JAX into one of minijax; ``to_jax`` turns a function of minijax into one that
JAX can transform. The first call of such a function imports jax. Inside ``with replacing_jax():``, import statements
load unchanged packages that were written for JAX, and the packages run on minijax.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # see _MODULES
    from minijax.interop.exported import to_jax
    from minijax.interop.functions import from_jax
    from minijax.interop.replaced import replacing_jax

__all__ = ["from_jax", "replacing_jax", "to_jax"]

# The module of each public name, imported on first use: few programs need them.
_MODULES = {"from_jax": "functions", "replacing_jax": "replaced", "to_jax": "exported"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
