"""Borrowed functions: functions of JAX, called with minijax values.

JAX traces the function at the types of the arguments. minijax runs the jaxpr, so the call can be transformed and
watched. A function that needs values (``unique``, ``nonzero`` without a size) runs on JAX, if the values are known.
If an argument is a function, minijax stages it and exports it to JAX.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minijax import lax, numpy
from minijax.api.explicit import left_to_compiler
from minijax.core import dtypes
from minijax.core.array import Array, as_array
from minijax.core.avals import AnyArray
from minijax.core.keys import is_key
from minijax.core.lists import with_items
from minijax.core.shape_structs import ShapeDtypeStruct
from minijax.core.shardings import PartitionSpec, Sharding
from minijax.core.trace import Tracer, state
from minijax.interop.exported import ReadsTracers, reading, to_jax
from minijax.interop.functions import imported_function, is_array
from minijax.interop.packed import Packed, is_instance, pack, packed_instance, packed_node, unpack, unpack_for_jax
from minijax.interop.params import values_for_jax
from minijax.interop.reports import at_users_line, caught_warnings, unknown_value_errors, warn
from minijax.interop.values import (
    circumstances,
    dtype_of_jax,
    from_jax_values,
    jax_module,
    make_jaxpr,
    sharding_for_jax,
    spec_for_jax,
    spec_of,
    to_jax_value,
)
from minijax.numpy.types import ScalarMeta
from minijax.pytree import Partial

# These functions run in JAX on the primal values of their arguments, so their results have no derivatives.
_OF_VALUES = frozenset(
    "intersect1d setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse unique_values".split()
)


def is_value(x: Any) -> bool:
    """Whether ``x`` is a minijax array or tracer."""
    return isinstance(x, AnyArray)


def on_known_values(theirs: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """Let JAX trace ``theirs`` on the tracers among the arguments; known arrays are passed as values.

    If JAX needs the values of the tracers too, ``theirs`` runs on these values. They must be known (as in ``jvp``),
    and the results must have no derivatives.
    """
    jax = jax_module()
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=is_value)
    known = [to_jax_value(x) if isinstance(x, Array) else x for x in leaves]

    def of_tracers(traced: dict[int, Any]) -> Any:
        given, options = jax.tree_util.tree_unflatten(tree, [traced.get(i, x) for i, x in enumerate(known)])
        # as in JAX, operations on known values are staged only if the transformation around them stages
        with contextlib.nullcontext() if state.dynamic.level else jax.ensure_compile_time_eval():
            return theirs(*given, **options)

    tracers = {i: x for i, x in enumerate(leaves) if isinstance(x, Tracer)}
    try:
        return imported_function(of_tracers)(tracers)
    except unknown_value_errors():
        values = {i: x.to_concrete_value() for i, x in tracers.items()}
        if state.dynamic.level == 0 and all(x is not None for x in values.values()):
            with circumstances():
                out = from_jax_values(of_tracers({i: to_jax_value(as_array(x)) for i, x in values.items()}))
            if name in _OF_VALUES or not any(dtypes.is_inexact(x.dtype) for x in jax.tree_util.tree_leaves(out)):
                return out
        raise


def with_out_sharding(function: Callable[..., Any], name: str, out_sharding: Any, args: Any, kwargs: Any) -> Any:
    """Call ``function`` with results sharded as ``out_sharding``; the compiler shards the rest."""
    tree_util = jax_module("tree_util")
    leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=is_value)
    places = [i for i, x in enumerate(leaves) if is_array(x) and not isinstance(x, np.ndarray)]

    def of_arrays(*arrays: Any) -> Any:
        given, options = tree_util.tree_unflatten(tree, with_items(leaves, places, arrays))
        return function(*given, **options)

    return left_to_compiler(name, out_sharding, of_arrays, *[leaves[i] for i in places])


PACKAGE, THEIRS = "minijax", "jax"

# These functions read or write files, memory or settings: they run on JAX at every call.
_ON_VALUES = frozenset(
    "load save savez fromfile frombuffer from_dlpack array_repr array_str fromiter fromstring einsum_path".split()
)
# These functions test whether a check failed: they run on JAX if the values are known.
_OF_CHECKS = frozenset("check debug_check check_error Error.get Error.get_exception Error.throw".split())
_PLAIN = frozenset((Array, bool, int, float, complex, str, bytes, type(None), np.ndarray, *np.sctypeDict.values()))


def jax_name(module: str) -> str:
    """The name of JAX's counterpart of ``module``: ``jax.numpy`` for ``minijax.numpy``."""
    return THEIRS + module.removeprefix(PACKAGE)


def borrowed_function(theirs: Callable[..., Any], module: str, name: str) -> Callable[..., Any]:
    """Borrow JAX's function ``theirs`` as a minijax function called ``module.name``."""
    opened = _with_instances(theirs)
    imported = imported_function(opened)
    # (number of positional arguments, keywords) of calls for which JAX needed the argument values
    on_values: set[Any] = set()

    @functools.wraps(theirs, updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out_sharding") is not None:
            return with_out_sharding(function, name, kwargs.pop("out_sharding"), args, kwargs)
        called, of_functions, given = imported, False, (args, kwargs)
        if not (_are_plain(args) and _are_plain(kwargs.values())):
            for_jax = _ForJax()
            args, kwargs = tuple(map(for_jax, args)), {key: for_jax(x) for key, x in kwargs.items()}
            if for_jax.has_functions:
                called, of_functions = functools.partial(_with_functions, opened), True
        try:
            if name in _ON_VALUES and _are_values(args, kwargs):
                return _on_values(opened, args, kwargs)
            if (name in _OF_CHECKS or (len(args), *kwargs) in on_values) and _all_known(args, kwargs):
                return _on_values(opened, args, kwargs)
            try:
                out = called(*args, **kwargs)
                if of_functions and isinstance(out, types.FunctionType):
                    return _made_of_functions(theirs, out, module, *given)
                return _made_here(out, module)
            except unknown_value_errors():
                if not _all_known(args, kwargs):
                    return _made_here(on_known_values(opened, name, args, kwargs), module)
            on_values.add((len(args), *kwargs))
            return _on_values(opened, args, kwargs)
        except Exception as error:
            if _was_in_jax(error):
                raise at_users_line(error, f"{module}.{name}")  # noqa: B904  (at_users_line sets the cause)
            raise

    function.__module__, function.__name__, function.__qualname__ = module, name.rpartition(".")[2], name
    function.__doc__ = f"Borrowed from JAX: its program runs on minijax.\n\n{inspect.cleandoc(theirs.__doc__ or '')}"
    function.__dict__["borrowed_from"] = f"{jax_name(module)}.{name}"
    return function


def _with_instances(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap JAX's function: unpack its arguments to instances of JAX's classes, and pack its results."""

    @functools.wraps(theirs, updated=())
    def opened(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = unpack_for_jax((args, kwargs))
        return pack(theirs(*args, **kwargs))

    return opened


def _with_functions(opened: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``opened`` with functions as arguments. Tracers that these functions close over become an extra argument."""
    tracers: list[Tracer] = []

    @functools.wraps(opened)
    def called(*args: Any, **kwargs: Any) -> Any:
        *args, values = args  # type: ignore[assignment]
        with reading(tracers, values):
            return opened(*args, **kwargs)

    while True:
        try:
            return imported_function(called)(*args, tracers, **kwargs)
        except ReadsTracers as error:
            tracers = [*tracers, *error.tracers]


def _was_in_jax(error: Exception) -> bool:
    """Whether the error was raised while JAX traced or ran its function."""
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code in (make_jaxpr.__code__, _on_values.__code__):
            return True
        tb = tb.tb_next
    return False


def _are_plain(values: Iterable[Any]) -> bool:
    for x in values:
        if type(x) not in _PLAIN and not isinstance(x, Tracer):
            return False
    return True


def _all_known(args: Any, kwargs: Any) -> bool:
    """Whether no argument is a tracer, and nothing is being staged."""
    return state.dynamic.level == 0 and _are_values(args, kwargs)


def _are_values(args: Any, kwargs: Any) -> bool:
    leaves = jax_module("tree_util").tree_leaves((args, kwargs), is_leaf=is_value)
    return not any(isinstance(x, Tracer) for x in leaves)


def _on_values(theirs: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Let JAX run ``theirs`` on the arrays."""
    tree_map = jax_module("tree_util").tree_map
    args, kwargs = tree_map(lambda x: to_jax_value(x) if isinstance(x, Array) else x, (args, kwargs), is_leaf=is_value)
    with circumstances(), caught_warnings() as found:
        out = theirs(*args, **kwargs)
    warn(found)
    return unpack(from_jax_values(out))


class _ForJax:
    """Converts dtypes, shapes, shardings, enums, ``lax`` records and functions to JAX's. Arrays stay unchanged."""

    def __init__(self) -> None:
        self.has_functions = False

    def __call__(self, x: Any) -> Any:
        if type(x) in _PLAIN or is_value(x):
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
        if is_instance(x):
            return packed_instance(x, self)
        if type(x) is Partial:
            return jax_module("tree_util").Partial(self(x.func), *map(self, x.args), **self(x.keywords))
        packed = packed_node(x, self)
        if packed is not None:
            return packed
        return self.function(x) if callable(x) and not isinstance(x, type) else x

    def function(self, fun: Callable[..., Any]) -> Any:
        """JAX's function for a public minijax function (``lax.add``); other functions are exported to JAX."""
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
    """Export ``fun`` as a function of JAX's arrays: unpack its arguments, and pack its results."""

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


def _made_here(out: Any, module: str) -> Any:
    """Convert a result's instances of JAX's classes to ours. A returned function (``normal()``) is borrowed too."""
    if type(out) is Array or isinstance(out, Tracer):
        return out
    if isinstance(out, types.FunctionType):
        return borrowed_function(out, module, out.__name__)
    if type(out) is Packed or not (type(out) is tuple and _are_plain(out)):
        return unpack(out)
    return out


def _made_of_functions(
    theirs: Callable[..., Any], made: Callable[..., Any], module: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """Wrap ``made``, a function that JAX's ``theirs`` returned (``checkify(f)``). Each call runs ``theirs`` again."""

    def call(args: Any, kwargs: Any, rest: Any, options: Any) -> Any:
        return theirs(*args, **kwargs)(*rest, **options)

    borrowed = borrowed_function(call, module, made.__name__)

    @functools.wraps(made, updated=())
    def function(*rest: Any, **options: Any) -> Any:
        return borrowed(args, kwargs, rest, options)

    return function
