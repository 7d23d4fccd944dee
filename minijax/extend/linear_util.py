"""Functions in whose call other code takes part: ``jax.extend.linear_util``, which Flax, Haiku and NumPyro use.

minijax itself stages flat functions (``api.flat``) and needs none of this.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any

__all__ = [
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):  # noqa: N818  (JAX's name)
    """What a transformation tells beside the result was asked for before the call, or told twice."""


class _Aux:
    """What one call tells beside its result."""

    def __init__(self) -> None:
        self._told: list[Any] = []

    def tell(self, value: Any) -> None:
        if self._told:
            raise StoreException("Store occupied: the function was called before, make another one of it")
        self._told.append(value)

    def __call__(self) -> Any:
        if not self._told:
            raise StoreException("Store empty: the function has not been called")
        return self._told[0]


class WrappedFun:
    """A function and the transformations around it; ``call_wrapped`` calls it.

    Equal if the function, the transformations with their static arguments, and the parameters are.
    """

    def __init__(self, f: Callable[..., Any], params: Any = None, debug_info: Any = None, transforms: Any = ()) -> None:
        self.f = self.f_transformed = f
        self.params = tuple(sorted(dict(params or {}).items()))
        self.debug_info = debug_info
        self.transforms: tuple[tuple[Callable[..., Any], tuple[Hashable, ...]], ...] = transforms

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def around(self, call: Callable[..., Any], by: Callable[..., Any], static: tuple[Any, ...]) -> WrappedFun:
        """This function called by ``call(function, *args, **kwargs)``; ``by`` and ``static`` tell them apart."""
        made = WrappedFun(self.f, self.params, self.debug_info, ((by, static), *self.transforms))
        made.f_transformed = functools.partial(call, self.f_transformed)
        return made

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f_transformed(*args, **dict(self.params), **kwargs)

    def _key(self) -> Any:
        return self.f, self.transforms, self.params

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        lines = [f"{i}   : {by.__name__}   {static}" for i, (by, static) in enumerate(self.transforms)]
        return "\n".join(["Wrapped function:", *lines, f"Core: {self.__name__}"])


def wrap_init(f: Callable[..., Any], params: Any = None, *, debug_info: Any = None) -> WrappedFun:
    """``f`` as a ``WrappedFun``, called with the keyword arguments ``params``, too."""
    return WrappedFun(f, params, debug_info)


def _run(gen: Callable[..., Any], static: tuple[Any, ...], f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A generator that yields the arguments for ``f``, is sent its result, and yields the result of the whole."""
    steps = gen(*static, *args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(f(*inner_args, **inner_kwargs))


def transformation(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """``transform(fun, *static)`` for a generator function of the static arguments and the call's.

    It yields ``(args, kwargs)`` for the function, is sent what that returns, and yields the result.
    """

    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.around(lambda f, *args, **kwargs: _run(gen, static, f, args, kwargs), gen, static)

    return transform


def transformation_with_aux(gen: Callable[..., Any]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As ``transformation``; the generator yields ``(result, more)`` in the end, and ``aux()`` is ``more``."""

    @functools.wraps(gen)
    def transform(fun: WrappedFun, *static: Any, **options: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        aux = _Aux()

        def call(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            result, more = _run(gen, static, f, args, kwargs)
            aux.tell(more)
            return result

        return fun.around(call, gen, static), aux

    return transform


def transformation2(call: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """``transform(fun, *static)`` for a function ``call(f, *static, *args, **kwargs)`` that calls ``f`` itself."""

    @functools.wraps(call)
    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.around(lambda f, *args, **kwargs: call(f, *static, *args, **kwargs), call, static)

    return transform


def transformation_with_aux2(call: Callable[..., Any]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As ``transformation2`` for ``call(f, store, *static, *args, **kwargs)``: ``aux()`` is what it stores."""

    @functools.wraps(call)
    def transform(fun: WrappedFun, *static: Any, **options: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()
        around = lambda f, *args, **kwargs: call(f, store, *static, *args, **kwargs)  # noqa: E731
        return fun.around(around, call, static), store.aux

    return transform


class Store:
    """Where a function that ``transformation_with_aux2`` was given puts what it tells beside its result."""

    def __init__(self) -> None:
        self.aux = _Aux()

    def store(self, value: Any) -> None:
        self.aux.tell(value)


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """What one of two functions told, of which one was called: ``(whether it was the first, what)``."""
    try:
        found = True, aux1()
    except StoreException:
        return False, aux2()
    try:
        aux2()
    except StoreException:
        return found
    raise StoreException("both stores occupied: both functions were called")


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """``call(fun, *args)``, remembered for each ``WrappedFun`` and arguments, as long as the function lives."""
    remembered: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        of_function = remembered.setdefault(fun.f, {})
        key = fun.transforms, fun.params, args
        if key not in of_function:
            of_function[key] = call(fun, *args)
        return of_function[key]

    cached.cache_clear = remembered.clear  # type: ignore[attr-defined]
    return cached
