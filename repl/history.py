"""The history file: bounded, private, and safe with several sessions at once.

One input a line, as a JSON string. Each session appends whole lines under a lock and reads the file once,
when it starts; when the file has grown by half it is cut back to its bound, in place of itself.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.history import History

try:
    import fcntl
except ImportError:  # no such locks on this system: appending is still atomic for short inputs
    fcntl = None  # type: ignore[assignment]

MOST_ENTRIES = 10_000


def history_path() -> Path:
    """Where the history lies: ``$XDG_STATE_HOME/minijax/history``, by default under ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "state"
    return folder / "minijax" / "history"


class BoundedHistory(History):
    """prompt_toolkit's history over a file; where that cannot be written, of this session only."""

    def __init__(self, path: Path, most: int = MOST_ENTRIES) -> None:
        super().__init__()
        self.path = path
        self.most = most
        self.problem = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                pass
        except OSError as error:
            self.problem = f"the history is not kept: {error}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, open and locked; nobody but the user may read it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, the latest first."""
        if self.problem:
            return []
        try:
            with self._locked() as descriptor:
                entries = list(_entries(_read(descriptor)))
                if len(entries) > self.most * 3 // 2:
                    entries = entries[-self.most :]
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, "".join(map(_line, entries)).encode())
        except OSError as error:
            self.problem = f"the history could not be read: {error}"
            return []
        return reversed(entries[-self.most :])

    def store_string(self, string: str) -> None:
        """Append an entry; one that begins with a space is the user's secret."""
        if self.problem or string.startswith(" ") or not string.strip():
            return
        try:
            with self._locked() as descriptor:
                os.write(descriptor, _line(string).encode())
        except OSError as error:
            self.problem = f"the history is not kept: {error}"


def _line(entry: str) -> str:
    return json.dumps(entry) + "\n"


def _read(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "replace")


def _entries(text: str) -> Iterator[str]:
    for each in text.splitlines():
        try:
            entry = json.loads(each)
        except ValueError:
            continue  # a line that a crash cut short
        if isinstance(entry, str):
            yield entry
