"""Statistics of samples."""

from __future__ import annotations

import math
from typing import Any

from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.numpy.promotion import canonical_axes, promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["sem"]


@inner_jit(static_argnames=("axis", "nan_policy", "keepdims"))
def sem(
    a: Any, axis: int | None = 0, ddof: Any = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """The standard error of the mean along ``axis``: the standard deviation over the root of the number.

    ``nan_policy`` is 'propagate', or 'omit' to leave NaNs out; ValueError for other words.
    """
    (x,) = promote("sem", a, to=INEXACT)
    if nan_policy == "propagate":
        count = math.prod(x.shape[i] for i in canonical_axes(axis, x.ndim))
        return jnp.std(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count).astype(x.dtype)
    if nan_policy != "omit":
        raise ValueError(f"sem: nan_policy is 'propagate' or 'omit', not {nan_policy!r}.")
    found = jnp.sum(~jnp.isnan(x), axis, keepdims=keepdims)
    return jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(found.astype(x.dtype))
