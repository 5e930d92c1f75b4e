"""What can go wrong with an agent, by what its owner can do about it.

Whatever a decision, a reward or a letter raises, the agent knows what it knew before, nothing acknowledged is lost, and
it goes on as soon as the cause is gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

from fedbandits.contract.catalogue import ConfigError


class AgentError(Exception):
    """Anything an agent refuses to do, or cannot do."""


class SettingsError(AgentError, ConfigError):
    """Settings that cannot be used, or that differ from those the agent was made with; the message names the field."""


class InputError(AgentError, ValueError):
    """Features or a reward that are no numbers, or of the wrong shape."""


class UnknownDecisionError(AgentError, LookupError):
    """No decision of that id is on record: it was never taken here, or it has been forgotten."""


class UnknownEpisodeError(AgentError, LookupError):
    """No episode of that name is on record: no decision was taken in it, or it has been forgotten."""


class ConflictError(AgentError):
    """The same decision or the same turn of a conversation, told again, but differently."""


class ExpiredError(AgentError):
    """A reward that came later than the agent waits for rewards."""


class LetterError(AgentError, ValueError):
    """Bytes from a server that this agent's algorithm cannot take in."""


class CannotForgetError(AgentError):
    """Raw observations cannot be removed, since they are part of what was learned."""


class ClosedError(AgentError):
    """The agent was closed, or belongs to the process that this one was forked from."""


class StorageError(AgentError):
    """The file cannot be read or written."""


class DiskFullError(StorageError):
    """There is no room left. The agent goes on when there is."""


class LockedError(StorageError):
    """Another process held the file for longer than the agent waits. The agent goes on when it is released."""


class CorruptError(StorageError):
    """The file does not hold what was written to it; nothing more is written. Restore it from a backup."""


class ReplayError(StorageError):
    """Doing again what the journal says gives another result than it records."""


_DAMAGED = (CorruptError, "it is damaged; restore it from a backup")
_LOCKED = (LockedError, "another process keeps it locked; call again")
_KINDS: dict[int, tuple[type[StorageError], str]] = {
    sqlite3.SQLITE_FULL: (DiskFullError, "there is no room left on its disk; make room and call again"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: (CorruptError, "it is damaged, or no database at all"),
    # statements are constant, so a table that is missing or a key that is there already was not left so by an agent
    sqlite3.SQLITE_ERROR: _DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: _DAMAGED,
    sqlite3.SQLITE_READONLY: (StorageError, "it may not be written"),
    sqlite3.SQLITE_CANTOPEN: (StorageError, "it cannot be opened; do its directory and the right to write exist?"),
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the file at the moment."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


DatabaseErrors = (sqlite3.Error, UnicodeDecodeError)
"""What working with a database may raise; names in a damaged one may be no text."""


def storage_error(path: str | PathLike[str], error: Exception) -> StorageError:
    """What one of `DatabaseErrors` about `path` means."""
    kind, advice = _KINDS.get(_primary(error), (StorageError, "it cannot be used"))
    return kind(f"{path}: {advice} ({error})")


@contextmanager
def translated(path: str | PathLike[str]) -> Iterator[None]:
    """`DatabaseErrors` about `path`, as `StorageError`s."""
    try:
        yield
    except DatabaseErrors as error:
        raise storage_error(path, error) from error


def _primary(error: Exception) -> int:
    """SQLite's error code without its details; what Python raises itself is about text that is none, or misuse."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return sqlite3.SQLITE_CORRUPT if isinstance(error, sqlite3.OperationalError | UnicodeDecodeError) else -1
    return code & 0xFF
