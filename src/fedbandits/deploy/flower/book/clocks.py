"""Clocks that differ: how far an agent's is from the server's, by what both say when the server rings.

An answer says what time it is where it was written. By the server's own clock that was after the ring was sent and
before the answer came, so that the offset is known up to that interval: `offset` tells what is certain of it, which is
zero for a clock that is right, however long messages take.

It matters since Flower 1.41 refuses what a node signs more than 5 s in the future or 305 s in the past, and since
expiry, backups and logs of a site go by its clock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

TABLES = """
CREATE TABLE clocks (identity INTEGER PRIMARY KEY, offset REAL NOT NULL);
"""
TOLERATED_SECONDS = 60.0
"""Beyond this, people are told."""


def offset(told: float, sent: float, received: float) -> float:
    """By how many seconds, at least, a clock is ahead of ours (below zero: behind) that said `told` when ours said
    something between `sent` and `received`.

    >>> offset(100.0, 99.0, 104.0), offset(90.0, 99.0, 104.0), offset(110.0, 99.0, 104.0)
    (0.0, -9.0, 6.0)
    """
    return min(0.0, told - sent) + max(0.0, told - received)


def in_words(seconds: float) -> str:
    """An offset, for people.

    >>> in_words(-90.2)
    'is 90 seconds behind'
    """
    return f"is {abs(seconds):.0f} seconds {'ahead' if seconds > 0 else 'behind'}"


class Clocks:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def mark(self, offsets: Mapping[int, float]) -> None:
        """So far ahead were these agents' clocks, the last time they said what time it is."""
        self._db.executemany("INSERT OR REPLACE INTO clocks VALUES (?, ?)", list(offsets.items()))

    def all(self) -> dict[int, float]:
        """How many seconds each agent's clock is ahead of the server's, as far as that is certain."""
        return dict(self._db.execute("SELECT identity, offset FROM clocks ORDER BY identity").fetchall())
