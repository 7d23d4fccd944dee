"""``minijax.ad_checkpoint``: JAX's names around ``checkpoint`` (https://docs.jax.dev/en/latest/jax.checkpoint.html)."""

from __future__ import annotations

from minijax.api.checkpoint import (
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    print_saved_residuals,
    remat,
    saved_residuals,
)
from minijax.interpreters.recompute import Offloadable, Recompute, Saveable

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
