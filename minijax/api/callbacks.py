"""Calls of Python functions from transformed and compiled programs. Source: docs.jax.dev, "External callbacks"."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.api.flat import check_callable
from minijax.config import x64_enabled
from minijax.core import dtypes
from minijax.core.array import is_array_like
from minijax.core.avals import ShapedArray
from minijax.ops.callback import (
    ORDERED,
    UNORDERED,
    VMAP_METHODS,
    FlatCallback,
    debug_callback_p,
    debug_print_p,
    io_callback_p,
    pure_callback_p,
)
from minijax.pytree import tree_flatten, tree_unflatten


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call ``callback(*args, **kwargs)``, a function without side effects, when the program runs.

    The compiler may remove or repeat calls. Arguments are pytrees of arrays; ``callback`` gets concrete arrays.

    ``result_shape_dtypes`` is a tree whose leaves have a ``shape`` and a ``dtype``. ``callback`` returns a tree of this
    structure, of arrays with these shapes and dtypes, and ``pure_callback`` returns that tree.
    Under ``vmap``, the ``vmap_method`` "sequential" or "sequential_unrolled" calls ``callback`` once per batch element.
    "expand_dims" and "broadcast_all" call it once, with a leading batch axis on every argument. For an unmapped
    argument the size of this axis is 1 with "expand_dims", the batch size with "broadcast_all". ``sharding`` must be
    None.

    ValueError if the call is differentiated, or for an unknown ``vmap_method``. NotImplementedError under ``vmap``
    without a ``vmap_method``. JaxRuntimeError if the callback raised, or returned a value of another type.

    >>> jit(lambda x: pure_callback(np.sin, ShapeDtypeStruct((), jnp.float32), x))(0.5)
    Array(0.47942555, dtype=float32)
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"vmap_method must be on of the allowed methods {[*VMAP_METHODS]}, but got: {vmap_method}")
    return _call(pure_callback_p, callback, result_shape_dtypes, args, kwargs, sharding, vmap_method=vmap_method)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call ``callback``, which may have side effects, exactly once per run, and in program order if ``ordered``.

    Arguments, ``result_shape_dtypes`` and results are those of ``pure_callback``; ``result_shape_dtypes`` may be None,
    for no result. The call stays in the program even if its result is unused. Under ``vmap`` the callback runs once
    per element.

    ValueError if the call is differentiated, or ordered under ``vmap``. NotImplementedError for a ``sharding``.
    JaxRuntimeError if the callback raised, or returned a value of another type.
    """
    return _call(io_callback_p, callback, result_shape_dtypes, args, kwargs, sharding, ordered=bool(ordered))


def _call(p: Any, callback: Any, result_shape_dtypes: Any, args: Any, kwargs: Any, sharding: Any, **params: Any) -> Any:
    check_callable(callback)
    if sharding is not None:
        raise NotImplementedError(
            f"{p.name} always calls its function from the first device. Leave out sharding, got {sharding}."
        )
    leaves, in_tree = tree_flatten((args, kwargs))
    results, out_tree = tree_flatten(result_shape_dtypes)
    outs = p.bind(
        *leaves,
        callback=FlatCallback(callback, in_tree),
        result_avals=tuple(map(_result_aval, results)),
        sharding=sharding,
        **params,
    )
    return tree_unflatten(out_tree, outs)


def _result_aval(result: Any) -> ShapedArray:
    if not (hasattr(result, "dtype") and hasattr(result, "shape")):
        raise AttributeError(
            f"{result!r} in result_shape_dtypes has no attribute 'dtype' or no attribute 'shape'. Describe each "
            "result by ShapeDtypeStruct(shape, dtype), or by an array of its type."
        )
    dtype = np.dtype(result.dtype)
    if dtypes.canonicalize_dtype(dtype, x64_enabled()) != dtype:
        raise ValueError(
            "result_shape_dtypes cannot specify 64-bit types when `jax_enable_x64` is disabled: got "
            f"{dtype.name}. Ask for the 32-bit type, or enable 64-bit mode."
        )
    return ShapedArray(tuple(result.shape), dtype)


def _split_static(args: Any, kwargs: Any) -> tuple[Any, list[Any], tuple[tuple[int, Any], ...]]:
    """Split a tree into its structure, its array leaves, and its other leaves with their positions."""
    leaves, in_tree = tree_flatten((args, kwargs))
    static = tuple((i, x) for i, x in enumerate(leaves) if not is_array_like(x))
    return in_tree, [x for x in leaves if is_array_like(x)], static


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call ``callback(*args, **kwargs)`` whenever the program gets here, and ignore its result.

    Under ``jvp`` and ``grad`` the callback gets primal values. Under ``vmap`` it runs once per batch element. With
    ``ordered``, calls keep the program's order. The form ``debug.callback(ordered=True)(f, x)`` is for a function ``f``
    that has a keyword argument ``ordered`` or ``partitioned`` itself.
    """

    def call(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if not callable(callback):
            raise TypeError(
                f"first argument to debug.callback must be callable, but got an object of type {type(callback)}"
            )
        in_tree, leaves, static = _split_static(args, kwargs)
        flat = FlatCallback(callback, in_tree, static)
        debug_callback_p.bind(*leaves, callback=flat, effect=ORDERED if ordered else UNORDERED)

    if callback is None:
        return call
    call(callback, *args, **kwargs)
    return None


@functools.cache
def _checker() -> Any:
    """A formatter that checks whether the format string fits the arguments."""
    import string  # imported here: it takes 1 ms, too long for ``import minijax``

    class Checker(string.Formatter):
        def format_field(self, value: Any, format_spec: str) -> str:
            return ""  # the value is unknown until the program runs

        def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
            unused = [arg for i, arg in enumerate(args) if i not in used_args]
            unused_names = [k for k in kwargs if k not in used_args]
            if unused:
                raise ValueError(
                    f"Unused positional arguments to `jax.debug.print`: {unused}. Give each a {{}} in the format."
                )
            if unused_names:
                raise ValueError(
                    f"Unused keyword arguments to `jax.debug.print`: {unused_names}. "
                    "Name each as {name} in the format."
                )

    return Checker()


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _record: Any = None,
    **kwargs: Any,
) -> Any:
    """Print ``fmt.format(*args, **kwargs)`` whenever the program gets here.

    Do not pass an f-string: Python would format the tracers in it during tracing.

    ValueError for an argument that ``fmt`` does not use, IndexError or KeyError for a missing one.
    """

    def write(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not skip_format_check:
            _checker().format(fmt, *args, **kwargs)
        in_tree, leaves, static = _split_static(args, kwargs)
        debug_print_p.bind(
            *leaves,
            fmt=fmt,
            has_placeholders=any(field is not None for _, field, *_ in _checker().parse(fmt)),
            in_tree=in_tree,
            logging_record=_record,
            np_printoptions=tuple(np.get_printoptions().items()),
            ordered=ordered,
            static_args=static,
        )

    if fmt is None:
        if args or kwargs:
            raise TypeError(f"debug_print received unexpected arguments in the two-call form: {args=} {kwargs=}")
        return write
    write(fmt, *args, **kwargs)
    return None


def debug_log(fmt: str, *args: Any, **kwargs: Any) -> None:
    """Like ``debug_print``, but log to the ``minijax`` logger with the caller's line."""
    frame = sys._getframe(1)
    code = frame.f_code
    logging = importlib.import_module("logging")
    record = logging.LogRecord("minijax", logging.INFO, code.co_filename, frame.f_lineno, "", (), None, code.co_name)
    debug_print(fmt, *args, _record=record, **kwargs)


# Runs breakpoint lines that are no prompt commands. A front end sets this function; without a front end it is None.
# It is defined in this module because few programs import ``breakpoints``.
front_end: Callable[[str, dict[str, Any]], None] | None = None


def set_front_end(run: Callable[[str, dict[str, Any]], None] | None) -> None:
    """Install ``run(line, names)``, which runs breakpoint lines that are not prompt commands."""
    global front_end
    front_end = run


def effects_barrier() -> None:
    """Do nothing. JAX waits for effects here, but a call of a minijax program returns only after its effects."""
