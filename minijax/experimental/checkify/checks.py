"""``checkify``, ``check`` and the sets of errors that can be looked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import numpy as jnp
from minijax.api.flat import FlatFun, avals_of, check_args, check_callable, describe
from minijax.core.array import get_aval, is_array_like
from minijax.core.avals import AnyArray
from minijax.core.refs import is_ref
from minijax.experimental.checkify.failures import (
    DivisionByZeroError,
    Error,
    FailedCheckError,
    NaNError,
    OOBError,
    flatten,
    init_error,
)
from minijax.experimental.checkify.rules import any_of, check_p, failing, run
from minijax.interpreters.stage import stage
from minijax.pytree import tree_flatten, tree_unflatten

user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


def checkify(f: Callable[..., Any], errors: frozenset[type] = user_checks) -> Callable[..., Any]:
    """``f`` with its checks as part of its result: a function that gives ``(error, f's result)``.

    Args:
      f: a function of pytrees of arrays; ``check`` may be called in it, also under transformations.
      errors: what is looked for, the union of some of: ``user_checks`` (calls of ``check``), ``nan_checks`` (operations
        that give NaN), ``index_checks`` (indices out of bounds), ``div_checks`` (divisors that are zero); the sets
        ``float_checks``, ``automatic_checks`` and ``all_checks`` are unions of these.

    Returns:
      A function that can be transformed; ``error.get()`` is the first failure's message, ``error.throw()`` raises it.
    """
    check_callable(f)

    @functools.wraps(f)
    def checked_fun(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, in_tree = tree_flatten((args, kwargs))
        leaves = check_args(leaves, "checkify", f, in_tree)
        flat = FlatFun(f, in_tree, "checkify")
        closed = stage(flat, avals_of(leaves), describe(f), label="checkify")
        error, outs = run(closed, init_error, frozenset(errors), leaves)
        return error, tree_unflatten(flat.out_tree, outs)

    return checked_fun


def check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """Check that ``pred``, a boolean scalar, is true; ``msg.format(*fmt_args, **fmt_kwargs)`` tells of a failure.

    The values that the message shows are pytrees of arrays. Called outside of transformations it raises at once; a
    function that is staged must be called through ``checkify``.

    Raises:
      TypeError: ``pred`` is no boolean scalar, or a value of the message no array.
      JaxRuntimeError (a ValueError): the check failed.
    """
    _check(pred, msg, False, fmt_args, fmt_kwargs)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """``check``, but nothing is checked where the function is not called through ``checkify``."""
    _check(pred, msg, True, fmt_args, fmt_kwargs)


def _check(pred: Any, msg: str, debug: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not is_array_like(pred) or is_ref(pred) or get_aval(pred).shape or get_aval(pred).dtype != np.bool_:
        name = "debug_check" if debug else "check"
        raise TypeError(f"{name} takes a scalar pred as argument, got {pred}. Reduce an array by jnp.all(pred).")
    leaves, tree = tree_flatten((args, kwargs))
    for x in leaves:
        if not isinstance(x, (AnyArray, np.ndarray)):
            raise TypeError(
                f"Formatting arguments to checkify.check need to be PyTrees of arrays, but got {x!r} of type "
                f"{type(x)}. Write values that are no arrays into the message, or pass jnp.asarray(x)."
            )
    payload = [jnp.asarray(x) for x in leaves]
    error = failing(init_error, FailedCheckError, jnp.logical_not(pred), payload, msg, tree)
    _bind(error, debug)


def check_error(error: Error) -> None:
    """Raise ``error`` if it holds a failure; in a function that is called through ``checkify``, hand it on.

    TypeError if it is no ``Error``.
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    if any(get_aval(pred).shape for pred in error.preds.values()):
        error = any_of(error)
    _bind(error, False)


def _bind(error: Error, debug: bool) -> None:
    leaves, structure = flatten(error)
    if leaves:
        check_p.bind(*leaves, err_tree=structure, debug=debug)
