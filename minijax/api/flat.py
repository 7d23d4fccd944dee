"""Convert functions of pytrees to functions of flat lists, which the interpreters transform."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Container, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijax.core import dtypes
from minijax.core.array import as_array, check_int, get_aval, is_array_like, is_foreign
from minijax.core.avals import AnyArray, ShapedArray
from minijax.core.refs import AbstractRef
from minijax.errors import is_user_file
from minijax.pytree import LEAF, PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_of_leaves, tree_unflatten


def fun_name(fun: Callable[..., Any]) -> str:
    """The function's name, as printed in jaxprs."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", None) or type(fun).__name__


def describe(fun: Callable[..., Any]) -> str:
    """``f at file.py:12``, for error messages. For a function of this package, only its name."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    code = getattr(getattr(fun, "__wrapped__", fun), "__code__", None)
    name = getattr(fun, "__name__", None) or type(fun).__name__  # as in ``fun_name``
    return name if code is None else _placed(name, code.co_filename, code.co_firstlineno)


@functools.lru_cache(maxsize=256)
def _placed(name: str, file: str, line: int) -> str:
    """``describe`` for a function with this name, file and line."""
    return f"{name} at {file}:{line}" if is_user_file(file) else name


_FIRST_NAMES = "__module__", "__name__", "__qualname__", "__doc__"
# The other attributes that ``functools.wraps`` copies; they depend on the Python version.
_OTHER_NAMES = [name for name in functools.WRAPPER_ASSIGNMENTS if name not in _FIRST_NAMES]


def wraps(fun: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Like ``functools.wraps``, but three times faster: every call of ``grad(f)(x)`` uses it."""
    if type(fun) is not FunctionType:
        return functools.wraps(fun)

    def wrap(wrapper: Any) -> Any:
        wrapper.__module__, wrapper.__name__ = fun.__module__, fun.__name__
        wrapper.__qualname__, wrapper.__doc__ = fun.__qualname__, fun.__doc__
        for name in _OTHER_NAMES:
            setattr(wrapper, name, getattr(fun, name))
        if fun.__dict__:
            wrapper.__dict__.update(fun.__dict__)
        wrapper.__wrapped__ = fun
        return wrapper

    return wrap


def check_callable(fun: Any) -> None:
    """TypeError if ``fun`` cannot be called."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}. Pass the function itself, not its result.")


# A user function's results of these classes pass unchanged; other array-like results are converted.
_AS_IT_IS = (AnyArray, int, float, complex, np.ndarray, np.generic)


class FlatFun:
    """``fun`` as a function from leaves to a list of leaves. A call sets ``out_tree`` and ``aux``."""

    __slots__ = ("fun", "in_tree", "transform", "has_aux", "subject", "out_tree", "aux")

    out_tree: PyTreeDef

    def __init__(
        self, fun: Callable[..., Any], in_tree: PyTreeDef, transform: str, has_aux: bool = False, subject: str = ""
    ) -> None:
        self.fun = fun
        # the user's function as messages name it, even if ``fun`` is a wrapper
        self.subject = subject or describe(fun)
        self.in_tree = in_tree
        self.transform = transform
        self.has_aux = has_aux
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        if self.in_tree is tree_of_leaves(len(leaves)):
            out = self.fun(*leaves)
            if isinstance(out, AnyArray) and not self.has_aux:
                self.out_tree = LEAF
                return [out]
            return self.flat(out)
        args, kwargs = self.in_tree.unflatten(leaves)
        return self.flat(self.fun(*args, **kwargs))

    def flat(self, out: Any) -> list[Any]:
        """Flatten the function's result ``out``, and store its tree."""
        if self.has_aux:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(
                    "expected function with aux output to return a two-element tuple, but got type "
                    f"{type(out)} with value {out!r}: with has_aux=True, return (output, auxiliary_data)."
                )
            out, self.aux = out
        outs, self.out_tree = tree_flatten(out)
        for i, x in enumerate(outs):
            if not isinstance(x, AnyArray):
                if not is_array_like(x):
                    raise TypeError(self._bad_output(out))
                outs[i] = x if isinstance(x, _AS_IT_IS) else to_value(x)
        return outs

    def _bad_output(self, out: Any) -> str:
        for path, leaf in tree_flatten_with_path(out)[0]:
            if not is_array_like(leaf):
                at = f" at output component {keystr(path)}" if path else ""
                return (
                    f"function {self.subject} traced for {self.transform} returned a value of type "
                    f"{type(leaf)}{at}, which is not a valid JAX type. Return arrays, numbers, or containers of them."
                )
        raise AssertionError("every output is array-like")

    def input_names(self) -> list[str]:
        """Name the input's leaves for messages: ``x``, ``params['w'][0]``."""
        own = getattr(self.fun, "input_names", None)
        return leaf_names(self.fun, self.in_tree) if own is None else own(self.in_tree)

    @property
    def __name__(self) -> str:
        return fun_name(self.fun)


def named_like(
    wrapper: Callable[..., Any], fun: Callable[..., Any], static: Container[int], names: Container[str] = ()
) -> Any:
    """Name ``wrapper`` after ``fun`` in messages. Its signature lacks the parameters at ``static`` and in ``names``."""
    functools.update_wrapper(wrapper, fun)
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        return wrapper
    kept = [p for i, p in enumerate(signature.parameters.values()) if i not in static and p.name not in names]
    try:
        wrapper.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    except ValueError:  # a parameter without a default now follows one with a default
        kept = [p.replace(default=p.empty) for p in kept]
        wrapper.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return wrapper


def parameters_of(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of ``fun``; [] if unknown."""
    try:
        return list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return []


def leaf_names(fun: Callable[..., Any], in_tree: PyTreeDef) -> list[str]:
    """Name each leaf of a call's ``(args, kwargs)`` after its parameter: ``x``, ``params['w'][0]``."""
    parameters = parameters_of(fun)
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
    by_keyword = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    other_keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
    args, kwargs = tree_unflatten(in_tree, range(in_tree.num_leaves))
    names: list[str] = []
    for i, arg in enumerate(args):
        name = f"{others}[{i - len(positional)}]" if others else f"args[{i}]"
        name = positional[i] if i < len(positional) else name
        names.extend(name + keystr(path) for path, _ in tree_flatten_with_path(arg)[0])
    for key in sorted(kwargs):
        name = f"{other_keywords}[{key!r}]" if other_keywords and key not in by_keyword else key
        names.extend(name + keystr(path) for path, _ in tree_flatten_with_path(kwargs[key])[0])
    return names


def check_args(leaves: list[Any], transform: str, fun: Callable[..., Any], in_tree: PyTreeDef) -> list[Any]:
    """Convert JAX's arrays in ``leaves``; TypeError for non-arrays, OverflowError for a large Python integer."""
    foreign = False
    for i, x in enumerate(leaves):
        if isinstance(x, AnyArray):
            continue
        if type(x) is int:
            check_int(x)
        if not is_array_like(x):
            advice = " or mark the argument as static (static_argnums, static_argnames)" if transform == "jit" else ""
            raise TypeError(
                f"Error interpreting argument to {describe(fun)} as an abstract array: {x!r} of type {type(x)} is "
                f"not a valid JAX type. It was passed to the function at path {leaf_names(fun, in_tree)[i]}. Pass an "
                f"array or a number to a function transformed by {transform}, close over the value instead,"
                f"{advice or ' or convert it'}."
            )
        foreign = foreign or is_foreign(x)
    return [as_array(x) if is_foreign(x) else x for x in leaves] if foreign else leaves


def to_value(x: Any) -> Any:
    """Return arrays, references, tracers and NumPy's float0 arrays unchanged; convert other values to arrays."""
    if isinstance(getattr(x, "aval", None), (ShapedArray, AbstractRef)) or getattr(x, "dtype", None) == dtypes.float0:
        return x
    return as_array(x)


def avals_of(leaves: Sequence[Any]) -> list[Any]:
    """The types of array-like ``leaves``."""
    if len(leaves) == 1:
        (x,) = leaves
        return [x.aval if isinstance(x, AnyArray) else get_aval(x)]
    return [x.aval if isinstance(x, AnyArray) else get_aval(x) for x in leaves]


def int_or_ints(value: Any, name: str) -> tuple[int, ...]:
    """``argnums`` as a tuple. TypeError if it is neither an integer nor a sequence of integers."""
    try:
        return (operator.index(value),)
    except TypeError:
        pass
    try:
        return tuple(operator.index(i) for i in value)
    except TypeError:
        raise TypeError(f"{name} must be an int or a sequence of ints, got {value!r}") from None


def positions(argnums: Sequence[int], n_args: int, doing: str, name: str, error: type[Exception]) -> list[int]:
    """Make ``argnums`` non-negative. Raises ``error`` if one is out of range for ``n_args`` positional arguments."""
    for i in argnums:
        if i >= n_args:
            raise error(
                f"{doing} {name}={i} requires at least {i + 1} positional arguments to be passed by the caller, "
                f"but got only {n_args} positional arguments. Positions count from 0."
            )
        if i < -n_args:
            raise ValueError(
                f"{doing} {name}={i}: positional argument indices must have value greater than or equal to "
                f"-len(args) and less than len(args), but got value {i} for len(args) == {n_args}."
            )
    return [i % n_args for i in argnums]
