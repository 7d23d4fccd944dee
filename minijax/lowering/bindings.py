"""MLIR's Python bindings, for lowering rules of extension authors; our own rules write text.

They come from jaxlib, like those in ``jax.extend.mlir``. Importing this part of jaxlib takes 0.15 s; importing jax
takes 0.8 s. Nothing is imported before the first use.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# the modules of ``jax.extend.mlir.dialects``
DIALECTS = ("arith", "builtin", "chlo", "func", "math", "memref", "scf", "sdy", "sparse_tensor", "stablehlo", "vector")


def ir() -> Any:
    """The module ``jaxlib.mlir.ir``: contexts, types, attributes, values."""
    # the flags of XLA are read once, when jaxlib is loaded: see ``backend.client``
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    return importlib.import_module("jaxlib.mlir.ir")


def dialect(name: str) -> Any:
    """The module of the operations of the dialect ``name``; AttributeError if it is not one of ``DIALECTS``."""
    if name not in DIALECTS:
        raise AttributeError(f"there is no MLIR dialect {name!r} here; the dialects are {', '.join(DIALECTS)}")
    ir()
    return importlib.import_module(f"jaxlib.mlir.dialects.{name}")


def make_context() -> Any:
    """A new MLIR context with the dialects of XLA programs."""
    mlir = ir()
    extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = mlir.DialectRegistry()
    extension.register_dialects(registry)
    context = mlir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("sdy", "chlo", "stablehlo"):
        dialect(name).register_dialect(context)
    return context
