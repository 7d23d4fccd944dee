"""Records of what every device of a mesh has at the moments of a recording, as a file keeps it: texts, in the room that
there may be for them. They are made when a recording is saved; in the process that recorded, values are looked up.
"""

from __future__ import annotations

import math

from minijax.core.named import Frozen


class Meeting(Frozen):
    """Devices that give each other something.

    Attributes:
      name: what the user calls it; ``primitive``: what the jaxpr does.
      way: 'all', 'pieces', 'one' or 'source'; ``said``: what comes of it, ``{x}`` being what is given.
      axes: the axes of the mesh along which they meet.
      groups: who meets whom: the numbers of devices, in order.
      pairs: of 'one' and 'source', who gives to whom, by the numbers of devices.
      split: of 'pieces', the axis along which they are cut.
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
        """Who a device meets, itself among them."""
        return next((each for each in self.groups if device in each), (device,))

    def to(self, device: int) -> tuple[int, ...]:
        """Whom a device gives to."""
        if self.way in ("one", "source"):
            return tuple(target for source, target in self.pairs if source == device)
        return self.group(device)

    def by(self, device: int) -> tuple[int, ...]:
        """Whom a device is given something by."""
        if self.way in ("one", "source"):
            return tuple(source for source, target in self.pairs if target == device)
        return self.group(device)


class DeviceTextRecord(Frozen):
    """A value as it is shown: for so many characters and more, what is said of it, the widest first; ``reason`` says
    why it is not known, where it is not.
    """

    texts: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = ()
    reason: str = ""

    def fitting(self, room: int) -> tuple[tuple[str, str], ...]:
        """What is said in so many characters."""
        found = (said for least, said in self.texts if least <= room)
        return next(found, self.texts[-1][1] if self.texts else ())


class DeviceValueRecord(Frozen):
    """A value that every device has, as ``values.on_devices.DeviceColumn`` tells it: of ``parts`` there is one for each
    device, or one for all. ``number`` is the recording's number of it, 0 if it has none.
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
    """What there is to see of the devices of a mesh: ``axes`` are its axes' names and sizes, ``key`` stands for it,
    ``said`` is what else there is to say. ``pieces`` are what each device is given by those that it meets, device after
    device, where they give each other pieces.
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
        """How many devices the mesh has."""
        return math.prod([size for _, size in self.axes])


class DeviceMomentRecord(Frozen):
    """From the moment with this index on there is this to see of devices: None for nothing, and then ``said`` tells why
    if there might be something.
    """

    position: int
    shown: DevicesRecord | None
    said: str = ""
