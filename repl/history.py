"""The history file: bounded, private, and safe with several sessions at once.

Each line holds one input as a JSON string. A session reads the file once, at its start, and appends whole lines under
a lock. If the file exceeds its size limit by half, the oldest lines are removed, in place.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit.history import History

MOST_ENTRIES = 10_000


def history_path() -> Path:
    """The history file: ``$XDG_STATE_HOME/minijax/history``, by default under ``~/.local/state``."""
    base = os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base and os.path.isabs(base) else Path.home() / ".local" / "state"
    return folder / "minijax" / "history"


class BoundedHistory(History):
    """prompt_toolkit's history in a file. If the file is not writable, the history lasts for this session only."""

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
        """The file, opened and locked; only the user may read it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def load_history_strings(self) -> Iterable[str]:
        """The entries, latest first."""
        if self.problem:
            return []
        try:
            with self._locked() as descriptor:
                entries = list(_entries(descriptor))
                if len(entries) > self.most * 3 // 2:
                    entries = entries[-self.most :]
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, "".join(map(_line, entries)).encode())
        except OSError as error:
            self.problem = f"the history could not be read: {error}"
            return []
        return reversed(entries[-self.most :])

    def store_string(self, string: str) -> None:
        """Append an entry, unless it begins with a space, which keeps it secret."""
        if self.problem or string.startswith(" ") or not string.strip():
            return
        try:
            with self._locked() as descriptor:
                os.write(descriptor, _line(string).encode())
        except OSError as error:
            self.problem = f"the history is not kept: {error}"


def _line(entry: str) -> str:
    return json.dumps(entry) + "\n"


def _entries(descriptor: int) -> Iterator[str]:
    with open(descriptor, encoding="utf-8", errors="replace", closefd=False) as file:
        file.seek(0)
        for each in file:
            with contextlib.suppress(ValueError):  # a crash cut this line short
                entry = json.loads(each)
                if isinstance(entry, str):
                    yield entry
