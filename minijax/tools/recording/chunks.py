"""Recordings in files of chunks. Only the chunks that are shown are read, so even a million events open quickly.

the line "minijax recording 2"
chunks: rows of records (``storage_rows``), as compressed JSON, about two thousand each
documents; the signs of the moments (``timeline``); columns with the fields of all records that a cursor needs; names
the directory: compressed JSON, with the address of each part
the address of the directory, and a checksum of everything before it

Records are numbered: first the tree's records, in the order in which they begin, then records inside other records,
and last the recording itself. The signs encode the children of a record and the recording's tree, so the rows omit
both. Long lists of records are loaded item by item.

The checksum is compared when a file is opened, so a truncated or damaged file is refused immediately. The contents are
checked when they are unpacked and when records are made; invalid ones raise ValueError. Nothing in a file is executed.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from minijax.core.records import Frozen
from minijax.tools.recording.doc_table import read_table
from minijax.tools.recording.lazily import LikeTuple
from minijax.tools.recording.naming import naming_of
from minijax.tools.recording.records import BindRecord, Recording, ScopeRecord
from minijax.tools.recording.storage_rows import NODES, held, made_of, names_of, short_row_of, storable
from minijax.tools.recording.storage_types import LARGEST, Read, Reader, Writer, brief
from minijax.tools.recording.timeline import (
    BIND,
    EQUATION,
    SCOPE,
    Children,
    SavedNames,
    Timeline,
    event_sign,
    left_sign,
    life_columns,
    timeline,
)

MAGIC = b"minijax recording 2\n"
VERSION = 2
# _END has the start of the directory, its packed and its unpacked length. _SUM is the checksum of all bytes before it.
_END = struct.Struct("<QQQ")
_SUM = struct.Struct("<I")
# A chunk ends after this many rows, or this many characters.
ROWS = 2048
CHARACTERS = 500_000
# The number of rows that are turned into text together.
TOGETHER = 128
# The number of chunks that stay unpacked.
MOST_CHUNKS = 24
# No part of a file unpacks to more bytes than this.
MOST_BYTES = 1_000_000_000
# No file has more moments than this: a recorder stops at a million events.
MOST_MOMENTS = 20_000_000
# Limits on the JSON of one part, because its Python objects take many times its size: MOST_JSON bytes, plus
# MOST_JSON_TO_PACKED for each packed byte. A recording of equal steps has 35 bytes of JSON per packed byte.
MOST_JSON = 16_000_000
MOST_JSON_TO_PACKED = 100
# Longer lists of records, and all lists of the recording itself, are loaded item by item.
FEW = 16
# For each type, the field that is not written because the signs encode it.
_TOLD = {BindRecord: "children", ScopeRecord: "children", Recording: "tree"}
_COLUMNS = ("ats", "equations", "lives", "births", "deaths")


def most_json(packed: int) -> int:
    """The maximum number of bytes of JSON that ``packed`` bytes may unpack to."""
    return min(MOST_JSON + MOST_JSON_TO_PACKED * packed, MOST_BYTES)


# --- writing
# --------------------------------------------------------------------------------------------------------------


_as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _ChunkWriter(Writer):
    few = FEW

    def several(self, numbers: list[int]) -> Any:
        if len(numbers) <= self.few:
            return numbers
        steps = [after - before for before, after in zip(numbers, numbers[1:], strict=False)]
        return {"from": numbers[0], "steps": steps}


class _Parts:
    """The parts of a file in order. The address of a part is its start, its packed length and its unpacked length."""

    def __init__(self) -> None:
        self.parts = [MAGIC]
        self.size = len(MAGIC)

    def add(self, data: bytes) -> list[int]:
        packed = zlib.compress(data, 6)
        address = [self.size, len(packed), len(data)]
        self.parts.append(packed)
        self.size += len(packed)
        return address

    def add_json(self, value: Any) -> list[int]:
        return self.add(_bytes(_as_json(value)))

    def add_column(self, values: Any) -> list[int]:
        """Integers, each stored as its difference from the integer before."""
        return self.add(np.diff(np.asarray(values, "<i8"), prepend=0).astype("<i8").tobytes())


class _RowsToWrite:
    """Rows of records that are collected into chunks."""

    def __init__(self, parts: _Parts, writer: _ChunkWriter) -> None:
        self.parts = parts
        self.writer = writer
        self.chunks: list[list[int]] = []
        self.kinds: dict[type[Frozen], None] = {}
        self._waiting: list[list[Any]] = []
        self._texts: list[str] = []
        self._count = self._characters = 0

    def add(self, record: Frozen) -> None:
        kind = type(record)
        self.kinds[kind] = None
        self.writer.few = 0 if kind is Recording else FEW
        self._waiting.append(short_row_of(record, self.writer, _TOLD.get(kind, "")))
        if len(self._waiting) == TOGETHER:
            self._to_text()
            if self._count >= ROWS or self._characters > CHARACTERS:
                self.close()

    def _to_text(self) -> None:
        text = _as_json(self._waiting)
        self._count += len(self._waiting)
        self._characters += len(text)
        self._texts.append(text[1:-1])
        self._waiting = []

    def close(self) -> None:
        """End the current chunk."""
        if self._waiting:
            self._to_text()
        if self._count:
            address = self.parts.add(_bytes(f"[{','.join(self._texts)}]"))
            self.chunks.append([*address, self._count])
        self._texts, self._count, self._characters = [], 0, 0


def written(recording: Recording) -> bytes:
    """The file of ``recording``."""
    known = timeline(recording)
    if isinstance(known.nodes, _Store) and known.nodes.recording is recording:
        return known.nodes.data
    scopes, births, deaths = life_columns(recording, known)
    columns = (known.ats(), known.equation_scopes(), scopes, births, deaths)
    names = naming_of(recording)
    recording = storable(recording)
    nodes = list(known.nodes)
    writer, parts = _ChunkWriter(), _Parts()
    writer.numbers.update((id(node), number) for number, node in enumerate(nodes))
    rows = _RowsToWrite(parts, writer)
    # records inside the tree's records get their numbers before any row is written, at every depth
    rest: list[Frozen] = []
    for node in nodes:
        if node is not None:
            _number_held(node, rest, writer.numbers, len(nodes))
    _number_held(recording, rest, writer.numbers, len(nodes))
    for record in (*nodes, *rest, recording):
        assert record is not None
        rows.add(record)
    rows.close()
    directory = {
        "version": VERSION,
        "fields": {kind.__name__: names_of(kind, _TOLD.get(kind, "")) for kind in rows.kinds},
        "nodes": len(nodes),
        "chunks": rows.chunks,
        "documents": parts.add_json(writer.docs.rows),
        "signs": parts.add(known.signs[1:-1]),
        "end": known.end,
        "columns": {name: parts.add_column(values) for name, values in zip(_COLUMNS, columns, strict=True)},
        "names": parts.add_json(
            [
                list(names.expressions.items()),
                [[*key, number] for key, number in names.lettered.items()],
                list(names.cotangents.items()),
                names.words,
            ]
        ),
    }
    address = parts.add_json(directory)
    data = b"".join((*parts.parts, _END.pack(*address)))
    return data + _SUM.pack(zlib.crc32(data))


def _number_held(record: Frozen, rest: list[Frozen], numbers: dict[int, int], nodes: int) -> None:
    """Number the records inside ``record`` that have no number yet, the inner ones first."""
    for each in held(record, _TOLD.get(type(record), "")):
        if id(each) not in numbers:
            _number_held(each, rest, numbers, nodes)
            numbers[id(each)] = nodes + len(rest)
            rest.append(each)


# --- reading
# --------------------------------------------------------------------------------------------------------------


class Listed(LikeTuple):
    """The records of one field. ``numbers`` has their record numbers; ``one`` reads a record when it is used."""

    __slots__ = ("store", "numbers", "one")

    def __init__(self, store: _Store, numbers: Sequence[int], one: Read) -> None:
        self.store = store
        self.numbers = numbers
        self.one = one

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple([self.one(number, self.store) for number in self.numbers[index]])
        return self.one(self.numbers[index], self.store)


class _Chunk:
    """Unpacked rows, and the records made from them."""

    __slots__ = ("first", "rows", "made")

    def __init__(self, first: int, rows: list[Any]) -> None:
        self.first = first
        self.rows = rows
        self.made: dict[int, Frozen] = {}


class _Store(Reader, Sequence[Any]):
    """All records of a file, by number. Its length and indexing cover only the records of the tree.

    Attributes:
    data: the file.
    unpacked: the number of chunks unpacked so far.
    records_made: the number of records made.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.unpacked = self.records_made = 0
        self.strings: dict[str, str] = {}
        self.placed: set[int] = set()
        self.made = _ByNumber(self)
        directory = self._directory()
        self._names, self._chunks = _known(directory, "fields", dict), _known(directory, "chunks", list)
        self._addresses = {name: _known(directory, name, list) for name in ("documents", "names", "signs")}
        columns = _known(directory, "columns", dict)
        self._nodes, end = _known(directory, "nodes", int), _known(directory, "end", int)
        if any(type(chunk) is not list or len(chunk) != 4 or type(chunk[3]) is not int for chunk in self._chunks):
            raise ValueError("it does not say where its records are")
        # the number after the last record of each chunk
        self._ends = list(accumulate([chunk[3] for chunk in self._chunks]))
        if any(chunk[3] < 1 for chunk in self._chunks) or not 0 <= self._nodes < (self._ends or [0])[-1]:
            raise ValueError("the number of its records is wrong")
        self._open: OrderedDict[int, _Chunk] = OrderedDict()
        # a record that something still refers to is not made again
        self._alive: WeakValueDictionary[int, Frozen] = WeakValueDictionary()
        self._documents: Sequence[Any] | None = None
        self._names_read: SavedNames | None = None
        self._said: tuple[tuple[str, ...], dict[int, bool]] = (), {}
        self.timeline = Timeline(self._part(self._addresses["signs"], MOST_MOMENTS), self, end)
        recording = self.record(self._ends[-1] - 1)
        if not isinstance(recording, Recording):
            raise ValueError("the recording itself is missing")
        self.recording = recording.holding(None, self.timeline)
        for name in _COLUMNS:
            self.timeline.columns[name] = self._column(columns.get(name))
        counts = self._nodes, len(self.timeline.marked(EQUATION)), *[len(recording.lives)] * 3
        if [len(self.timeline.columns[name]) for name in _COLUMNS] != list(counts):
            raise ValueError("its columns are not of the right length")
        self.timeline.names = self._saved_names

    # --- parts of the file

    def _directory(self) -> dict[str, Any]:
        data = self.data
        whole = len(data) - _SUM.size
        if whole < len(MAGIC) + _END.size:
            raise ValueError("it was cut off")
        if zlib.crc32(memoryview(data)[:whole]) != _SUM.unpack_from(data, whole)[0]:
            raise ValueError("it was cut off, or is damaged")
        directory = self._json(list(_END.unpack_from(data, whole - _END.size)))
        version = directory.get("version") if type(directory) is dict else None
        if type(version) is not int or version != VERSION:
            raise ValueError(f"its version is {brief(version)}, and this minijax reads version {VERSION}")
        return directory  # type: ignore[no-any-return]

    def _part(self, address: Any, most: int = MOST_BYTES) -> bytes:
        """A part of the file, unpacked. ValueError if it has more than ``most`` bytes."""
        begin, length, size = address[:3] if type(address) is list and len(address) > 2 else (-1, -1, -1)
        if any(type(each) is not int or each < 0 for each in (begin, length, size)):
            raise ValueError("it does not say where a part of it is")
        if size > most or begin + length > len(self.data):
            raise ValueError("a part of it is larger than any recording's")
        unpacking = zlib.decompressobj()
        try:
            # one byte more than expected, because zlib takes 0 as no limit
            found = unpacking.decompress(memoryview(self.data)[begin : begin + length], size + 1)
        except zlib.error as error:
            raise ValueError(f"it is damaged: {error}") from None
        if len(found) != size or not unpacking.eof or unpacking.unused_data:
            raise ValueError("a part of it has a wrong length")
        return found

    def _json(self, address: Any) -> Any:
        match address:
            case [_, int(packed), int(size), *_] if size > most_json(packed):
                raise ValueError("a part of it unpacks to more than any recording's")
        try:
            return json.loads(self._part(address).decode("utf-8", "surrogatepass"))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"a part of it is no JSON: {error}") from None

    def _column(self, address: Any) -> Any:
        data = self._part(address, 8 * MOST_MOMENTS)
        if len(data) % 8:
            raise ValueError("a column of it is cut off")
        values = np.cumsum(np.frombuffer(data, "<i8"), dtype=np.int64)
        if len(values) and max(-int(values.min()), int(values.max())) > LARGEST:
            raise ValueError("a column of it has numbers that are too large")
        return values

    @property
    def docs(self) -> Sequence[Any]:  # type: ignore[override]
        """The documents, unpacked at first use because few moments show one."""
        if self._documents is None:
            self._documents = read_table(self._json(self._addresses["documents"]))
        return self._documents

    def _saved_names(self) -> SavedNames:
        if self._names_read is None:
            match self._json(self._addresses["names"]):
                case [list(expressions), list(letters), list(cotangents), str(words)]:
                    if all(map(_is_expression, [*expressions, *cotangents])) and all(map(_is_letter, letters)):
                        by_letter = {(scope, letter): number for scope, letter, number in letters}
                        self._names_read = SavedNames(dict(expressions), by_letter, dict(cotangents), words)
        if self._names_read is None:
            raise ValueError("its table of names is invalid")
        return self._names_read

    # --- records

    def _chunk_of(self, number: int) -> int:
        low, high = 0, len(self._ends)
        while low < high:
            middle = (low + high) // 2
            if self._ends[middle] <= number:
                low = middle + 1
            else:
                high = middle
        return low

    def _chunk(self, index: int) -> _Chunk:
        known = self._open.get(index)
        if known is not None:
            self._open.move_to_end(index)
            return known
        rows = self._json(self._chunks[index])
        count = self._chunks[index][3]
        if type(rows) is not list or len(rows) != count:
            raise ValueError("a part of it has a wrong number of records")
        known = self._open[index] = _Chunk(self._ends[index] - count, rows)
        self.unpacked += 1
        while len(self._open) > MOST_CHUNKS:
            self._open.popitem(last=False)
        if len(self.strings) > ROWS * MOST_CHUNKS:
            self.strings.clear()
        return known

    def record(self, number: int) -> Frozen:
        """The record with this number."""
        found = self._alive.get(number)
        if found is not None:
            return found
        chunk = self._chunk(self._chunk_of(number))
        place = self.timeline.start(number) if number < self._nodes else 0
        try:
            found = self._made(chunk.rows[number - chunk.first], number, place)
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from None
        self.records_made += 1
        self._alive[number] = chunk.made[number] = found
        return found

    def _made(self, row: Any, number: int, place: int) -> Frozen:
        kind = row[0] if type(row) is list and row else None
        field = {"Recording": "tree", "BindRecord": "children", "ScopeRecord": "children"}.get(str(kind))
        found = made_of(row, self._names, self, {field: Children(self.timeline, place)} if field else {})
        if number >= self._nodes:
            return found
        sign, known = self.timeline.signs[place], self.timeline
        if sign in (BIND, SCOPE):
            right = type(found) is (BindRecord if sign == BIND else ScopeRecord)
            right = right and known.signs[known.other(place)] == left_sign(found)
        else:
            right = isinstance(found, NODES) and not field and event_sign(found) == sign
        if not right:
            raise ValueError(f"its moment is not that of a {type(found).__name__}")
        return found

    def several(self, value: Any, one: Read) -> Any:
        if type(value) is list and len(value) <= FEW:
            return super().several(value, one)
        if type(value) is not dict or type(value.get("from")) is not int or type(value.get("steps")) is not list:
            raise ValueError(f"expected numbers of records, found {brief(value)}")
        if any(type(step) is not int or abs(step) > LARGEST for step in (value["from"], *value["steps"])):
            raise ValueError("expected numbers of records")
        return Listed(self, list(accumulate(value["steps"], initial=value["from"])), one)

    # --- the records of the tree

    def __len__(self) -> int:
        return self._nodes

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self.record(i) for i in range(*number.indices(self._nodes))]
        if not -self._nodes <= number < self._nodes:
            raise IndexError(number)
        return self.record(number % self._nodes)

    def mentions(self, number: int, words: str) -> bool:
        """Whether the chunk of record ``number`` of the tree has all ``words``. Only then may the record have them."""
        pieces = tuple(re.findall(r"\w+", words.lower()))
        if pieces != self._said[0]:
            self._said = pieces, {}
        index = self._chunk_of(number)
        found = self._said[1].get(index)
        if found is None:
            text = self._part(self._chunks[index]).decode("utf-8", "surrogatepass").lower()
            # a search also reads the titles of jaxprs, which are not in the chunk
            found = '["jaxprrecord"' in text or all(piece in text for piece in pieces)
            self._said[1][index] = found
        return found


class _ByNumber:
    """All records of a file, made when they are read."""

    __slots__ = ("store",)

    def __init__(self, store: _Store) -> None:
        self.store = store

    def __len__(self) -> int:
        return self.store._ends[-1]

    def __getitem__(self, number: int) -> Frozen:
        return self.store.record(number)


def _is_expression(row: Any) -> bool:
    return type(row) is list and len(row) == 2 and type(row[0]) is int and type(row[1]) is str


def _is_letter(row: Any) -> bool:
    return type(row) is list and len(row) == 3 and _is_expression(row[:2]) and type(row[2]) is int


def _known(directory: dict[str, Any], name: str, kind: type) -> Any:
    found = directory.get(name)
    if type(found) is not kind:
        raise ValueError(f"its directory has no {name}")
    return found


def read(data: bytes) -> Recording:
    """The recording in a file. ValueError if the file holds none."""
    return _Store(data).recording
