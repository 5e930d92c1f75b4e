"""A database in write-ahead mode: opened without losing anything in silence, its log bounded, its file still there.

Each transaction appends the pages that it touches to the log, which is copied into the file when it has grown to
`LOG_BYTES`, and used again from its beginning. What a call writes is therefore counted in pages: new files have small
ones. A reader who holds on to an old state keeps the log from being used again; beyond `LOG_MOST` calls that write are
refused until it lets go.
"""

from __future__ import annotations

import os
import sqlite3
import time
from os import PathLike

from fedbandits.deploy.errors import LockedError, StorageError, is_busy
from fedbandits.deploy.storage.files import claim
from fedbandits.deploy.storage.log_check import log_of, refuse_damaged_log

LOG_BYTES = 32 * 2**20
"""How long the log grows before it is copied into the file: a copy costs two waits for the disk."""
LOG_MOST = 8 * LOG_BYTES
"""How long the log may get while somebody keeps it from being used again."""
_PAGE_BYTES = 2048
"""Of new files. Half of SQLite's own choice halves what a small call writes; less costs time where arms are many."""
_RETRY_SECONDS = 0.01
_LOOK_SECONDS = 0.01

Identity = tuple[int, int]


class WriteAheadFile:
    """The database at `path` as `db`, made if there is none.

    `durable`: each commit waits for the disk. `timeout` is in seconds, for locks that other processes hold. A damaged
    log is refused (`log_check.refuse_damaged_log`).
    """

    def __init__(self, path: str | PathLike[str], *, durable: bool, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._log = str(log_of(path))
        self._place: dict[str, Identity] = {}
        """By path, which file was found there when this one was opened."""
        self._look_again = 0.0
        claim(path)
        refuse_damaged_log(path, durable=durable)
        self.db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
        self._durable = durable

    def prepare(self) -> None:
        """Switch to write-ahead mode: before the first transaction, of a file that is ours."""
        self.db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # without effect on a file that has pages
        self._write_ahead()
        (page,) = self.db.execute("PRAGMA page_size").fetchone()
        for pragma in (
            f"synchronous = {'FULL' if self._durable else 'NORMAL'}",
            f"fullfsync = {'ON' if self._durable else 'OFF'}",
            f"wal_autocheckpoint = {LOG_BYTES // page}",
            f"journal_size_limit = {LOG_BYTES}",  # after it was longer than that
            "secure_delete = ON",  # what is deleted is overwritten
            "temp_store = MEMORY",  # no copy of anything in another file
        ):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute("BEGIN")
        self.db.execute("SELECT 1 FROM sqlite_master").fetchone()  # from here on, the log is there
        self.db.execute("ROLLBACK")
        self._place = {place: _identity(place) for place in (os.fspath(self._path), self._log)}

    def check_place(self, *, writing: bool) -> None:
        """Before each transaction: raises `StorageError` if the file or its log was deleted, moved or replaced, and
        `LockedError` if the log is too long to write more of it.

        It is looked at once in a hundredth of a second: what was acknowledged just before may be lost with the file. A
        copy that was written over the file's bytes, instead of taking its place, is not noticed.
        """
        now = time.monotonic()
        if now < self._look_again:
            return
        for place, identity in self._place.items():
            try:
                found = os.stat(place)
            except OSError:
                raise self._gone(place, "deleted or moved") from None
            if (found.st_dev, found.st_ino) != identity:
                raise self._gone(place, "replaced by another file")
            if writing and place == self._log and found.st_size > LOG_MOST:
                self._shorten(found.st_size)
        self._look_again = now + _LOOK_SECONDS

    def _shorten(self, size: int) -> None:
        busy, _, _ = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise LockedError(
                f"{self._path}: its log has {size // 2**20} MiB, since another process has been reading for long; end "
                "that process and call again"
            )

    def _gone(self, place: str, how: str) -> StorageError:
        return StorageError(
            f"{place}: was {how} while it was open; nothing more is written. Close the agent, put the file back, open "
            "it again"
        )

    def _write_ahead(self) -> None:
        """SQLite does not wait if another process switches at the same moment."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                (mode,) = self.db.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            raise StorageError(f"{self._path}: its file system has no shared memory; use a local disk")


def _identity(place: str) -> Identity:
    found = os.stat(place)
    return found.st_dev, found.st_ino
