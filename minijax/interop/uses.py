"""Detect in a program's code whether it computes with the real JAX, which minijax cannot observe.

This reads the user's functions and the functions that these wrap. It also searches the values that they name or close
over, even modules, objects and containers. A name known only at run time (``getattr(module, name)``) is missed.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minijax import errors
from minijax.core.operands import JAX_LIBRARIES

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# These packages use JAX only to recognize its arrays among their arguments. They do not compute with it.
NEUTRAL = ("numpy", "scipy")
# The functions that these modules make come from JAX, but run on minijax.
_CARRYING = ("minijax.interop.functions", "minijax.interop.borrowed_functions", "minijax.interop.names")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.ndarray, np.generic)
# At most this many functions are read: a larger program is taken for a library.
_MOST_FUNCTIONS = 500


def jax_use(fun: Callable[..., Any], *values: Any) -> str:
    """Name the real JAX object that ``fun`` or one of ``values`` uses: ``jax.numpy, which g calls rnp``; or ''."""
    if "jax" not in sys.modules:  # nothing has imported jax
        return ""
    return _used_by(fun) or next(filter(None, map(_of_value, _parts(values))), "")


def _parts(values: Any) -> Iterator[Any]:
    """List the values in containers and in user objects, each value once. Containers may be recursive."""
    seen: set[int] = set()
    todo = [values]
    while todo and len(seen) < _MOST_FUNCTIONS:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (list, tuple)):
            todo += reversed(each)
        elif isinstance(each, dict):
            todo += each.values()
        else:
            yield each
            if hasattr(each, "__dict__") and not callable(each) and _is_read(each):
                todo += vars(each).values()


def _of_value(x: Any) -> str:
    if _is_jaxs(type(x).__module__):
        return _called(x)
    if isinstance(x, types.FunctionType) or (hasattr(x, "__dict__") and _is_read(x)):
        return _used_by(x if callable(x) else type(x))
    return ""


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
            if each.__code__.co_filename.startswith(_HERE):  # minijax watches what ``from_jax`` returns
                continue
            home = each.__globals__.get("__name__", "")  # a wrapper's __module__ is that of the wrapped function
            if home in _CARRYING:
                continue
            if _is_jaxs(home):
                return _called(each)
            if home.partition(".")[0] in NEUTRAL:
                continue
            if not errors.is_user_file(each.__code__.co_filename):
                todo += _inside(each)  # a transformation's wrapper closes over the user's function
                continue
            if imported := _imported(each.__code__):
                return f"{imported}, which {each.__name__} imports"
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
    return (module or "").partition(".")[0] in JAX_LIBRARIES


def _called(x: Any) -> str:
    name = getattr(x, "__name__", "")
    if name and not _is_jaxs(getattr(x, "__module__", "")):  # the result of jax.jit has the name of the user's function
        return f"{name}, a function made by JAX"
    return f"{x.__module__}.{name}" if name else f"a value of JAX's type {type(x).__name__}"


def _imported(code: types.CodeType) -> str:
    """The JAX module that a function imports when called, or ''."""
    codes = [code]
    for each in codes:
        codes += [const for const in each.co_consts if isinstance(const, types.CodeType)]
        for name in each.co_names:  # import statements use full module names
            if _is_jaxs(name) and ("IMPORT_NAME", name) in [(i.opname, i.argval) for i in dis.get_instructions(each)]:
                return name
    return ""


def is_jax_array(x: Any) -> bool:
    """Whether ``x`` is a real JAX array; does not import jax."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def _named(fun: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals, closed-over values and defaults of ``fun``, then the attributes of these in its code."""
    codes = [fun.__code__]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    names = list(dict.fromkeys(name for code in codes for name in code.co_names))
    found: list[tuple[str, Any]] = []
    for cell, name in zip(fun.__closure__ or (), fun.__code__.co_freevars, strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            found.append((name, cell.cell_contents))
    found += [(name, fun.__globals__[name]) for name in names if name in fun.__globals__]
    found += [(f"default {i}", value) for i, value in enumerate(fun.__defaults__ or ())]
    found += (fun.__kwdefaults__ or {}).items()
    seen: set[int] = set()
    for name, value in found:
        yield name, value
        if id(value) not in seen and _is_read(value):
            seen.add(id(value))
            parts = [(part, inspect.getattr_static(value, part, None)) for part in names]
            found += [(part, inner) for part, inner in parts if inner is not None]


def is_of_a_statement(cls: type) -> bool:
    """Whether a ``class`` statement or a call of ``type`` made the class, and not C code."""
    return bool(cls.__flags__ & 1 << 9)  # Python's Py_TPFLAGS_HEAPTYPE


def _is_read(value: Any) -> bool:
    """Whether to read the attributes of ``value``: only if it is a module or an object of the user."""
    if isinstance(value, types.ModuleType):
        file = getattr(value, "__file__", None)
        own = file is not None and errors.is_user_file(file)
        return own and value.__name__.partition(".")[0] not in (*JAX_LIBRARIES, *NEUTRAL)
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ == "builtins":  # a class statement outside of modules gives this too
        return is_of_a_statement(kind)
    return kind.__module__.partition(".")[0] not in ("builtins", "minijax", *JAX_LIBRARIES, *NEUTRAL)


def _inside(x: Any) -> list[Any]:
    """The functions inside a callable (a bound method, a partial, a wrapper, an instance) or a container."""
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if type(x) in (list, tuple, dict):
        parts = x.values() if type(x) is dict else x
        return [part for part in itertools.islice(parts, _MOST_FUNCTIONS) if not isinstance(part, _PLAIN)]
    if isinstance(x, types.FunctionType):
        wrapped = getattr(x, "__wrapped__", None)
        cells = [value for _, value in _named(x) if isinstance(value, types.FunctionType)] if wrapped is None else []
        return [wrapped] if wrapped is not None else [f for f in cells if errors.is_user_file(f.__code__.co_filename)]
    if isinstance(x, type):
        parts = [getattr(part, "fget", getattr(part, "__func__", part)) for part in vars(x).values()]
        return [part for part in parts if isinstance(part, types.FunctionType) or _is_jaxs(type(part).__module__)]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    wrapped = getattr(x, "__wrapped__", None)
    if wrapped is not None:
        return [wrapped]
    call = type(x).__call__ if callable(x) else None
    own = vars(x).values() if hasattr(x, "__dict__") and _is_read(x) else ()
    held = [part for part in itertools.islice(own, _MOST_FUNCTIONS) if not isinstance(part, _PLAIN)]
    return [*([call] if isinstance(call, types.FunctionType) else []), *held]
