"""Recordings as files. A recording from a file looks the same on any machine, without the recorded program.

There are two formats. ``chunks`` suits any length: only the parts that are viewed are loaded. A name that ends in
.json selects versioned JSON, for other programs; it is loaded as a whole:

    {"format": "minijax-recording", "version": 1,
     "fields": {"BindRecord": ["at", "end", ...], ...},
     "records": [["TracerRecord", 7, "jvp:2", ...], ...],
     "documents": [...]}

Each record is a row: its kind, then the values of its fields in the order of ``fields``. A record inside a record is
written as its index in ``records``, counted from 0. Inner records come before outer ones, and the recording itself is
last. Jaxprs are stored as documents (``recording.doc_table``), which can be laid out at any width. Every field of a
file is checked. A truncated or hostile file raises ValueError, and nothing in it is executed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from minijax.core.records import Frozen
from minijax.tools import files
from minijax.tools.recording import chunks
from minijax.tools.recording.doc_table import read_table
from minijax.tools.recording.records import Recording
from minijax.tools.recording.storage_rows import held, made_of, names_of, row_of, storable
from minijax.tools.recording.storage_types import Reader, Writer, brief

FORMAT = "minijax-recording"
VERSION = 1


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write ``recording`` to a file and replace an existing one. OSError if the file cannot be written.

    The file is either written completely or left unchanged; only its owner can read a new file. The format is chunks,
    unless the name ends in .json.
    """
    files.write(path, as_bytes(recording, os.fspath(path)), force=True)


def as_bytes(recording: Recording, name: str) -> bytes:
    """The content of a file called ``name``."""
    if not name.lower().endswith(".json"):
        return chunks.written(recording)
    return json.dumps(to_json(recording), separators=(",", ":")).encode("ascii")


def load(path: str | os.PathLike[str]) -> Recording:
    """Load a recording. OSError if the file cannot be read, ValueError with its name if it is invalid or too big."""
    with Path(path).expanduser().open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # a limit also for a device or pipe, which has no size and may be endless
        data = b"" if size > chunks.MOST_BYTES else file.read(chunks.MOST_BYTES + 1)
    try:
        if max(size, len(data)) > chunks.MOST_BYTES:
            raise ValueError(f"it has more than the {chunks.MOST_BYTES:,} bytes that a recording can have")
        if data.startswith(chunks.MAGIC):
            return chunks.read(data)
        return from_json(json.loads(data))
    except RecursionError:
        reason = "it is nested deeper than any recording"
    except ValueError as error:
        reason = str(error)
        if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
            reason = f"it is no JSON, or was cut off: {error}"
    raise ValueError(f"{os.fspath(path)} cannot be read as a recording: {reason}")


def to_json(recording: Recording) -> dict[str, Any]:
    """``recording`` as JSON values: dictionaries, lists, strings, numbers, booleans, None."""
    writer = Writer()
    recording = storable(recording)
    rows: list[list[Any]] = []
    kinds: list[type[Frozen]] = []
    todo: list[tuple[Frozen, bool]] = [(recording, False)]
    # keeps the records alive: a file's records are made on demand, and the id of a freed record may be reused
    written: list[Frozen] = []
    while todo:
        record, held_done = todo.pop()
        if id(record) in writer.numbers:
            continue
        if not held_done:
            todo.append((record, True))
            todo += [(each, False) for each in held(record)]
            written.append(record)
            continue
        kinds.append(type(record))
        rows.append(row_of(record, writer))
        writer.numbers[id(record)] = len(rows) - 1
    fields = {kind.__name__: list(names_of(kind)) for kind in dict.fromkeys(kinds)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "fields": fields,
        "records": rows,
        "documents": writer.docs.rows,
    }


def from_json(data: Any) -> Recording:
    """The inverse of ``to_json``. ValueError for other data."""
    if type(data) is not dict or data.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
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
            reader.made.append(made_of(row, names, reader))
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from None
    if not reader.made or not isinstance(reader.made[-1], Recording):
        raise ValueError("the recording itself is missing: it was cut off")
    return reader.made[-1]
