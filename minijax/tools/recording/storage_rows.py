"""Conversion of records to rows of JSON values and back, for both file formats.

Reading checks each field: ValueError if a value does not match the record's annotations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from minijax.core.records import Frozen
from minijax.ir.pretty import jaxpr_document
from minijax.tools.programs.links import Equation, LinkedPrograms, Pane
from minijax.tools.recording import device_records
from minijax.tools.recording import records as schema
from minijax.tools.recording.backward import listed
from minijax.tools.recording.records import JaxprRecord, Recording
from minijax.tools.recording.storage_types import Reader, Type, Types, Writer

NODES: tuple[type[Frozen], ...] = (
    schema.BindRecord,
    schema.ScopeRecord,
    schema.RuleRecord,
    schema.EquationRecord,
    schema.JaxprRecord,
    schema.CacheRecord,
    schema.PhaseRecord,
    schema.ModuleRecord,
    schema.ExecutableRecord,
    schema.ErrorRecord,
)
_OTHERS: tuple[type[Frozen], ...] = (
    schema.TracerRecord,
    schema.LifeRecord,
    schema.SourceRecord,
    schema.CotangentRecord,
    schema.TransposedRecord,
    schema.LinearVariable,
    schema.LinearEquation,
    schema.BackwardRecord,
    device_records.Meeting,
    device_records.DeviceTextRecord,
    device_records.DeviceValueRecord,
    device_records.DevicesRecord,
    device_records.DeviceMomentRecord,
    Equation,
    Pane,
    LinkedPrograms,
    Recording,
)
KINDS = {kind.__name__: kind for kind in (*NODES, *_OTHERS)}
TYPES = Types(KINDS, {"Node": NODES, "Frozen": (LinkedPrograms,)}, once="Node", unwritten="Jaxpr")


def storable(recording: Recording) -> Recording:
    """``recording`` with backward programs in the form that files store."""
    if not recording.backward:
        return recording
    return recording.replace(backward=tuple([listed(each, recording) for each in recording.backward]))


def names_of(kind: type[Frozen], without: str = "") -> tuple[str, ...]:
    """The names of the values of a row, in order."""
    return tuple([name for name, _ in TYPES.fields(kind) if name != without])


def row_of(record: Frozen, writer: Writer, without: str = "") -> list[Any]:
    """The row of ``record``, without the field ``without``."""
    kind = type(record)
    stored = _without_program(record) if isinstance(record, JaxprRecord) else record
    fields = [each.write(getattr(stored, name), writer) for name, each in TYPES.fields(kind) if name != without]
    return [kind.__name__, *fields]


def short_row_of(record: Frozen, writer: Writer, without: str = "") -> list[Any]:
    """As ``row_of``, but with tuples instead of lists, which JSON writes in the same way."""
    kind = type(record)
    stored = _without_program(record) if isinstance(record, JaxprRecord) else record
    row = [kind.__name__, *stored.values()]
    for i, each in _parts(kind, without)[0]:
        row[i] = each.write(row[i], writer)
    if without:
        del row[1 + kind._names.index(without)]
    return row


_known_parts: dict[tuple[type[Frozen], str], tuple[list[tuple[int, Type]], list[int]]] = {}


def _parts(kind: type[Frozen], without: str) -> tuple[list[tuple[int, Type]], list[int]]:
    """For a kind of record, except the field ``without``: the row indices and the types of fields that JSON cannot
    write directly; and the indices of fields that contain records.
    """
    found = _known_parts.get((kind, without))
    if found is None:
        fields = [(i, each) for i, (name, each) in enumerate(TYPES.fields(kind)) if name != without]
        special = [(i + 1, each) for i, each in fields if not each.plain]
        found = _known_parts[kind, without] = special, [i for i, each in fields if each.holds]
    return found


def held(record: Frozen, without: str = "") -> Iterator[Frozen]:
    """The records inside ``record``, except in the field ``without``. The items of a tuple come in reverse."""
    values = record.values()
    for i in _parts(type(record), without)[1]:
        value = values[i]
        if isinstance(value, Frozen):
            yield value
        elif value:
            yield from reversed(value)


def _without_program(record: JaxprRecord) -> JaxprRecord:
    if record.program is None:
        return record
    doc, tutorial = (jaxpr_document(record.program, style=style) for style in ("jax", "tutorial"))
    return record.replace(program=None, doc=doc, tutorial=tutorial)  # type: ignore[no-any-return]


def made_of(row: Any, names: dict[str, Any], reader: Reader, given: Mapping[str, Any] = MappingProxyType({})) -> Frozen:
    """The record of a row with the field names ``names``; the ``given`` fields are not in the row."""
    kind = KINDS.get(row[0]) if type(row) is list and row and type(row[0]) is str else None
    order = None if kind is None else names.get(kind.__name__)
    if kind is None or type(order) is not list or len(order) != len(row) - 1:
        raise ValueError("its kind or the fields of this kind are not known")
    said = {name: value for name, value in zip(order, row[1:], strict=True) if type(name) is str}
    found = dict(given)
    for name, each in TYPES.fields(kind):
        if name in found:
            continue
        if name in said:
            try:
                found[name] = each.read(said[name], reader)
            except ValueError as error:
                raise ValueError(f"{kind.__name__}.{name}: {error}") from None
        elif name not in kind._defaults:
            raise ValueError(f"{kind.__name__} has no {name}")
    made = kind(**found)
    if isinstance(made, LinkedPrograms):
        _check_links(made)
    elif isinstance(made, device_records.DevicesRecord):
        _check_devices(made)
    elif isinstance(made, Recording) and made.level not in ("summary", "full"):
        raise ValueError(f"there is no level {made.level!r:.40}")
    return made


def _check_devices(shown: device_records.DevicesRecord) -> None:
    """ValueError unless there is a value for each device, and the groups of a collective contain each device once."""
    if not shown.axes or any(size < 1 for _, size in shown.axes):
        raise ValueError("a mesh has no devices")
    if any(len(column.parts) not in (1, shown.count) for column in shown.columns):
        raise ValueError("there are not as many values as devices")
    met = shown.meeting
    groups = () if met is None else met.groups
    if met is not None and sorted([each for group in groups for each in group]) != list(range(shown.count)):
        raise ValueError("a collective has devices that do not exist, or lacks some")
    of_groups = len(groups[0]) if groups else 0
    if any(len(group) != of_groups for group in groups) or len(shown.pieces) not in (0, shown.count * of_groups):
        raise ValueError("there are not as many pieces as devices that meet")


def _check_links(programs: LinkedPrograms) -> None:
    """ValueError if a pane is inconsistent, or refers to equations that do not exist."""
    known = range(1, len(programs.equations) + 1)
    numbers = [number for each in programs.equations for number in each.inside]
    for pane in (*programs.python, programs.jaxpr, programs.stablehlo, programs.hlo):
        for parts in (pane.numbers, pane.links, pane.notes):
            if len(parts) != len(pane.lines):
                raise ValueError("the parts of a program have different lengths")
        numbers += [number for links in pane.links for number in links]
    if [each.number for each in programs.equations] != list(known) or not all(n in known for n in numbers):
        raise ValueError("a program refers to equations that do not exist")
