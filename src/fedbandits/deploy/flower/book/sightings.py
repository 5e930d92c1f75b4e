"""When each agent was first and last seen: how long it can have been making observations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

TABLES = """
CREATE TABLE seen (identity INTEGER PRIMARY KEY, first REAL NOT NULL, last REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When an agent was first and last seen, in seconds since 1970 by the server's clock."""

    first: float
    last: float


class Sightings:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def mark(self, identities: Iterable[int], now: float) -> None:
        """These agents are here. A clock that was set back makes nobody younger."""
        self._db.executemany(
            "INSERT INTO seen VALUES (?, ?, ?) ON CONFLICT (identity) DO UPDATE SET last = max(last, excluded.last)",
            [(identity, now, now) for identity in identities],
        )

    def all(self) -> dict[int, Sighting]:
        """Everybody who was ever seen, by identity; in a book of an earlier version, since this one opened it."""
        rows = self._db.execute("SELECT identity, first, last FROM seen ORDER BY identity").fetchall()
        return {identity: Sighting(first, last) for identity, first, last in rows}
