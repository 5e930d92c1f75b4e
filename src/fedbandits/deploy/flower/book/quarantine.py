"""Conversations that were spoilt: kept apart with everything that was said, until an operator has looked at them.

An entry is about one conversation: when, why it could not go on, whose replies did it (the guilty), and all replies of
its record. What the guilty handed over was given back to them (state `declined`), unless one has spoilt so many that it
is left out (`suspended`): then it is `held`, and the operator decides (`retry`, `drop`). Entries whose guilty are not
known for sure count for nobody.

What is kept is bounded: the entries of the last `MOST`, of which the older ones lose their replies.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.text import shown

TABLES = """
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, conversation TEXT NOT NULL, turn INTEGER NOT NULL,
    error TEXT NOT NULL, sure INTEGER NOT NULL, state TEXT NOT NULL, times INTEGER NOT NULL);
CREATE TABLE quarantined (
    id INTEGER NOT NULL, turn INTEGER NOT NULL, identity INTEGER NOT NULL, guilty INTEGER NOT NULL,
    said_in TEXT NOT NULL, said_turn INTEGER NOT NULL, letter BLOB NOT NULL, reply BLOB NOT NULL,
    PRIMARY KEY (id, turn, identity)) WITHOUT ROWID;
CREATE TABLE guilty (id INTEGER NOT NULL, identity INTEGER NOT NULL, PRIMARY KEY (id, identity)) WITHOUT ROWID;
CREATE TABLE suspended (identity INTEGER PRIMARY KEY, at REAL NOT NULL, id INTEGER NOT NULL);
"""
State = Literal["declined", "held", "dropped", "retried"]
STATES: tuple[State, ...] = get_args(State)
MOST, MOST_WHOLE = 1000, 50
"""How many entries are kept, and how many with all that was said."""
_LONGEST_ERROR = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """A conversation that was spoilt in a `turn`."""

    id: int
    at: float
    conversation: str
    turn: int
    error: str
    sure: bool
    """Whether the guilty are known for sure."""
    state: State
    times: int
    """How often the same has happened in a row, where nobody had said anything."""
    guilty: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A reply of a conversation that was spoilt, and the letter that it answers."""

    turn: int
    identity: int
    guilty: bool
    letter: Letter
    reply: bytes


@dataclass(frozen=True, slots=True)
class Suspension:
    """Since when an agent is left out, and the entry that led to it."""

    at: float
    id: int


class Quarantine:
    """The tables of a book over the connection `db`; whoever writes is within a transaction of the book."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(
        self,
        at: float,
        conversation: str,
        turn: int,
        error: str,
        guilty: Iterable[int],
        spoken: Sequence[Spoken],
        *,
        sure: bool,
        state: State,
    ) -> int:
        """A conversation was spoilt; the number of its entry. One like the last, in which nobody spoke, is counted."""
        error = shown(error, _LONGEST_ERROR)
        if not spoken:
            last = self._db.execute("SELECT max(id) FROM quarantine").fetchone()[0]
            same = self._db.execute(
                "UPDATE quarantine SET times = times + 1, at = ? WHERE id = ? AND error = ? AND turn = ?"
                " AND id NOT IN (SELECT id FROM quarantined) RETURNING id",
                (at, last, error, turn),
            ).fetchone()
            if same is not None:
                return int(same[0])
        (number,) = self._db.execute(
            "INSERT INTO quarantine (at, conversation, turn, error, sure, state, times) VALUES (?, ?, ?, ?, ?, ?, 1)"
            " RETURNING id",
            (at, conversation, turn, error, sure, state),
        ).fetchone()
        self._db.executemany("INSERT INTO guilty VALUES (?, ?)", [(number, identity) for identity in set(guilty)])
        self._db.executemany(
            "INSERT INTO quarantined VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (number, said.turn, said.identity, said.guilty, letter.conversation, letter.turn, letter.content, reply)
                for said in spoken
                for letter, reply in [(said.letter, said.reply)]
            ],
        )
        self._forget_old()
        return int(number)

    def entries(self) -> list[Entry]:
        """All that are kept, oldest first."""
        guilty: dict[int, list[int]] = {}
        for number, identity in self._db.execute("SELECT id, identity FROM guilty ORDER BY id, identity").fetchall():
            guilty.setdefault(number, []).append(identity)
        rows = self._db.execute(
            "SELECT id, at, conversation, turn, error, sure, state, times FROM quarantine ORDER BY id"
        ).fetchall()
        return [
            Entry(number, at, conversation, turn, error, bool(sure), state, times, tuple(guilty.get(number, ())))
            for number, at, conversation, turn, error, sure, state, times in rows
        ]

    def entry(self, number: int) -> Entry | None:
        """The entry of a number; None if there is none, or none any more."""
        return next((entry for entry in self.entries() if entry.id == number), None)

    def spoken(self, number: int) -> list[Spoken]:
        """The replies of an entry, in order; none where it is too old."""
        rows = self._db.execute(
            "SELECT turn, identity, guilty, said_in, said_turn, letter, reply FROM quarantined WHERE id = ?"
            " ORDER BY turn, identity",
            (number,),
        ).fetchall()
        return [
            Spoken(turn, identity, bool(guilty), Letter(said_in, said_turn, letter), reply)
            for turn, identity, guilty, said_in, said_turn, letter, reply in rows
        ]

    def decide(self, number: int, state: State) -> None:
        """The operator has looked at an entry: it counts for nobody any more, and whoever it led to be left out takes
        part again.
        """
        self._db.execute("UPDATE quarantine SET state = ? WHERE id = ?", (state, number))
        self._db.execute("DELETE FROM suspended WHERE id = ?", (number,))

    def strikes(self, identity: int, since: float) -> int:
        """How many conversations an agent has spoilt for sure since then, of those that nobody has looked at."""
        (count,) = self._db.execute(
            "SELECT count(*) FROM quarantine JOIN guilty USING (id)"
            " WHERE identity = ? AND at >= ? AND sure AND state IN ('declined', 'held')",
            (identity, since),
        ).fetchone()
        return int(count)

    def suspend(self, identity: int, at: float, number: int) -> None:
        """Leave an agent out from now on, because of an entry."""
        self._db.execute("INSERT OR IGNORE INTO suspended VALUES (?, ?, ?)", (identity, at, number))

    def suspended(self) -> Mapping[int, Suspension]:
        """Who is left out."""
        rows = self._db.execute("SELECT identity, at, id FROM suspended ORDER BY identity").fetchall()
        return {identity: Suspension(at, number) for identity, at, number in rows}

    def _forget_old(self) -> None:
        """Of entries that somebody still has to decide nothing is forgotten."""
        old = "SELECT id FROM quarantine WHERE state != 'held' ORDER BY id DESC LIMIT -1 OFFSET ?"
        self._db.execute(f"DELETE FROM quarantined WHERE id IN ({old})", (MOST_WHOLE,))
        for table in ("guilty", "quarantine"):
            self._db.execute(f"DELETE FROM {table} WHERE id IN ({old})", (MOST,))
