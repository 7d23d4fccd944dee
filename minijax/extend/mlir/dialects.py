"""MLIR's dialects under JAX's names, loaded on first use: ``stablehlo`` (also as ``hlo``), ``func``, ..."""

from typing import Any

from minijax.lowering import bindings

__all__ = [*bindings.DIALECTS, "hlo"]  # noqa: F822  (see __getattr__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return bindings.dialect("stablehlo" if name == "hlo" else name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
