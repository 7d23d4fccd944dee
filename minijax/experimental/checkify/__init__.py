"""``minijax.experimental.checkify``: run-time checks that work in transformed and compiled functions.

``checkify(f)`` is a function that gives ``(error, f's results)``: what was checked on the way is part of the result.

Source: https://docs.jax.dev/en/latest/debugging/checkify_guide.html
"""

from minijax.experimental.checkify.checks import (
    all_checks,
    automatic_checks,
    check,
    check_error,
    checkify,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    user_checks,
)
from minijax.experimental.checkify.failures import (
    DivisionByZeroError,
    Error,
    ErrorCategory,
    FailedCheckError,
    JaxRuntimeError,
    NaNError,
    OOBError,
    init_error,
)

__all__ = [
    "DivisionByZeroError",
    "Error",
    "ErrorCategory",
    "FailedCheckError",
    "JaxRuntimeError",
    "NaNError",
    "OOBError",
    "all_checks",
    "automatic_checks",
    "check",
    "check_error",
    "checkify",
    "debug_check",
    "div_checks",
    "float_checks",
    "index_checks",
    "init_error",
    "nan_checks",
    "user_checks",
]
