"""Copies of an agent's or a server's file while it is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from fedbandits.deploy.errors import StorageError, translated
from fedbandits.deploy.files import claim


def back_up(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy the file `source` to a new file `target`, as of one moment, while others go on using it.

    The copy appears under its name when it is complete. Raises `StorageError` if there is nothing to copy, or something
    would be overwritten.
    """
    source, target = Path(source), Path(target)
    partial = target.with_name(target.name + ".partial")
    if not source.is_file():
        raise StorageError(f"{source}: there is no such file")
    if target.exists():
        raise StorageError(f"{target}: exists, and is not overwritten")
    try:
        claim(partial)
        with translated(source), closing(_opened(source, "rw")) as held, closing(_opened(partial, "rwc")) as copy:
            held.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file is all there is to the copy
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
