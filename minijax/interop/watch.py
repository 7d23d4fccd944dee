"""A call of a program that computes with JAX, as one of minijax, which can watch it.

The user's functions are carried over; what cannot be is imported by ``from_jax``, equation by equation. What the status
says is what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijax.config import x64_enabled
from minijax.core.named import NamedTuple
from minijax.interop.carrier import Carrier, called
from minijax.interop.functions import from_jax
from minijax.interop.libraries import JAX, MINIJAX, Unmapped
from minijax.interop.values import jax_module

# Names of functions that a status lists.
_MOST_NAMES = 3


class Unwatched(Exception):
    """A program that computes with JAX and that cannot be watched; the text says why."""


class Watched(NamedTuple):
    """A call on minijax: the function, its arguments, and how it came about.

    ``kept`` is filled while the program runs too: names of functions that are kept whole, and why, if that is known.
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kept: dict[str, str]
    reason: str = ""

    @property
    def status(self) -> str:
        """In one line, what is watched."""
        if self.reason:
            return f"imported from JAX, equation by equation: {self.reason}"
        if not self.kept:
            return "carried over from JAX"
        names = list(self.kept)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        why = "; ".join(dict.fromkeys(filter(None, self.kept.values())))
        said = f"carried over from JAX; kept whole, and imported equation by equation: {', '.join(names[:_MOST_NAMES])}"
        return f"{said}{more}{f' ({why})' if why else ''}"


def watched(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched:
    """The call, which computes with JAX, on minijax.

    Raises:
      Unwatched: minijax would compute something else, or cannot take the program.
    """
    wide = bool(jax_module().config.jax_enable_x64)
    if wide != x64_enabled():
        has, lacks = ("JAX", "minijax") if wide else ("minijax", "JAX")
        raise Unwatched(
            f"{has} computes with 64 bits here and {lacks} does not, so that its numbers are not what would be seen"
        )
    carry = Carrier(JAX, MINIJAX)
    try:
        return Watched(carry(fun), carry(args), carry(kwargs), carry.kept)
    except Unmapped as error:
        reason = str(error)
    whole = Carrier(JAX, MINIJAX, whole=True)
    try:
        try:
            target = whole(fun)
        except Unmapped:
            target = from_jax(fun)
            reason = reason or f"{called(fun)} is kept whole"
        return Watched(target, whole(args), whole(kwargs), whole.kept, reason)
    except Unmapped as error:
        raise Unwatched(str(error)) from None


def at_home(x: Any) -> Any:
    """A result of a watched call as a program of JAX's has it: arrays, and what is made of arrays, are JAX's."""
    return Carrier(MINIJAX, JAX, home=True)(x)
