"""What a server lives through: everything that is not a mistake in the program.

A full disk, a network that is gone, a SuperLink that is being restarted: all of that passes, and the book knows where
to go on. So the server waits, longer each time up to a limit, and says once what it is waiting for.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError, ObjectUnavailableError

from fedbandits.deploy.errors import CorruptError, DatabaseErrors, StorageError, storage_error
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Backoff:
    """Waiting times that double from `first` to `longest` seconds."""

    first: float = 1.0
    longest: float = 60.0
    _failures: int = 0

    def next(self) -> float:
        """How long to wait now."""
        seconds = min(self.longest, self.first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return seconds

    def reset(self) -> None:
        """All is well again."""
        self._failures = 0


def trouble(error: BaseException, book: Path) -> str | None:
    """What an error means if it will pass; None for one that will not: a defect, a damaged book, or the run's end.

    `book` is the file that database errors are about. What Flower 1.41 raises: `httpx.HTTPError` where the SuperLink
    cannot be reached (it tries most of these again by itself, for ever) or answers with an error, and
    `ObjectPullError`, `ObjectPushError` and `ObjectUnavailableError` where it has lost a part of a message, as one that
    was restarted has.
    """
    if isinstance(error, httpx.HTTPStatusError):
        return f"the SuperLink refuses with status {error.response.status_code}"
    if isinstance(error, httpx.HTTPError):
        return "the SuperLink cannot be reached"
    if isinstance(error, ObjectPullError | ObjectPushError | ObjectUnavailableError):
        return "the SuperLink has lost a message"
    if isinstance(error, (*DatabaseErrors, StorageError)):
        meant = error if isinstance(error, StorageError) else storage_error(book, error)
        passes = not isinstance(meant, CorruptError) and not isinstance(error, sqlite3.ProgrammingError)
        return f"{type(meant).__name__} of the book" if passes else None
    if isinstance(error, OSError):
        return f"the system refuses ({error.strerror or type(error).__name__})"
    return None


class Endurance:
    """Lives through troubles with the book at `book`: says each kind once, waits, and says when it is over."""

    def __init__(self, book: Path, backoff: Backoff | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._book = book
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._kind: str | None = None
        self._failures = 0

    def lives_through(self, error: BaseException) -> bool:
        """Wait if the trouble will pass; whether it will."""
        kind = trouble(error, self._book)
        if kind is None:
            return False
        if kind != self._kind:
            log.warning("%s; trying again until it passes: %s", kind, shown(error))
        self._kind = kind
        self._failures += 1
        self._sleep(self._backoff.next())
        return True

    def over(self) -> None:
        """All is well."""
        if self._kind is not None:
            log.info("all is well again after %d failures, the last being: %s", self._failures, self._kind)
        self._kind, self._failures = None, 0
        self._backoff.reset()
