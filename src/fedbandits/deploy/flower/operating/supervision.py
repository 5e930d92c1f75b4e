"""Somebody who sees to it that the server runs: starts its run at the SuperLink, looks after it, starts it again.

A SuperLink that is restarted, a process that is killed and a defect all end a run, and Flower leaves it at that. The
supervisor waits a little longer after every end (a run that lasted makes it forget the earlier ones), and starts the
next. A run that is there but has shown no sign of life for long is stopped first. There is one run at a time: others
that serve the same directory, as those of a supervisor that was killed, are taken over or stopped.

It needs the control interface of the SuperLink and the book, and lives without either for as long as it takes. What it
does is written into the book for `federation status`, and logged.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol, TypeVar

import httpx

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.errors import AgentError, translated
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK
from fedbandits.deploy.flower.conversation.endurance import Backoff
from fedbandits.deploy.flower.conversation.turnstile import is_taken
from fedbandits.deploy.flower.machine.runs import Run
from fedbandits.deploy.text import shown

log = logging.getLogger(__name__)
T = TypeVar("T")


def until_signalled(supervisor: Supervisor) -> None:
    """Supervise in this process until SIGTERM or SIGINT; what happens is told on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)

    def stop(*_: object) -> None:
        supervisor.stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        supervisor.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class RunsOfADirectory(Protocol):
    """What a supervisor needs of a SuperLink; see `runs.Runs`."""

    def start(self, config: Mapping[str, str | float]) -> int:
        """Start a run."""

    def find(self, number: int) -> Run | None:
        """A run by its number."""

    def alive(self, directory: Path) -> list[int]:
        """The runs that serve a directory, the latest first."""

    def stop(self, number: int) -> None:
        """Stop a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Watchfulness:
    """How closely a supervisor looks, in seconds."""

    look: float = 2.0
    """From one look to the next."""
    first: float = 2.0
    """Before a run that has ended is started again, the first time; each further time it is twice as long."""
    longest: float = 300.0
    """The longest such wait."""
    settled: float = 600.0
    """A run that lasted so long has got over what ended the ones before it."""
    silence: float = 600.0
    """A server that was not alive for so long is taken for stuck."""


class Supervisor:
    """Keeps one server running for `directory`, with `config` for its runs, until `stopping` is set."""

    def __init__(
        self,
        directory: Path,
        runs: RunsOfADirectory,
        config: Mapping[str, str | float],
        watchfulness: Watchfulness | None = None,
        stopping: Event | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._config = config
        self._how = watchfulness or Watchfulness()
        self._clock = clock
        self.stopping = stopping or Event()
        self._backoff = Backoff(self._how.first, self._how.longest)
        self._number: int | None = None
        self._began = 0.0
        self._last_words = ""

    def run(self) -> None:
        """Supervise until told to stop, then stop the run."""
        while not self.stopping.is_set():
            try:
                wait = self.look()
            except httpx.HTTPError as error:
                self._say(f"the SuperLink cannot be reached, or refuses: {shown(error)}")
                wait = self._how.look
            self.stopping.wait(wait)
        if self._number is not None:
            with suppress(httpx.HTTPError):
                self._runs.stop(self._number)
                self._say(f"stopped run {self._number}")

    def look(self) -> float:
        """Look after the run once; how long to wait until the next look."""
        if self._number is None:
            self._take_over()
        if self._number is None:
            self._number, self._began = self._runs.start(self._config), self._clock()
            self._say(f"started run {self._number}")
            self._note(supervised_since=self._began)
            return self._how.look
        run = self._runs.find(self._number)
        if run is None or run.over:
            return self._ended(
                "the SuperLink does not know it any more" if run is None else run.end or "no reason given"
            )
        if (why := self._trouble()) is not None:
            self._runs.stop(self._number)
            return self._ended(why)
        self._note(supervised_at=self._clock())
        return self._how.look

    def _take_over(self) -> None:
        """Look after a run that is there already, and stop all others."""
        found = self._runs.alive(self._directory)
        for number in found[1:]:
            self._runs.stop(number)
        if found:
            self._number, self._began = found[0], self._clock()
            self._say(f"looking after run {self._number}, which is there already")

    def _ended(self, why: str) -> float:
        if self._clock() - self._began >= self._how.settled:
            self._backoff.reset()
        wait = self._backoff.next()
        self._say(f"run {self._number} has ended ({why}); the next is started in {wait:g} seconds")
        self._number = None
        now = self._clock()
        self._with_book(
            lambda book: book.note(restarts=int(book.fact("restarts")) + 1, last_end=shown(why), ended_at=now), None
        )
        return wait

    def _trouble(self) -> str | None:
        """What is wrong with a run that Flower takes for a healthy one; it notices a killed process after a minute."""
        served = self._with_book(lambda book: book.words("run") == str(self._number), False)
        if served and not is_taken(self._directory):
            return "its process is gone"
        alive_at = self._with_book(lambda book: book.fact("alive_at"), 0.0)
        if self._clock() - max(alive_at, self._began) > self._how.silence:
            return f"no sign of life for {self._how.silence:g} seconds"
        return None

    def _note(self, **facts: float | str) -> None:
        self._with_book(lambda book: book.note(**facts), None)

    def _with_book(self, action: Callable[[Book], T], otherwise: T) -> T:
        """What `action` makes of the book; `otherwise` if that cannot be read or written now."""
        try:
            with translated(self._directory / BOOK), Book(self._directory / BOOK) as book:
                return action(book)
        except (AgentError, ConfigError, OSError) as error:
            self._say(f"the book cannot be used: {shown(error)}")
            return otherwise

    def _say(self, words: str) -> None:
        """Log what is new."""
        if words != self._last_words:
            log.info("%s", words)
        self._last_words = words
