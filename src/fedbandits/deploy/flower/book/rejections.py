"""What was not let in: counted for ever, told in words for as long as there is room.

Whoever sends nonsense chooses how often. Counts by agent and kind are all kept, since there are few of them; of words
only the latest stay, and so many of one agent that a single loud one does not make the others' disappear.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal, get_args

from fedbandits.deploy.flower.book.tallies import Tallies
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.text import shown

Kind = Literal["node", "agent", "reply"]
"""Who was at fault: a node that may not speak for whom it claims, an agent that would not take a letter in, or what a
reply says."""
KINDS: tuple[Kind, ...] = get_args(Kind)
TABLES = """
CREATE INDEX rejected_by_identity ON rejected (identity);
INSERT INTO tallies SELECT 'rejections', '', coalesce(identity, -1), count(*) FROM rejected GROUP BY identity;
"""
"""What was rejected before kinds were told apart has none."""
MOST_OF_ONE, MOST = 50, 1000
"""How many are kept in words, of one agent (and of nodes that are no agent's) and in all."""
_NAME = "rejections"


@dataclass(frozen=True, slots=True)
class Rejection:
    """What was not let in, and why."""

    at: float
    identity: int | None
    conversation: str | None
    turn: int | None
    why: str


class Rejections:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection, tallies: Tallies) -> None:
        self._db = db
        self._tallies = tallies

    def add(self, at: float, identity: int | None, letter: Letter | None, why: str, kind: Kind) -> None:
        """Something was not let in."""
        conversation, turn = (None, None) if letter is None else (letter.conversation, letter.turn)
        self._tallies.add(_NAME, kind, identity)
        self._db.execute("INSERT INTO rejected VALUES (?, ?, ?, ?, ?)", (at, identity, conversation, turn, shown(why)))
        self._db.execute(
            "DELETE FROM rejected WHERE rowid IN (SELECT rowid FROM rejected WHERE identity IS ?"
            " ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (identity, MOST_OF_ONE),
        )
        self._db.execute(
            "DELETE FROM rejected WHERE rowid IN (SELECT rowid FROM rejected ORDER BY rowid DESC LIMIT -1 OFFSET ?)",
            (MOST,),
        )

    def latest(self) -> list[Rejection]:
        """Those that are kept in words, oldest first."""
        rows = self._db.execute(
            "SELECT at, identity, conversation, turn, why FROM rejected ORDER BY at, rowid"
        ).fetchall()
        return [Rejection(*row) for row in rows]

    def counts(self) -> dict[tuple[str, int | None], int]:
        """How many there were ever, by kind ("": before kinds were told apart) and agent."""
        return {key: int(amount) for key, amount in self._tallies.of(_NAME).items()}
