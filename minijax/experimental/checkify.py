"""``minijax.experimental.checkify``: run-time checks of transformed and compiled functions, borrowed from JAX.

``checkify(f)`` is a function that returns ``(error, f's results)``. ``error`` reports the first failed check of ``f``.

Source: https://docs.jax.dev/en/latest/debugging/checkify_guide.html
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from minijax.core.borrowing import borrow, borrowing
from minijax.errors import source_info
from minijax.interop.borrowed_functions import borrowed_function
from minijax.interop.lines import jax_traceback
from minijax.interop.values import jax_module

_theirs = jax_module("experimental.checkify")
# One class for each kind of check. JAX has public names only for sets of these classes, such as ``float_checks``.
FailedCheckError, NaNError, OOBError, DivisionByZeroError = map(
    vars(sys.modules[_theirs.Error.__module__]).get, ("FailedCheckError", "NaNError", "OOBError", "DivisionByZeroError")
)
Error = borrow(__name__, "Error")
init_error = Error({}, {}, {}, {})


def _traced_each_time(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Borrow JAX's function. JAX traces it at every call, to record the user's line and give each check a number."""

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        line = jax_traceback(source_info())

        def call(*args: Any, **kwargs: Any) -> Any:
            with jax_module("extend.source_info_util").user_context(line):
                return theirs(*args, **kwargs)

        return borrowed_function(call, __name__, theirs.__name__)(*args, **kwargs)

    return function


check, debug_check, check_error = map(_traced_each_time, (_theirs.check, _theirs.debug_check, _theirs.check_error))

__getattr__, __dir__ = borrowing(globals())
