"""Records of the values on each device of a mesh at each moment, as texts of bounded size. They are made when a
recording is saved, because a file holds no values. The process that recorded looks up the values themselves.
"""

from __future__ import annotations

import math

from minijax.core.records import Frozen


class Meeting(Frozen):
    """A collective: devices that exchange values.

    Attributes:
      name: its name in user code, such as 'psum'; ``primitive``: the primitive in the jaxpr.
      way: who sends to whom (see ``values.meetings``); ``said``: the result in words, with ``{x}`` for the operand.
      axes: the mesh axes along which devices exchange values.
      groups: the groups of devices that exchange values, each as device numbers in order.
      pairs: if the way is 'one' or 'source', the sender and receiver of each value.
      split: if the way is 'pieces', the array axis along which values are cut.
    """

    name: str
    primitive: str
    way: str
    said: str
    axes: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...] = ()
    split: int = 0

    def group(self, device: int) -> tuple[int, ...]:
        """The group of a device, the device included."""
        return next((each for each in self.groups if device in each), (device,))

    def to(self, device: int) -> tuple[int, ...]:
        """The devices that a device sends to."""
        if self.way in ("one", "source"):
            return tuple(target for source, target in self.pairs if source == device)
        return self.group(device)

    def by(self, device: int) -> tuple[int, ...]:
        """The devices that a device receives from."""
        if self.way in ("one", "source"):
            return tuple(source for source, target in self.pairs if target == device)
        return self.group(device)


class DeviceTextRecord(Frozen):
    """A value as it is shown: texts for several widths, the widest first. ``reason`` says why a value is not known."""

    texts: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    reason: str = ""

    def fitting(self, room: int) -> tuple[tuple[str, str], ...]:
        """The widest text of at most ``room`` characters, or else the narrowest text."""
        found = (said for least, said in self.texts if least <= room)
        return next(found, self.texts[-1][1] if self.texts else ())


class DeviceValueRecord(Frozen):
    """A value on every device, with the fields of ``values.on_devices.DeviceColumn``. ``parts`` has an entry for each
    device, or one for all devices. ``number`` is the value's number in the recording, 0 if it has none.
    """

    name: str
    type: str
    along: tuple[str, ...]
    result: bool
    note: str
    number: int
    whole: DeviceTextRecord
    parts: tuple[DeviceTextRecord, ...]


class DevicesRecord(Frozen):
    """What a pane shows of the devices of a mesh. ``axes`` are the names and sizes of the mesh axes, ``key`` identifies
    the mesh, ``said`` is further text. ``pieces`` are the pieces that each device receives, device after device.
    """

    key: tuple[int, ...]
    kind: str
    axes: tuple[tuple[str, int], ...]
    checked: bool
    columns: tuple[DeviceValueRecord, ...]
    meeting: Meeting | None = None
    said: str = ""
    pieces: tuple[DeviceTextRecord, ...] = ()

    @property
    def count(self) -> int:
        """The number of devices of the mesh."""
        return math.prod([size for _, size in self.axes])


class DeviceMomentRecord(Frozen):
    """A view of the devices, valid from moment ``position`` on. If ``shown`` is None, ``said`` says why."""

    position: int
    shown: DevicesRecord | None
    said: str = ""
