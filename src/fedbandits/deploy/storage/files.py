"""Files that hold data, keys or logs: for their owner alone, whatever the umask.

What is made here has mode 0600, directories 0700, from the first moment on. SQLite gives its logs (`-wal`, `-shm`) the
mode of their database, so that it is enough to make the database first.

Files that exist keep their mode: a product and its node may run as two users of one group, for whom the operator has
widened it (`chmod 660`). One that every user of the machine can read is told of once. Encryption, access control lists
and what the superuser can do are not looked at; systems without modes (Windows) go by their directories.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from functools import cache
from os import PathLike
from pathlib import Path

log = logging.getLogger(__name__)
_FILE, _DIRECTORY = 0o600, 0o700


def claim(path: str | PathLike[str]) -> None:
    """Make sure that what SQLite opens at `path` is private if it is new: an empty file is a database without tables.

    What goes wrong is left for SQLite to tell. A file that is there and open to every user is named in the log, once.
    """
    target = os.path.realpath(path)  # of a link that leads to nothing yet, its end is what is made
    try:
        os.close(private(target, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        _warn_if_open_to_everybody(target)
    except OSError:
        pass


def private(path: str | PathLike[str], flags: int) -> int:
    """Open a file as `os.open` does, private if that makes it: an `opener` for `open`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log"
    >>> with open(path, "a", opener=private) as file:
    ...     _ = file.write("kept")
    >>> oct(path.stat().st_mode & 0o777)
    '0o600'
    """
    if not flags & os.O_CREAT:
        return os.open(path, flags)
    try:
        descriptor = os.open(path, flags | os.O_EXCL, _FILE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, _FILE)
    if os.chmod in os.supports_fd:
        os.chmod(descriptor, _FILE)  # a umask may have taken away even what the owner needs
    return descriptor


def write_private(path: Path, content: bytes | str) -> None:
    """Write a file anew, whatever was there before under whatever mode; it appears complete, or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(partial, "xb", opener=private) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    partial.replace(path)


def private_directory(path: Path) -> None:
    """Make a directory that its owner alone can enter, and those above it; one that is there keeps its mode."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_DIRECTORY, exist_ok=True)
    path.chmod(_DIRECTORY)


def open_to_everybody(path: str | PathLike[str]) -> bool:
    """Whether the mode of a file lets every user of the machine read or write it; False where modes mean nothing."""
    return os.name == "posix" and bool(os.stat(path).st_mode & (stat.S_IROTH | stat.S_IWOTH))


@cache
def _warn_if_open_to_everybody(path: str) -> None:
    with suppress(OSError):
        if open_to_everybody(path):
            log.warning("%s is open to every user of this machine; close it with: chmod 600 %s", path, path)
