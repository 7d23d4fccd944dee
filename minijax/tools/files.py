"""Write files atomically. Only their owner can read them, because they hold the user's results."""

from __future__ import annotations

import contextlib
import errno
import os
import stat


def write(path: str | os.PathLike[str], text: str | bytes, force: bool = False, keep_mode: bool = True) -> int:
    """Write ``text`` to a file atomically; returns its size in bytes.

    Only the owner can read a new file. An existing file keeps its permissions unless ``keep_mode`` is false. If the
    path is a symbolic link, its target is written. Characters that UTF-8 cannot encode become escapes.

    Raises:
      FileExistsError: the file exists and ``force`` is false.
      OSError: the system refuses to write.
    """
    path = os.path.realpath(os.path.expanduser(path))
    exists = os.path.exists(path)
    if exists and not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    # O_EXCL: refuse a file that exists, or a symbolic link, at this temporary path
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
