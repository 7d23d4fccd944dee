"""Recompilations in a cell: cache misses of a function after its first call, with their number, time and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minijax.api.differences import Miss
from minijax.core.miss_log import Missed
from minijax.core.records import Frozen
from minijax.tools.documents.document import Block, Document, Line, Row, Section, Text, document, line
from minijax.tools.documents.words import plural, seconds_text, shortened
from minijax.tools.explain.caches import own_tracing
from minijax.tools.session import jax_misses

# Maximum number of reasons that are listed.
MOST_REASONS = 8
# The kinds of difference for which a miss counts as the first call of a function.
_FIRST = ("first", "redefined", "retraced")
_LONGEST = 90
_ASK = "%why tells where each was called, what it cost and what to change"


class Recompiles(Frozen):
    """``title`` has the counts. ``reasons`` has a line for each reason, such as ``f: x: f32[3] became f32[4]``."""

    title: str
    reasons: tuple[str, ...]

    @property
    def shown(self) -> Document:
        """The title, with the reasons folded below."""
        blocks: list[Block] = [Row("why", tuple(line(each) for each in self.reasons))]
        return document(Section(self._head, (*blocks, Text((line(("muted", _ASK)),))), False))

    @property
    def unfolded(self) -> Document:
        """The title, with the reasons below it."""
        return document(Text((self._head,)), Row("why", tuple(line(each) for each in self.reasons)))

    @property
    def _head(self) -> Line:
        return line(("warning", self.title))


def recompiles(
    entries: Sequence[Missed], of_jax: Sequence[jax_misses.JaxMiss] = (), lost: int = 0
) -> Recompiles | None:
    """The misses of a cell that are not first calls; None if all are first calls. ``entries`` are minijax's misses,
    ``of_jax`` are JAX's, whose times are unknown. ``lost``: how many earlier misses the engine has dropped.
    """
    again = [each for each in entries if each.cache in ("staging", "compilation") and not _is_first(each)]
    again_in_jax = [each for each in of_jax if not jax_misses.is_first(each)]
    if not again and not again_in_jax:
        return None
    own, made = own_tracing(entries), _made_of(again, entries)
    compiled = sum("compile" in each.costs or bool(made.get(each.number)) for each in again)
    costly = [*again, *[program for each in again for program in made.get(each.number, ())]]
    seconds = sum(each.seconds - each.costs.get("trace", 0.0) + own[each.number] for each in costly)
    counts = ((compiled, "recompile"), (len(again) - compiled, "retrace"))
    counted = [plural(count, what) for count, what in counts if count]
    title = [f"{' and '.join(counted)}, {seconds_text(seconds)}"] if again else []
    title += [plural(len(again_in_jax), "retrace") + " by JAX"] if again_in_jax else []
    said = ("at least " if lost else "") + ", ".join(title)
    return Recompiles(said, tuple(_reasons([*again, *again_in_jax])))


def _is_first(each: Missed) -> bool:
    reason = each.reason
    if _is_derived(each):
        return True
    return isinstance(reason, Miss) and bool(reason.differences) and reason.differences[0].kind in _FIRST


def _is_derived(each: Missed) -> bool:
    """Whether this is the first compilation of a program that a transformation derived from a function."""
    return each.cache == "compilation" and each.reason.endswith("for the first time")


def _made_of(again: Sequence[Missed], entries: Sequence[Missed]) -> dict[int, list[Missed]]:
    """number of a miss in ``again`` -> the misses of programs that were derived from its trace."""
    traced = {each.number for each in again}
    latest: dict[str, int] = {}
    found: dict[int, list[Missed]] = {}
    for each in entries:
        if _is_derived(each):
            if latest.get(each.name) in traced:
                found.setdefault(latest[each.name], []).append(each)
        elif each.cache == "staging":
            latest[each.name] = each.number
    return found


def _reasons(misses: Iterable[Missed | jax_misses.JaxMiss]) -> Iterable[str]:
    """A line for each pair of function and reason, with a count if it occurred several times."""
    found: dict[str, int] = {}
    for each in misses:
        said = f"{each.name}: {shortened(each.reason, _LONGEST)}"
        found[said] = found.get(said, 0) + 1
    for said, times in list(found.items())[:MOST_REASONS]:
        yield f"{said} ×{times}" if times > 1 else said
    if len(found) > MOST_REASONS:
        yield f"and {len(found) - MOST_REASONS} more"
