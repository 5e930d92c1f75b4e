"""The file of one agent: what it decided, what came of it and what it answered, in the order in which it happened.

One SQLite database in write-ahead mode. Decisions, rewards and letters share one sequence of numbers, their *entries*:
doing again what the entries after a snapshot say, in their order, leads from the snapshot's state to the newest one.
Entries are only ever added. What is no longer needed for that is dropped when a snapshot is taken (`keep`), and raw
observations remain for their owner until they are forgotten (`forget`):

    decisions   entry, when, which arm; the features of the chosen arm; a tag that makes the decision's id unguessable
    shown       the arms that a decision was taken among, while it awaits a reward or has to be done again
    rewards     entry, of which decision, when, how much
    letters     entry, conversation and turn, the request while it may have to be answered again, the reply while it may
                have to be sent again: as long as its conversation is one of the last two
    snapshots   the newest one alone
    nonces      of entries after it, for agents that draw noise which protects people: what their noise derives from,
                beside the key in the snapshot (`secret`)

Format 2 has the table `nonces`, and settings with facts; files of format 1, which version 0.1.0 wrote, are read and go
on as they are, unless their agent needs nonces (`seal`).

What replay rests on carries a checksum: SQLite notices a damaged page only if its structure is hurt.
"""

from __future__ import annotations

import hashlib
import heapq
import operator
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike

from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.errors import CorruptError, LockedError, SettingsError, StorageError, is_busy, translated
from fedbandits.deploy.files import claim

FORMAT = 2
_READABLE = (1, FORMAT)
_OURS = 0x66626167
"""The application id of SQLite files: "fbag"."""
_CHECKPOINT_PAGES = 10_000
"""How long the write-ahead log grows (40 MB) before it is copied into the file: a copy costs two waits for the disk."""
_RETRY_SECONDS = 0.01
_REPEATABLE = 2
"""Of how many conversations replies are kept. A server repeats nothing of a conversation before the one under way."""

_NONCES = "TABLE IF NOT EXISTS nonces (entry INTEGER PRIMARY KEY, nonce BLOB NOT NULL, digest INTEGER NOT NULL)"
_SCHEMA = f"""
CREATE {_NONCES};
CREATE TABLE settings (text TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE decisions (entry INTEGER PRIMARY KEY, at REAL NOT NULL, tag INTEGER NOT NULL, pick INTEGER NOT NULL,
                        arm TEXT, features BLOB NOT NULL);
CREATE TABLE shown (decision INTEGER PRIMARY KEY, digest INTEGER NOT NULL, arms BLOB NOT NULL);
CREATE TABLE rewards (entry INTEGER PRIMARY KEY, decision INTEGER NOT NULL UNIQUE, at REAL NOT NULL,
                      value REAL NOT NULL, digest INTEGER NOT NULL);
CREATE TABLE letters (entry INTEGER PRIMARY KEY, conversation TEXT NOT NULL, turn INTEGER NOT NULL, at REAL NOT NULL,
                      request BLOB, request_digest BLOB NOT NULL, reply BLOB, reply_digest BLOB NOT NULL,
                      UNIQUE (conversation, turn));
CREATE TABLE snapshots (entry INTEGER PRIMARY KEY, books TEXT NOT NULL, state BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('expired', 0), ('forgotten', 0), ('late', 0);
PRAGMA application_id = {_OURS};
PRAGMA user_version = {FORMAT};
"""

_FIND = """
SELECT r.value, d.at, d.tag, d.pick, s.digest, s.arms
FROM decisions d LEFT JOIN shown s ON s.decision = d.entry LEFT JOIN rewards r ON r.decision = d.entry
WHERE d.entry = ?
"""
_OPEN = """
SELECT s.decision, d.at
FROM shown s JOIN decisions d ON d.entry = s.decision LEFT JOIN rewards r ON r.decision = s.decision
WHERE r.entry IS NULL ORDER BY s.decision
"""
_DECIDED = """
SELECT d.entry, d.at, d.tag, d.pick, s.digest, s.arms
FROM decisions d LEFT JOIN shown s ON s.decision = d.entry WHERE d.entry > ? ORDER BY d.entry
"""
_REWARDED = """
SELECT r.entry, r.at, r.value, r.digest, d.entry, d.at, d.tag, d.pick, s.digest, s.arms
FROM rewards r LEFT JOIN decisions d ON d.entry = r.decision LEFT JOIN shown s ON s.decision = r.decision
WHERE r.entry > ? ORDER BY r.entry
"""
_DROP_REPLIES = """
UPDATE letters SET reply = NULL WHERE reply IS NOT NULL AND entry <= ? AND conversation NOT IN (
    SELECT conversation FROM letters GROUP BY conversation ORDER BY max(entry) DESC LIMIT ?)
"""
_ANSWERED = "SELECT entry, at, request, request_digest, reply FROM letters WHERE entry > ? ORDER BY entry"


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision on record; `arms` are the bytes of what was shown, (K, d) little-endian float64."""

    entry: int
    at: float
    tag: int
    pick: int
    arms: bytes


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A reward on record, with the decision that it is for."""

    entry: int
    at: float
    decision: Decided
    value: float


@dataclass(frozen=True, slots=True)
class Answered:
    """A letter on record, and what was answered (None: nothing)."""

    entry: int
    at: float
    request: bytes
    reply: bytes | None


Event = Decided | Rewarded | Answered


@dataclass(frozen=True, slots=True)
class Found:
    """A decision that is on record: its reward, if it came; otherwise what was shown, if it still is awaited."""

    tag: int
    reward: float | None
    awaiting: Decided | None


@dataclass(frozen=True, slots=True)
class Known:
    """A turn that is on record: whether it brought the same letter, and the reply (None: nothing) if that is kept."""

    same: bool
    reply: bytes | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after `entry`: `counts` as JSON, and the population's state as bytes."""

    entry: int
    counts: str
    state: bytes


class Journal:
    """The file at `path`, opened by one process.

    Entries are added and looked up between `begin` and `commit`; whoever does so keeps other threads out.
    """

    def __init__(self, path: str | PathLike[str], *, durable: bool, timeout: float) -> None:
        self.path = path
        self._timeout = timeout
        with translated(path):
            claim(path)
            self._db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
            try:
                self._refuse_strangers()
                self._prepare(durable)
            except BaseException:
                self._db.close()
                raise
        # one cursor for all statements without results: making one costs as much as a small statement
        self._cursor = self._db.cursor()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # transactions

    def begin(self, *, writing: bool) -> None:
        """Start a transaction; one that writes excludes all others."""
        self._cursor.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def commit(self) -> None:
        """Make what was written since `begin` last."""
        self._cursor.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what was written since `begin`; SQLite may have done so already."""
        if self._db.in_transaction:
            self._cursor.execute("ROLLBACK")

    def version(self) -> int:
        """A number that is another one after anybody else has written."""
        version: int = self._cursor.execute("PRAGMA data_version").fetchone()[0]
        return version

    # settings

    def settings(self, otherwise: Callable[[], str]) -> str:
        """The settings in the file; a file without any, new or left by a process that was killed, gets `otherwise`."""
        self.begin(writing=True)
        try:
            if not self._is_ours():
                new = otherwise()
                for statement in _SCHEMA.split(";"):
                    self._cursor.execute(statement)
                self._cursor.execute("INSERT INTO settings VALUES (?, ?)", (new, _sha(new.encode())))
            text, digest = self._cursor.execute("SELECT text, digest FROM settings").fetchone() or ("", b"")
            self._hold_together(digest == _sha(text.encode()), "the description of the agent")
            self.commit()
        finally:
            self.rollback()
        return str(text)

    # adding entries

    def decide(self, entry: int, at: float, tag: int, pick: int, arm: str | None, arms: FloatArray) -> None:
        """Record that among `arms` (K, d), little-endian, the arm at `pick`, called `arm`, was chosen."""
        run, shown = self._cursor.execute, arms.tobytes()
        run("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?)", (entry, at, tag, pick, arm, arms[pick].tobytes()))
        run("INSERT INTO shown VALUES (?, ?, ?)", (entry, _decision_digest(entry, at, tag, pick, shown), shown))

    def reward(self, entry: int, at: float, decision: int, value: float) -> None:
        """Record the reward of an awaiting decision."""
        row = (entry, decision, at, value, _reward_digest(entry, decision, value))
        self._cursor.execute("INSERT INTO rewards VALUES (?, ?, ?, ?, ?)", row)

    def answer(self, entry: int, at: float, conversation: str, turn: int, request: bytes, reply: bytes | None) -> None:
        """Record a letter and its reply."""
        row = (entry, conversation, turn, at, request, _sha(request), reply, _sha(reply))
        self._cursor.execute("INSERT INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def nonces(self, of_entries: Mapping[int, bytes]) -> None:
        """Record what the noise of entries derives from; the file has been sealed."""
        rows = [(entry, nonce, _nonce_digest(entry, nonce)) for entry, nonce in of_entries.items()]
        self._cursor.executemany("INSERT INTO nonces VALUES (?, ?, ?)", rows)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter: of decisions "expired" or "forgotten" unrewarded, or of rewards that came "late"."""
        self._cursor.execute("UPDATE counters SET value = value + ? WHERE name = ?", (more, name))

    # looking up

    def find(self, entry: int) -> Found | None:
        """What is on record of the decision of `entry`."""
        row = self._cursor.execute(_FIND, (entry,)).fetchone()
        if row is None:
            return None
        reward, at, tag, pick, digest, arms = row
        if reward is not None or digest is None:
            return Found(tag, reward, None)
        return Found(tag, None, self._decided(entry, at, tag, pick, digest, arms))

    def reply_to(self, conversation: str, turn: int, request: bytes) -> Known | None:
        """What is on record of a turn that brings `request`; None if there was no such turn."""
        row = self._cursor.execute(
            "SELECT request_digest, reply, reply_digest FROM letters WHERE conversation = ? AND turn = ?",
            (conversation, turn),
        ).fetchone()
        if row is None:
            return None
        same, reply, kept = row[0] == _sha(request), row[1], row[2] == _sha(row[1])
        self._hold_together(kept or reply is None, f"the reply to turn {turn} of conversation {conversation!r}")
        return Known(same, reply, kept)

    def counts(self, expired_before: float | None) -> dict[str, int]:
        """The counters, with the decisions that have expired by now."""
        counters: dict[str, int] = dict(self._cursor.execute("SELECT name, value FROM counters").fetchall())
        counters["expired"] += sum(1 for _ in self._stale(expired_before))
        return counters

    # replay

    def events(self, after: int) -> Iterator[Event]:
        """Everything on record after an entry, in order and without gaps."""
        ordered = heapq.merge(
            self._decisions(after), self._rewards(after), self._letters(after), key=operator.attrgetter("entry")
        )
        for expected, event in enumerate(ordered, after + 1):
            self._hold_together(event.entry == expected, f"entry {expected}")
            yield event

    def nonce(self, entry: int) -> bytes:
        """What the noise of an entry after the newest snapshot derives from."""
        row = self._cursor.execute("SELECT nonce, digest FROM nonces WHERE entry = ?", (entry,)).fetchone()
        whole = row is not None and row[1] == _nonce_digest(entry, row[0])
        self._hold_together(whole, f"what the noise of entry {entry} derives from")
        return bytes(row[0])

    def newest_snapshot(self) -> int:
        """The entry of the newest snapshot; 0 if there is none."""
        (entry,) = self._cursor.execute("SELECT max(entry) FROM snapshots").fetchone()
        return entry or 0

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        row = self._cursor.execute(
            "SELECT entry, books, state, digest FROM snapshots ORDER BY entry DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return None
        entry, counts, state, digest = row
        self._hold_together(digest == _snapshot_digest(entry, counts, state), f"the snapshot after entry {entry}")
        return Snapshot(entry, counts, state)

    def seal(self, snapshot: Snapshot, expired_before: float | None) -> None:
        """As `keep`, for a state that has got a key: from now on, entries have nonces."""
        self._cursor.execute(f"CREATE {_NONCES}")
        self._cursor.execute(f"PRAGMA user_version = {FORMAT}")
        self.keep(snapshot, expired_before, anew=True)

    def keep(self, snapshot: Snapshot, expired_before: float | None, *, anew: bool = False) -> None:
        """Let `snapshot`, of the newest state, replace the last one, and drop what only replay needed; `anew`, also one
        of the same entry.
        """
        run = self._cursor.execute
        previous = self.newest_snapshot()
        entry, counts, state = snapshot.entry, snapshot.counts, snapshot.state
        if anew or entry > previous:
            run("DELETE FROM snapshots")
            digest = _snapshot_digest(entry, counts, state)
            run("INSERT INTO snapshots VALUES (?, ?, ?, ?)", (entry, counts, state, digest))
        run("DELETE FROM shown WHERE decision IN (SELECT decision FROM rewards WHERE entry > ?)", (previous,))
        if run("UPDATE letters SET request = NULL WHERE entry > ?", (previous,)).rowcount:
            run(_DROP_REPLIES, (entry, _REPEATABLE))
        stale = list(self._stale(expired_before))
        self._cursor.executemany("DELETE FROM shown WHERE decision = ?", stale)
        self.count("expired", len(stale))

    def drop_nonces(self) -> None:
        """The state was saved whole: nobody has to repeat the noise of its entries, and from now on nobody can."""
        self._cursor.execute("DELETE FROM nonces")

    # forgetting

    def forget(self, before: float) -> int:
        """Delete all about decisions and letters older than `before`, which a snapshot must cover; how many decisions.

        Deleted bytes are overwritten, but copies may remain in the log until `purge`.
        """
        run = self._cursor.execute
        old = "SELECT entry FROM decisions WHERE at < ?"
        # next to a snapshot, arms are kept of decisions alone that await their reward
        self.count("forgotten", run(f"DELETE FROM shown WHERE decision IN ({old})", (before,)).rowcount)
        run(f"DELETE FROM rewards WHERE decision IN ({old})", (before,))
        run("DELETE FROM letters WHERE at < ?", (before,))
        return run("DELETE FROM decisions WHERE at < ?", (before,)).rowcount

    def purge(self) -> None:
        """Rewrite the file without what was deleted, and empty the log. Not in a transaction."""
        self._empty_log()
        self._cursor.execute("VACUUM")
        self._empty_log()

    def _empty_log(self) -> None:
        busy, _, _ = self._cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise LockedError(
                f"{self.path}: observations were deleted, but another process keeps their bytes in the log; call again"
            )

    # inside

    def _refuse_strangers(self) -> None:
        """Leave a database alone that is somebody else's, or of another format."""
        # in one transaction: another process may be making the agent right now
        self._db.execute("BEGIN")
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        ours = self._is_ours()
        self._db.execute("ROLLBACK")
        if tables and not ours:
            raise SettingsError(f"{self.path} is a database, but not an agent's, or it is damaged")
        if ours and found not in _READABLE:
            raise SettingsError(f"{self.path} has format {found}, this version of fedbandits reads {FORMAT}")

    def _is_ours(self) -> bool:
        return bool(self._db.execute("PRAGMA application_id").fetchone()[0] == _OURS)

    def _prepare(self, durable: bool) -> None:
        self._write_ahead()
        for pragma in (
            f"synchronous = {'FULL' if durable else 'NORMAL'}",
            f"fullfsync = {'ON' if durable else 'OFF'}",
            f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
            "secure_delete = ON",  # what is deleted is overwritten
            "temp_store = MEMORY",  # no copy of anything in another file
        ):
            self._db.execute(f"PRAGMA {pragma}")

    def _write_ahead(self) -> None:
        """Switch to write-ahead mode; SQLite does not wait if another process does so at the same moment."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                (mode,) = self._db.execute("PRAGMA journal_mode = WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        if mode != "wal":
            raise StorageError(f"{self.path}: its file system has no shared memory; use a local disk")

    def _stale(self, before: float | None) -> Iterator[tuple[int]]:
        """The oldest decisions that await their reward, as far as they are older than `before`."""
        if before is None:
            return
        for decision, at in self._db.execute(_OPEN):
            if at >= before:
                return
            yield (decision,)

    def _decisions(self, after: int) -> Iterator[Event]:
        for entry, at, tag, pick, digest, arms in self._db.execute(_DECIDED, (after,)):
            yield self._decided(entry, at, tag, pick, digest, arms)

    def _rewards(self, after: int) -> Iterator[Event]:
        for entry, at, value, digest, decision, *rest in self._db.execute(_REWARDED, (after,)):
            whole = decision is not None and digest == _reward_digest(entry, decision, value)
            self._hold_together(whole, f"the reward of entry {entry}")
            yield Rewarded(entry, at, self._decided(decision, *rest), value)

    def _letters(self, after: int) -> Iterator[Event]:
        for entry, at, request, digest, reply in self._db.execute(_ANSWERED, (after,)):
            self._hold_together(digest == _sha(request), f"the letter of entry {entry}")
            yield Answered(entry, at, request, reply)

    def _decided(self, entry: int, at: float, tag: int, pick: int, digest: int | None, arms: bytes) -> Decided:
        try:
            whole = digest is not None and digest == _decision_digest(entry, at, tag, pick, arms)
        except (struct.error, TypeError):  # damaged rows may hold values of another type
            whole = False
        self._hold_together(whole, f"the decision of entry {entry}")
        return Decided(entry, at, tag, pick, arms)

    def _hold_together(self, whole: bool, what: str) -> None:
        if not whole:
            raise CorruptError(f"{self.path}: {what} is missing or damaged; restore the file from a backup")


def _decision_digest(entry: int, at: float, tag: int, pick: int, arms: bytes) -> int:
    return zlib.crc32(arms, zlib.crc32(struct.pack("<qdqq", entry, at, tag, pick)))


def _reward_digest(entry: int, decision: int, value: float) -> int:
    return zlib.crc32(struct.pack("<qqd", entry, decision, value))


def _nonce_digest(entry: int, nonce: bytes) -> int:
    return zlib.crc32(nonce, zlib.crc32(struct.pack("<q", entry)))


def _snapshot_digest(entry: int, counts: str, state: bytes) -> bytes:
    return hashlib.sha256(b"%d %b %b" % (entry, counts.encode(), state)).digest()


def _sha(content: bytes | None) -> bytes:
    return hashlib.sha256(content or b"").digest()
