"""Reading an agent's file: every row that is used is held against its checksum first."""

from __future__ import annotations

import heapq
import json
import operator
import sqlite3
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

from fedbandits.deploy.errors import CorruptError
from fedbandits.deploy.storage.digests import digest, sha, snapshot_digest
from fedbandits.deploy.storage.entries import (
    Answered,
    ChosenBy,
    Closed,
    Decided,
    Episode,
    Event,
    Found,
    HandOver,
    Known,
    Rewarded,
    Snapshot,
)

_OWN = "d.entry, d.at, d.tag, d.pick, d.arm, d.features, d.who, d.score, d.propensity, d.explored, d.digest"
_DECISION = f"{_OWN}, s.at, s.names, s.arms, s.digest, g.episode, g.stage, g.digest"
_BESIDE = "LEFT JOIN shown s ON s.decision = d.entry LEFT JOIN stages g ON g.decision = d.entry"
_FIND = f"""
SELECT r.entry, r.decision, r.at, r.value, r.digest, {_DECISION}
FROM decisions d {_BESIDE} LEFT JOIN rewards r ON r.decision = d.entry
WHERE d.entry = ?
"""
_DECIDED = f"""
SELECT {_DECISION}
FROM decisions d {_BESIDE} WHERE d.entry > ? ORDER BY d.entry
"""
_REWARDED = f"""
SELECT r.entry, r.decision, r.at, r.value, r.digest, {_DECISION}
FROM rewards r LEFT JOIN decisions d ON d.entry = r.decision {_BESIDE}
WHERE r.entry > ? ORDER BY r.entry
"""
_FOLLOWED = f"""
SELECT r.entry, r.decision, r.at, r.value, r.digest, {_DECISION}
FROM stages g JOIN decisions d ON d.entry = g.decision LEFT JOIN shown s ON s.decision = d.entry
LEFT JOIN rewards r ON r.decision = d.entry
WHERE g.episode = ? ORDER BY g.stage
"""
_EPISODE = "SELECT first, name, at, stages, ended, closed, closed_at, learned, digest FROM episodes"
Row = tuple[Any, ...]
LETTER = "entry, conversation, turn, at, handed_over, accepted, verdicts, request_digest, reply_digest"
"""What the digest of a letter covers; request and reply are dropped before it."""
_LETTER = f"SELECT {LETTER}, digest, request, reply FROM letters"


class History:
    """What is on record in the database `db`, the file at `path`. Whatever is missing or damaged raises
    `CorruptError`.
    """

    def __init__(self, path: str | PathLike[str], db: sqlite3.Connection) -> None:
        self.path = path
        self._db = db
        # one cursor for all statements with few results: making one costs as much as a small statement
        self._cursor = db.cursor()

    @property
    def connection(self) -> sqlite3.Connection:
        """For parts that have tables of their own, within the transactions of this one."""
        return self._db

    # looking up

    def find(self, entry: int) -> Found | None:
        """What is on record of the decision of `entry`."""
        row = self._cursor.execute(_FIND, (entry,)).fetchone()
        if row is None:
            return None
        reward, decision = row[:5], row[5:]
        tag = decision[2]
        if reward[0] is not None:
            return Found(tag, self._reward(reward), None)
        if decision[14] is None:
            self._hold_together(_is_whole(decision[:11]), f"the decision of entry {entry}")
            return Found(tag, None, None)
        return Found(tag, None, self._decided(decision))

    def person(self, entry: int) -> str | None:
        """Whom the decision of `entry` is about."""
        row = self._cursor.execute(f"SELECT {_OWN} FROM decisions d WHERE d.entry = ?", (entry,)).fetchone()
        self._hold_together(row is not None and _is_whole(row), f"the decision of entry {entry}")
        who: str | None = row[6]
        return who

    def running(self, name: str, length: int) -> Episode | None:
        """The episode of that name that has not been ended, nor had `length` decisions; None if there is none."""
        wanted = f"{_EPISODE} WHERE name = ? AND closed IS NULL AND NOT ended AND stages < ?"
        row = self._cursor.execute(wanted, (name, length)).fetchone()
        return None if row is None else self._episode(row)

    def episode(self, first: int) -> Episode:
        """The episode that began with the decision of entry `first`."""
        row = self._cursor.execute(f"{_EPISODE} WHERE first = ?", (first,)).fetchone()
        self._hold_together(row is not None, f"the episode of entry {first}")
        return self._episode(row)

    def has_episode(self, name: str) -> bool:
        """Whether there is, or was, an episode of that name."""
        return self._cursor.execute("SELECT 1 FROM episodes WHERE name = ? LIMIT 1", (name,)).fetchone() is not None

    def open_episodes(self, before: float | None = None) -> list[Episode]:
        """Episodes that are not closed, whose last decision was taken `before` a time; those that were left longest
        ago come first.
        """
        wanted = f"{_EPISODE} WHERE closed IS NULL AND (?1 IS NULL OR at < ?1) ORDER BY at, first"
        return [self._episode(row) for row in self._db.execute(wanted, (before,)).fetchall()]

    def is_rewarded(self, episode: Episode) -> bool:
        """Whether all decisions of an episode have their rewards."""
        paid = "SELECT count(*) FROM stages g JOIN rewards r ON r.decision = g.decision WHERE g.episode = ?"
        (count,) = self._cursor.execute(paid, (episode.first,)).fetchone()
        return bool(count == episode.stages)

    def followed(self, episode: Episode) -> list[tuple[Decided, float | None]]:
        """The decisions of an episode in their order, with the rewards that have come."""
        found = []
        for row in self._db.execute(_FOLLOWED, (episode.first,)).fetchall():
            decided = self._decided(row[5:])
            found.append((decided, None if row[0] is None else self._reward(row[:5])))
        whole = [decided.stage for decided, _ in found] == list(range(episode.stages))
        self._hold_together(whole, f"a decision of the episode of entry {episode.first}")
        return found

    def reply_to(self, conversation: str, turn: int, request: bytes) -> Known | None:
        """What is on record of a turn that brings `request`; None if there was no such turn."""
        row = self._turn(conversation, turn)
        if row is None:
            return None
        asked, replied, reply = row[7], row[8], row[11]
        return Known(asked == sha(request), reply, replied == sha(reply))

    def hand_over(self, conversation: str, turn: int) -> HandOver | None:
        """The reply to a turn, if it handed something over."""
        row = self._turn(conversation, turn)
        if row is None or not row[4]:
            return None
        return HandOver(row[0], row[11], None if row[5] is None else bool(row[5]))

    def unacknowledged(self) -> list[tuple[str, int]]:
        """Conversations and turns of replies that handed something over of which it is not known what became of it."""
        pending = "SELECT conversation, turn FROM letters WHERE handed_over AND accepted IS NULL ORDER BY entry"
        return self._db.execute(pending).fetchall()

    def counters(self) -> dict[str, int]:
        """What is counted in the file."""
        rows = self._db.execute("SELECT name, value, digest FROM counters").fetchall()
        for row in rows:
            self._hold_together(_is_whole(row), f"the number of {row[0]} decisions or rewards")
        return {name: value for name, value, _ in rows}

    # doing again

    def events(self, after: int) -> Iterator[Event]:
        """Everything on record after an entry, in order and without gaps."""
        ordered = heapq.merge(
            self._decisions(after),
            self._rewards(after),
            self._letters(after),
            self._closings(after),
            key=operator.attrgetter("entry"),
        )
        for expected, event in enumerate(ordered, after + 1):
            self._hold_together(event.entry == expected, f"entry {expected}")
            yield event

    def nonce(self, entry: int) -> bytes:
        """What the noise of an entry after the newest snapshot derives from."""
        row = self._cursor.execute("SELECT entry, nonce, digest FROM nonces WHERE entry = ?", (entry,)).fetchone()
        whole = row is not None and _is_whole(row)
        self._hold_together(whole, f"what the noise of entry {entry} derives from")
        return bytes(row[1])

    def newest_snapshot(self) -> int:
        """The entry of the newest snapshot; 0 if there is none."""
        (entry,) = self._cursor.execute("SELECT max(entry) FROM snapshots").fetchone()
        return entry or 0

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        newest = "SELECT entry, books, state, digest FROM snapshots ORDER BY entry DESC LIMIT 1"
        row = self._cursor.execute(newest).fetchone()
        if row is None:
            return None
        entry, counts, state, held = row
        whole = isinstance(counts, str) and isinstance(state, bytes) and held == snapshot_digest(entry, counts, state)
        self._hold_together(whole, f"the snapshot after entry {entry}")
        return Snapshot(entry, counts, state)

    # inside

    def _decisions(self, after: int) -> Iterator[Event]:
        for row in self._db.execute(_DECIDED, (after,)):
            yield self._decided(row)

    def _rewards(self, after: int) -> Iterator[Event]:
        for row in self._db.execute(_REWARDED, (after,)):
            value = self._reward(row[:5])
            yield Rewarded(row[0], row[2], self._decided(row[5:], entry=row[1]), value)

    def _letters(self, after: int) -> Iterator[Event]:
        for row in self._db.execute(f"{_LETTER} WHERE entry > ? ORDER BY entry", (after,)):
            self._check_letter(row)
            self._hold_together(row[10] is not None, f"the letter of entry {row[0]}")
            yield Answered(row[0], row[3], row[10], row[11], bool(row[4]), tuple(self._settled(row[6])))

    def _closings(self, after: int) -> Iterator[Event]:
        for row in self._db.execute(f"{_EPISODE} WHERE closed > ? ORDER BY closed", (after,)):
            episode = self._episode(row)
            yield closing(row[5], self.followed(episode), row[7])

    def _episode(self, row: Row) -> Episode:
        self._hold_together(_is_whole(row), f"the episode of entry {row[0]}")
        first, name, at, stages, ended, closed, closed_at, learned, _ = row
        return Episode(first, name, at, stages, bool(ended), closed, closed_at, learned)

    def _settled(self, verdicts: str | None) -> Iterator[HandOver]:
        """The hand-overs that a letter told about, with what it told."""
        for entry, accepted in json.loads(verdicts or "[]"):
            row = self._db.execute(f"{_LETTER} WHERE entry = ?", (entry,)).fetchone()
            self._hold_together(row is not None, f"the letter of entry {entry}")
            self._check_letter(row)
            yield HandOver(entry, row[11], bool(accepted))

    def _turn(self, conversation: str, turn: int) -> Row | None:
        found = self._cursor.execute(f"{_LETTER} WHERE conversation = ? AND turn = ?", (conversation, turn))
        row: Row | None = found.fetchone()
        if row is not None:
            self._check_letter(row)
        return row

    def _reward(self, row: Row) -> float:
        self._hold_together(_is_whole(row), f"the reward of entry {row[0]}")
        value: float = row[3]
        return value

    def _decided(self, row: Row, entry: int | None = None) -> Decided:
        at, names, arms, held, episode, stage, held_too = row[11:]
        whole = _is_whole(row[:11]) and arms is not None and _is_whole((row[0], at, names, arms, held))
        whole = whole and (held_too is None or _is_whole((row[0], episode, stage, held_too)))
        self._hold_together(whole, f"the decision of entry {row[0] if entry is None else entry}")
        named = None if names is None else tuple(json.loads(names))
        return Decided(row[0], row[1], row[2], row[3], arms, named, ChosenBy(row[9]), row[6], episode, stage)

    def _check_letter(self, row: Row) -> None:
        """The row as a whole, and what is still there of request and reply."""
        whole = _is_whole(row[:10])
        for kept, held in ((row[10], row[7]), (row[11], row[8])):
            whole = whole and (kept is None or (isinstance(kept, bytes) and held == sha(kept)))
        self._hold_together(whole, f"the letter of entry {row[0]}")

    def _hold_together(self, whole: bool, what: str) -> None:
        if not whole:
            raise CorruptError(f"{self.path}: {what} is missing or damaged; restore the file from a backup")


def closing(entry: int, followed: Sequence[tuple[Decided, float | None]], learned: int) -> Closed:
    """What is learned in `entry`, of an episode as it was `followed`: its first `learned` decisions."""
    paid = tuple((decided, reward) for decided, reward in followed[:learned] if reward is not None)
    then = followed[learned][0] if learned < len(followed) else None
    return Closed(entry, paid, then, len(followed) - learned)


def _is_whole(row: Row) -> bool:
    """Whether the last value is the digest of the others."""
    return bool(digest(*row[:-1]) == row[-1])
