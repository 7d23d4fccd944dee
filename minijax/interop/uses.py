"""Whether a program computes with real JAX, read off the program: minijax sees nothing of what JAX does.

What is read is the user's functions, those that they name or close over, and what is wrapped in them; a name that
nobody can know before the program runs (``getattr(module, name)``) is not found.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from minijax import errors
from minijax.pytree import tree_leaves

_LIBRARIES = ("jax", "jaxlib")
# These look for JAX's arrays among their arguments, and compute nothing with JAX.
_NEUTRAL = ("numpy", "scipy")
# Functions that are read: a program that reaches more of its own than this is a library.
_MOST_FUNCTIONS = 500


def jax_use(fun: Callable[..., Any], *values: Any) -> str:
    """What of real JAX ``fun`` uses, in words: ``jax.numpy, which g calls rnp``. Empty if nothing is found.

    Args:
      fun: a function, or what a transformation of JAX's made of one.
      values: its arguments and results, where JAX's arrays may be.
    """
    if "jax" not in sys.modules:  # the user has not imported it, and neither has a compilation
        return ""
    return _used_by(fun) or next((_called(x) for x in tree_leaves(values) if _is_jaxs(type(x).__module__)), "")


def _used_by(fun: Any) -> str:
    seen: set[int] = set()
    todo: list[Any] = [fun]
    while todo and len(seen) < _MOST_FUNCTIONS:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if not isinstance(each, types.ModuleType) and _is_jaxs(type(each).__module__):
            return _called(each)
        if isinstance(each, types.FunctionType):
            home = each.__globals__.get("__name__", "")  # __module__ is that of the function that it wraps
            if _is_jaxs(home):
                return _called(each)
            if home.partition(".")[0] in _NEUTRAL:
                continue
            if not errors.is_user_file(each.__code__.co_filename):
                todo += _inside(each)  # a transformation's wrapper: what it closes over is the user's
                continue
            for name, value in _named(each):
                if isinstance(value, types.ModuleType):
                    if _is_jaxs(value.__name__):
                        return f"{value.__name__}, which {each.__name__} calls {name}"
                else:
                    todo.append(value)
        else:
            todo += _inside(each)
    return ""


def _is_jaxs(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


def _called(x: Any) -> str:
    name = getattr(x, "__name__", "")
    if name and not _is_jaxs(getattr(x, "__module__", "")):  # what jax.jit made of the user's function bears its name
        return f"{name}, a function made by JAX"
    return f"{x.__module__}.{name}" if name else f"a value of JAX's type {type(x).__name__}"


def _named(fun: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals and closed-over values that a function names, nested functions' included, and its defaults."""
    for cell, name in zip(fun.__closure__ or (), fun.__code__.co_freevars, strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    codes = [fun.__code__]
    for code in codes:
        for name in code.co_names:
            if name in fun.__globals__:
                yield name, fun.__globals__[name]
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    for i, value in enumerate(fun.__defaults__ or ()):
        yield f"default {i}", value


def _inside(x: Any) -> list[Any]:
    """The functions in something that is called as one: a bound method, a partial, a wrapper, an instance."""
    if isinstance(x, functools.partial):
        return [x.func, *x.args]
    if isinstance(x, types.FunctionType):
        wrapped = getattr(x, "__wrapped__", None)
        cells = [value for _, value in _named(x) if isinstance(value, types.FunctionType)] if wrapped is None else []
        return [wrapped] if wrapped is not None else [f for f in cells if errors.is_user_file(f.__code__.co_filename)]
    if isinstance(x, type):
        return [method for method in vars(x).values() if isinstance(method, types.FunctionType)]
    if isinstance(x, types.MethodType):
        return [x.__func__]
    wrapped = getattr(x, "__wrapped__", None)
    if wrapped is not None:
        return [wrapped]
    call = type(x).__call__ if callable(x) else None
    return [call] if isinstance(call, types.FunctionType) else []
