"""The names of ``minijax.numpy`` that are loaded when they are first used, by the module that has them.

Programs use them rarely, and ``import minijax`` is not to wait for them.
"""

from __future__ import annotations

import importlib
from typing import Any

LATER = {
    "convolutions": "convolve correlate",
    "diagonals": "diag_indices diag_indices_from diagflat fill_diagonal mask_indices tril_indices "
    "tril_indices_from triu_indices triu_indices_from",
    "numbers": "frexp gcd lcm ldexp packbits spacing unpackbits",
    "padding": "pad",
    "partitions": "argpartition lexsort partition sort_complex",
    "polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
    "replacing": "choose compress delete extract insert place put trim_zeros",
    "searching": "argwhere bincount digitize flatnonzero nonzero ravel_multi_index searchsorted unravel_index",
    "statistics": "corrcoef cov median nanargmax nanargmin nancumprod nancumsum nanmedian nanpercentile "
    "nanquantile nanstd nanvar percentile quantile",
    "windows": "bartlett blackman hamming hanning i0 kaiser",
}
MODULE_OF = {name: module for module, names in LATER.items() for name in names.split()}


def load(name: str, namespace: dict[str, Any]) -> Any:
    """The function ``name``; it and its neighbours are put into ``namespace``, that of ``minijax.numpy``."""
    module = importlib.import_module(f"minijax.numpy.{MODULE_OF[name]}")
    for each in module.__all__:
        namespace.setdefault(each, getattr(module, each))
    return namespace[name]

