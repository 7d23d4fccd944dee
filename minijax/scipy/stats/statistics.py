"""Statistics of samples: standard errors, the most frequent elements, ranks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from minijax import api, lax
from minijax import numpy as jnp
from minijax.api.inner import inner_jit
from minijax.numpy.promotion import canonical_axes, canonical_axis, ensure, promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["mode", "rankdata", "sem"]


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


def _check_nan_policy(name: str, nan_policy: str) -> None:
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"{name}: nan_policy is 'propagate', 'omit' or 'raise', not {nan_policy!r}.")
    if nan_policy != "propagate":
        raise NotImplementedError(f"{name}: nan_policy={nan_policy!r} is not implemented, only 'propagate' is.")


class ModeResult(NamedTuple):
    """What ``mode`` returns."""

    mode: Any
    count: Any


@inner_jit(static_argnames=("axis", "nan_policy", "keepdims"))
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent element along ``axis``, the least of several, and how often it occurs.

    Of nothing it is nan. ValueError for an unknown ``nan_policy``, NotImplementedError for others than 'propagate'.
    """
    x = jnp.atleast_1d(ensure("mode", a))
    _check_nan_policy("mode", nan_policy)
    if axis is None:
        shape: tuple[int, ...] = (1,) * x.ndim if keepdims else ()
        x = x.ravel()
        axis = 0
    else:
        axis = canonical_axis(axis, x.ndim)
        shape = x.shape[:axis] + (1,) * keepdims + x.shape[axis + 1 :]
    x = jnp.moveaxis(x, axis, 0)
    x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    found, count = api.vmap(_most_frequent, in_axes=1)(x)
    return ModeResult(found.reshape(shape), count.reshape(shape))


def _most_frequent(x: Any) -> tuple[Any, Any]:
    if not x.size:
        dtype = jnp.result_type(float)
        return jnp.array(math.nan, dtype), jnp.array(0, dtype)
    values, counts = jnp.unique(x, return_counts=True, size=x.size)
    return values[jnp.argmax(counts)], counts.max()


_METHODS = ("average", "min", "max", "dense", "ordinal")


@inner_jit(static_argnames=("method", "axis", "nan_policy"))
def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Any:
    """The rank of each element along ``axis``, from 1 on; of the flattened array if ``axis`` is None.

    Args:
      method: what equal elements get: the 'average', the least ('min') or the largest ('max') of their ranks, or their
        order ('ordinal'); with 'dense', the number of distinct elements up to them.
      nan_policy: 'propagate': with a nan, all ranks are nan.

    ValueError for other words, NotImplementedError for other policies.
    """
    a = ensure("rankdata", a)
    _check_nan_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ValueError(f"rankdata: method is one of {_METHODS}, not {method!r}.")
    if axis is not None:
        return jnp.apply_along_axis(lambda x: rankdata(x, method), axis, a)
    a = jnp.ravel(a)
    has_nan = jnp.any(lax.ne(a, a))
    return lax.cond(has_nan, lambda x: jnp.full(x.shape, math.nan), lambda x: _ranks(x, method), a)


def _ranks(a: Any, method: str) -> Any:
    count = a.size
    ordered, order = lax.sort_key_val(a, lax.iota(np.int32, count))
    places = jnp.zeros(count, int).at[order].set(jnp.arange(count))
    if method == "ordinal":
        return (places + 1).astype(float)
    first = jnp.concatenate([np.array([True]), ordered[1:] != ordered[:-1]])
    dense = jnp.cumsum(first, 0)[places]
    if method == "dense":
        return dense.astype(float)
    # where each run of equal elements begins, and the end
    (starts,) = jnp.nonzero(first, size=count + 1, fill_value=count)
    starts = starts.astype(float)
    if method == "max":
        return starts[dense]
    if method == "min":
        return starts[dense - 1] + 1
    return 0.5 * (starts[dense] + starts[dense - 1] + 1)
