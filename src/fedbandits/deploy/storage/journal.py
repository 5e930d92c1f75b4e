"""The file of one agent: what it decided, what came of it and what it answered, in the order in which it happened.

One SQLite database in write-ahead mode. Decisions, rewards and letters share one sequence of numbers, their *entries*:
doing again what the entries after a snapshot say, in their order, leads from the snapshot's state to the newest one.
Entries are only ever added. What is no longer needed for that is dropped when a snapshot is taken (`keep`), and raw
observations remain for their owner until they are forgotten (`forget`):

    decisions   entry, when, which arm; the features of the chosen arm; a tag that makes the decision's id unguessable
    shown       the arms that a decision was taken among, while it awaits a reward or has to be done again
    kept        the same of decisions that were rewarded, for agents that keep them
    rewards     entry, of which decision, when, how much
    letters     entry, conversation and turn, the request while it may have to be answered again, the reply while it may
                have to be sent again: as long as its conversation is one of the last two
    snapshots   the newest one alone
    nonces      of entries after it, for agents that draw noise which protects people: what their noise derives from,
                beside the key in the snapshot (`secret`)
    places      of arms that are known by name alone (`places`)
    imports     which logs were taken in (`importing`)
    episodes    sequences of decisions, open and over; the entry in which one was learned is among the others
    stages      which decisions they consist of. Arms are shown until the whole episode was learned

Columns and formats are in `journal_format`, the values that stand for rows in `entries`.

Every row carries a checksum of all its columns: SQLite notices a damaged page only if its structure is hurt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike

from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.errors import StorageError, translated
from fedbandits.deploy.storage.digests import digest, sha
from fedbandits.deploy.storage.entries import ChosenBy, Episode, Snapshot
from fedbandits.deploy.storage.history import LETTER, History
from fedbandits.deploy.storage.journal_format import AGENT
from fedbandits.deploy.storage.upkeep import Upkeep
from fedbandits.deploy.storage.write_ahead import WriteAheadFile


class Journal(History):
    """The file at `path`, opened by one process.

    Entries are added and looked up between `begin` and `commit`; whoever does so keeps other threads out.
    """

    def __init__(self, path: str | PathLike[str], *, durable: bool, timeout: float) -> None:
        with translated(path):
            self._file = WriteAheadFile(path, durable=durable, timeout=timeout)
            db = self._file.db
            super().__init__(path, db)
            try:
                self._refuse_strangers()
                self._file.prepare()
            except BaseException:
                db.close()
                raise
        self._upkeep = Upkeep(path, db)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # transactions

    def begin(self, *, writing: bool) -> None:
        """Start a transaction; one that writes excludes all others."""
        self._file.check_place(writing=writing)
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

    def check_format(self) -> None:
        """Raise `StorageError` if a newer version of the library has changed the tables since the file was opened."""
        (found,) = self._cursor.execute("PRAGMA user_version").fetchone()
        if found != AGENT.newest:
            raise StorageError(
                f"{self.path}: has got format {found} while it was open, this version of fedbandits reads "
                f"{AGENT.newest}; start this program again with the newer version"
            )

    # settings

    def settings(self, otherwise: Callable[[], str]) -> str:
        """The settings in the file; a file without any, new or left by a process that was killed, gets `otherwise`.

        A file of an earlier format is brought to the newest one.
        """
        self.begin(writing=True)
        try:
            new = None if AGENT.format_of(self._db, self.path) else otherwise()
            AGENT.bring_forward(self._db, self.path)
            if new is not None:
                self._cursor.execute("INSERT INTO settings VALUES (?, ?)", (new, sha(new.encode())))
            text, held = self._cursor.execute("SELECT text, digest FROM settings").fetchone() or ("", b"")
            self._hold_together(isinstance(text, str) and held == sha(text.encode()), "the description of the agent")
            self.commit()
        finally:
            self.rollback()
        return str(text)

    def revise(self, text: str) -> None:
        """Let `text` be the settings from now on."""
        self.begin(writing=True)
        try:
            self.describe(text)
            self.commit()
        finally:
            self.rollback()

    def describe(self, text: str) -> None:
        """As `revise`, in a transaction that is under way."""
        self._cursor.execute("UPDATE settings SET text = ?, digest = ?", (text, sha(text.encode())))

    # adding entries

    def decide(
        self,
        entry: int,
        at: float,
        tag: int,
        pick: int,
        arm: str | None,
        arms: FloatArray,
        *,
        names: Sequence[str] | None = None,
        who: str | None = None,
        score: float | None = None,
        propensity: float | None = None,
        chosen_by: ChosenBy = ChosenBy.ALGORITHM,
    ) -> None:
        """Record that among `arms` (K, d), little-endian, the arm at `pick`, called `arm`, was chosen.

        `names` are those of all arms, `who` is the person that the decision is about. `score` is what the algorithm
        gave the chosen arm, `propensity` with which probability it was chosen.
        """
        shown, called = arms.tobytes(), None if names is None else json.dumps(names)
        row = (entry, at, tag, pick, arm, arms[pick].tobytes(), who, score, propensity, int(chosen_by))
        run = self._cursor.execute
        run("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, digest(*row)))
        row_of_shown = (entry, at, called, digest(entry, at, called, shown), shown)
        run("INSERT INTO shown VALUES (?, ?, ?, ?, ?)", row_of_shown)

    def reward(self, entry: int, at: float, decision: int, value: float) -> None:
        """Record the reward of an awaiting decision."""
        row = (entry, decision, at, value)
        self._cursor.execute("INSERT INTO rewards VALUES (?, ?, ?, ?, ?)", (*row, digest(*row)))

    def put_episode(self, episode: Episode) -> None:
        """Record an episode as it is now."""
        told = episode
        row = (told.first, told.name, told.at, told.stages, int(told.ended), told.closed, told.closed_at, told.learned)
        self._cursor.execute("INSERT OR REPLACE INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, digest(*row)))

    def put_stage(self, decision: int, episode: int, stage: int) -> None:
        """Record which decision of which episode the one of entry `decision` is."""
        row = (decision, episode, stage)
        self._cursor.execute("INSERT INTO stages VALUES (?, ?, ?, ?)", (*row, digest(*row)))

    def answer(
        self,
        entry: int,
        at: float,
        conversation: str,
        turn: int,
        request: bytes,
        reply: bytes | None,
        *,
        hands_over: bool = False,
        verdicts: str | None = None,
    ) -> None:
        """Record a letter and its reply.

        A reply that `hands_over` something is kept until it was told what became of it (`settle`). `verdicts` is what
        came with the letter about earlier ones, as JSON.
        """
        row = (entry, conversation, turn, at, int(hands_over), None, verdicts, sha(request), sha(reply))
        self._cursor.execute(
            "INSERT INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, digest(*row), request, reply)
        )

    def settle(self, entry: int, accepted: bool) -> None:
        """Record what became of the reply of `entry`, which handed something over."""
        row = self._cursor.execute(f"SELECT {LETTER} FROM letters WHERE entry = ?", (entry,)).fetchone()
        settled = (*row[:5], int(accepted), *row[6:])
        self._cursor.execute(
            "UPDATE letters SET accepted = ?, digest = ? WHERE entry = ?", (int(accepted), digest(*settled), entry)
        )

    def nonces(self, of_entries: Mapping[int, bytes]) -> None:
        """Record what the noise of entries derives from; the file has been sealed."""
        rows = [(entry, nonce, digest(entry, nonce)) for entry, nonce in of_entries.items()]
        self._cursor.executemany("INSERT INTO nonces VALUES (?, ?, ?)", rows)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter: of decisions "expired" or "forgotten" unrewarded, or of rewards that came "late"."""
        self._upkeep.count(name, more)

    def note(self, name: str, value: int) -> None:
        """Write a number down among the counters."""
        self._upkeep.put(name, value)

    def counts(self, expired_before: float | None) -> dict[str, int]:
        """The counters, with the decisions that have expired by now."""
        counters = self.counters()
        counters["expired"] += self._upkeep.stale(expired_before)
        return counters

    # upkeep

    def keep(
        self,
        snapshot: Snapshot,
        expired_before: float | None,
        *,
        anew: bool = False,
        keep_shown: bool = False,
    ) -> None:
        """Let `snapshot`, of the newest state, replace the last one, and drop what only replay needed; `anew`, also one
        of the same entry. `keep_shown`: the arms that decisions were among stay for those who evaluate them.
        """
        previous = self.newest_snapshot()
        if anew or snapshot.entry > previous:
            self._upkeep.replace(snapshot)
        if keep_shown:
            self._upkeep.set_aside(previous)
        self._upkeep.drop_repeated(previous, snapshot.entry)
        self._upkeep.expire(expired_before)

    def drop_nonces(self) -> None:
        """The state was saved whole: nobody has to repeat the noise of its entries, and from now on nobody can."""
        self._cursor.execute("DELETE FROM nonces")

    def drop_awaiting(self, features: bytes) -> None:
        """Decisions that took an arm of these `features` no longer await their reward; and one entry, which made
        something of the agent that is in no table, counts as removed.
        """
        self._upkeep.drop_awaiting(features)
        self._upkeep.count("removed", 1)

    def forget(self, before: float | None, who: str | None = None) -> int:
        """As `Upkeep.forget`."""
        return self._upkeep.forget(before, who)

    def has_learned(self, before: float | None, who: str | None = None) -> bool:
        """As `Upkeep.has_learned`."""
        return self._upkeep.has_learned(before, who)

    def purge(self) -> None:
        """Rewrite the file without what was deleted, and empty the log. Not in a transaction."""
        self._upkeep.purge()

    # inside

    def _refuse_strangers(self) -> None:
        """Leave a database alone that is somebody else's, or of a newer format."""
        self._db.execute("BEGIN")  # another process may be making the agent right now
        try:
            AGENT.format_of(self._db, self.path)
        finally:
            self._db.execute("ROLLBACK")
