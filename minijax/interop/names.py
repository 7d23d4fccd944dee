"""Borrowed names: what JAX's public modules have and ours lack, run by JAX's own code on minijax values.

A borrowed function is traced by JAX at the types of its arguments, and its program runs here: it can be transformed and
watched. One that must know values (``unique``, ``nonzero`` without a size) runs on JAX where the values are there.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax import errors, lax, numpy
from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.stand_ins import ShapeDtypeStruct
from minijax.core.trace import Tracer, state
from minijax.interop.borrowed import borrowed
from minijax.interop.closures import filled, hoisted
from minijax.interop.exported import to_jax
from minijax.interop.functions import from_jax
from minijax.interop.programs import jax_primitive
from minijax.interop.tracing import circumstances
from minijax.interop.values import dtype_of_jax, from_jax_value, jax_module, spec_of, to_jax_value
from minijax.numpy.types import ScalarMeta

PACKAGE, THEIRS = "minijax", "jax"

# These read or write files, memory or settings: each call counts, and needs values.
_ON_VALUES = frozenset(
    "load save savez fromfile frombuffer from_dlpack array_repr array_str fromiter fromstring einsum_path".split()
)
# Indexed rather than called, to make arrays; ``s_`` and ``index_exp`` are NumPy's own.
_INDEXERS = frozenset(("mgrid", "ogrid", "r_", "c_"))


def jax_name(module: str) -> str:
    """The name of JAX's module that is called as ``module`` of ours is: ``jax.numpy`` for ``minijax.numpy``."""
    return THEIRS + module.removeprefix(PACKAGE)


def borrowed_name(module: str, name: str) -> Any:
    """What ``module`` of ours is to have under ``name``, made of what JAX has there.

    Raises:
      AttributeError: it cannot be borrowed.
    """
    theirs = getattr(jax_module(module.removeprefix(f"{PACKAGE}.")), name)
    if isinstance(theirs, type):
        return _class(theirs, module, name)
    if isinstance(theirs, jax_module("extend.core").Primitive):
        return borrowed(theirs)
    if callable(theirs):
        return borrowed_function(theirs, module, name)
    return BorrowedIndexer(theirs, module, name) if name in _INDEXERS else theirs


def borrowed_primitive(ours: Any) -> Any:
    """JAX's primitive that ours is called like, borrowed: for platforms that ours has no lowering for."""
    return borrowed(jax_primitive(ours))


def _class(theirs: type, module: str, name: str) -> Any:
    """A class that does nothing with arrays, as it is: an enum, a type of element, an error, a record."""
    public = [value for part, value in vars(theirs).items() if part[0] != "_"]
    if issubclass(theirs, (enum.Enum, BaseException, tuple, np.generic)) or hasattr(theirs, "dtype"):
        return theirs
    if not any(isinstance(value, (types.FunctionType, property)) for value in public) and "__call__" not in vars(
        theirs
    ):
        return theirs
    if getattr(theirs, "_is_protocol", False):
        return theirs
    raise AttributeError(
        f"module {module!r} has no attribute {name!r}: {jax_name(module)}.{name} is a class, whose methods would run "
        f"on JAX unseen. Write a function of arrays that uses JAX's class, and call interop.from_jax(function).",
        name=name,
    )


# ------------------------------------------------------------------------------------------------ functions


def borrowed_function(theirs: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """The function of JAX's as one of minijax's."""
    imported = from_jax(theirs)
    # the trace showed that the function must know values
    needs_values = name in _ON_VALUES

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Any:
        nonlocal needs_values
        args, kwargs = _for_jax(args), _for_jax(kwargs)
        # what a function of the user's reads may change, so what was traced of it is not used again
        called = from_jax(functools.partial(theirs)) if _has_functions(args, kwargs) else imported
        all_known = _all_known(args, kwargs)
        if not needs_values or not all_known:
            try:
                return _made_here(called(*args, **kwargs), module)
            except _must_know():
                if not all_known:
                    raise
                needs_values = True
        return _on_values(theirs, args, kwargs)

    function.__module__, function.__name__, function.__qualname__ = module, name, name
    function.__doc__ = f"Borrowed from JAX: its program runs on minijax.\n\n{theirs.__doc__ or ''}"
    function.__dict__["borrowed_from"] = f"{jax_name(module)}.{name}"
    return function


def _has_functions(args: Any, kwargs: Any) -> bool:
    """Whether there is something of the user's among the arguments that JAX will call."""
    partial = jax_module("tree_util").Partial
    leaves = jax_module("tree_util").tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, partial))
    return any(callable(x) and not isinstance(x, type) and not _is_theirs(x) for x in leaves)


def _is_theirs(x: Any) -> bool:
    return not isinstance(x, jax_module("tree_util").Partial) and str(x.__module__).partition(".")[0] == THEIRS


def _must_know() -> tuple[type[Exception], ...]:
    """What JAX raises where a function asks for a value that it has not."""
    theirs = jax_module("errors")
    return theirs.JAXTypeError, theirs.JAXIndexError


def _all_known(args: Any, kwargs: Any) -> bool:
    """Whether there are only values, and nothing is being staged."""
    leaves = jax_module("tree_util").tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, (Array, Tracer)))
    return state.dynamic.level == 0 and not any(isinstance(x, Tracer) for x in leaves)


def _on_values(theirs: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run by JAX on the arrays themselves."""
    tree_map, is_leaf = jax_module("tree_util").tree_map, lambda x: isinstance(x, (Array, Tracer))
    args, kwargs = tree_map(lambda x: to_jax_value(x) if isinstance(x, Array) else x, (args, kwargs), is_leaf=is_leaf)
    with circumstances():
        out = theirs(*args, **kwargs)
    return tree_map(lambda x: from_jax_value(x) if isinstance(x, jax_module().Array) else x, out)


def _for_jax(x: Any) -> Any:
    """Arguments as JAX knows them: types of elements, shapes, and the enums of ``lax``; arrays are left alone."""
    if isinstance(x, dict):
        return {key: _for_jax(value) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(_for_jax, x))
    if isinstance(x, ScalarMeta):
        return x.dtype
    if is_key(x):
        return dtype_of_jax(x)
    if isinstance(x, ShapeDtypeStruct):
        return spec_of(x)
    if isinstance(x, enum.Enum) and type(x) is getattr(lax, type(x).__name__, None):
        return getattr(jax_module("lax"), type(x).__name__)[x.name]
    return _function_for_jax(x) if isinstance(x, types.FunctionType) else x


def _function_for_jax(fun: types.FunctionType) -> Any:
    """A public function of ours (``lax.add``, for a reduction) as JAX's of that name; the user's as one of JAX's."""
    if str(fun.__module__).partition(".")[0] == THEIRS:
        return fun
    if not errors.is_user_file(fun.__code__.co_filename):
        for module in (lax, numpy):
            if getattr(module, fun.__name__, None) is fun:
                return getattr(jax_module(module.__name__.removeprefix(f"{PACKAGE}.")), fun.__name__)
    skeleton, values = hoisted(fun, lambda x: isinstance(x, Tracer))
    if not values:
        return to_jax(functools.partial(fun))  # what was staged of it before may have read other globals

    def called(values: list[Any], *args: Any, **kwargs: Any) -> Any:
        return filled(skeleton, values)(*args, **kwargs)

    functools.update_wrapper(called, fun, ("__name__", "__qualname__", "__module__"), ())
    return jax_module("tree_util").Partial(to_jax(called), values)  # JAX is to trace them as well: they are leaves


def _made_here(out: Any, module: str) -> Any:
    """A result that is a function (``nn.initializers.normal()``) is a borrowed one too."""
    if isinstance(out, types.FunctionType):
        return borrowed_function(out, module, out.__name__)
    return out


class BorrowedIndexer:
    """What is indexed rather than called: ``mgrid``, ``ogrid``, ``r_``, ``c_``."""

    def __init__(self, theirs: Any, module: str, name: str) -> None:
        self._get = borrowed_function(lambda key: theirs[key], module, name)
        self._said = f"<{module}.{name}, borrowed from JAX>"

    def __getitem__(self, key: Any) -> Any:
        return self._get(key)

    def __repr__(self) -> str:
        return self._said
