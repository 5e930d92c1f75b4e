"""What is in memory and what is in the file, kept in agreement among threads and processes, through every failure."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.errors import ClosedError, DatabaseErrors, ReplayError, StorageError, storage_error
from fedbandits.deploy.settings import Settings
from fedbandits.deploy.storage.journal import Journal


class Transactions:
    """Access to the newest state of the agent in `journal`.

    Each transaction first does what other processes have done in the meantime. One that writes excludes all others:
    what is done inside lasts, or has not happened. `expired_before` is the time before which decisions have expired by
    now.
    """

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        expired_before: Callable[[], float | None],
        *,
        snapshot_every: int,
        verify: bool,
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._expired_before = expired_before
        self._snapshot_every = snapshot_every
        self._verify = verify
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._snapshot_at = 0
        self._version = -1
        """That of the journal when memory was last made to agree with it."""
        self._replica: Replica | None = None
        """None where nothing in memory can be relied on: it is built anew from the file."""
        with self.reading() as replica:
            unsealed = replica.unsealed
        if unsealed:
            self._seal()

    def writing(self) -> AbstractContextManager[Replica]:
        """Alone with the newest state; what is done inside lasts, or has not happened."""
        return self._transaction(writing=True)

    def reading(self) -> AbstractContextManager[Replica]:
        """With the newest state."""
        return self._transaction(writing=False)

    def save(self, replica: Replica) -> None:
        """Save the state whole; while `writing`."""
        self._journal.keep(replica.snapshot(), self._expired_before(), keep_shown=self._settings.keep_shown)
        if replica.draws_secretly:
            self._journal.drop_nonces()
        self._snapshot_at = replica.counts.entry

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other threads out for several transactions."""
        self.check_usable()
        with self._lock:
            yield

    def close(self) -> None:
        """Save the state whole and let go of the file, unless that was done, or is for another process to do."""
        if self._closed or self._process != os.getpid():
            return
        with self._lock:
            with suppress(StorageError, ClosedError), self.writing() as replica:
                self.save(replica)
            self._closed = True
            self._journal.close()

    def check_usable(self) -> None:
        """Raise `ClosedError` unless the agent is open, and in this process."""
        if self._process != os.getpid():
            raise ClosedError("this agent belongs to the process that was forked; open it anew here")
        if self._closed:
            raise ClosedError("this agent was closed")

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Replica]:
        # before the lock is taken, too: a lock that was held during a fork is never released
        self.check_usable()
        journal = self._journal
        with self._lock:
            self.check_usable()
            try:
                journal.begin(writing=writing)
                replica = self._newest()
                yield replica
                if replica.nonces:
                    journal.nonces(replica.nonces)
                journal.commit()
                replica.nonces.clear()
                replica.ahead = False
            except DatabaseErrors as error:
                raise storage_error(journal.path, error) from error
            finally:
                journal.rollback()
            if writing and replica.counts.entry - self._snapshot_at >= self._snapshot_every:
                # what was asked for is done; if there is no room to save the state, the journal still has it
                with suppress(StorageError), self.writing() as replica:
                    self.save(replica)

    def _newest(self) -> Replica:
        """Do what other processes have done; start from the file if memory cannot be relied on."""
        version = self._journal.version()
        replica = self._replica
        if replica is not None and (replica.ahead or replica.unsealed):  # another process may have sealed it
            replica = self._replica = None
        if replica is not None and version == self._version:
            return replica
        self._journal.check_format()  # whoever has written may be of a newer version
        self._snapshot_at = self._journal.newest_snapshot()
        try:
            if replica is None or self._snapshot_at > replica.counts.entry:
                replica = Replica(self._settings, self._journal.snapshot())
            self._replica = None
            replica.catch_up(self._journal, verify=self._verify)
        except ReplayError as error:
            raise ReplayError(f"{self._journal.path}: {error}") from error
        replica.ahead = False
        self._replica = replica
        self._version = version
        return replica

    def _seal(self) -> None:
        """Give the agent a key of its own, unless another process has just done so."""
        with self.writing() as replica:
            if replica.unsealed:
                own = replica.sealed()
                self._journal.keep(own.snapshot(), self._expired_before(), anew=True)
                self._replica = None  # it is read from the file, as everybody else reads it
