"""Convolution and correlation of vectors, by ``conv_general_dilated``."""

from __future__ import annotations

from typing import Any

from minijax import lax
from minijax.api.inner import inner_jit
from minijax.numpy.manipulation import flip
from minijax.numpy.promotion import ensure, promote_dtypes, user_dtype
from minijax.numpy.ufuncs import INEXACT, conj

__all__ = ["convolve", "correlate"]


@inner_jit(static_argnames=("mode", "op", "precision", "preferred_element_type"))
def _conv(x: Any, y: Any, mode: str, op: str, precision: Any, preferred_element_type: Any) -> Any:
    x, y = ensure(op, x, y)
    if x.aval.ndim != 1 or y.aval.ndim != 1:
        raise ValueError(f"{op}() only support 1-dimensional inputs.")
    if preferred_element_type is None:
        # integers are convolved exactly only in a wide type, so they become floats, as in JAX
        x, y = promote_dtypes(x, y, to=INEXACT)
        wanted = None
    else:
        x, y = promote_dtypes(x, y)
        wanted = user_dtype(preferred_element_type, op)
    if not x.aval.size or not y.aval.size:
        raise ValueError(f"{op}: inputs cannot be empty, got shapes {x.aval.shape} and {y.aval.shape}.")
    turned = False
    if op == "correlate":
        y = conj(y)
    if x.aval.size < y.aval.size:
        x, y = y, x
        turned = op == "correlate"
    if op == "convolve":
        y = flip(y)
    size = y.aval.size
    if mode == "valid":
        padding = [(0, 0)]
    elif mode == "same":
        padding = [(size // 2, size - size // 2 - 1)]
    elif mode == "full":
        padding = [(size - 1, size - 1)]
    else:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    found = lax.conv_general_dilated(
        lax.expand_dims(x, (0, 1)),
        lax.expand_dims(y, (0, 1)),
        (1,),
        padding,
        precision=precision,
        preferred_element_type=wanted,
    )
    return lax.squeeze(lax.rev(found, (2,)) if turned else found, (0, 1))


@inner_jit(static_argnames=("mode", "precision", "preferred_element_type"))
def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sums of ``a[k] * v[n - k]`` over k, of two vectors, as floats.

    ``mode``: 'full' for all n where they meet, 'same' for as many as the longer vector has, 'valid' where the shorter
    lies within it. Raises ValueError for what is no vector, or empty.
    """
    return _conv(a, v, mode=mode, op="convolve", precision=precision, preferred_element_type=preferred_element_type)


@inner_jit(static_argnames=("mode", "precision", "preferred_element_type"))
def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The sums of ``a[n + k] * conj(v[k])`` over k, of two vectors, as floats; see ``convolve``."""
    return _conv(a, v, mode=mode, op="correlate", precision=precision, preferred_element_type=preferred_element_type)
