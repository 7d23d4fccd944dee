"""The values on all devices of a mesh at a moment inside a ``shard_map``, and which devices a collective connects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from minijax.tools.documents.document import (
    MARK,
    Block,
    Document,
    Fitted,
    Line,
    Segment,
    Text,
    document,
    lay_out,
    line,
)
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.device_records import DevicesRecord, Meeting
from minijax.tools.recording.records import Recording
from minijax.tools.values.devices import MAPPED
from minijax.tools.values.moment import Unknown, at_hand, ledger
from minijax.tools.values.on_devices import (
    NARROWEST,
    WIDEST,
    DeviceColumn,
    DevicesShown,
    cell,
    of_bind,
    of_call,
    of_latest,
    pieces,
    together,
)
from minijax.tools.values.saved_devices import SavedDevices, devices_saved, shown_of
from minijax.tools.values.table import NO_ARRAYS

# Maximum number of rows in a table of devices; larger tables show the rows around the chosen device.
MOST_ROWS = 16
# Maximum number of values side by side.
MOST_COLUMNS = 4
# Maximum number of device numbers in a row.
MOST_NUMBERS = 4
NOWHERE = line(("muted", "no program of a device mesh runs here"))


def has_devices(recording: Recording) -> bool:
    """Whether the recording traced or ran a program that all devices of a mesh run."""
    levels = {level.partition(":")[0] for level, _ in recording.binds}
    traced = bool(recording.devices) or MAPPED in levels
    return traced or any(run.primitive == MAPPED for run in recording.kept.runs.values())


def devices_shown(cursor: Cursor) -> DevicesShown | None:
    """The values on the devices at the cursor's moment; None outside of mesh programs."""
    find = devices_of(cursor)
    return None if find is None else find()


def devices_of(cursor: Cursor) -> Callable[[], DevicesShown | None] | None:
    """A function that returns ``devices_shown`` for the iterations chosen when it is called; None without values."""
    known = at_hand(cursor.recording)
    if known is None:
        saved = devices_saved(cursor.recording, cursor.position)
        record = None if saved is None else saved.shown
        return None if record is None else partial(shown_of, record, ledger(cursor.recording))
    state = cursor.state()
    bind, node, at = state.bind, state.moment.node, state.moment.at
    if bind is None:
        return partial(of_latest, known, at, state.stack[-1])
    done = state.moment.kind == LEAVE and node is bind
    return lambda: of_bind(known, bind, done) or of_call(known, bind, done)


def with_devices(recording: Recording) -> Recording:
    """``recording`` for a file, with texts of the values on all devices at each moment, in the first iterations."""
    known = at_hand(recording)
    if known is None or not has_devices(recording):
        return recording
    saved, cursor = SavedDevices(known), Cursor(recording)
    made: dict[object, DevicesRecord | None] = {}
    before = known.iterations, known.examples
    known.iterations, known.examples = {}, {}
    try:
        for position, moment in enumerate(cursor.moments):
            cursor.go(position)
            bind = cursor.state().bind
            key: object = None if bind is None else (bind.at, moment.kind == LEAVE and moment.node is bind)
            if bind is None or key not in made:
                shown = devices_shown(cursor)
                if bind is None and shown is not None:
                    key = tuple([(column.name, column.number) for column in shown.columns])
                if key not in made:
                    made[key] = None if shown is None else saved.record_of(shown)
            if not saved.note(position, made[key]):
                break
    finally:
        known.iterations, known.examples = before
    return recording.replace(devices=tuple(saved.moments)).holding(recording.kept, cursor.moments)


# --- as a document


def devices_pane(cursor: Cursor) -> Document:
    """The operands and results of the current operation on all devices, side by side."""
    recording = cursor.recording
    if at_hand(recording) is None and not recording.devices:
        return document(Text((NO_ARRAYS,)))
    found = devices_shown(cursor)
    if found is not None:
        return document(Fitted(partial(_blocks, found)))
    saved = devices_saved(recording, cursor.position)
    return document(Text((line(("warning", saved.said)) if saved is not None and saved.said else NOWHERE,)))


def _blocks(shown: DevicesShown, width: int, chosen: bool = True) -> tuple[Block, ...]:
    heading = Text(tuple(_heading(shown, chosen)), hanging=2)
    rows = Text(tuple(device_lines(shown, width, chosen)), wrap=False)
    below = tuple(_below(shown, width))
    return (heading, rows, Text(below, hanging=2)) if below else (heading, rows)


def all_lines(shown: DevicesShown, width: int, chosen: bool) -> Iterator[Line]:
    """The whole pane as lines of this width. ``chosen`` says whether to mark the chosen device."""
    for block in _blocks(shown, width, chosen):
        yield from lay_out(document(block), width)


def device_lines(shown: DevicesShown, width: int, chosen: bool = True) -> Iterator[Line]:
    """The table: a row for the whole array, then a row for each device or group of devices with equal values."""
    table = _Table(shown, width, chosen)
    yield from table.heading()
    if table.ahead:
        yield line(("muted", f"  … {plural(table.ahead, 'row')} before"))
    for place in range(len(table.rows)):
        yield table.line(place)
    if table.behind:
        yield line(("muted", f"  … {plural(table.behind, 'more row')}"))
    left = len(shown.columns) - len(table.columns)
    if left:
        yield line(("muted", f"  … and {plural(left, 'value')} before these"))


def _heading(shown: DevicesShown, chosen: bool) -> Iterator[Line]:
    mesh = shown.mesh
    axes = " × ".join(f"{name}={size}" for name, size in mesh.axes)
    where = f" ({mesh.where})" if mesh.where else ""
    here = line(("muted", " · [ ] "), ("label", f"device {mesh.index}{where}")) if chosen else ()
    yield (*line(("heading", plural(mesh.count, "device")), ("muted", f" · {axes}")), *here)
    met = shown.meeting
    if met is not None:
        internal = f" ({met.primitive})" if met.primitive != met.name else ""
        given = next((each.name for each in shown.columns if not each.result), "value")
        yield line(
            ("primitive", met.name),
            ("muted", f"{internal} along {', '.join(met.axes)}, {plural(len(met.groups[0]), 'device')} together: "),
            met.said.format(x=given),
        )
    if shown.said:
        yield line(("muted", shown.said))


def _below(shown: DevicesShown, width: int) -> Iterator[Line]:
    """The parts that the chosen device receives, and notes on how arrays are sharded."""
    given = pieces(shown, shown.mesh.index)
    if given:
        yield line(("muted", "given to "), ("label", f"device {shown.mesh.index}"))
        for source, found in given[:MOST_ROWS]:
            yield (*line(("muted", f"  by {source:<4}")), *cell(found, width - 10))
        if len(given) > MOST_ROWS:
            yield line(("muted", f"  … and by {plural(len(given) - MOST_ROWS, 'other')}"))
    yield from (line(("muted", column.note)) for column in shown.columns if column.note)
    for reason, names in _unknown(shown).items():
        yield line(("muted", f"{', '.join(names)}: {reason}"))


def _unknown(shown: DevicesShown) -> dict[str, list[str]]:
    """The reasons why values are unknown on the chosen device, each with the names of the values."""
    out: dict[str, list[str]] = {}
    for column in shown.columns:
        found = column.at(shown.mesh.index)
        if isinstance(found, Unknown):
            out.setdefault(found.reason, []).append(column.name)
    return out


class _Table:
    """The rows shown: one for each device or group of devices with equal values."""

    def __init__(self, shown: DevicesShown, width: int, chosen: bool) -> None:
        self.shown = shown
        self.chosen = chosen
        self.names = [str(name) for name, _ in shown.mesh.axes]
        self.sizes = [size for _, size in shown.mesh.axes]
        met = () if shown.meeting is None else shown.meeting.axes
        self.varied = {axis for column in shown.columns for axis in column.along} | set(met)
        self.rows, self.ahead, self.behind = self._rows(met)
        most = max((width - 20) // (NARROWEST + 2), 1)
        self.columns = shown.columns[-min(MOST_COLUMNS, most) :]
        self.before = next((i for i, each in enumerate(self.columns) if each.result), len(self.columns))
        self.links = self._links()
        self.linked = max(map(len, self.links), default=0)
        labels = [["all", *[""] * len(self.varied)] if len(self.names) > 1 else ["all"], *map(self._label, self.rows)]
        head = ["#", *[name for name in self.names if name in self.varied]] if len(self.names) > 1 else ["device"]
        widths = [max(map(len, each)) for each in zip(head, *labels, strict=True)]
        self.labels = ["  ".join(map(str.ljust, each, widths)) for each in (head, *labels)]
        room = width - max(map(len, self.labels)) - 2 - self.linked - 2 * len(self.columns)
        self.room = max(min(room // max(len(self.columns), 1), WIDEST), NARROWEST)
        self.cells = [self._cells(column) for column in self.columns]
        self.widths = [
            min(max(len(each.name), len(each.type), *map(len, map(_text, cells))), self.room)
            for each, cells in zip(self.columns, self.cells, strict=True)
        ]

    def _cells(self, column: DeviceColumn) -> list[Line]:
        """The cell of the whole array, then a cell for each row; ``?`` in each cell if all values are unknown."""
        found = [column.whole(), *[column.at(row[0]) for row in self.rows]]
        if all(isinstance(each, Unknown) for each in found):
            return [line(("muted", "?"))] * len(found)
        whole: Line = () if isinstance(found[0], Unknown) else together(found[0], self.room)
        return [whole, *[cell(each, self.room) for each in found[1:]]]

    def _rows(self, met: Sequence[str]) -> tuple[list[tuple[int, ...]], int, int]:
        """The devices of each row (a collective's devices are adjacent); how many rows are hidden before and after."""
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
        """The device numbers of a row, and its coordinates on the axes that differ between rows."""
        numbers = " ".join(map(str, row[:MOST_NUMBERS])) + (" …" if len(row) > MOST_NUMBERS else "")
        if len(self.names) == 1:
            return [numbers]
        places = np.unravel_index(row[0], self.sizes)
        return [numbers, *[str(at) for at, name in zip(places, self.names, strict=True) if name in self.varied]]

    def _links(self) -> list[str]:
        """The column between operands and results: which devices communicate."""
        met = self.shown.meeting
        if met is None:
            return [""] * len(self.rows)
        if met.way in ("one", "source"):
            return [_arrow(met, row[0]) for row in self.rows]
        out = []
        for met_there, rows in itertools.groupby(self.rows, lambda row: met.group(row[0])):
            group = list(rows)
            out += _brackets(len(group), met_there[0] in group[0], met_there[-1] in group[-1])
        return out

    def heading(self) -> Iterator[Line]:
        """The heads of the columns: names, with types below."""
        names, types = [], []
        for each in self.columns:
            names.append(line(("heading", shortened(each.name, self.room))))
            types.append(line(("type", shortened(each.type, self.room))))
        title = "  " + self.labels[0]
        yield self._line(("muted", title), "", names)
        yield self._line(("", " " * len(title)), "", types)

        if len(self.rows) > 1:
            yield (("", "  "), *self._line(("muted", self.labels[1]), "", [cells[0] for cells in self.cells]))

    def line(self, place: int) -> Line:
        """One row."""
        here = self.chosen and self.shown.mesh.index in self.rows[place]
        mark: Segment = ("current", MARK + " ") if here else ("", "  ")
        label: Segment = ("label" if here else "muted", self.labels[place + 2])
        met = self.shown.meeting
        role = "linked" if met is not None and self.shown.mesh.index in met.group(self.rows[place][0]) else "muted"
        return (mark, *self._line(label, self.links[place], [cells[place + 1] for cells in self.cells], role))

    def _line(self, label: Segment, link: str, cells: Sequence[Line], role: str = "muted") -> Line:
        out, joint = [label], (role, link.ljust(self.linked))
        for i, (content, wide) in enumerate(zip(cells, self.widths, strict=True)):
            out += [joint] if i == self.before else []
            out += [("", "  "), *content, ("", " " * (wide - len(_text(content))))]
        return (*out, joint) if self.before == len(cells) else tuple(out)


def _arrow(met: Meeting, device: int) -> str:
    """``─▶ 2   6 ─▶``: the device that receives from this one, and the device that sends to it."""
    to, by = met.to(device), met.by(device)
    gives = f" ─▶ {to[0] if len(to) == 1 else 'all'}" if to else "     "
    return f"{gives:<8}{f'{by[0]} ─▶' if by else 'nobody'}"


def _brackets(count: int, begins: bool, ends: bool) -> list[str]:
    """Brackets that join ``count`` rows. The group continues above unless ``begins``, and below unless ``ends``."""
    if count == 1 and begins and ends:
        return [" ───▶"]
    out = [" ─┤ ├▶"] * count
    if begins:
        out[0] = " ─┐ ┌▶"
    if ends:
        out[-1] = " ─┘ └▶"
    middle = (count - 1) // 2
    for corner, joined in (("┤ ├", "┼─┼"), ("┐ ┌", "┬─┬"), ("┘ └", "┴─┴")):
        out[middle] = out[middle].replace(corner, joined)
    return out


def _text(cells: Line) -> str:
    return "".join(piece for _, piece in cells)
