"""What is dropped from an agent's file, and when: after snapshots, by expiry, and to forget."""

from __future__ import annotations

import sqlite3
from os import PathLike

from fedbandits.deploy.errors import CorruptError, LockedError
from fedbandits.deploy.storage.digests import digest, snapshot_digest
from fedbandits.deploy.storage.entries import Snapshot

_REPEATABLE = 2
"""Of how many conversations replies are kept. A server repeats nothing of a conversation before the one under way."""
_STALE = """
SELECT decision FROM shown WHERE at < ? AND decision NOT IN (SELECT decision FROM rewards)
AND decision NOT IN (SELECT decision FROM stages)
"""
"""Decisions that have expired; those of an episode do so with it (`embedded.episodes`)."""
_REPEATED = """
SELECT decision FROM rewards WHERE entry > :previous AND decision NOT IN (SELECT decision FROM stages)
UNION ALL SELECT decision FROM stages WHERE episode IN (SELECT first FROM episodes WHERE closed > :previous)
"""
"""Decisions that were learned after an entry, or of which it was known then that nothing will be."""
_NEEDED = f"""
conversation IN (SELECT conversation FROM letters GROUP BY conversation ORDER BY max(entry) DESC LIMIT {_REPEATABLE})
OR (handed_over AND accepted IS NULL)
"""
"""Letters whose replies a server may ask for again, or that have to be taken back if they were not taken in."""
_MEANT = "SELECT entry FROM decisions WHERE (:before IS NULL OR at < :before) AND (:who IS NULL OR who = :who)"
_OLD = f"""
{_MEANT} UNION SELECT decision FROM stages WHERE episode IN (SELECT first FROM episodes WHERE closed IS NULL)
AND episode IN (SELECT episode FROM stages WHERE decision IN ({_MEANT}))
"""
"""Decisions from before a time, about a person, or both; and the others of their episodes, where those are open."""


class Upkeep:
    """Upkeep of the tables in `db`, the file at `path`, within the transactions of whoever calls."""

    def __init__(self, path: str | PathLike[str], db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db

    def count(self, name: str, more: int) -> None:
        """Add to a counter."""
        value, held = self._db.execute("SELECT value, digest FROM counters WHERE name = ?", (name,)).fetchone()
        if held != digest(name, value):
            raise CorruptError(f"{self._path}: the counter {name!r} is damaged; restore the file from a backup")
        value += more
        self._db.execute("UPDATE counters SET value = ?, digest = ? WHERE name = ?", (value, digest(name, value), name))

    def put(self, name: str, value: int) -> None:
        """Write a number down under a name, whatever was there."""
        self._db.execute("INSERT OR REPLACE INTO counters VALUES (?, ?, ?)", (name, value, digest(name, value)))

    def stale(self, before: float | None) -> int:
        """How many decisions of before a time await their reward, in whatever order they were taken."""
        if before is None:
            return 0
        count: int = self._db.execute(f"SELECT count(*) FROM ({_STALE})", (before,)).fetchone()[0]
        return count

    def replace(self, snapshot: Snapshot) -> None:
        """Let `snapshot` take the place of all others."""
        entry, counts, state = snapshot.entry, snapshot.counts, snapshot.state
        self._db.execute("DELETE FROM snapshots")
        row = (entry, counts, state, snapshot_digest(entry, counts, state))
        self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?)", row)

    def set_aside(self, previous: int) -> None:
        """Keep the arms of decisions that were rewarded, and learned after the entry `previous`."""
        rewarded = f"decision IN ({_REPEATED}) AND decision IN (SELECT decision FROM rewards)"
        self._db.execute(f"INSERT INTO kept SELECT * FROM shown WHERE {rewarded}", {"previous": previous})

    def drop_repeated(self, previous: int, newest: int) -> None:
        """Drop what only replay of the entries after `previous` needed, up to `newest`."""
        run = self._db.execute
        run(f"DELETE FROM shown WHERE decision IN ({_REPEATED})", {"previous": previous})
        if run("UPDATE letters SET request = NULL WHERE entry > ?", (previous,)).rowcount:
            run(
                f"UPDATE letters SET reply = NULL WHERE reply IS NOT NULL AND entry <= ? AND NOT ({_NEEDED})", (newest,)
            )

    def expire(self, before: float | None) -> None:
        """Decisions of before a time no longer await their reward."""
        if before is None:
            return
        gone = self._db.execute(f"DELETE FROM shown WHERE decision IN ({_STALE})", (before,)).rowcount
        if gone:
            self.count("expired", gone)

    def drop_awaiting(self, features: bytes) -> None:
        """Decisions that took an arm of these `features` no longer await their reward."""
        taken = "SELECT entry FROM decisions WHERE features = ? AND entry NOT IN (SELECT decision FROM rewards)"
        gone = self._db.execute(f"DELETE FROM shown WHERE decision IN ({taken})", (features,)).rowcount
        if gone:
            self.count("expired", gone)

    def forget(self, before: float | None, who: str | None = None) -> int:
        """Delete all about decisions from `before` a time, about a person, or both; and letters from before the time,
        if no person is named. A snapshot must cover them. How many decisions.

        Of open episodes that this is part of, all is deleted: nothing can be learned of the rest. Letters are kept that
        a server may ask for again, or that may have to be taken back. Deleted bytes may remain in the file and its log
        until `purge`.
        """
        told = {"before": before, "who": who}

        def delete(table: str, which: str) -> int:
            return self._db.execute(f"DELETE FROM {table} WHERE {which}", told).rowcount

        # next to a snapshot, arms are shown of decisions alone that await their reward, or the end of their episode
        awaiting = delete("shown", f"decision IN ({_OLD}) AND decision NOT IN (SELECT decision FROM rewards)")
        self.count("forgotten", awaiting)
        for table in ("shown", "kept"):
            delete(table, f"decision IN ({_OLD})")
        others = delete("rewards", f"decision IN ({_OLD})")
        others += delete("letters", f":who IS NULL AND at < :before AND NOT ({_NEEDED})")
        decisions = delete("decisions", f"entry IN ({_OLD})")
        delete("stages", "decision NOT IN (SELECT entry FROM decisions)")
        others += delete("episodes", "closed IS NOT NULL AND first NOT IN (SELECT episode FROM stages)")
        delete("episodes", "first NOT IN (SELECT episode FROM stages)")
        self.count("removed", decisions + others)
        return decisions

    def has_learned(self, before: float | None, who: str | None) -> bool:
        """Whether anything was learned from what `forget` would delete."""
        over = "SELECT decision FROM stages WHERE episode IN (SELECT first FROM episodes WHERE closed IS NOT NULL)"
        alone = "SELECT decision FROM rewards WHERE decision NOT IN (SELECT decision FROM stages)"
        found = f"SELECT 1 FROM decisions WHERE entry IN ({_OLD}) AND (entry IN ({alone}) OR entry IN ({over})) LIMIT 1"
        return self._db.execute(found, {"before": before, "who": who}).fetchone() is not None

    def purge(self) -> None:
        """Rewrite the file without what was deleted, and empty the log. Not in a transaction."""
        self._empty_log()
        self._db.execute("VACUUM")
        self._empty_log()

    def _empty_log(self) -> None:
        busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise LockedError(
                f"{self._path}: observations were deleted, but another process keeps their bytes in the log; call again"
            )
