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
    length,
    line,
)
from minijax.tools.documents.words import plural, shortened
from minijax.tools.recording.cursor import LEAVE, Cursor
from minijax.tools.recording.device_records import DevicesRecord, Meeting
from minijax.tools.recording.records import Recording
from minijax.tools.values.devices import MAPPED
from minijax.tools.values.moment import LoopShown, Unknown, at_hand, ledger
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
    with known.chosen({}, {}):
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
    rows = Text(tuple(_table(shown, width, chosen)), wrap=False)
    below = tuple(_below(shown, width))
    return (heading, rows, Text(below, hanging=2)) if below else (heading, rows)


def all_lines(shown: DevicesShown, width: int, chosen: bool) -> Iterator[Line]:
    """The whole pane as lines of this width. ``chosen`` says whether to mark the chosen device."""
    for block in _blocks(shown, width, chosen):
        yield from lay_out(document(block), width)


def _table(shown: DevicesShown, width: int, chosen: bool) -> Iterator[Line]:
    """The table: a row for the whole array, then a row for each device or group of devices with equal values."""
    mesh, met = shown.mesh, shown.meeting
    names = [str(name) for name, _ in mesh.axes]
    along = () if met is None else met.axes
    own = {axis for column in shown.columns for axis in column.along} | set(along)
    varied = [name for name in names if name in own]
    rows, ahead, behind = _rows(mesh, varied, along)
    labels = _labels(mesh, varied, rows)
    links = _links(met, rows)
    linked = max(map(len, links), default=0)
    columns = shown.columns[-min(MOST_COLUMNS, max((width - 20) // (NARROWEST + 2), 1)) :]
    room = width - len(labels[0]) - 2 - linked - 2 * len(columns)
    room = max(min(room // max(len(columns), 1), WIDEST), NARROWEST)
    cells = [_cells(column, rows, room) for column in columns]
    result = next((i for i, each in enumerate(columns) if each.result), len(columns))

    def row(place: int, label: Segment, link: str = "", role: str = "muted") -> Line:
        out = [label]
        for i, column in enumerate(cells):
            out += [(role, link.ljust(linked))] if i == result else []
            gap = max(map(length, column)) - length(column[place])
            out += [("", "  "), *column[place], ("", " " * gap)]
        return (*out, (role, link.ljust(linked))) if result == len(cells) else tuple(out)

    yield row(0, ("muted", f"  {labels[0]}"))
    yield row(1, ("", " " * (len(labels[0]) + 2)))
    if len(rows) > 1:
        yield row(2, ("muted", f"  {labels[1]}"))
    if ahead:
        yield line(("muted", f"  … {plural(ahead, 'row')} before"))
    for place, devices in enumerate(rows):
        here = chosen and mesh.index in devices
        label: Segment = ("label" if here else "muted", labels[place + 2])
        role = "linked" if met is not None and mesh.index in met.group(devices[0]) else "muted"
        yield (("current", MARK + " ") if here else ("", "  "), *row(place + 3, label, links[place], role))
    if behind:
        yield line(("muted", f"  … {plural(behind, 'more row')}"))
    if len(columns) < len(shown.columns):
        yield line(("muted", f"  … and {plural(len(shown.columns) - len(columns), 'value')} before these"))


def _rows(mesh: LoopShown, varied: Sequence[str], along: Sequence[str]) -> tuple[list[tuple[int, ...]], int, int]:
    """The devices of each row (a collective's devices are adjacent); how many rows are hidden before and after."""
    names, sizes = [str(name) for name, _ in mesh.axes], [size for _, size in mesh.axes]
    ids = np.arange(mesh.count).reshape(sizes)
    ids = ids.transpose(sorted(range(len(names)), key=lambda i: (names[i] not in varied, names[i] in along, i)))
    rows = [tuple(row) for row in ids.reshape(math.prod(ids.shape[: len(varied)]), -1).tolist()]
    here = next((i for i, row in enumerate(rows) if mesh.index in row), 0)
    first = min(max(here - MOST_ROWS // 2, 0), max(len(rows) - MOST_ROWS, 0))
    kept = rows[first : first + MOST_ROWS]
    return kept, first, len(rows) - first - len(kept)


def _labels(mesh: LoopShown, varied: Sequence[str], rows: Sequence[Sequence[int]]) -> list[str]:
    """The heading of the labels, the label of the whole array, and the labels of the rows: device numbers, and the
    coordinates on the axes that differ between rows. They are equally wide.
    """
    out = [["#", *varied], ["all", *[""] * len(varied)]]
    for row in rows:
        numbers = " ".join(map(str, row[:MOST_NUMBERS])) + (" …" if len(row) > MOST_NUMBERS else "")
        places = np.unravel_index(row[0], [size for _, size in mesh.axes])
        coordinates = {str(name): str(at) for (name, _), at in zip(mesh.axes, places, strict=True)}
        out.append([numbers, *[coordinates[name] for name in varied]])
    if len(mesh.axes) == 1:
        out = [["device"], *[each[:1] for each in out[1:]]]
    widths = [max(map(len, each)) for each in zip(*out, strict=True)]
    return ["  ".join(map(str.ljust, each, widths)) for each in out]


def _cells(column: DeviceColumn, rows: Sequence[Sequence[int]], room: int) -> list[Line]:
    """The name and the type of a value, the value on all devices, and a cell for each row; ``?`` in each cell if all
    values are unknown.
    """
    head = [line(("heading", shortened(column.name, room))), line(("type", shortened(column.type, room)))]
    whole, *found = column.whole(), *[column.at(row[0]) for row in rows]
    if all(isinstance(each, Unknown) for each in (whole, *found)):
        return [*head, *[line(("muted", "?"))] * (len(rows) + 1)]
    on_all: Line = () if isinstance(whole, Unknown) else together(whole, room)
    return [*head, on_all, *[cell(each, room) for each in found]]


def _links(met: Meeting | None, rows: Sequence[Sequence[int]]) -> list[str]:
    """The column between operands and results: which devices communicate."""
    if met is None:
        return [""] * len(rows)
    if met.way in ("one", "source"):
        return [_arrow(met, row[0]) for row in rows]
    out = []
    for met_there, among in itertools.groupby(rows, lambda row: met.group(row[0])):
        group = list(among)
        out += _brackets(len(group), met_there[0] in group[0], met_there[-1] in group[-1])
    return out


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
