"""Writing files whole or not at all, for their owner alone: they hold what the user computed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def write(path: str | os.PathLike[str], text: str | bytes, force: bool = False, keep_mode: bool = True) -> int:
    """Write ``text`` to a file, whole or not at all; returns its size in bytes.

    A new file can be read by its owner only. One that is there keeps who may read it, unless ``keep_mode`` is false; a
    symbolic link is followed. What cannot be written in UTF-8 is written as an escape.

    Raises:
      FileExistsError: it exists and ``force`` is not given.
      OSError: as the system has it.
    """
    path = os.path.realpath(os.path.expanduser(path))
    exists = os.path.exists(path)
    if exists and not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    # O_EXCL: nothing that somebody put in this place beforehand is written to, nor where a link there leads
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if exists and keep_mode:
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return len(data)
