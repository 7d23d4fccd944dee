"""Convert a call of a JAX program to minijax, which can watch it.

The user's functions are converted one by one. ``from_jax`` imports all other functions, equation by equation. The
status of the call lists the imported functions.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

from minijax.config import x64_enabled
from minijax.core.array import is_array_like
from minijax.core.records import NamedTuple
from minijax.core.trace import state
from minijax.interop.carrier import Carrier, is_third_partys
from minijax.interop.functions import originals
from minijax.interop.libraries import JAX, MINIJAX, Unmapped
from minijax.interop.values import jax_module
from minijax.pytree import tree_map

# At most one converter: that of the last program of which no part can change unnoticed.
_last: deque[Carrier] = deque(maxlen=1)
# Maximum number of function names in a status.
_MOST_NAMES = 3


class Unwatched(Exception):
    """The JAX program cannot be watched; the text says why."""


class Watched(NamedTuple):
    """A call on minijax: the function, its arguments, and how they were converted.

    While the program runs, ``kept`` gets the names of the functions that are imported as a whole, with the reason if
    it is known. Call ``settle`` afterwards: it copies the program's changes back to the user's objects and names.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kept: dict[str, str]
    settle: Callable[[], None]
    reason: str = ""

    @property
    def status(self) -> str:
        """How the call is watched, in one line."""
        if self.reason:
            return f"imported from JAX, equation by equation: {self.reason}"
        if not self.kept:
            return "carried over from JAX"
        names = list(self.kept)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        why = "; ".join(dict.fromkeys(filter(None, self.kept.values())))
        text = f"carried over from JAX; traced by JAX and imported as a jaxpr: {', '.join(names[:_MOST_NAMES])}"
        return f"{text}{more}{f' ({why})' if why else ''}"


def watched(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched:
    """Convert a call of a JAX program to minijax. Raises Unwatched if that fails, or if its results would differ."""
    wide = bool(jax_module().config.jax_enable_x64)
    if wide != x64_enabled():
        has, lacks = ("JAX", "minijax") if wide else ("minijax", "JAX")
        raise Unwatched(
            f"{has} computes with 64 bits here and {lacks} does not, so their results would differ. "
            f'Write minijax.config.update("jax_enable_x64", {wide}).'
        )
    try:
        return _brought_over(fun, args, kwargs)
    except RecursionError:
        raise Unwatched("a value that it reads contains itself, or is nested too deeply to be copied") from None


def _brought_over(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched:
    carry = _carrier()
    try:
        target = _returning_arrays(carry(fun), fun, carry.kept)
        if carry.fixed:
            _last.append(carry)
        return Watched(target, *carry.arguments(args, kwargs), carry.kept, functools.partial(_settle, carry))
    except Unmapped as error:
        reason = str(error)
    whole = Carrier(JAX, MINIJAX, whole=True)
    try:
        try:
            target = whole.function(fun)
        except Unmapped:
            target = whole.whole_function(fun)
        target = _returning_arrays(target, fun, whole.kept)
        return Watched(target, *whole.arguments(args, kwargs), whole.kept, whole.settle, reason)
    except Unmapped as error:
        raise Unwatched(str(error)) from None


def _carrier() -> Carrier:
    """The last converter if none of the functions that it converted has changed, else a new converter. With the last
    converter, the next command uses the same copies of functions and their traces again, also for other arguments.
    """
    last = _last.pop() if _last else None
    if last is not None and last.holds and not last.kept:  # a cached trace would not call functions imported as a whole
        return last
    return Carrier(JAX, MINIJAX)


def _settle(carry: Carrier) -> None:
    carry.settle()
    carry.forget_values()


class _ArraysOnly:
    """A function whose result may have leaves that are not arrays, such as a model's activation. If the function is
    staged, it returns None in place of such leaves, because a program returns only arrays."""

    def __init__(self, fun: Callable[..., Any], is_staged: Callable[[Any], bool], tree_map: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun, updated=())
        self._fun, self._is_staged, self._tree_map = fun, is_staged, tree_map

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self._fun(*args, **kwargs)
        if not self._is_staged(out):
            return out
        return self._tree_map(lambda leaf: leaf if is_array_like(leaf) else None, out)


def _returning_arrays(fun: Any, original: Any, kept: dict[str, str]) -> Any:
    """``fun``, which was converted from ``original``, in a form that can be staged even if imported functions return
    objects other than arrays.
    """
    if not isinstance(fun, FunctionType) or fun not in originals:
        return fun  # the result of a transformation, which leaves such objects out itself
    tree_util = jax_module().tree_util
    theirs = _ArraysOnly(original, lambda out: any(map(JAX.is_tracer, tree_util.tree_leaves(out))), tree_util.tree_map)
    ours = _ArraysOnly(fun, lambda _: bool(kept) and bool(state.dynamic.level), tree_map)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    originals[call] = theirs
    return call


def is_model(x: Any) -> bool:
    """Whether ``x`` is a pytree whose class, or a base of it, comes from a third-party library that builds on JAX."""
    return x is not None and JAX.node(type(x)) is not None and is_third_partys(type(x))


def counterpart(x: Any) -> Any:
    """The minijax equivalent of a JAX object, such as a primitive; ``x`` itself if there is none."""
    try:
        return Carrier(JAX, MINIJAX)(x)
    except Unmapped:
        return x


def primitive(name: str) -> Any:
    """The minijax equivalent of the JAX primitive called ``cholesky`` or ``cholesky_p``, or None."""
    found = getattr(jax_module("extend.core.primitives"), name.removesuffix("_p") + "_p", None)
    return None if found is None else counterpart(found)


def at_home(x: Any) -> Any:
    """The result of a watched call as the JAX program would return it: its arrays and containers are JAX's."""
    return Carrier(MINIJAX, JAX, home=True)(x)
