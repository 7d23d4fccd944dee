"""``dot_product_attention``: the weighted means of values, weighted by how queries agree with keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijax import api, lax
from minijax import numpy as jnp
from minijax.core import dtypes
from minijax.core.avals import dtype_name
from minijax.core.named import NamedTuple
from minijax.nn.functions import logsumexp, softmax

__all__ = ["dot_product_attention"]

_BOOL, _FLOAT32, _INT32 = np.dtype(bool), np.dtype(np.float32), np.dtype(np.int32)


class _Masking(NamedTuple):
    """Which keys a query may see: by position, by the lengths of the sequences, in a window around itself."""

    is_causal: bool
    query_lengths: Any
    key_lengths: Any
    window: tuple[int, int] | None


def _causal(queries: int, keys: int) -> Any:
    return jnp.tril(jnp.ones((queries, keys), _BOOL))[None, None]


def _window(queries: int, keys: int, window: tuple[int, int]) -> Any:
    left, right = window
    query, key = jnp.array(np.arange(queries)), jnp.array(np.arange(keys))
    not_before = query[..., None] <= key[None] + left
    return ((query[..., None] >= key[None] - right) & not_before)[None, None]


def _masked(logits: Any, mask: Any, masking: _Masking) -> Any:
    """``logits`` (B, N, T, S), very negative where a key may not be seen."""
    is_causal, query_lengths, key_lengths, window = masking
    if mask is None and not is_causal and query_lengths is None and key_lengths is None and window is None:
        return logits
    queries, keys = logits.shape[-2:]
    allowed = jnp.ones_like(logits, dtype=_BOOL)
    if mask is not None:
        allowed = jnp.logical_and(allowed, mask)
    if is_causal:
        allowed = jnp.logical_and(allowed, _causal(queries, keys))
    if window is not None:
        allowed = jnp.logical_and(allowed, _window(queries, keys, window))
    if query_lengths is not None or key_lengths is not None:
        query_inside = key_inside = True
        if query_lengths is not None:
            query_inside = jnp.arange(queries, dtype=_INT32)[None, :, None] < query_lengths[:, None, None]
        if key_lengths is not None:
            key_inside = jnp.arange(keys, dtype=_INT32)[None, None] < key_lengths[:, None, None]
        allowed = jnp.logical_and(allowed, jnp.logical_and(query_inside, key_inside)[:, None])
    lowest = jnp.asarray(-0.7 * dtypes.finfo(logits.dtype).max, dtype=logits.dtype)
    return jnp.where(allowed, logits, lowest)


def _attend(query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: float, masking: _Masking) -> tuple[Any, Any]:
    """One group of heads: (B, T, N, H), and the logarithms of the weights' sums, (B, T, N)."""
    wide = jnp.promote_types(query.dtype, _FLOAT32)
    narrow = query.dtype == key.dtype == jnp.bfloat16
    precision = lax.DotAlgorithmPreset.BF16_BF16_F32 if narrow else None
    logits = jnp.einsum("BTNH,BSNH->BNTS", query, key, precision=precision, preferred_element_type=wide)
    logits *= jnp.array(scale, dtype=logits.dtype)
    if bias is not None:
        logits = (logits + bias).astype(logits.dtype)
    logits = _masked(logits, mask, masking)
    weights = softmax(logits.astype(_FLOAT32), axis=-1).astype(key.dtype)
    encoded = jnp.einsum("BNTS,BSNH->BTNH", weights, value)
    if masking.query_lengths is not None:
        inside = jnp.arange(encoded.shape[1], dtype=_INT32)[None] < masking.query_lengths[:, None]
        encoded *= inside[..., None, None].astype(encoded.dtype)
    return encoded, logits


def _by_group(x: Any, heads: int, key_heads: int) -> Any:
    """A bias or mask (B, N, T, S) with the heads of N in two axes: which keys, and which of their queries."""
    if x is None:
        return None
    groups = heads // key_heads
    if x.shape[1] == heads:
        return x.reshape((x.shape[0], key_heads, groups, *x.shape[2:]))
    own = x[:, :, None]
    return own if groups == 1 else jnp.broadcast_to(own, (*own.shape[:2], groups, *own.shape[3:]))


def _grouped(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: float, masking: _Masking, logs: bool
) -> Any:
    """Several query heads share a head of keys and values: each group of heads with itself."""
    batch, queries, heads, size = query.shape
    key_heads = key.shape[2]
    query = query.reshape((batch, queries, key_heads, heads // key_heads, size))
    axes = (3, None, None, None if bias is None else 2, None if mask is None else 2)

    def attend(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
        encoded, logits = _attend(query, key, value, bias, mask, scale, masking)
        if not logs:
            return encoded
        return encoded, lax.stop_gradient(jnp.moveaxis(logsumexp(logits, axis=-1), 1, 2))

    out_axes = (3, 3) if logs else 3
    by_group = [_by_group(x, heads, key_heads) for x in (bias, mask)]
    out = api.vmap(attend, in_axes=axes, out_axes=out_axes)(query, key, value, *by_group)
    if not logs:
        return out.reshape((batch, queries, heads, size))
    return out[0].reshape((batch, queries, heads, size)), out[1].reshape((batch, queries, heads))


def _check(x: Any, name: str, shape: Sequence[int | None], dtype: Any) -> None:
    if len(x.shape) != len(shape) or any(s is not None and s != own for s, own in zip(shape, x.shape, strict=True)):
        wanted = ", ".join("any" if s is None else str(s) for s in shape)
        raise ValueError(f"dot_product_attention: {name} should be of shape ({wanted}), and is of shape {x.shape}.")
    if x.dtype != dtype:
        raise ValueError(
            f"dot_product_attention: {name} should be of type {dtype_name(dtype)}, not {dtype_name(x.dtype)}."
        )


def _check_all(query: Any, key: Any, value: Any, bias: Any, mask: Any, query_lengths: Any, key_lengths: Any) -> None:
    batch, keys, key_heads, size = key.shape
    queries, heads = query.shape[1:3]
    _check(value, "value", (batch, keys, key_heads, size), key.dtype)
    _check(query, "query", (batch, None, None, size), key.dtype)
    if heads % key_heads:
        raise ValueError(f"dot_product_attention: {heads} query heads are no multiple of {key_heads} key heads.")
    for name, x in (("bias", bias), ("mask", mask)):
        sizes = () if x is None else zip(x.shape, (batch, heads, queries, keys), strict=True)
        if any(own not in (1, full) for own, full in sizes):
            raise ValueError(f"dot_product_attention: {name} of shape {x.shape} does not broadcast to (B, N, T, S).")
    if mask is not None:
        _check(mask, "mask", (None,) * 4, _BOOL)
    for name, x in (("query_seq_lengths", query_lengths), ("key_value_seq_lengths", key_lengths)):
        if x is not None:
            _check(x, name, (batch,), _INT32)


def _four_axes(name: str, x: Any) -> Any:
    if x is None:
        return None
    x = jnp.asarray(x)
    if x.ndim == 4:
        return x
    if x.ndim != 3:
        raise ValueError(f"dot_product_attention: {name} should have 3 axes, or 4 with a batch, and has {x.ndim}.")
    return x[None]


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query @ key * scale + bias) @ value, for each head (Vaswani et al. 2017).

    Args:
      query: (B, T, N, H): batch, positions, heads, components; without B too.
      key, value: (B, S, K, H), N being a multiple of K: groups of query heads share keys and values.
      bias, mask: broadcast to (B, N, T, S); where ``mask`` is False, a key is not seen.
      scale: of the products, by default 1 / sqrt(H).
      is_causal: whether a query sees only the keys up to its own position.
      query_seq_lengths, key_value_seq_lengths: (B,) of int32: positions from there on are padding.
      local_window_size: how many keys to the left and to the right are seen, one number for both.
      implementation: None or 'xla': there is one here.
      return_residual: whether the logarithms of the weights' sums, (B, T, N), are returned too.

    Returns:
      (B, T, N, H), of the type of ``query``, or a pair.

    Raises ValueError for shapes and types that do not fit, RuntimeError for 'cudnn', which needs a GPU.
    """
    one = jnp.asarray(query)
    shape = one.shape
    query, key, value = (_four_axes(n, x) for n, x in (("query", one), ("key", key), ("value", value)))
    bias, mask = _four_axes("bias", bias), _four_axes("mask", mask)
    lengths = [None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths)]
    _check_all(query, key, value, bias, mask, *lengths)
    if implementation == "cudnn":
        raise RuntimeError("dot_product_attention: cuDNN needs a GPU. Leave implementation out.")
    if implementation not in (None, "xla"):
        raise ValueError(f"dot_product_attention has no implementation {implementation!r}: leave it out, or 'xla'.")
    window = (local_window_size, local_window_size) if isinstance(local_window_size, int) else local_window_size
    if window is not None:
        left, right = window
        window = (left, right)
    scale = 1.0 / math.sqrt(shape[-1]) if scale is None else scale
    masking = _Masking(is_causal, lengths[0], lengths[1], window)
    out = _grouped(query, key, value, bias, mask, scale, masking, return_residual)
    if not return_residual:
        return out.reshape(shape)
    return out[0].reshape(shape), out[1].reshape(shape[:-1])
