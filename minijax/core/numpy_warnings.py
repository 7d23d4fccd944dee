"""Silences NumPy's warnings while arrays are computed: an overflow or a log of zero is inf or nan, as on a device."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any


class _Evaluating:
    """Matches the names of modules that compute, in place of a pattern, which ``warnings`` would have to compile."""

    _packages = "minijax.interpreters.", "minijax.ops.", "minijax.core.", "minijax.numpy."

    def match(self, module: str) -> bool:
        return module.startswith(self._packages) and module != "minijax.ops.callback"  # a callback is the user's


# NumPy attributes its warning to the caller of the ufunc, which is this package. Entering NumPy's error state instead
# would cost a tenth of a small operation. Code that resets the warnings (pytest, for every test) removes this filter,
# so each operation checks that it comes first, which costs a fiftieth. The user's own NumPy code warns as usual.
QUIET = "ignore", None, RuntimeWarning, _Evaluating(), 0


def _hush() -> None:
    """Put our filter first."""
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):  # it is not there; or another thread has just moved it
        filters.remove(QUIET)
    filters.insert(0, QUIET)


_hush()


def quiet_numpy() -> None:
    """Put our filter first if it is not."""
    if not warnings.filters or warnings.filters[0] is not QUIET:
        _hush()
