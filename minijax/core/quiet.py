"""NumPy's warnings, which arrays do not give: an overflow or a log of zero is inf or nan, silently, as on a device."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any


class _Evaluating:
    """The names of the modules that compute: what ``warnings`` asks of a pattern, which would have to be compiled."""

    _packages = "minijax.interpreters.", "minijax.ops.", "minijax.core.", "minijax.numpy."

    def match(self, module: str) -> bool:
        return module.startswith(self._packages) and module != "minijax.ops.callback"  # a callback is the user's


# NumPy attributes its warning to the caller of the ufunc, which is this package; to enter NumPy's error state instead
# would cost a tenth of a small operation.
# Whoever resets warnings, or puts back those of an earlier time (pytest, for every test), loses this filter: each
# operation looks whether it still comes first, which costs a fiftieth. The user's own NumPy warns as ever.
QUIET = "ignore", None, RuntimeWarning, _Evaluating(), 0


def _hush() -> None:
    """Put our filter first."""
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):  # it is not there; or another thread has just moved it
        filters.remove(QUIET)
    filters.insert(0, QUIET)


_hush()


def quiet_numpy() -> None:
    """See to it that our filter is the first."""
    if not warnings.filters or warnings.filters[0] is not QUIET:
        _hush()
