"""Between minijax and the real JAX: programs of one on the other.

``from_jax`` makes a function that was written for JAX one of minijax, ``to_jax`` one of minijax a function that JAX can
transform. jax is imported when the first such is called.
``replacing_jax`` is a block in which packages are imported that were written for JAX, to run here as they stand.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # see _MODULES
    from minijax.interop.exported import to_jax
    from minijax.interop.functions import from_jax
    from minijax.interop.replaced import replacing_jax

__all__ = ["from_jax", "replacing_jax", "to_jax"]

# What gives each name, imported when it is asked for: every session has this package, few programs are JAX's.
_MODULES = {"from_jax": "functions", "replacing_jax": "replaced", "to_jax": "exported"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
