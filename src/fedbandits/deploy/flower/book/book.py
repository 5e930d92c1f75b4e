"""The server's book: everything that has to survive the server, in one SQLite file.

It holds the state after the last conversation that was completed, the one that is under way turn by turn, letters that
still have to be delivered, answers that came too late, and what people want to look at. Every method is one
transaction: it has happened as a whole, or not at all, whenever the process is killed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.state import from_bytes, to_bytes
from fedbandits.deploy.errors import CorruptError
from fedbandits.deploy.flower.book.book_tables import SCHEMA
from fedbandits.deploy.flower.book.clocks import Clocks
from fedbandits.deploy.flower.book.contributions import Contributions, Handed
from fedbandits.deploy.flower.book.durations import Durations, Outcome
from fedbandits.deploy.flower.book.expelled import Expelled
from fedbandits.deploy.flower.book.names import BOOK
from fedbandits.deploy.flower.book.quarantine import Quarantine
from fedbandits.deploy.flower.book.rejections import Kind, Rejection, Rejections
from fedbandits.deploy.flower.book.sightings import Sightings
from fedbandits.deploy.flower.book.tallies import Tallies
from fedbandits.deploy.flower.book.troubles import Troubles
from fedbandits.deploy.flower.book.verdicts import Turn, Verdicts
from fedbandits.deploy.flower.post import Letter
from fedbandits.deploy.storage.files import claim
from fedbandits.deploy.storage.log_check import refuse_damaged_log


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What one turn brought: who was asked, who of them was reached, and the replies of those who sent one."""

    asked: tuple[int, ...]
    reached: tuple[int, ...]
    replies: Mapping[int, bytes]
    late: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Whose reply answers an earlier letter than that of the turn: its conversation and turn."""

    def without(self, identities: Collection[int], letter: Turn) -> TurnRecord:
        """The same turn of a conversation that begins anew, in which these agents are not reached; `letter` is what its
        replies answer that are not late.
        """
        replies = {who: reply for who, reply in self.replies.items() if who not in identities}
        return TurnRecord(
            tuple(who for who in self.asked if who not in identities),
            tuple(who for who in self.reached if who not in identities),
            replies,
            {who: self.late.get(who, letter) for who in replies},
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """A conversation that is not finished: how it began."""

    conversation: str
    callers: tuple[int, ...]
    reachable: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Owed:
    """A question that was not answered in time, and the answer if it has come since."""

    letter: Letter
    answer: bytes | None


class Book:
    """The book in the file `path`, which is made if there is none. Other processes may read it at any time, also
    `read_only`: such a book has the newest format already.
    """

    def __init__(self, path: str | PathLike[str], *, read_only: bool = False) -> None:
        if not read_only:
            claim(path)
            refuse_damaged_log(path)
        name = f"{Path(path).absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        self._db = sqlite3.connect(name, timeout=30.0, isolation_level=None, check_same_thread=False, uri=True)
        try:
            self._open(path, read_only=read_only)
        except BaseException:
            self._db.close()
            raise
        self.contributions = Contributions(self._db)
        self.sightings = Sightings(self._db)
        self.clocks = Clocks(self._db)
        self.tallies = Tallies(self._db)
        self.durations = Durations(self.tallies)
        self.troubles = Troubles(self._db)
        self.verdicts = Verdicts(self._db)
        self.expelled = Expelled(self._db)
        self.quarantine = Quarantine(self._db)
        self._rejections = Rejections(self._db, self.tallies)

    def _open(self, path: str | PathLike[str], *, read_only: bool) -> None:
        found = SCHEMA.format_of(self._db, path)  # before anything is changed in a file of somebody else's
        if read_only:
            if found != SCHEMA.newest:
                raise ConfigError(f"{path} has format {found}; the server brings it to {SCHEMA.newest} when it starts")
            return
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._writing():
            SCHEMA.bring_forward(self._db, path)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # who is who

    def admit(self, identity: int, key: str, letters: int) -> str | None:
        """Why the node with `key` may not speak for `identity`; None if it may.

        The first key to say so may, for one agent, as long as that knows all the letters that it has answered.
        """
        with self._writing():
            if self.expelled.bars(identity, key):
                return ", which was expelled"
            held = self._db.execute("SELECT key, letters FROM nodes WHERE identity = ?", (identity,)).fetchone()
            if held is None:
                if self._db.execute("SELECT 1 FROM nodes WHERE key = ?", (key,)).fetchone():
                    return ", but its key speaks for another agent"
                self._db.execute("INSERT INTO nodes VALUES (?, ?, ?)", (identity, key, letters))
            elif held[0] != key:
                return ", for which another key speaks"
            elif letters < held[1]:
                return f" as it was {held[1] - letters} letters ago: its file is a copy or a new one"
            else:
                self._heard({identity: letters})
        return None

    def release(self, identity: int) -> bool:
        """Let any key speak for `identity`, with any past: after an exchange of keys, or of its file; whether one did
        before.
        """
        with self._writing():
            self.contributions.forget_totals(identity)
            self.verdicts.forget(identity)
            return self._db.execute("DELETE FROM nodes WHERE identity = ?", (identity,)).rowcount > 0

    def expel(self, identity: int, at: float) -> bool:
        """Do not let an agent in any more, nor its key; False if it was expelled before. See `expelling`."""
        with self._writing():
            return self.expelled.add(identity, at, self.bound().get(identity))

    def readmit(self, identity: int) -> bool:
        """Let an agent in again that was expelled; False if it was not."""
        with self._writing():
            return self.expelled.remove(identity)

    def bound(self) -> dict[int, str]:
        """Which key speaks for which identity, as SHA-256 of the public key."""
        return dict(self._db.execute("SELECT identity, key FROM nodes").fetchall())

    # the state after the last completed conversation

    def parts(self) -> dict[str, State]:
        """The states that were saved, by part; empty in a new book."""
        rows = self._db.execute("SELECT part, state FROM snapshot").fetchall()
        return {part: _read(part, state) for part, state in rows}

    def ledger(self) -> Ledger:
        """What had crossed by the end of the last completed conversation."""
        ledger = Ledger()
        row = self._db.execute("SELECT state FROM snapshot WHERE part = 'ledger'").fetchone()
        if row is not None:
            ledger.load(_read("ledger", row[0]))
        return ledger

    def save(self, **parts: Mapping[str, Array]) -> None:
        """Save states, by part: a server's that has not spoken yet."""
        with self._writing():
            for part, state in parts.items():
                self._db.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?)", (part, to_bytes(state)))

    def finish(self, **parts: Mapping[str, Array]) -> None:
        """The conversation under way is complete: save the states, and forget its turns."""
        with self._writing():
            self.save(**parts)
            self.contributions.settle()
            self.verdicts.complete()
            self._forget_conversation()

    # the conversation under way

    def begin(self, conversation: str, callers: Sequence[int], reachable: Sequence[int]) -> None:
        """A conversation begins."""
        with self._writing():
            row = (conversation, json.dumps(list(callers)), json.dumps(list(reachable)))
            self._db.execute("INSERT INTO underway VALUES (?, ?, ?)", row)

    def undo(self, kept: int = 0) -> None:
        """Be as before the conversation under way: nothing of it was taken in. Letters of its first `kept` turns still
        have to be delivered, those of others need not be.
        """
        with self._writing():
            self.contributions.undo()
            self.verdicts.undo()
            self._db.execute(
                "DELETE FROM undelivered WHERE turn >= ? AND conversation IN (SELECT conversation FROM underway)",
                (kept,),
            )
            self._forget_conversation()

    def record(self) -> dict[int, TurnRecord]:
        """What the turns of the conversation under way brought that are over."""
        turns = self._db.execute("SELECT turn FROM turns ORDER BY turn").fetchall()
        return {turn: found for (turn,) in turns if (found := self.turn(turn)) is not None}

    def cut(self) -> Cut | None:
        """The conversation that was begun and not finished."""
        row = self._db.execute("SELECT conversation, callers, reachable FROM underway").fetchone()
        return None if row is None else Cut(row[0], tuple(json.loads(row[1])), tuple(json.loads(row[2])))

    def turn(self, turn: int) -> TurnRecord | None:
        """What a turn of the conversation under way brought; None if it is not over."""
        over = self._db.execute("SELECT asked FROM turns WHERE turn = ?", (turn,)).fetchone()
        if over is None:
            return None
        rows = self._db.execute(
            "SELECT identity, reply, said_in, said_turn FROM outcomes WHERE turn = ? ORDER BY place", (turn,)
        ).fetchall()
        replies = {identity: reply for identity, reply, *_ in rows if reply is not None}
        late = {identity: (said_in, said_turn) for identity, _, said_in, said_turn in rows if said_in is not None}
        return TurnRecord(tuple(json.loads(over[0])), tuple(identity for identity, *_ in rows), replies, late)

    def conclude(
        self,
        turn: int,
        record: TurnRecord,
        *,
        undelivered: Mapping[int, Letter] | None = None,
        owed: Mapping[int, Letter] | None = None,
        settled: Sequence[int] = (),
        letters: Mapping[int, int] | None = None,
        handed: Mapping[int, Handed] | None = None,
        taken: Mapping[int, Turn] | None = None,
        declined: Mapping[int, Turn] | None = None,
    ) -> None:
        """A turn is over. Some of those reached still have to be told (`undelivered`), some owe an answer (`owed`),
        and the late answers of some were used (`settled`). `letters` is how many the agents said to have answered,
        `handed` what they handed over. By the letters that they answer: replies that hand something over and are
        `taken` in if nothing comes between, and replies that were `declined`.
        """
        with self._writing():
            self._heard(letters or {})
            self._db.execute("INSERT INTO turns VALUES (?, ?)", (turn, json.dumps(record.asked)))
            for place, identity in enumerate(record.reached):
                row = (turn, place, identity, record.replies.get(identity), *record.late.get(identity, (None, None)))
                self._db.execute("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?)", row)
            self.contributions.add(handed or {})
            self.verdicts.begin(taken or {})
            self.verdicts.decline(declined or {})
            for identity, letter in (undelivered or {}).items():
                self._db.execute(
                    "INSERT INTO undelivered (identity, conversation, turn, letter) VALUES (?, ?, ?, ?)",
                    (identity, letter.conversation, letter.turn, letter.content),
                )
            for identity in settled:
                self._db.execute("DELETE FROM owed WHERE identity = ?", (identity,))
            for identity, letter in (owed or {}).items():
                self._db.execute(
                    "INSERT INTO owed VALUES (?, ?, ?, ?, NULL)",
                    (identity, letter.conversation, letter.turn, letter.content),
                )

    # loose ends

    def undelivered(self) -> dict[int, list[Letter]]:
        """Letters that still have to be delivered, oldest first."""
        found: dict[int, list[Letter]] = {}
        rows = self._db.execute("SELECT identity, conversation, turn, letter FROM undelivered ORDER BY place")
        for identity, *letter in rows.fetchall():
            found.setdefault(identity, []).append(Letter(*letter))
        return found

    def delivered(self, identity: int, letter: Letter) -> None:
        """An agent has acknowledged a letter."""
        with self._writing():
            self._db.execute(
                "DELETE FROM undelivered WHERE identity = ? AND conversation = ? AND turn = ?",
                (identity, letter.conversation, letter.turn),
            )

    def owed(self) -> dict[int, Owed]:
        """Questions that were not answered in time."""
        rows = self._db.execute("SELECT identity, conversation, turn, letter, answer FROM owed").fetchall()
        return {identity: Owed(Letter(*letter), answer) for identity, *letter, answer in rows}

    def hold(self, identity: int, answer: bytes) -> None:
        """A late answer has come: keep it until the same question is asked again."""
        with self._writing():
            self._db.execute("UPDATE owed SET answer = ? WHERE identity = ?", (answer, identity))

    def owe(self, identity: int, letter: Letter, answer: bytes) -> bool:
        """Let a reply stand as a late answer to its letter; False, and nothing is done, where another one is owed."""
        with self._writing():
            return (
                self._db.execute(
                    "INSERT OR IGNORE INTO owed VALUES (?, ?, ?, ?, ?)",
                    (identity, letter.conversation, letter.turn, letter.content, answer),
                ).rowcount
                > 0
            )

    def drop(self, identity: int, declined: Letter | None = None) -> None:
        """A question that was not answered in time need not be answered any more; or its answer was `declined`."""
        with self._writing():
            self._db.execute("DELETE FROM owed WHERE identity = ?", (identity,))
            if declined is not None:
                self.verdicts.decline({identity: (declined.conversation, declined.turn)})

    def acknowledged(self, told: Mapping[int, Collection[Turn] | None]) -> dict[int, list[Turn]]:
        """Agents say of which of their answers they do not know what became; those of which nobody here knows, and
        which they are asked to hand over again.
        """
        with self._writing():
            owed = {who: (debt.letter.conversation, debt.letter.turn) for who, debt in self.owed().items()}
            cut, lost = self.cut(), {}
            for identity, unknown in told.items():
                expected = {owed[identity]} if identity in owed else set()
                expected |= {turn for turn in unknown or () if cut is not None and turn[0] == cut.conversation}
                if gone := self.verdicts.heard(identity, unknown, expected):
                    lost[identity] = gone
        return lost

    # what people want to know

    def reject(self, identity: int | None, letter: Letter | None, why: str, kind: Kind = "reply") -> None:
        """Something was not let in."""
        with self._writing():
            self._rejections.add(time.time(), identity, letter, why, kind)

    def rejections(self) -> list[Rejection]:
        """What was not let in lately, oldest first."""
        return self._rejections.latest()

    def rejection_counts(self) -> dict[tuple[str, int | None], int]:
        """How often anything was not let in, ever, by kind and agent."""
        return self._rejections.counts()

    def rang(self, present: Iterable[int], now: float) -> None:
        """The server has rung, and these agents were present."""
        present = list(present)
        with self._writing():
            self.sightings.mark(present, now)
            self.note(rang_at=now, present=len(present))

    def spoke(self, outcome: Outcome, seconds: float, resent: int) -> None:
        """A conversation has ended: after how long, and how many letters had to be sent again."""
        with self._writing():
            self.durations.ended(outcome, seconds, resent)
            self.note(spoke_at=time.time(), resent=int(self.fact("resent")) + resent)

    def compare_clocks(self, offsets: Mapping[int, float]) -> None:
        """So many seconds are these agents' clocks ahead of the server's."""
        with self._writing():
            self.clocks.mark(offsets)

    def note(self, **facts: float | str) -> None:
        """Write down facts for people and programs that look on, such as the time of the last ring."""
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(facts.items()))

    def fact(self, name: str, otherwise: float = 0) -> float:
        """A number that was noted."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return otherwise if row is None else row[0]

    def words(self, name: str) -> str | None:
        """A text that was noted; None if none was."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    # the floor, where it is given by command

    def grant(self, times: int = 1) -> int:
        """Give the server the floor once more, or more often; how often in all."""
        with self._writing():
            granted = int(self.fact("granted")) + times
            self._db.execute("INSERT OR REPLACE INTO facts VALUES ('granted', ?)", (granted,))
        return granted

    def _heard(self, letters: Mapping[int, int]) -> None:
        """Agents have said how many letters they have answered."""
        for identity, number in letters.items():
            self._db.execute("UPDATE nodes SET letters = max(letters, ?) WHERE identity = ?", (number, identity))

    def _forget_conversation(self) -> None:
        for table in ("underway", "turns", "outcomes"):
            self._db.execute(f"DELETE FROM {table}")

    def writing(self) -> AbstractContextManager[None]:
        """Several changes as one: they have happened as a whole, or not at all."""
        return self._writing()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite itself has rolled back where the disk is full
                self._db.execute("ROLLBACK")
            raise


def _read(part: str, content: bytes) -> State:
    try:
        return from_bytes(content)
    except (ValueError, LookupError, OSError, EOFError, BadZipFile) as error:
        raise CorruptError(f"{part!r} in the book {BOOK} is damaged; restore it from a backup ({error})") from error
