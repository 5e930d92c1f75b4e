"""What became of what agents have handed over, kept until they know it.

A reply that hands something over is *under way* from the end of its turn until its conversation is completed; then it
is accepted. One that was not let in is declined. Decided ones go with every letter to their agent (`to_tell`), until
that, rung for, no longer names the reply among those whose fate it does not know (`heard`).

An agent may name a reply that the book knows nothing of. Then the book is not the one that the reply was given to, as
after it was restored from a backup: nothing of the reply is in the pool, and it is declined, so that the agent hands it
over once more. Replies that are *held* are neither: somebody has yet to look at them (`quarantine`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from fedbandits.deploy.embedded.acknowledgements import Verdict
from fedbandits.deploy.flower.post import Letter

TABLES = """
CREATE TABLE verdicts (
    place INTEGER PRIMARY KEY, identity INTEGER NOT NULL, conversation TEXT NOT NULL, turn INTEGER NOT NULL,
    state TEXT NOT NULL, UNIQUE (identity, conversation, turn));
"""
_UNDER_WAY, _HELD, _ACCEPTED, _DECLINED = "under way", "held", "accepted", "declined"
_DECIDED = f"state IN ('{_ACCEPTED}', '{_DECLINED}')"
_MOST_UNHEARD = 100
"""How many verdicts are kept for an agent of an earlier version, which never says what it knows."""

Turn = tuple[str, int]
"""Conversation and turn of a letter."""


class Verdicts:
    """The table of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    # deciding

    def begin(self, handed: Mapping[int, Turn]) -> None:
        """The conversation under way has got replies that hand something over, each to the given letter."""
        self._set(_UNDER_WAY, handed)

    def complete(self) -> None:
        """The conversation under way is completed: what it got was taken in."""
        self._db.execute(f"UPDATE verdicts SET state = '{_ACCEPTED}' WHERE state = '{_UNDER_WAY}'")

    def undo(self) -> None:
        """Be as before the conversation under way."""
        self._db.execute(f"DELETE FROM verdicts WHERE state = '{_UNDER_WAY}'")

    def decline(self, replies: Mapping[int, Turn]) -> None:
        """These replies were not taken in, and will not be."""
        self._set(_DECLINED, replies)

    def accept(self, replies: Mapping[int, Turn]) -> None:
        """These replies were taken in."""
        self._set(_ACCEPTED, replies)

    def hold(self, replies: Mapping[int, Turn]) -> None:
        """Nobody knows yet what becomes of these replies."""
        self._set(_HELD, replies)

    def held(self, identity: int) -> set[Turn]:
        """The replies of an agent of which nobody knows yet what becomes."""
        rows = self._db.execute(
            "SELECT conversation, turn FROM verdicts WHERE identity = ? AND state = ?", (identity, _HELD)
        ).fetchall()
        return {(conversation, turn) for conversation, turn in rows}

    # telling

    def to_tell(self, identities: Iterable[int]) -> dict[int, tuple[Verdict, ...]]:
        """What these agents have to be told, oldest first; without those who know everything."""
        wanted, found = set(identities), dict[int, list[Verdict]]()
        rows = self._db.execute(
            f"SELECT identity, conversation, turn, state FROM verdicts WHERE {_DECIDED} ORDER BY place"
        )
        for identity, conversation, turn, state in rows.fetchall():
            if identity in wanted:
                found.setdefault(identity, []).append(Verdict(conversation, turn, state == _ACCEPTED))
        return {identity: tuple(verdicts) for identity, verdicts in found.items()}

    def enclosed(self, letters: Mapping[int, Letter]) -> dict[int, Letter]:
        """`letters`, with what their agents have to be told."""
        told = self.to_tell(letters)
        return {who: replace(letter, verdicts=told.get(who, ())) for who, letter in letters.items()}

    def heard(self, identity: int, unknown: Collection[Turn] | None, expected: Collection[Turn]) -> list[Turn]:
        """An agent says of which replies it does not know what became of them; None if it is of a version that does not
        say. Forgets what it knows by now, and declines replies that nobody here knows of, which are returned;
        `expected` are known elsewhere.
        """
        rows = self._db.execute("SELECT place, conversation, turn, state FROM verdicts WHERE identity = ?", (identity,))
        known = {(conversation, turn): (place, state) for place, conversation, turn, state in rows.fetchall()}
        decided = {turn: place for turn, (place, state) in known.items() if state in (_ACCEPTED, _DECLINED)}
        if unknown is None:
            past = sorted(decided.values())[:-_MOST_UNHEARD]
            lost: list[Turn] = []
        else:
            past = [place for turn, place in decided.items() if turn not in unknown]
            lost = [turn for turn in unknown if turn not in known and turn not in expected]
        self._db.executemany("DELETE FROM verdicts WHERE place = ?", [(place,) for place in past])
        for turn in lost:
            self.decline({identity: turn})
        return lost

    def forget(self, identity: int) -> None:
        """Another agent takes the place of this one: it need not know what became of the other's replies."""
        self._db.execute(f"DELETE FROM verdicts WHERE identity = ? AND {_DECIDED}", (identity,))

    def _set(self, state: str, replies: Mapping[int, Turn]) -> None:
        self._db.executemany(
            "INSERT INTO verdicts (identity, conversation, turn, state) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (identity, conversation, turn) DO UPDATE SET state = excluded.state",
            [(identity, *turn, state) for identity, turn in replies.items()],
        )
