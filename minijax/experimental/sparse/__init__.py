"""``minijax.experimental.sparse``: arrays of which only some elements are stored.

The classes are minijax's; what is computed with them is borrowed from JAX (see ``sparse.arrays``). The older formats
``COO``, ``CSR`` and ``CSC``, which JAX keeps for single matrices, are not here.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from minijax.experimental.sparse.arrays import BCOO, BCSR, JAXSparse, borrowed, to_jaxs, to_ours
from minijax.interop.exported import to_jax
from minijax.interop.functions import from_jax
from minijax.interop.values import jax_module

__all__ = ["BCOO", "BCSR", "JAXSparse", "empty", "eye", "random_bcoo", "sparsify", "todense"]

_FUNCTIONS = ("empty", "eye", "random_bcoo", "todense")


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """``f``, a function of arrays, as one that takes sparse arrays too, and computes with what is stored of them.

    ``f`` is staged for arrays of their shapes; of its operations those that JAX has a rule for are done on what is
    stored. NotImplementedError for another operation on a sparse array. ``use_tracer`` is JAX's choice between two ways
    to do the same.
    """
    sparse = from_jax(jax_module("experimental.sparse").sparsify(to_jax(f)))

    @functools.wraps(f)
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        return to_ours(sparse(*to_jaxs(args), **to_jaxs(kwargs)))

    return sparsified


def __getattr__(name: str) -> Any:
    """JAX's functions of these arrays."""
    if name == "linalg":
        return importlib.import_module(f"{__name__}.linalg")
    is_function = name in _FUNCTIONS or (name.startswith(("bcoo_", "bcsr_")) and not name.endswith("_p"))
    theirs = getattr(jax_module("experimental.sparse"), name, None) if is_function else None
    if theirs is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = globals()[name] = borrowed(theirs, name)
    return found
