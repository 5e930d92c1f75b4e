"""What has happened in a federation since it began, counted: for ever, and in little room.

Counters that operators watch have to go on when the server is started again, so they are in its book. A count is known
by a name, a kind (both ours, and few) and an agent, or none.
"""

from __future__ import annotations

import sqlite3

TABLES = """
CREATE TABLE tallies (
    name TEXT NOT NULL, kind TEXT NOT NULL, identity INTEGER NOT NULL, amount REAL NOT NULL,
    PRIMARY KEY (name, kind, identity)) WITHOUT ROWID;
"""
_NOBODY = -1


class Tallies:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, name: str, kind: str = "", identity: int | None = None, amount: float = 1) -> None:
        """Count something that has happened."""
        self._db.execute(
            "INSERT INTO tallies VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name, kind, identity) DO UPDATE SET amount = amount + excluded.amount",
            (name, kind, _NOBODY if identity is None else identity, amount),
        )

    def of(self, name: str) -> dict[tuple[str, int | None], float]:
        """All counts of a name, by kind and agent."""
        rows = self._db.execute("SELECT kind, identity, amount FROM tallies WHERE name = ?", (name,)).fetchall()
        return {(kind, None if identity == _NOBODY else identity): amount for kind, identity, amount in rows}
