"""Who was expelled from a federation; what follows from it is in `expelling`."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

TABLES = """
CREATE TABLE expelled (identity INTEGER PRIMARY KEY, at REAL NOT NULL, key TEXT);
"""


@dataclass(frozen=True, slots=True)
class Expulsion:
    """When an agent was expelled, and the key that spoke for it (None: none ever did)."""

    at: float
    key: str | None


class Expelled:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def all(self) -> dict[int, Expulsion]:
        """Everybody who is not let in, by identity."""
        rows = self._db.execute("SELECT identity, at, key FROM expelled ORDER BY identity").fetchall()
        return {identity: Expulsion(at, key) for identity, at, key in rows}

    def add(self, identity: int, at: float, key: str | None) -> bool:
        """Do not let an agent in any more; False if it was expelled before."""
        row = (identity, at, key)
        return self._db.execute("INSERT OR IGNORE INTO expelled VALUES (?, ?, ?)", row).rowcount > 0

    def remove(self, identity: int) -> bool:
        """Let an agent in again; False if it was not expelled."""
        return self._db.execute("DELETE FROM expelled WHERE identity = ?", (identity,)).rowcount > 0

    def bars(self, identity: int, key: str) -> bool:
        """Whether somebody who claims to be an agent, with that key, was expelled."""
        found = self._db.execute("SELECT 1 FROM expelled WHERE identity = ? OR key = ?", (identity, key)).fetchone()
        return found is not None
