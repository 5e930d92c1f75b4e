"""How much an operator has to look at: conversations in quarantine, and agents that are left out."""

from __future__ import annotations

import sqlite3


class Troubles:
    """Counts over the tables of a book, for people and programs that look on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @property
    def quarantined(self) -> int:
        """How many conversations were ever put into quarantine."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'quarantine'").fetchone()
        return 0 if row is None else int(row[0])

    def by_state(self) -> dict[str, int]:
        """How many of them are in which state."""
        return dict(self._db.execute("SELECT state, count(*) FROM quarantine GROUP BY state").fetchall())

    @property
    def suspended(self) -> int:
        """How many agents are left out until the operator acts."""
        return int(self._db.execute("SELECT count(*) FROM suspended").fetchone()[0])
