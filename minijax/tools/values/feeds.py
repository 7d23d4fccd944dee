"""The sources from which a frame gets the values and tangents of its inputs, and the cotangents of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Feed:
    """Primals and tangents by input index, cotangents by output index.

    Attributes:
      has_tangents: whether any tangents were given.
      has_cotangents: whether any cotangents were given.
      no_tangents, no_cotangents: the reason why tangents or cotangents are missing; '' if they are given.
    """

    has_tangents = False
    has_cotangents = False
    no_tangents = ""
    no_cotangents = ""

    def primal(self, place: int) -> Any:
        """The value of an input: a Stacked or an Unknown."""
        raise NotImplementedError

    def tangent(self, place: int) -> Any:
        """The tangent of an input, None for zero."""
        return None

    def cotangent(self, place: int) -> Any:
        """The cotangent of an output, None for zero."""
        return None


class Given(Feed):
    """A feed with values that are given directly."""

    def __init__(
        self, primals: Sequence[Any], tangents: Sequence[Any] | None, cotangents: Sequence[Any] | None
    ) -> None:
        self.primals = primals
        self.tangents = tangents
        self.cotangents = cotangents
        self.has_tangents = tangents is not None
        self.has_cotangents = cotangents is not None

    def primal(self, place: int) -> Any:
        return self.primals[place]

    def tangent(self, place: int) -> Any:
        return None if self.tangents is None else self.tangents[place]

    def cotangent(self, place: int) -> Any:
        return None if self.cotangents is None else self.cotangents[place]


class Called(Feed):
    """A feed with the values of the operands and results of a call in the outer frame.

    The values are in ``now`` while the outer frame evaluates the call. The arguments ``tangents`` and ``cotangents``
    are reasons why the tangents or cotangents are missing.
    """

    def __init__(
        self, outer: Any, ins: Sequence[Any], outs: Sequence[Any], tangents: str = "", cotangents: str = ""
    ) -> None:
        self.outer = outer
        self.ins = ins
        self.outs = outs
        self.has_tangents = outer.feed.has_tangents
        self.has_cotangents = outer.feed.has_cotangents
        self.no_tangents = tangents or outer.feed.no_tangents
        self.no_cotangents = cotangents or outer.feed.no_cotangents
        self.now: dict[str, Sequence[Any]] = {}

    def primal(self, place: int) -> Any:
        return self.now["primal"][place] if "primal" in self.now else self.outer.primal_of(self.ins[place])

    def tangent(self, place: int) -> Any:
        return self.now["tangent"][place] if "tangent" in self.now else self.outer.tangent_of(self.ins[place])

    def cotangent(self, place: int) -> Any:
        return self.now["cotangent"][place] if "cotangent" in self.now else self.outer.cotangent_of(self.outs[place])


class Asked(Feed):
    """A feed with functions that compute the values: for iterations of loops, and for custom derivative rules."""

    def __init__(
        self,
        primal: Callable[[int], Any],
        tangent: Callable[[int], Any] | None = None,
        cotangent: Callable[[int], Any] | None = None,
        no_tangents: str = "",
        no_cotangents: str = "",
    ) -> None:
        self.find_primal = primal
        self.find_tangent = tangent
        self.find_cotangent = cotangent
        self.has_tangents = tangent is not None or bool(no_tangents)
        self.has_cotangents = cotangent is not None or bool(no_cotangents)
        self.no_tangents = no_tangents
        self.no_cotangents = no_cotangents

    def primal(self, place: int) -> Any:
        return self.find_primal(place)

    def tangent(self, place: int) -> Any:
        return None if self.find_tangent is None else self.find_tangent(place)

    def cotangent(self, place: int) -> Any:
        return None if self.find_cotangent is None else self.find_cotangent(place)
