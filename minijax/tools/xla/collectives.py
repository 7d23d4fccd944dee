"""The collectives of a program for several devices, each with its source line, its bytes and its reason.

A compiled call's linked programs show its collectives. A collective belongs to the equation that asks for it, or for
which XLA's partitioner inserted it.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from minijax.core.records import Frozen
from minijax.ir.jaxpr import ClosedJaxpr
from minijax.tools.documents.document import Block, Row, Segment, Table, line, text
from minijax.tools.documents.words import bytes_text, plural
from minijax.tools.programs import hlo, links
from minijax.tools.programs.link_views import short_file
from minijax.tools.programs.links import Equation, LinkedPrograms
from minijax.tools.xla.reasons import Reasons

# XLA's name -> the bytes that each device sends in a ring of n devices, as a multiple of the result's bytes.
KINDS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: float(n - 1),
    "all-to-all": lambda n: (n - 1) / n,
    "collective-permute": lambda n: 1.0,
    "collective-broadcast": lambda n: 1.0,
}
_WIDTHS = {"pred": 1, "s4": 1, "u4": 1, "f8e4m3fn": 1, "f8e5m2": 1, "bf16": 2, "c64": 8, "c128": 16}
_TYPE = re.compile(r"([a-z]\w*)\[([\d,]*)\]")


class Collective(Frozen):
    """One collective of a program.

    ``kind`` is XLA's name, ``bytes`` the size of the result on each device, ``sent`` an estimate of the bytes that a
    device sends; both are for one run. ``size`` is the number of devices in a group, 0 if the program names no groups.
    ``axes``: the mesh axes along which devices communicate, () if groups do not follow whole axes. ``equations`` has
    one item, or several if XLA merged collectives, or none if the instruction names no equation. ``inside`` is 'loop'
    in a loop's body, 'branch' in a conditional, else ''. ``times``: how often it runs in a call if every branch
    is taken, 0 if the trip count of a loop is unknown.
    """

    name: str
    kind: str
    bytes: int
    sent: float
    size: int
    axes: tuple[str, ...]
    equations: tuple[Equation, ...]
    reason: str
    inside: str
    times: int

    @property
    def total(self) -> float:
        """The bytes that each device sends in a call. A loop with an unknown trip count counts as one iteration."""
        return self.sent * max(self.times, 1)


def of_lowered(lowered: Any, programs: LinkedPrograms | None = None) -> list[Collective]:
    """The collectives of a compiled ``Lowered`` call, in program order.

    ``programs`` are the linked programs of the call, if the caller has them already.
    """
    placement = lowered.placement
    if placement is None:
        return []
    linked = programs or links.of_lowered(lowered, optimized=True, most=sys.maxsize)
    return collectives(linked, lowered.jaxpr, placement, lowered.compile().raw_text())


def collectives(programs: LinkedPrograms, closed: ClosedJaxpr, placement: Any, text: str) -> list[Collective]:
    """The collectives of a compiled program with the jaxpr ``closed`` and the shardings in ``placement``.

    ``text`` is the program's HLO text, from which the trip counts of loops are read.
    """
    pane = programs.hlo
    found = []
    instructions = hlo.instructions(pane.lines)
    inside = _inside(instructions.values())
    times = _times(instructions.values(), _turns(text))
    reasons = Reasons(instructions, pane.links, links.numbered(closed), closed.jaxpr.outvars, placement.outs)
    for i, each in instructions.items():
        kind = each.opcode.removesuffix("-start")
        if kind not in KINDS:
            continue
        shown = pane.lines[i]
        groups = _groups(shown)
        size = 0 if groups is None else max(map(len, groups), default=0)
        axes = _axes(groups, placement.mesh)
        equations = tuple([programs.equation(number) for number in pane.links[i]])
        # an async start also returns its operands, except in an all-reduce
        started = each.opcode.endswith("-start") and kind != "all-reduce"
        count = _bytes(shown.partition(f" {each.opcode}(")[0], started)
        found.append(
            Collective(
                each.name, kind, count, count * KINDS[kind](max(size, 1)), size, axes, equations,
                reasons.of(i, kind, axes), inside.get(each.computation, ""), times(each.computation),
            )
        )  # fmt: skip
    return found


def _inside(instructions: Collection[hlo.Instruction]) -> dict[str, str]:
    """name of a computation -> 'loop' or 'branch', if it runs in a loop's body or a branch, directly or by a call."""
    calls: dict[str, set[str]] = {}
    for each in instructions:
        calls.setdefault(each.computation, set()).update(each.called)
    found: dict[str, str] = {}
    for opcode, word in (("conditional", "branch"), ("while", "loop")):
        left = [name for each in instructions if each.opcode == opcode for name in each.called]
        while left:
            name = left.pop()
            if found.get(name) != word:
                found[name] = word
                left += calls.get(name, ())
    return found


def _turns(text: str) -> dict[str, int]:
    """name of a loop instruction -> its trip count, for the loops whose trip count XLA knows."""
    known = re.findall(r'(?m)^\s+(?:ROOT )?%?([\w.-]+) = .* while\(.*"known_trip_count":\{"n":"(\d+)"\}', text)
    return {name: int(count) for name, count in known}


def _times(instructions: Collection[hlo.Instruction], turns: dict[str, int]) -> Callable[[str], int]:
    """A function: name of a computation -> how often it runs in a call. 0 if the trip count of a loop is unknown."""
    calls: dict[str, list[hlo.Instruction]] = {}
    for each in instructions:
        for name in each.called:
            calls.setdefault(name, []).append(each)

    @functools.cache
    def times(name: str) -> int:
        counts = [
            times(each.computation) * (turns.get(each.name, 0) if each.opcode == "while" else 1)
            for each in calls.get(name, ())
        ]
        return sum(counts) if all(counts) and counts else int(not counts)

    return times


def _bytes(result: str, started: bool) -> int:
    """The size in bytes of a result. For an async start (``started``), the size of its final result."""
    sizes = []
    for kind, shape in _TYPE.findall(result.partition("=")[2]):
        digits = re.search(r"\d+$", kind)
        width = _WIDTHS.get(kind) or (int(digits[0]) // 8 if digits is not None else 1)
        sizes.append(width * int(np.prod([int(d) for d in shape.split(",") if d], dtype=int)))
    if not started or len(sizes) < 2:
        return sum(sizes)
    # an async collective-permute may return two context values u32[] as well
    return sizes[1] if result.partition("=")[2].count("u32[]") == 2 else sum(sizes[len(sizes) // 2 :])


def _groups(shown: str) -> list[list[int]] | None:
    """The groups of partitions that communicate; None if the instruction does not name them."""
    pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", shown)
    if pairs is not None:
        return _joined([[*map(int, each.split(","))] for each in re.findall(r"\{(\d+,\d+)\}", pairs[1])])
    written = re.search(r"replica_groups=\{((?:\{[\d,]+\},?)+)\}", shown)
    if written is not None:
        return [[*map(int, each.split(","))] for each in re.findall(r"\{([\d,]+)\}", written[1])]
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", shown)
    if iota is not None:
        sizes = [*map(int, iota[3].split(","))]
        ids = np.arange(int(np.prod(sizes))).reshape(sizes)
        ids = ids.transpose([*map(int, iota[4].split(","))]) if iota[4] else ids
        return ids.reshape(int(iota[1]), int(iota[2])).tolist()  # type: ignore[no-any-return]
    named = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}", shown)
    return None if named is None else _named_groups(named[1], named[2], named[3])


def _named_groups(axes: str, order: str | None, along: str) -> list[list[int]] | None:
    """The groups along some axes of a mesh. ``axes`` is like ``'a'=2,'b'=4``. ``along`` has axes, as ``'b'``, or
    factors of an axis: ``'b':(2)2`` skips a factor 2, then has a 2. ``order`` is None or like ``[2,2,2]T(0,2,1)``."""
    sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", axes)}
    ids = np.arange(math.prod(sizes.values()))
    if order:
        written = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", order)
        if written is None:
            return None
        ids = ids.reshape([*map(int, written[1].split(","))])
        ids = ids.transpose([*map(int, written[2].split(","))]) if written[2] else ids
    # split each axis into factors: the named parts, the factors before and between them, and the rest
    chosen: list[int] = []
    shape: list[int] = []
    parts: dict[str, list[tuple[int, int]]] = {}
    for name, before, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", along):
        parts.setdefault(name, []).append((int(before or 1), int(size or sizes[name])))
    for name, whole in sizes.items():
        done = 1
        for before, size in sorted(parts.get(name, ())):
            chosen.append(len(shape) + 1)
            shape += [before // done, size]
            done = before * size
        shape.append(whole // done)
    return _rows(ids.reshape(shape), chosen)


def _rows(ids: np.ndarray, along: Sequence[int]) -> list[list[int]]:
    moved = np.moveaxis(ids, along, range(ids.ndim - len(along), ids.ndim))
    return moved.reshape(-1, int(np.prod([ids.shape[i] for i in along], dtype=int))).tolist()  # type: ignore[no-any-return]


def _joined(pairs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Groups of partitions. Partitions in one group communicate, directly or through other partitions."""
    groups: list[set[int]] = []
    for pair in pairs:
        touching = [each for each in groups if not each.isdisjoint(pair)]
        groups = [each for each in groups if each.isdisjoint(pair)] + [set(pair).union(*touching)]
    return [sorted(each) for each in groups]


def _axes(groups: list[list[int]] | None, mesh: Any) -> tuple[str, ...]:
    """The axes of ``mesh`` that ``groups`` follow; () if they follow no whole axes."""
    if groups is None or mesh is None:
        return ()
    wanted = {frozenset(each) for each in groups}
    ids = np.arange(mesh.size).reshape(mesh.axis_sizes)
    places = range(ids.ndim)
    for chosen in itertools.chain.from_iterable(itertools.combinations(places, n) for n in range(1, ids.ndim + 1)):
        if {frozenset(each) for each in _rows(ids, chosen)} == wanted:
            return tuple(mesh.axis_names[i] for i in chosen)
    return ()


def blocks(found: Sequence[Collective], devices: int, several_files: bool, simulated: bool = False) -> Iterator[Block]:
    """A table of the collectives, one row for each, and the total. Several kinds also get a total each.

    ``simulated``: this machine does not have the devices.
    """
    if simulated:
        yield text(
            f"compiled for {plural(devices, 'simulated device')}: this machine does not have them, and nothing has run",
            role="muted",
        )
    if not found:
        yield text(f"no collective: {plural(devices, 'device')}, and nothing is sent between them", role="muted")
        return
    total = sum(each.total for each in found)
    loops = ", with loops of unknown length counted once" if not all(each.times for each in found) else ""
    loops += ", with every branch counted" if any(each.inside == "branch" for each in found) else ""
    loops += ", without collectives of unknown groups" if not all(each.size for each in found) else ""
    yield text(
        line(
            ("heading", plural(len(found), "collective")),
            ("muted", f" over {plural(devices, 'device')} · each device sends about "),
            bytes_text(total),
            ("muted", f" a call{loops}"),
        )
    )
    kinds = by_kind(found)
    if len(kinds) > 1:
        parts = [f"{kind} {bytes_text(sent)} ({count})" for kind, (count, sent) in kinds.items()]
        yield Row("sent", (line(" · ".join(parts)),))
    rows = []
    for each in sorted(found, key=lambda each: (_places(each), -each.total)):
        rows.append(_cells(each, several_files))
    yield Table(("your line", "collective", "of", "result", "sent", "why"), tuple(rows))
    if any(each.kind == "all-gather" and each.reason.startswith("all of") for each in found):
        yield text(
            "no gather is needed if both operands have fitting shardings: set them with in_shardings or "
            "with_sharding_constraint",
            role="muted",
        )


def by_kind(found: Sequence[Collective]) -> dict[str, tuple[int, float]]:
    """kind -> how many collectives of this kind run in a call, and the bytes that each device sends by them."""
    kinds: dict[str, tuple[int, float]] = {}
    for each in found:
        count, sent = kinds.get(each.kind, (0, 0.0))
        kinds[each.kind] = count + max(each.times, 1), sent + each.total
    return kinds


def _places(each: Collective) -> list[tuple[str, int]]:
    return sorted({(equation.file, equation.line) for equation in each.equations if equation.line})


def _cells(each: Collective, several_files: bool) -> tuple[Segment, ...]:
    places = [f"{short_file(file)}:{number}" if several_files else f"L{number}" for file, number in _places(each)]
    axes = "·".join(each.axes) or "?"
    return (
        ("location", " and ".join(places)),
        ("name", f"{each.times} × " * (each.times > 1) + each.kind + (f" in a {each.inside}" if each.inside else "")),
        ("number", f"{each.size or '?'} ({axes})"),
        ("number", bytes_text(each.bytes)),
        ("number", bytes_text(each.total) if each.size else "?"),
        ("", each.reason),
    )
