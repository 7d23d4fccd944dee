"""Logarithms of sums of exponentials."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from minijax.numpy.promotion import promote
from minijax.numpy.ufuncs import INEXACT, as_ufunc
from minijax.ops import logaddexp as ops_logaddexp

__all__ = ["logaddexp", "logaddexp2"]


@functools.partial(as_ufunc, identity=-np.inf)
def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    return ops_logaddexp.logaddexp(*promote("logaddexp", x1, x2, to=INEXACT))


@functools.partial(as_ufunc, identity=-np.inf)
def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2) without overflow."""
    return ops_logaddexp.logaddexp2(*promote("logaddexp2", x1, x2, to=INEXACT))
