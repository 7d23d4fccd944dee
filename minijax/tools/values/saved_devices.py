"""What devices have, as records that a file keeps: ``SavedDevices`` makes them, ``devices_saved`` is the way back."""

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
from minijax.tools.values.summary import ValueSummary, summary

# Texts of more characters together have no room in a file, nor has what changes more often.
MOST_CHARACTERS = 2_000_000
MOST_CHANGES = 5_000
# Characters that a piece is shown in, where it has a line for itself.
WIDEST_PIECE = 120
FIRST_TURNS = "a file has what devices have in the first iterations of loops, no others"
NO_ROOM = "what devices have from here on had no room in the file: %step of the call itself shows it"


class SavedDevices:
    """Makes records of what there is to see of devices, moment by moment.

    Attributes:
      moments: what there was to see, each time it changed.
    """

    def __init__(self, known: Ledger) -> None:
        self.known = known
        self.moments: list[DeviceMomentRecord] = []
        self._room = MOST_CHARACTERS
        # texts that are alike are one record, and so are values that are given on
        self._texts: dict[DeviceTextRecord, DeviceTextRecord] = {}
        self._values: dict[Any, DeviceValueRecord] = {}

    @property
    def full(self) -> bool:
        """Whether there is no room for more."""
        return self._room < 0 or len(self.moments) > MOST_CHANGES

    def note(self, position: int, shown: DevicesRecord | None) -> None:
        """From the moment ``position`` on there is this to see."""
        if (self.moments[-1].shown if self.moments else None) is shown:
            return
        no_room = self.full
        self.moments.append(DeviceMomentRecord(position, None if no_room else shown, NO_ROOM if no_room else ""))

    def record_of(self, shown: DevicesShown) -> DevicesRecord:
        """What there is to see now, for whichever device is looked at."""
        mesh = shown.mesh
        given = []
        for device in range(mesh.count):
            given += [self._text(cell, found, WIDEST_PIECE) for _, found in pieces(shown, device)]
        numbers = [number for column in shown.columns for number in column.numbers]
        turns = any(not loop.axes and loop.count > 1 for number in numbers for loop in self.known.loops(number))
        said = "; ".join(filter(None, (shown.said, FIRST_TURNS if turns else "")))
        axes = tuple([(str(name), size) for name, size in mesh.axes])
        columns = tuple([self._value(column, mesh.count) for column in shown.columns])
        return DevicesRecord(mesh.key, mesh.kind, axes, mesh.checked, columns, shown.meeting, said, tuple(given))

    def _value(self, column: DeviceColumn, count: int) -> DeviceValueRecord:
        number = next(iter(column.numbers), 0)
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
    """``summary`` of one array, which is made once."""
    known: list[ValueSummary] = []

    def summed(array: Any) -> ValueSummary:
        if not known:
            known.append(summary(array))
        return known[0]

    return summed


def _texts(draw: Callable[[int], Line], widest: int) -> list[tuple[int, Line]]:
    """What is drawn in each room up to the widest, with the least room in which it is that."""
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


# --- the way back
# ---------------------------------------------------------------------------------------------------------


class _Saved(DeviceColumn):
    """A value of a recording that was loaded."""

    def __init__(self, record: DeviceValueRecord) -> None:
        super().__init__(record.name, record.type, record.along, record.result, record.note)
        self.record = record
        self.numbers = (record.number,) if record.number else ()

    def at(self, device: int) -> Had:
        parts = self.record.parts
        return _had(parts[device if len(parts) > 1 else 0])

    def whole(self) -> Had:
        return _had(self.record.whole)


def _had(text: DeviceTextRecord) -> Had:
    return Unknown(text.reason) if text.reason else text


def devices_saved(recording: Recording, position: int) -> DeviceMomentRecord | None:
    """What a file says of devices at the moment with this index; None if it says nothing."""
    found = bisect_right(recording.devices, position, key=lambda each: each.position)
    return recording.devices[found - 1] if found else None


def shown_of(record: DevicesRecord, known: Ledger) -> DevicesShown:
    """What there is to see, with the device that is looked at."""
    columns = tuple([_Saved(each) for each in record.columns])
    mesh = saved_mesh(record, known.iterations.get(record.key) or 0)
    return DevicesShown(mesh, columns, record.meeting, record.said, record.pieces)
