"""The sources from which a frame gets the values and tangents of its inputs, and the cotangents of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

PRIMAL, TANGENT, COTANGENT = "primal", "tangent", "cotangent"


class Feed:
    """Primals and tangents by input index, cotangents by output index: each a Stacked, an Unknown, or None for zero.

    Attributes:
      kinds: the kinds of values that were given: 'primal', and perhaps 'tangent' and 'cotangent'.
      missing: kind -> the reason why these values are unknown inside.
      now: kind -> the values that the outer frame knows already, because it is evaluating the call.
    """

    def __init__(
        self,
        find: Callable[[str, int], Any],
        kinds: Sequence[str] = (PRIMAL,),
        missing: Mapping[str, str] | None = None,
    ) -> None:
        self.find = find
        self.kinds = kinds
        self.missing = missing or {}
        self.now: dict[str, Sequence[Any]] = {}

    def __call__(self, kind: str, place: int) -> Any:
        """The primal or tangent of an input, or the cotangent of an output."""
        return self.now[kind][place] if kind in self.now else self.find(kind, place)

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """The results of the call, given the results of the program."""
        return outs

    def arrived(self, cts: Sequence[Any]) -> Sequence[Any]:
        """The cotangents of the call's operands, given those of the program's inputs."""
        return cts


def given(
    primals: Sequence[Any], tangents: Sequence[Any] | None = None, cotangents: Sequence[Any] | None = None
) -> Feed:
    """A feed with these values."""
    values: dict[str, Any] = {PRIMAL: primals, TANGENT: tangents, COTANGENT: cotangents}
    return Feed(lambda kind, place: values[kind][place], [kind for kind, each in values.items() if each is not None])


def of_operands(outer: Any, ins: Sequence[Any], outs: Sequence[Any]) -> Callable[[str, int], Any]:
    """Find the values of a call's operands, and the cotangents of its results, in the outer frame."""
    return lambda kind, place: outer.find(kind, (outs if kind == COTANGENT else ins)[place])


def inside(outer: Any, find: Callable[[str, int], Any], missing: Mapping[str, str] | None = None) -> Feed:
    """The feed of a program inside the frame ``outer``, with values of the same kinds."""
    return Feed(find, outer.feed.kinds, {**outer.feed.missing, **(missing or {})})
