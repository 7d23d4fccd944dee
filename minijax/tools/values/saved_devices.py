"""Values on devices as records in a file: ``SavedDevices`` writes them, ``devices_saved`` reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from minijax.tools.documents.document import Line
from minijax.tools.recording.device_records import (
    DeviceMomentRecord,
    DevicesRecord,
    DeviceTextRecord,
    DeviceValueRecord,
)
from minijax.tools.recording.records import Recording
from minijax.tools.values.brief import ValueSummary, summary
from minijax.tools.values.moment import Ledger, Unknown, saved_mesh
from minijax.tools.values.on_devices import (
    NARROWEST,
    WIDEST,
    DeviceColumn,
    DevicesShown,
    Had,
    Summed,
    cell,
    pieces,
    together,
)

# Limits of a file: the total number of characters in texts, and the number of changes.
MOST_CHARACTERS = 2_000_000
MOST_CHANGES = 5_000
# Width in characters of a piece that has its own line.
WIDEST_PIECE = 120
FIRST_TURNS = "a file has the values on devices only for the first iterations of loops"
NO_ROOM = "the file has no room for the values on devices from here on: %step of the call itself shows them"


class SavedDevices:
    """Creates records of the device tables, moment by moment.

    Attributes:
      moments: the device table at each moment when it changed.
    """

    def __init__(self, known: Ledger) -> None:
        self.known = known
        self.moments: list[DeviceMomentRecord] = []
        self._room = MOST_CHARACTERS
        # equal texts share one record, and so do equal values
        self._texts: dict[DeviceTextRecord, DeviceTextRecord] = {}
        self._values: dict[Any, DeviceValueRecord] = {}

    def note(self, position: int, shown: DevicesRecord | None) -> bool:
        """Note that ``shown`` is the device table from the moment ``position`` on. Returns whether there was room."""
        if (self.moments[-1].shown if self.moments else None) is shown:
            return True
        no_room = self._room < 0 or len(self.moments) > MOST_CHANGES
        self.moments.append(DeviceMomentRecord(position, None if no_room else shown, NO_ROOM if no_room else ""))
        return not no_room

    def record_of(self, shown: DevicesShown) -> DevicesRecord:
        """The record of a device table; it has the values for every choice of device."""
        mesh = shown.mesh
        given = []
        for device in range(mesh.count):
            given += [self._text(cell, found, WIDEST_PIECE) for _, found in pieces(shown, device)]
        numbers = [column.number for column in shown.columns if column.number]
        turns = any(not loop.axes and loop.count > 1 for number in numbers for loop in self.known.loops(number))
        said = "; ".join(filter(None, (shown.said, FIRST_TURNS if turns else "")))
        axes = tuple([(str(name), size) for name, size in mesh.axes])
        columns = tuple([self._value(column, mesh.count) for column in shown.columns])
        return DevicesRecord(mesh.key, mesh.kind, axes, mesh.checked, columns, shown.meeting, said, tuple(given))

    def _value(self, column: DeviceColumn, count: int) -> DeviceValueRecord:
        number = column.number
        key = number, column.name, column.result
        found = self._values.get(key) if number else None
        if found is None:
            whole = self._text(together, column.whole(), WIDEST)
            parts = [self._text(cell, column.at(device), WIDEST) for device in range(count)]
            found = DeviceValueRecord(
                column.name,
                column.type,
                column.along,
                column.result,
                column.note,
                number,
                whole,
                tuple(parts[:1] if len({*parts}) == 1 else parts),
            )
            self._room -= len(column.name) + len(column.type) + len(column.note)
            if number:
                self._values[key] = found
        return found

    def _text(self, draw: Callable[..., Line], found: Had, widest: int) -> DeviceTextRecord:
        if isinstance(found, Unknown):
            made = DeviceTextRecord(reason=found.reason)
        else:
            summed = _once()
            made = DeviceTextRecord(tuple(_texts(lambda room: draw(found, room, summed=summed), widest)))
        known = self._texts.setdefault(made, made)
        if known is made:
            self._room -= len(made.reason) + sum([20 + len(text) for _, said in made.texts for _, text in said])
        return known


def _once() -> Summed:
    """A function that computes ``summary`` at its first call, and then always returns the result."""
    known: list[ValueSummary] = []

    def summed(array: Any) -> ValueSummary:
        if not known:
            known.append(summary(array))
        return known[0]

    return summed


def _texts(draw: Callable[[int], Line], widest: int) -> list[tuple[int, Line]]:
    """The drawings of a value for all widths up to ``widest``, each with the smallest width that it is used for."""
    out = []
    room = widest
    while room >= NARROWEST:
        said, low, high = draw(room), NARROWEST, room
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if draw(middle) == said else (middle + 1, high)
        out.append((low, said))
        room = low - 1
    return out


# --- reading


def _had(text: DeviceTextRecord) -> Had:
    return Unknown(text.reason) if text.reason else text


def _saved(record: DeviceValueRecord) -> DeviceColumn:
    """A value on devices in a loaded recording."""
    parts = record.parts
    return DeviceColumn(
        record.name,
        record.type,
        record.along,
        record.result,
        record.note,
        record.number,
        lambda device: _had(parts[device if len(parts) > 1 else 0]),
        lambda: _had(record.whole),
    )


def devices_saved(recording: Recording, position: int) -> DeviceMomentRecord | None:
    """The record for the moment with the index ``position``; None if the file has no record for it."""
    found = bisect_right(recording.devices, position, key=lambda each: each.position)
    return recording.devices[found - 1] if found else None


def shown_of(record: DevicesRecord, known: Ledger) -> DevicesShown:
    """The device table in ``record``, with the device that is chosen in ``known``."""
    columns = tuple(map(_saved, record.columns))
    mesh = saved_mesh(record, known.iterations.get(record.key) or 0)
    return DevicesShown(mesh, columns, record.meeting, record.said, record.pieces)
