"""Recordings as files: versioned JSON that shows the same when it is loaded, on any machine, without what was recorded.

    {"format": "minijax-recording", "version": 1,
     "fields": {"BindRecord": ["at", "end", ...], ...},
     "records": [["TracerRecord", 7, "jvp:2", ...], ...],
     "documents": [...]}

Each record is a row: its kind, then the values of its fields in the order that ``fields`` gives. Where a field holds a
record, the row has its number in ``records``, counted from 0; a record comes after those it holds, and the recording
itself is the last. Jaxprs are kept as documents (``ir.doc_table``), so that they can be laid out at any width. A file
whose name ends in .xz is compressed. What a file says is checked, field by field: one that is cut off or was made to
harm raises ValueError, and nothing in it is run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minijax.core.named import Frozen
from minijax.ir.doc_table import read_table
from minijax.ir.pretty import jaxpr_document
from minijax.tools import files
from minijax.tools.programs.links import Equation, LinkedPrograms, Pane
from minijax.tools.recording import records as schema
from minijax.tools.recording.backward import listed
from minijax.tools.recording.records import JaxprRecord, Recording
from minijax.tools.recording.storage_types import Reader, Types, Writer, brief

FORMAT = "minijax-recording"
VERSION = 1
# What a compressed file begins with, and the most that it may hold: a recorder keeps 100 million characters of texts.
_XZ = b"\xfd7zXZ\x00"
MOST_BYTES = 1_000_000_000

_NODES: tuple[type[Frozen], ...] = (
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
    Equation,
    Pane,
    LinkedPrograms,
    Recording,
)
_KINDS = {kind.__name__: kind for kind in (*_NODES, *_OTHERS)}
_TYPES = Types(_KINDS, {"Node": _NODES, "Frozen": (LinkedPrograms,)}, once="Node", unwritten="Jaxpr")


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write ``recording`` to a file, in place of one that is there. OSError as ever.

    The file is either written completely or left as it was; a new one is its owner's alone. One whose name ends in .xz
    is compressed.
    """
    text = json.dumps(to_json(recording), separators=(",", ":"))
    files.write(path, _compressed(text) if os.fspath(path).endswith(".xz") else text, force=True)


def _compressed(text: str) -> bytes:
    import lzma  # which few files need, and not every Python has

    return lzma.compress(text.encode("ascii"))


def _uncompressed(data: bytes) -> bytes:
    """ValueError for what is no whole compressed file, or too much."""
    import lzma

    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        found = decompressor.decompress(data, MOST_BYTES)
    except lzma.LZMAError as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not decompressor.eof:
        raise ValueError("it holds more than any recording" if len(found) == MOST_BYTES else "it was cut off")
    return found


def load(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file. OSError as ever; ValueError, which names the file, if it holds none."""
    data = Path(path).expanduser().read_bytes()
    try:
        return from_json(json.loads(_uncompressed(data) if data.startswith(_XZ) else data))
    except RecursionError:
        reason = "it is nested deeper than any recording"
    except ValueError as error:
        reason = str(error)
        if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
            reason = f"it is no JSON, or was cut off: {error}"
    raise ValueError(f"{os.fspath(path)} cannot be read as a recording: {reason}")


def to_json(recording: Recording) -> dict[str, Any]:
    """``recording`` as what ``json`` writes: dictionaries, lists, strings, numbers, booleans, None."""
    writer = Writer()
    if recording.backward:
        recording = recording.replace(backward=tuple([listed(each, recording) for each in recording.backward]))
    rows: list[list[Any]] = []
    fields: dict[str, list[str]] = {}
    todo: list[tuple[Frozen, bool]] = [(recording, False)]
    while todo:
        record, held_done = todo.pop()
        if id(record) in writer.numbers:
            continue
        if not held_done:
            todo.append((record, True))
            todo += [(held, False) for held in _held(record)]
            continue
        kind = type(record)
        types = _TYPES.fields(kind)
        fields.setdefault(kind.__name__, [name for name, _ in types])
        stored = _without_program(record) if isinstance(record, JaxprRecord) else record
        rows.append([kind.__name__, *[each.write(getattr(stored, name), writer) for name, each in types]])
        writer.numbers[id(record)] = len(rows) - 1
    return {
        "format": FORMAT,
        "version": VERSION,
        "fields": fields,
        "records": rows,
        "documents": writer.docs.rows,
    }


def _held(record: Frozen) -> Iterator[Frozen]:
    """The records that fields of ``record`` hold, singly or in tuples; the last first."""
    for value in record.values():
        if isinstance(value, Frozen):
            yield value
        elif type(value) is tuple and value and isinstance(value[0], Frozen):
            yield from reversed(value)


def _without_program(record: JaxprRecord) -> JaxprRecord:
    if record.program is None:
        return record
    doc, tutorial = (jaxpr_document(record.program, style=style) for style in ("jax", "tutorial"))
    return JaxprRecord(record.at, record.kind, record.name, record.equations, None, doc, record.depth, tutorial)


def from_json(data: Any) -> Recording:
    """The way back from ``to_json``. ValueError if ``data`` is not what that gives."""
    if type(data) is not dict or data.get("format") != FORMAT:
        raise ValueError(f"it does not say that its format is {FORMAT!r}")
    version = data.get("version")
    if version != VERSION or type(version) is not int:
        raise ValueError(
            f"its version is {brief(version)}, and this minijax reads version {VERSION}; "
            "open it with the minijax that wrote it, or a later one"
        )
    names, rows = data.get("fields"), data.get("records")
    if type(names) is not dict or type(rows) is not list:
        raise ValueError("it has no fields and records")
    reader = Reader(read_table(data.get("documents")))
    for number, row in enumerate(rows):
        try:
            reader.made.append(_made(row, names, reader))
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from None
    if not reader.made or not isinstance(reader.made[-1], Recording):
        raise ValueError("the recording itself is missing: it was cut off")
    return reader.made[-1]


def _made(row: Any, names: dict[str, Any], reader: Reader) -> Frozen:
    """The record of a row."""
    kind = _KINDS.get(row[0]) if type(row) is list and row and type(row[0]) is str else None
    order = None if kind is None else names.get(kind.__name__)
    if kind is None or type(order) is not list or len(order) != len(row) - 1:
        raise ValueError("its kind, or the fields of that, are not known")
    given = {name: value for name, value in zip(order, row[1:], strict=True) if type(name) is str}
    found = {}
    for name, each in _TYPES.fields(kind):
        if name in given:
            try:
                found[name] = each.read(given[name], reader)
            except ValueError as error:
                raise ValueError(f"{kind.__name__}.{name}: {error}") from None
        elif name in kind._required:
            raise ValueError(f"{kind.__name__} has no {name}")
    made = kind(**found)
    if isinstance(made, LinkedPrograms):
        _check_links(made)
    elif isinstance(made, Recording) and made.level not in ("summary", "full"):
        raise ValueError(f"there is no level {made.level!r:.40}")
    return made


def _check_links(programs: LinkedPrograms) -> None:
    """ValueError if a pane is not in itself consistent, or speaks of equations that there are not."""
    known = range(1, len(programs.equations) + 1)
    numbers = [number for each in programs.equations for number in each.inside]
    for pane in (*programs.python, programs.jaxpr, programs.stablehlo, programs.hlo):
        for parts in (pane.numbers, pane.links, pane.notes):
            if len(parts) != len(pane.lines):
                raise ValueError("the parts of a program are not of one length")
        numbers += [number for links in pane.links for number in links]
    if [each.number for each in programs.equations] != list(known) or not all(n in known for n in numbers):
        raise ValueError("a program speaks of equations that there are not")
