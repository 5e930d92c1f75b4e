"""Copies of an agent's or a server's file while it is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from fedbandits.deploy.check import check_file
from fedbandits.deploy.embedded.lives import COPIES
from fedbandits.deploy.errors import CorruptError, StorageError, storage_error, translated
from fedbandits.deploy.storage.files import claim
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.log_check import log_damage
from fedbandits.deploy.storage.upkeep import Upkeep


def back_up(source: str | os.PathLike[str], target: str | os.PathLike[str], *, salvage: bool = False) -> None:
    """Copy the file `source` to a new file `target`, as of one moment, while others go on using it.

    The copy appears under its name when it is complete, and when all of it has been held against its checksums
    (`check_file`). A copy of an agent's file is marked as one, for the sake of its budget (`lives`). Raises
    `StorageError` if there is nothing to copy, or something would be overwritten, and `CorruptError` if there is
    damage; `salvage`, a damaged log is copied as far as it can be read.
    """
    source, target = Path(source), Path(target)
    if not source.is_file():
        raise StorageError(f"{source}: there is no such file")
    if target.exists():
        raise StorageError(f"{target}: exists, and is not overwritten")
    damage = None if salvage else log_damage(source)
    if damage is not None:
        raise CorruptError(f"{source}: {damage}; there is no copy. As far as it can be read it is copied by --salvage")
    partial = target.with_name(target.name + ".partial")
    _remove(partial)  # what an attempt left that was interrupted
    try:
        claim(partial)
        _copy(source, partial)
        _sync(partial)
        findings = check_file(partial, replay=False).findings
        if findings:
            raise CorruptError(f"{source}: {findings[0]}; there is no copy. See `fedbandits agent check`")
        partial.rename(target)
    finally:
        _remove(partial)


def _copy(source: Path, partial: Path) -> None:
    with translated(source), closing(_opened(source, "ro")) as held, closing(_opened(partial, "rwc")) as copy:
        try:
            held.backup(copy)
            _mark(copy, partial)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file is all there is to the copy
        except sqlite3.OperationalError as error:  # what is not about the source's content or locks
            error_code = error.sqlite_errorcode & 0xFF
            if error_code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise storage_error(partial, error) from error
            raise


def _mark(copy: sqlite3.Connection, path: Path) -> None:
    """Let an agent that goes on from this copy know that there was another file, which may have released more."""
    (mark,), (version,) = (copy.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if (mark, version) != (AGENT.mark, AGENT.newest):
        return  # a server's book, or a file of a version that knew no budgets
    before = copy.execute("SELECT value FROM counters WHERE name = ?", (COPIES,)).fetchone()
    Upkeep(path, copy).put(COPIES, 1 + (0 if before is None else before[0]))
    copy.commit()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove(partial: Path) -> None:
    for rest in ("", "-journal", "-wal", "-shm"):
        partial.with_name(partial.name + rest).unlink(missing_ok=True)


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
