"""Borrowed functions: a function of JAX's as one of minijax values.

JAX traces it at the types of its arguments, and its program runs here: it can be transformed and watched. One that must
know values (``unique``, ``nonzero`` without a size) runs on JAX where the values are there. Functions of the user's
among the arguments are staged here, and called by JAX.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax import lax, numpy
from minijax.core.array import Array
from minijax.core.keys import is_key
from minijax.core.shardings import PartitionSpec, Sharding
from minijax.core.stand_ins import ShapeDtypeStruct
from minijax.core.trace import Tracer, state
from minijax.interop.exported import ReadsTracers, reading, to_jax
from minijax.interop.functions import from_jax
from minijax.interop.known_values import on_known_values, with_out_sharding
from minijax.interop.packed import (
    Packed,
    classes,
    originals,
    pack,
    packed_instance,
    packed_node,
    unpack,
    unpack_for_jax,
)
from minijax.interop.params import values_for_jax
from minijax.interop.reports import at_users_line, caught_warnings, warn
from minijax.interop.tracing import circumstances, make_jaxpr
from minijax.interop.values import (
    dtype_of_jax,
    from_jax_value,
    jax_module,
    sharding_for_jax,
    spec_for_jax,
    spec_of,
    to_jax_value,
)
from minijax.numpy.types import ScalarMeta
from minijax.pytree import Partial

PACKAGE, THEIRS = "minijax", "jax"

# These read or write files, memory or settings: each call counts, and needs values.
_ON_VALUES = frozenset(
    "load save savez fromfile frombuffer from_dlpack array_repr array_str fromiter fromstring einsum_path".split()
)
# Arguments of these types are given to JAX as they are.
_PLAIN = frozenset((Array, bool, int, float, complex, str, bytes, type(None), np.ndarray, *np.sctypeDict.values()))


def jax_name(module: str) -> str:
    """The name of JAX's module that is called as ``module`` of ours is: ``jax.numpy`` for ``minijax.numpy``."""
    return THEIRS + module.removeprefix(PACKAGE)


def borrowed_function(theirs: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """The function of JAX's as one of minijax's."""
    opened = _with_instances(theirs)
    imported = from_jax(opened)
    # the trace showed that calls of this form, so many arguments and these keywords, must know values
    on_values: set[Any] = set()

    @functools.wraps(theirs, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out_sharding") is not None:
            return with_out_sharding(function, name, kwargs.pop("out_sharding"), args, kwargs)
        called = imported
        if not (_are_plain(args) and _are_plain(kwargs.values())):
            given = _Given()
            args, kwargs = tuple(map(given, args)), {key: given(x) for key, x in kwargs.items()}
            called = functools.partial(_with_functions, opened) if given.has_functions else imported
        try:
            if name in _ON_VALUES and _are_values(args, kwargs):
                return _on_values(opened, args, kwargs)
            if on_values and (len(args), *kwargs) in on_values and _all_known(args, kwargs):
                return _on_values(opened, args, kwargs)
            try:
                return _made_here(called(*args, **kwargs), module)
            except _must_know():
                if not _all_known(args, kwargs):
                    return _made_here(on_known_values(opened, name, args, kwargs), module)
            on_values.add((len(args), *kwargs))
            return _on_values(opened, args, kwargs)
        except Exception as error:
            if _was_in_jax(error):
                raise at_users_line(error, f"{module}.{name}") from None
            raise

    function.__module__, function.__name__, function.__qualname__ = module, name.rpartition(".")[2], name
    function.__doc__ = f"Borrowed from JAX: its program runs on minijax.\n\n{inspect.cleandoc(theirs.__doc__ or '')}"
    function.__dict__["borrowed_from"] = f"{jax_name(module)}.{name}"
    return function


def _with_instances(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """JAX's function with packed arguments and results, while JAX traces it: it sees instances of JAX's classes."""

    @functools.wraps(theirs, updated=())
    def opened(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unpack_for_jax((args, kwargs))
        return pack(theirs(*args, **kwargs))

    return opened


def _with_functions(opened: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``opened`` called with functions of the user's among the arguments, which may read values that are traced here.

    JAX gets these as one more argument, found by trying. What a function reads may change, so what was traced is not
    used again.
    """
    tracers: list[Tracer] = []

    @functools.wraps(opened)
    def called(*args: Any, **kwargs: Any) -> Any:
        *args, values = args  # type: ignore[assignment]
        with reading(tracers, values):
            return opened(*args, **kwargs)

    while True:
        try:
            return from_jax(called)(*args, tracers, **kwargs)
        except ReadsTracers as error:
            tracers = [*tracers, *error.tracers]


def _must_know() -> tuple[type[Exception], ...]:
    """What JAX raises where a function asks for a value that it has not."""
    theirs = jax_module("errors")
    return theirs.JAXTypeError, theirs.JAXIndexError


def _was_in_jax(error: Exception) -> bool:
    """Whether JAX was tracing or running its function when the error was raised."""
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code in (make_jaxpr.__code__, _on_values.__code__):
            return True
        tb = tb.tb_next
    return False


# ------------------------------------------------------------------------------------------------ arguments


def _are_plain(values: Iterable[Any]) -> bool:
    for x in values:
        if type(x) not in _PLAIN and not isinstance(x, Tracer):
            return False
    return True


def _all_known(args: Any, kwargs: Any) -> bool:
    """Whether there are only values, and nothing is being staged."""
    return state.dynamic.level == 0 and _are_values(args, kwargs)


def _are_values(args: Any, kwargs: Any) -> bool:
    """Whether no argument is a tracer."""
    leaves = jax_module("tree_util").tree_leaves((args, kwargs), is_leaf=lambda x: isinstance(x, (Array, Tracer)))
    return not any(isinstance(x, Tracer) for x in leaves)


def _on_values(theirs: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run by JAX on the arrays themselves."""
    tree_map, is_leaf = jax_module("tree_util").tree_map, lambda x: isinstance(x, (Array, Tracer))
    args, kwargs = tree_map(lambda x: to_jax_value(x) if isinstance(x, Array) else x, (args, kwargs), is_leaf=is_leaf)
    with circumstances(), caught_warnings() as found:
        out = theirs(*args, **kwargs)
    warn(found)
    return unpack(tree_map(lambda x: from_jax_value(x) if isinstance(x, jax_module().Array) else x, out))


class _Given:
    """Arguments as JAX knows them: dtypes, shapes, enums and records of ``lax``, functions. Arrays stay.

    Attributes:
      has_functions: whether there is something of the user's among them that JAX will call.
    """

    def __init__(self) -> None:
        self.has_functions = False

    def __call__(self, x: Any) -> Any:
        if type(x) in _PLAIN or isinstance(x, (Array, Tracer)):
            return x
        if isinstance(x, dict):
            return {key: self(value) for key, value in x.items()} if type(x) is dict else x
        if type(x) in (list, tuple):
            return type(x)(map(self, x))
        if isinstance(x, ScalarMeta):
            return x.dtype
        if is_key(x):
            return dtype_of_jax(x)
        if isinstance(x, ShapeDtypeStruct):
            return spec_of(x)
        if isinstance(x, PartitionSpec):
            return spec_for_jax(x)
        if isinstance(x, Sharding):
            return sharding_for_jax(x)
        if type(x).__module__.startswith(f"{PACKAGE}.") and type(x) is getattr(lax, type(x).__name__, None):
            return values_for_jax({"value": x}, _exported)["value"]
        if type(x) in originals or type(x) in classes:
            return packed_instance(x, self)
        if type(x) is Partial:
            return jax_module("tree_util").Partial(self(x.func), *map(self, x.args), **self(x.keywords))
        packed = packed_node(x, self)
        if packed is not None:
            return packed
        return self.function(x) if callable(x) and not isinstance(x, type) else x

    def function(self, fun: Callable[..., Any]) -> Any:
        """For a public function of minijax (``lax.add``) JAX's of that name; the user's as one that JAX can trace."""
        if isinstance(fun, jax_module("tree_util").Partial):
            self.has_functions = True
            return fun
        if str(fun.__module__).partition(".")[0] == THEIRS:
            return fun
        for module in (lax, numpy) if str(fun.__module__).startswith(f"{PACKAGE}.") else ():
            if getattr(module, getattr(fun, "__name__", ""), None) is fun:
                return getattr(jax_module(module.__name__.removeprefix(f"{PACKAGE}.")), fun.__name__)
        self.has_functions = True
        return _exported(fun)


def _exported(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function for JAX, which may pass it instances of its classes, or get the user's pytree nodes."""

    def opened(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unpack((args, kwargs))
        return pack(fun(*args, **kwargs))

    functools.update_wrapper(opened, fun, ("__name__", "__qualname__", "__module__"), ())
    exported = to_jax(opened)

    @functools.wraps(exported)
    def called(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pack((args, kwargs))
        return exported(*args, **kwargs)

    return called


# ------------------------------------------------------------------------------------------------ results


def _made_here(out: Any, module: str) -> Any:
    """The result with instances of our classes; a function (``nn.initializers.normal()``) is borrowed too."""
    if type(out) is Array or isinstance(out, Tracer):
        return out
    if isinstance(out, types.FunctionType):
        return borrowed_function(out, module, out.__name__)
    if type(out) is Packed or not (type(out) is tuple and _are_plain(out)):
        return unpack(out)
    return out
