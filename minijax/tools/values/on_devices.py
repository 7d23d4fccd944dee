"""The values of one moment on every device of a mesh.

They are operands and results of an operation in a program that each device runs, or of the call of such a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minijax.core.array import Array
from minijax.core.records import NamedTuple
from minijax.core.shardings import PartitionSpec, axes_of_part, axes_of_spec
from minijax.ir.jaxpr import JaxprEqn
from minijax.tools.documents.document import Line
from minijax.tools.documents.words import shortened
from minijax.tools.recording.device_records import DeviceTextRecord, Meeting
from minijax.tools.recording.records import BindRecord
from minijax.tools.values.brief import ValueSummary, brief, numpy_of, summary
from minijax.tools.values.devices import is_mapped
from minijax.tools.values.meetings import meeting
from minijax.tools.values.moment import Found, Ledger, LoopShown, Unknown, Worth, worth
from minijax.tools.values.table import Named, named_until

PVARY = "pvary sends nothing: a value that all devices share becomes each device's own"
# Number of latest values to show when no operation is running.
MOST_LATEST = 3
# Minimum and maximum width in characters of a value in a device table.
NARROWEST = 12
WIDEST = 44
# A value on a device; a DeviceTextRecord if the recording comes from a file.
Had = Found | DeviceTextRecord


class DeviceColumn(NamedTuple):
    """A value on every device.

    Attributes:
      name: its name.
      type: its type on one device.
      along: the mesh axes along which the value may differ.
      result: whether it is a result of the current operation.
      note: for a part of an array, how that array is divided; else ''.
      number: its number in the recording; 0 if it has none.
      at: gives the value on one device.
      whole: gives the value on all devices: the undivided array, or a stack of the parts that differ.
    """

    name: str
    type: str
    along: tuple[str, ...]
    result: bool
    note: str
    number: int
    at: Callable[[int], Had]
    whole: Callable[[], Had]


def _of_variable(
    known: Ledger, number: int, name: str, mesh: LoopShown, result: bool, what: str = "primal"
) -> DeviceColumn:
    """A variable of the program that each device runs."""
    var = known.variable(number)
    assert var is not None
    aval = var.aval
    along = tuple([str(axis) for axis, _ in mesh.axes if not mesh.checked or axis in aval.vma])
    part = known.place_of_part(number) if what == "primal" else None
    note = "" if part is None else _note(name, part.spec, part.aval.str_short(), result)
    on_all = partial(known.on_device, mesh.key, None, number, what) if part is None else part.value
    at = partial(_on_device, known, mesh.key, number, what)
    return DeviceColumn(name, _text_of_part(aval), along, result, note, number, at, on_all)


def _on_device(known: Ledger, mesh: tuple[int, ...], number: int, what: str, device: int) -> Found:
    return known.on_device(mesh, device, number, what)


def _of_call(frame: Any, eqn: JaxprEqn, place: int, name: str, result: bool) -> DeviceColumn:
    """An operand or result of a call that runs a program on devices."""
    jaxpr = eqn.params["jaxpr"].jaxpr
    var = (jaxpr.outvars if result else jaxpr.invars)[place]
    outer = (eqn.outvars if result else eqn.invars)[place]
    spec = eqn.params["out_specs" if result else "in_specs"][place]

    def at(device: int) -> Found:
        inner = frame.inside(eqn, device)
        return inner if isinstance(inner, Unknown) else worth(inner, var)

    note = _note(name, spec, outer.aval.str_short(), result)
    along = tuple([str(axis) for axis in axes_of_spec(spec)])
    return DeviceColumn(name, _text_of_part(var.aval), along, result, note, 0, at, partial(worth, frame, outer))


def _text_of_part(aval: Any) -> str:
    """``f32[4]``: the type of one device's part. The axes along which it varies are omitted: the columns show them."""
    plain = aval.update(vma=()) if aval.vma else aval
    return plain.str_short()  # type: ignore[no-any-return]


def _note(name: str, spec: PartitionSpec, whole: str, result: bool) -> str:
    """How an array is divided among devices, or assembled from them."""
    if not any(map(axes_of_part, spec)):
        return f"{name}: {whole}, " + ("the same on all" if result else "all of it on each")
    return f"{name}: {whole} {'put together' if result else 'divided'} by {spec!r}"


class DevicesShown(NamedTuple):
    """A device table: the mesh with the chosen device, the values, the collective, and more text on the operation.

    ``given``: the pieces that each device gets, for a recording from a file."""

    mesh: LoopShown
    columns: tuple[DeviceColumn, ...]
    meeting: Meeting | None = None
    said: str = ""
    given: Sequence[DeviceTextRecord] = ()


def of_bind(known: Ledger, bind: BindRecord, done: bool) -> DevicesShown | None:
    """The operands of an operation, and its results once ``done``; None outside of programs on devices."""
    names = known.naming.operands(bind)
    columns: list[DeviceColumn] = []
    mesh: LoopShown | None = None
    for numbers, result in ((bind.operands, False), (bind.results, True)):
        for place, number in enumerate(numbers):
            own = known.devices(number) if number else None
            if own is None or mesh is not None and own.key != mesh.key:
                continue
            mesh = mesh or own
            if result and not done or not result and number in bind.operands[:place]:
                continue
            columns += _columns(known, number, known.naming.name(number) if result else names[place], own, result)
    if mesh is None:
        return None
    found = next(filter(None, (_meeting(known, number, bind, mesh) for number in bind.results if number)), None)
    return DevicesShown(mesh, tuple(columns), found, PVARY if bind.primitive == "pvary" else "")


def of_latest(known: Ledger, at: int, level: str) -> DevicesShown | None:
    """The latest named values of a program on devices at event ``at``."""
    found: list[Named] = []
    mesh: LoopShown | None = None
    for named in reversed(named_until(known, at)[-50:]):
        own = known.devices(named.number)
        if own is None or named.life.tracer.level != level or len(found) == MOST_LATEST:
            break
        mesh = own
        found.insert(0, named)
    if mesh is None:
        return None
    columns = [column for named in found for column in _columns(known, named.number, named.name, mesh, False)]
    return DevicesShown(mesh, tuple(columns))


def of_call(known: Ledger, bind: BindRecord, done: bool) -> DevicesShown | None:
    """The operands that a call divides among devices and, once ``done``, the results that it assembles."""
    found = known.call_of(bind)
    if found is None or not is_mapped(found.eqn) or "in_specs" not in found.eqn.params:
        return None
    names = known.naming.operands(bind)
    places = range(len(found.eqn.invars))
    columns = [_of_call(found.frame, found.eqn, place, names[place], False) for place in places if place < len(names)]
    for place, number in enumerate(bind.results if done else ()):
        columns.append(_of_call(found.frame, found.eqn, place, known.naming.name(number), True))
    return DevicesShown(found.mesh, tuple(columns))


def _columns(known: Ledger, number: int, name: str, mesh: LoopShown, result: bool) -> Iterator[DeviceColumn]:
    """The column of a value, and the column of its tangent if it has a tangent."""
    if known.variable(number) is None:
        return
    yield _of_variable(known, number, name, mesh, result)
    if isinstance(known.on_device(mesh.key, mesh.index, number, "tangent"), Worth):
        yield _of_variable(known, number, f"tangent of {name}", mesh, result, "tangent")


def _meeting(known: Ledger, number: int, bind: BindRecord, mesh: LoopShown) -> Meeting | None:
    eqn = known.equation_of(number)
    if eqn is None or eqn.primitive.name != bind.primitive:
        return None
    return meeting(eqn.primitive, eqn.params, mesh.axes)


# --- pieces for one device


def pieces(shown: DevicesShown, here: int) -> list[tuple[int, Had]]:
    """The pieces that device ``here`` gets, each with its sender; empty if the operation sends no pieces."""
    met = shown.meeting
    given = next((column for column in shown.columns if not column.result), None)
    if met is None or given is None or met.way != "pieces":
        return []
    if shown.given:
        count = len(met.groups[0])
        return list(zip(met.by(here), shown.given[here * count : (here + 1) * count], strict=True))
    place = met.group(here).index(here)
    out: list[tuple[int, Had]] = []
    for source in met.by(here):
        found = given.at(source)
        if isinstance(found, Worth):
            value = numpy_of(found.array)
            axis = len(found.axes) + met.split
            cut = np.array_split(value, len(met.group(here)), axis)[place]
            aval = found.array.aval
            found = Worth(type(found.array)(cut, aval.update(shape=cut.shape)), found.axes)
        out.append((source, found))
    return out


# --- one cell


Summed = Callable[[Array], ValueSummary]


def cell(found: Had, room: int, typed: bool = False, summed: Summed = summary) -> Line:
    """A value in ``room`` characters: a small one in full, otherwise its range. ``summed`` summarizes an array.

    There is no picture, because readers would compare pictures of different ranges."""
    if found is None:
        return ()
    if isinstance(found, DeviceTextRecord):
        return found.fitting(room)
    if not isinstance(found, Worth):
        return (("muted", shortened(found.reason, room)),)
    said = brief(found.array, room, len(found.axes), typed=typed or bool(found.axes), summed=summed)
    said = tuple(each for each in said if each[0] != "param-name")
    said = said[:-1] if said and said[-1][1] == " " else said
    if said and sum(len(piece) for _, piece in said) <= room:
        return said
    return _range(found, room, summed)


def together(found: Had, room: int, summed: Summed = summary) -> Line:
    """The value on all devices. A scalar is shown only as a range, because its values are listed below."""
    if isinstance(found, Worth) and found.axes and found.array.ndim == len(found.axes):
        return _range(found, room, summed)
    return cell(found, room, True, summed)


def _range(found: Worth, room: int, summed: Summed) -> Line:
    known = summed(found.array).numbers
    if known is not None and known.kind == "b" and not known.sampled:
        return (("value", shortened(f"{known.high:,} of {known.seen:,} true", room)),)
    if known is not None and known.low is not None and known.kind != "b":
        size = "|…| " if known.kind == "c" else ""
        exact = size + known.between()
        short = f"≈ {size}{float(known.low):.2g} … {float(known.high):.2g}"
        for text in (f"≈ {exact}" if known.sampled else exact, short):
            if len(text) <= room and not (known.nans or known.infs):
                return (("value", text),)
    return (("muted", "…"),)
