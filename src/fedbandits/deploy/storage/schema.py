"""Formats of files: how one that an earlier version wrote becomes one of today.

Both kinds of files, an agent's and a server's book, are SQLite databases that say in their header whose they are
(`application_id`) and which format they have (`user_version`). A format is described by the steps that lead to it: the
step from 0 makes the tables of the first one, each other changes what the one before left. A new file takes all of
them, so that new files and those brought forward are the same by construction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike

from fedbandits.deploy.errors import CorruptError, SettingsError

Step = Callable[[sqlite3.Connection], None]
"""Changes the tables of one format into those of the next, within the transaction that is under way."""


@dataclass(frozen=True)
class Schema:
    """A kind of file.

    `whose` completes "is a database, but not ...", `mark` is the application id, and `steps` are by the format that
    they start from, 0 being a file without tables. Files of formats before `marked_since` may have no mark.
    """

    whose: str
    mark: int
    steps: Mapping[int, Step]
    marked_since: int = 1

    @property
    def newest(self) -> int:
        """The format of this version of the library."""
        return max(self.steps) + 1

    def format_of(self, db: sqlite3.Connection, path: str | PathLike[str]) -> int:
        """The format of the file at `path`; 0 if nothing was written into it yet.

        Raises `SettingsError` for a file of somebody else's, or one that a newer version has written. Reads several
        things: others may be making the file right now, unless a transaction is under way.
        """
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = db.execute("PRAGMA application_id").fetchone()
        found: int
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if not tables and mark == 0:
            return 0
        if mark != self.mark and (mark != 0 or not 1 <= found < self.marked_since):
            raise SettingsError(f"{path} is a database, but not {self.whose}, or it is damaged")
        if found > self.newest:
            raise SettingsError(f"{path} has format {found}, this version of fedbandits reads {self.newest}; update it")
        if found < 1:
            raise SettingsError(f"{path} is {self.whose}, but its format is damaged ({found})")
        return found

    def bring_forward(self, db: sqlite3.Connection, path: str | PathLike[str]) -> int:
        """Take all the steps to the newest format; the format that was found.

        In a transaction that writes, which the caller has begun: after its commit the file has the newest format, and
        whatever happens before, it is what it was.
        """
        found = self.format_of(db, path)
        try:
            for version in range(found, self.newest):
                self.steps[version](db)
        except CorruptError as error:
            raise CorruptError(f"{path}: {error}") from error
        if found < self.newest:
            db.execute(f"PRAGMA application_id = {self.mark}")
            db.execute(f"PRAGMA user_version = {self.newest}")
        return found


def statements(text: str) -> Step:
    """The step that consists of SQL statements, separated by semicolons."""

    def step(db: sqlite3.Connection) -> None:
        for statement in text.split(";"):
            db.execute(statement)  # not executescript, which would commit

    return step
