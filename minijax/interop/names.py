"""Borrowed names: public names of JAX that minijax lacks, run by JAX's code on minijax values.

The module ``borrowed_functions`` wraps functions. A class whose instances hold arrays becomes a subclass of JAX's
class: its instances hold minijax arrays, and its methods are borrowed functions. A class that computes nothing (an
enum, a record, an error) is JAX's own.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from minijax.interop.borrowed import borrowed
from minijax.interop.borrowed_functions import PACKAGE, borrowed_function
from minijax.interop.packed import classes, fields_of, originals, set_fields
from minijax.interop.programs import jax_primitive_named
from minijax.interop.values import jax_module
from minijax.pytree import register_pytree_node_class

# Objects that are indexed, not called, to make arrays; ``s_`` and ``index_exp`` are NumPy's own.
_INDEXERS = frozenset(("mgrid", "ogrid", "r_", "c_"))
# Functions of these modules handle no arrays, so JAX's own are used.
_AS_THEY_ARE = ("extend.linear_util", "api_util")
# Methods that stay JAX's: they make and describe instances, and compute nothing.
_KEPT = frozenset(
    "__new__ __init__ __init_subclass__ __class_getitem__ __getnewargs__ __repr__ __eq__ __hash__ __setattr__ "
    "__delattr__ __getattribute__ __replace__ tree_flatten tree_unflatten".split()
)


def borrowed_name(module: str, name: str) -> Any:
    """Borrow ``name`` of ``module`` from JAX. AttributeError if JAX lacks it."""
    if name == "geqrf_p":  # JAX has no public name for it
        return borrowed_primitive("geqrf")
    home = jax_module(module.removeprefix(f"{PACKAGE}."))
    if name.startswith("ndarray."):  # a method of arrays, which JAX's class only declares
        method = name.removeprefix("ndarray.")
        return borrowed_function(lambda a, *args: getattr(a, method)(*args), module, name)
    theirs = operator.attrgetter(name)(home)  # ``name`` may be the name of a method: ``add.reduce``
    if module.removeprefix(f"{PACKAGE}.") in _AS_THEY_ARE:
        return theirs
    if isinstance(theirs, type):
        if not _holds_arrays(theirs):
            return theirs
        # a method of one class may return an instance of another
        for other, cls in list(vars(home).items()):
            if isinstance(cls, type) and _holds_arrays(cls):
                borrowed_class(cls, module, other)
        return borrowed_class(theirs, module, name)
    if isinstance(theirs, jax_module("extend.core").Primitive):
        return borrowed(theirs)
    if callable(theirs):
        return borrowed_function(theirs, module, name)
    return BorrowedIndexer(theirs, module, name) if name in _INDEXERS else theirs


def borrowed_primitive(name: str) -> Any:
    """JAX's primitive called ``name``, borrowed; None if JAX has none."""
    theirs = jax_primitive_named(name)
    return None if theirs is None else borrowed(theirs)


def _holds_arrays(theirs: type) -> bool:
    """Whether a class has methods that compute on arrays."""
    if issubclass(theirs, (enum.Enum, BaseException, np.generic, jax_module("core").Tracer)):
        return False
    if getattr(theirs, "_is_protocol", False) or isinstance(getattr(theirs, "dtype", None), np.dtype):
        return False
    if inspect.isabstract(theirs):  # only its subclasses have instances
        return False
    return any(isinstance(x, (types.FunctionType, property)) for x in _members(theirs).values())


def _members(theirs: type) -> dict[str, Any]:
    """The methods, properties and operators of JAX's class and its bases, except those that compute nothing."""
    found: dict[str, Any] = {}
    for cls in reversed(theirs.__mro__):
        if cls.__module__.partition(".")[0] == "jax":
            public = {n: x for n, x in vars(cls).items() if n not in _KEPT and (n[0] != "_" or n[-2:] == "__")}
            found |= {n: x for n, x in public.items() if callable(x) or isinstance(x, (property, classmethod))}
    return found


def borrowed_class(theirs: type, module: str, name: str) -> type:
    """The subclass of JAX's class whose methods run on minijax; the same class each time."""
    if theirs in classes:
        return classes[theirs]

    def as_ours(member: str, value: Any) -> Any:
        def function(fun: Callable[..., Any]) -> Callable[..., Any]:
            return borrowed_function(fun, module, f"{name}.{member}")

        if isinstance(value, property):
            return property(value.fget and function(value.fget), doc=value.__doc__)
        if isinstance(value, (classmethod, staticmethod)):
            return staticmethod(function(getattr(theirs, member)))
        return function(value)

    body = {member: as_ours(member, value) for member, value in _members(theirs).items()}
    body |= {"__module__": module, "__qualname__": name, "__doc__": theirs.__doc__, "__slots__": ()}
    if not (issubclass(theirs, tuple) or _is_plain_record(theirs)):
        body["__init__"] = _constructor(theirs, module, name)
    ours = classes[theirs] = type(name, (theirs,), body)
    originals[ours] = theirs
    if hasattr(theirs, "tree_flatten"):
        register_pytree_node_class(ours)
    return ours


def _is_plain_record(theirs: Any) -> bool:
    record = getattr(theirs, "__dataclass_params__", None)
    return record is not None and record.init and not hasattr(theirs, "__post_init__")


def _constructor(theirs: type, module: str, name: str) -> Callable[..., None]:
    def make(*args: Any, **kwargs: Any) -> Any:
        return theirs(*args, **kwargs)

    make.__name__ = make.__qualname__ = name
    make.__dict__["__signature__"] = inspect.signature(theirs)
    call = borrowed_function(make, module, name)

    @functools.wraps(theirs.__init__)  # type: ignore[misc]
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        set_fields(self, fields_of(call(*args, **kwargs)))

    return __init__


class BorrowedIndexer:
    """Wrap an object that is indexed, not called: ``mgrid``, ``ogrid``, ``r_``, ``c_``."""

    def __init__(self, theirs: Any, module: str, name: str) -> None:
        self._get = borrowed_function(lambda key: theirs[key], module, name)
        self._said = f"<{module}.{name}, borrowed from JAX>"

    def __getitem__(self, key: Any) -> Any:
        return self._get(key)

    def __repr__(self) -> str:
        return self._said
