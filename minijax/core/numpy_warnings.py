"""Silences NumPy's warnings while arrays are computed: overflow and log(0) give inf or nan, as on a device."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any


class _Evaluating:
    """Matches the names of modules that compute. A regular expression would have to be compiled."""

    _packages = "minijax.interpreters.", "minijax.ops.", "minijax.core.", "minijax.numpy."

    def match(self, module: str) -> bool:
        return module.startswith(self._packages) and module != "minijax.ops.callback"  # a callback is user code


# NumPy attributes its warning to the caller of the ufunc, which is this package. Entering NumPy's error state instead
# would take a tenth of the time of a small operation. Code that resets the warnings (pytest, for every test) removes
# this filter, so each operation checks that the filter is first. That takes a fiftieth of the time. The user's own
# NumPy code still warns.
QUIET = "ignore", None, RuntimeWarning, _Evaluating(), 0


def _hush() -> None:
    """Put our filter first."""
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):  # it is missing, or another thread has just moved it
        filters.remove(QUIET)
    filters.insert(0, QUIET)


_hush()


def quiet_numpy() -> None:
    """Put our filter first unless it is first already."""
    if not warnings.filters or warnings.filters[0] is not QUIET:
        _hush()
