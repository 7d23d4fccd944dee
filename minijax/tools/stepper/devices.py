"""What every device of a mesh has at a moment inside a ``shard_map``, side by side; where they meet, who gives what to
whom.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from minijax.core.named import NamedTuple
from minijax.tools.documents.document import MARK, Block, Document, Fitted, Line, Segment, Text, document, line
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, Recording
from minijax.tools.values.brief import brief
from minijax.tools.values.devices import MAPPED
from minijax.tools.values.meetings import Meeting, meeting
from minijax.tools.values.moment import Found, Ledger, LoopShown, Worth, at_hand

# Rows of a table of devices; of more, those around the one that is looked at.
MOST_ROWS = 16
# Values that stand beside each other.
MOST_COLUMNS = 4
# Devices that are numbered in one row.
MOST_NUMBERS = 4
_NARROWEST = 9
_WIDEST = 44
NOWHERE = line(("muted", "no program that every device of a mesh runs is at work here"))


class DeviceColumn(NamedTuple):
    """A value that every device has: what it is called, its type, the axes of the mesh along which it may differ, and
    whether it is what the moment's operation gives."""

    number: int
    name: str
    type: str
    along: tuple[str, ...]
    what: str = "primal"
    result: bool = False


class DevicesShown(NamedTuple):
    """What there is to see: the mesh, with the device that is looked at; the operation, '' between operations; whether
    it is done; the values; and where it is that devices meet, how."""

    mesh: LoopShown
    function: str
    operation: str
    done: bool
    columns: tuple[DeviceColumn, ...]
    meeting: Meeting | None = None


def has_devices(recording: Recording) -> bool:
    """Whether a program that every device of a mesh runs was traced or run."""
    levels = {level.partition(":")[0] for level, _ in recording.binds}
    return not levels.isdisjoint(MAPPED) or any(run.primitive in MAPPED for run in recording.kept.runs.values())


def devices_shown(cursor: Cursor) -> DevicesShown | None:
    """What there is to see at the cursor's moment; None outside of all programs that devices run."""
    known = at_hand(cursor.recording)
    if known is None:
        return None
    state = cursor.state()
    bind = state.bind
    if bind is not None and (found := _of_bind(known, bind, state.moment.kind == LEAVE and state.moment.node is bind)):
        return found
    return None


def _of_bind(known: Ledger, bind: BindRecord, done: bool) -> DevicesShown | None:
    names = naming_of(known.recording).operands(bind)
    columns: list[DeviceColumn] = []
    mesh: LoopShown | None = None
    for numbers, result in ((bind.operands, False), (bind.results, True)):
        for place, number in enumerate(numbers):
            own = known.devices(number) if number else None
            if own is None or mesh is not None and own.key != mesh.key:
                continue
            mesh = mesh or own
            name = known.naming.name(number) if result else names[place]
            if done or not result:
                columns += _columns(known, number, name, own, result)
    if mesh is None:
        return None
    found = next(filter(None, (_meeting(known, number, bind, mesh) for number in bind.results if number)), None)
    return DevicesShown(mesh, "", bind.primitive, done, tuple(dict.fromkeys(columns)), found)


def _columns(known: Ledger, number: int, name: str, mesh: LoopShown, result: bool) -> Iterator[DeviceColumn]:
    """The value, and its tangent if it has one."""
    var = known.variable(number)
    if var is None:
        return
    aval = var.aval
    along = tuple(str(axis) for axis, _ in mesh.axes if not mesh.checked or axis in aval.vma)
    kind = aval.update(vma=()).str_short() if aval.vma else aval.str_short()
    yield DeviceColumn(number, name, kind, along, "primal", result)
    if known.tangent(number) is not None:
        yield DeviceColumn(number, f"tangent of {name}", kind, along, "tangent", result)


def _meeting(known: Ledger, number: int, bind: BindRecord, mesh: LoopShown) -> Meeting | None:
    eqn = known.equation_of(number)
    if eqn is None or eqn.primitive.name != bind.primitive:
        return None
    return meeting(eqn.primitive, eqn.params, mesh.axes)


# --- as a document
# ---------------------------------------------------------------------------------------------------------


def devices_pane(cursor: Cursor) -> Document:
    """The values of the current operation on every device, side by side."""
    found = devices_shown(cursor)
    known = at_hand(cursor.recording)
    if found is None or known is None:
        return document(Text((NOWHERE,)))
    return document(Fitted(partial(_blocks, known, found)))


def _blocks(known: Ledger, shown: DevicesShown, width: int) -> tuple[Block, ...]:
    heading = Text(tuple(_heading(shown)), hanging=2)
    return heading, Text(tuple(device_lines(known, shown, width)), wrap=False)


def device_lines(known: Ledger, shown: DevicesShown, width: int) -> Iterator[Line]:
    """The table: a row for each device, or for those that have the same."""
    table = _Table(known, shown, width)
    yield from table.heading()
    if table.ahead:
        yield line(("muted", f"  … {plural(table.ahead, 'row')} before"))
    for place in range(len(table.rows)):
        yield table.line(place)
    if table.behind:
        yield line(("muted", f"  … {plural(table.behind, 'more row')}"))


def _heading(shown: DevicesShown) -> Iterator[Line]:
    mesh = shown.mesh
    axes = " × ".join(f"{name}={size}" for name, size in mesh.axes)
    where = f" ({mesh.where})" if mesh.where else ""
    yield line(
        ("heading", plural(mesh.count, "device")),
        ("muted", f" · {axes} · [ ] "),
        ("label", f"device {mesh.index}{where}"),
    )
    met = shown.meeting
    if met is not None:
        internal = f" ({met.primitive})" if met.primitive != met.name else ""
        given = next((each.name for each in shown.columns if not each.result), "value")
        yield line(
            ("primitive", met.name),
            ("muted", f"{internal} along {', '.join(met.axes)}, {plural(len(met.groups[0]), 'device')} together: "),
            met.said.format(x=given),
        )


class _Table:
    """The rows that are shown: each is for a device, or for several that have the same."""

    def __init__(self, known: Ledger, shown: DevicesShown, width: int) -> None:
        self.known = known
        self.shown = shown
        self.names = [str(name) for name, _ in shown.mesh.axes]
        self.sizes = [size for _, size in shown.mesh.axes]
        met = () if shown.meeting is None else shown.meeting.axes
        self.varied = {axis for column in shown.columns for axis in column.along} | set(met)
        self.rows, self.ahead, self.behind = self._rows(met)
        self.columns = shown.columns[-MOST_COLUMNS:]
        self.before = next((i for i, each in enumerate(self.columns) if each.result), len(self.columns))
        self.links = self._links()
        self.linked = max(map(len, self.links), default=0)
        labels = [self._label(row) for row in self.rows]
        head = ["#", *[name for name in self.names if name in self.varied]] if len(self.names) > 1 else ["device"]
        widths = [max(map(len, each)) for each in zip(head, *labels, strict=True)]
        self.labels = ["  ".join(map(str.ljust, each, widths)) for each in (head, *labels)]
        room = (width - len(self.labels[0]) - 2 - self.linked - 2 * len(self.columns)) // max(len(self.columns), 1)
        self.room = max(min(room, _WIDEST), _NARROWEST)
        self.cells = [[_cell(found, self.room) for found in self._found(column)] for column in self.columns]
        self.widths = [
            min(max(len(each.name), len(each.type), *[len(_text(cell)) for cell in cells]), self.room)
            for each, cells in zip(self.columns, self.cells, strict=True)
        ]

    def _rows(self, met: Sequence[str]) -> tuple[list[tuple[int, ...]], int, int]:
        """The devices of each row, those that meet below one another; and how many rows before and behind are not
        shown.
        """
        ids = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        places = range(len(self.names))
        alike = [self.names[i] not in self.varied for i in places]
        ids = ids.transpose(sorted(places, key=lambda i: (alike[i], self.names[i] in met, i)))
        count = math.prod(size for size, same in zip(self.sizes, alike, strict=True) if same)
        rows = [tuple(row) for row in ids.reshape(-1, count).tolist()]
        here = next((i for i, row in enumerate(rows) if self.shown.mesh.index in row), 0)
        first = min(max(here - MOST_ROWS // 2, 0), max(len(rows) - MOST_ROWS, 0))
        kept = rows[first : first + MOST_ROWS]
        return kept, first, len(rows) - first - len(kept)

    def _label(self, row: Sequence[int]) -> list[str]:
        """The numbers of the devices of a row, and their places along the axes along which rows differ."""
        numbers = " ".join(map(str, row[:MOST_NUMBERS])) + (" …" if len(row) > MOST_NUMBERS else "")
        if len(self.names) == 1:
            return [numbers]
        places = np.unravel_index(row[0], self.sizes)
        return [numbers, *[str(at) for at, name in zip(places, self.names, strict=True) if name in self.varied]]

    def _found(self, column: DeviceColumn) -> list[Found]:
        key = self.shown.mesh.key
        return [self.known.on_device(key, row[0], column.number, column.what) for row in self.rows]

    def _links(self) -> list[str]:
        """Between what is given and what comes of it: who meets whom."""
        met = self.shown.meeting
        if met is None:
            return [""] * len(self.rows)
        if met.way in ("one", "source"):
            return [_arrow(met, row[0]) for row in self.rows]
        out = []
        for _, group in itertools.groupby(self.rows, lambda row: met.group(row[0])):
            out += _brackets(len(list(group)))
        return out

    def heading(self) -> Iterator[Line]:
        """What the columns are: names, and below them types."""
        names, types = [], []
        for each in self.columns:
            names.append(line(("heading", shortened(each.name, self.room))))
            types.append(line(("type", shortened(each.type, self.room))))
        yield self._line(("muted", "  " + self.labels[0]), "", names)
        yield self._line(("", "  " + " " * len(self.labels[0])), "", types)

    def line(self, place: int) -> Line:
        """A row."""
        here = self.shown.mesh.index in self.rows[place]
        mark: Segment = ("current", MARK + " ") if here else ("", "  ")
        label: Segment = ("label" if here else "muted", self.labels[place + 1])
        return (mark, *self._line(label, self.links[place], [cells[place] for cells in self.cells], place))

    def _line(self, label: Segment, link: str, cells: Sequence[Line], place: int = -1) -> Line:
        met, out = self.shown.meeting, [label]
        near = place >= 0 and met is not None and self.shown.mesh.index in met.group(self.rows[place][0])
        joint: Segment = ("linked" if near else "muted", link.ljust(self.linked))
        for i, (cell, wide) in enumerate(zip(cells, self.widths, strict=True)):
            out += [joint] if i == self.before else []
            out += [("", "  "), *cell, ("", " " * (wide - len(_text(cell))))]
        return (*out, joint) if self.before == len(cells) else tuple(out)


def _cell(found: Found, room: int) -> Line:
    """What one device has: its type stands above."""
    if not isinstance(found, Worth):
        return (("muted", shortened("" if found is None else found.reason, room)),)
    said = brief(found.array, room, len(found.axes), typed=bool(found.axes))
    # pictures of different ranges below one another would be compared
    said = tuple(each for each in said if each[0] != "param-name")
    said = said[:-1] if said and said[-1][1] == " " else said
    return said if sum(len(piece) for _, piece in said) <= room else (("muted", "…"),)


def _arrow(met: Meeting, device: int) -> str:
    """``─▶ 2   6 ─▶``: whom a device gives to, and by whom it is given something."""
    to, by = met.to(device), met.by(device)
    gives = f" ─▶ {to[0] if len(to) == 1 else 'all'}" if to else "     "
    return f"{gives:<8}{f'{by[0]} ─▶' if by else 'nobody'}"


def _brackets(count: int) -> list[str]:
    if count == 1:
        return [" ───▶"]
    middle = (count - 1) // 2
    out = [" ─┤ ├▶"] * count
    out[0], out[-1] = " ─┐ ┌▶", " ─┘ └▶"
    out[middle] = out[middle].replace("┤ ├", "┼─┼").replace("┐ ┌", "┬─┬")
    return out


def _text(cells: Line) -> str:
    return "".join(piece for _, piece in cells)
