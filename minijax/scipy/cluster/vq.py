"""``minijax.scipy.cluster.vq``: the nearest codes of observations."""

from __future__ import annotations

from typing import Any

from minijax import api
from minijax import numpy as jnp
from minijax.core.lacking import borrowing
from minijax.numpy.promotion import ensure, promote
from minijax.numpy.ufuncs import INEXACT

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """For each of the observations, (M, N), the number of the nearest of the codes, (K, N), and how far it is.

    One-dimensional arguments are observations and codes of one component. ``check_finite`` is not looked at. Raises
    ValueError for other ranks, TypeError for lists.
    """
    obs, code_book = ensure("vq", obs, code_book)
    shapes = obs.shape, code_book.shape
    if len(shapes[0]) != len(shapes[1]):
        raise ValueError(f"vq: observations of shape {shapes[0]} and codes of shape {shapes[1]} differ in rank.")
    obs, code_book = promote("vq", obs, code_book, to=INEXACT)
    if obs.ndim == 1:
        obs, code_book = obs[..., None], code_book[..., None]
    if obs.ndim != 2:
        raise ValueError(f"vq takes observations of one or two axes, not of shape {obs.shape}.")

    def nearest(one: Any) -> tuple[Any, Any]:
        distances = jnp.linalg.norm(one[None] - code_book, axis=1)
        code = jnp.argmin(distances)
        return code, distances[code]

    return api.vmap(nearest)(obs)


__getattr__, __dir__ = borrowing(globals())
