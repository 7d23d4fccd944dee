"""Recordings as files, which show the same when they are loaded, on any machine, without what was recorded.

There are two forms. ``chunks`` is for any length: what is loaded is what is looked at. The other one, where a name ends
in .json, is versioned JSON for whoever wants to read it elsewhere, and loaded as a whole; .json.xz is compressed:

    {"format": "minijax-recording", "version": 1,
     "fields": {"BindRecord": ["at", "end", ...], ...},
     "records": [["TracerRecord", 7, "jvp:2", ...], ...],
     "documents": [...]}

Each record is a row: its kind, then the values of its fields in the order that ``fields`` gives. Where a field holds a
record, the row has its number in ``records``, counted from 0; a record comes after those it holds, and the recording
itself is the last. Jaxprs are kept as documents (``recording.doc_table``), so that they can be laid out at any width.
Every field of a file is checked. A truncated or hostile file raises ValueError, and nothing in it is executed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from minijax.core.named import Frozen
from minijax.tools import files
from minijax.tools.recording import chunks
from minijax.tools.recording.doc_table import read_table
from minijax.tools.recording.records import Recording
from minijax.tools.recording.storage_rows import held, made_of, names_of, row_of, storable
from minijax.tools.recording.storage_types import Reader, Writer, brief

FORMAT = "minijax-recording"
VERSION = 1
# What a compressed file begins with.
_XZ = b"\xfd7zXZ\x00"


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write ``recording`` to a file, in place of one that is there. OSError as ever.

    The file is either written completely or left as it was; a new one is its owner's alone. It is in chunks, unless its
    name ends in .json or .xz.
    """
    files.write(path, as_bytes(recording, os.fspath(path)), force=True)


def as_bytes(recording: Recording, name: str) -> bytes:
    """What a file called ``name`` holds of ``recording``."""
    if not name.lower().endswith((".json", ".xz")):
        return chunks.written(recording)
    text = json.dumps(to_json(recording), separators=(",", ":"))
    return _compressed(text) if name.lower().endswith(".xz") else text.encode("ascii")


def _compressed(text: str) -> bytes:
    import lzma  # which few files need, and not every Python has

    return lzma.compress(text.encode("ascii"))


def _uncompressed(data: bytes) -> bytes:
    """ValueError for what is no whole compressed file, or too much."""
    import lzma

    most = chunks.most_json(len(data))
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        found = decompressor.decompress(data, most + 1)
    except lzma.LZMAError as error:
        raise ValueError(f"it is damaged: {error}") from None
    if not decompressor.eof:
        more = f"its {len(data):,} bytes unpack to more than the {most:,} that a recording of that size can have"
        raise ValueError(more if len(found) > most else "it was cut off")
    return found


def load(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file. OSError as ever; ValueError, which names the file, if that holds none or too much."""
    with Path(path).expanduser().open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # what is no file may go on for ever, and has no size
        data = b"" if size > chunks.MOST_BYTES else file.read(chunks.MOST_BYTES + 1)
    try:
        if max(size, len(data)) > chunks.MOST_BYTES:
            raise ValueError(f"it has more than the {chunks.MOST_BYTES:,} bytes that a recording can have")
        if data.startswith(chunks.MAGIC):
            return chunks.read(data)
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
    recording = storable(recording)
    rows: list[list[Any]] = []
    kinds: list[type[Frozen]] = []
    todo: list[tuple[Frozen, bool]] = [(recording, False)]
    # so that none dies, and leaves its id to another: those of a file are made when they are asked for
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
            reader.made.append(made_of(row, names, reader))
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from None
    if not reader.made or not isinstance(reader.made[-1], Recording):
        raise ValueError("the recording itself is missing: it was cut off")
    return reader.made[-1]
