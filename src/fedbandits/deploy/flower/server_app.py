"""The ServerApp: drives the federation whose directory the run configuration names.

`directory` holds `federation.json`, what the agents were made with, `server.db`, the server's book, and `server.log`.
`interval` is the time from one ring to the next in seconds; below zero the server rings only when the book grants it
the floor.

It ends when its run is stopped, and with a mistake in the program or a damaged book, which the log names; whatever
passes by itself it lives through (`endurance`). What starts it again is `supervision`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import RunNotRunningException

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.errors import StorageError, translated
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK, LOG, SETTINGS
from fedbandits.deploy.flower.conversation.carrier import Patience
from fedbandits.deploy.flower.conversation.coordinator import Coordinator
from fedbandits.deploy.flower.conversation.desk import fingerprint
from fedbandits.deploy.flower.conversation.endurance import Endurance
from fedbandits.deploy.flower.conversation.grid import FlowerPost
from fedbandits.deploy.flower.conversation.server_log import log_to
from fedbandits.deploy.flower.conversation.turnstile import alone
from fedbandits.deploy.flower.timing import hasten_objects
from fedbandits.deploy.flower.trust.past import Trust
from fedbandits.deploy.settings import stored

log = logging.getLogger(__name__)

_GRANT_SECONDS = 0.02
_PULL_SECONDS = 0.05
_PULSE_SECONDS = 5.0
_LOOK_SECONDS, _GRACE_SECONDS = 1.0, 10.0
"""How often to look whether whoever started the server is there, and what it may take to end in good order."""
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve until the run is stopped."""
    directory = Path(str(context.run_config["directory"]))
    log_to(directory / LOG)
    hasten_objects(_PULL_SECONDS)
    try:
        with alone(directory), translated(directory / BOOK), Book(directory / BOOK) as book:
            end_with_starter()
            _serve(grid, context, directory, book)
    except RunNotRunningException:
        log.info("the run was stopped")
        raise
    except (ConfigError, StorageError) as error:
        log.error("%s", error)
        raise
    except Exception as error:
        # what a reader needs is in the line; the rest says where, and never with which values
        log.error("the server ends: %s: %s", type(error).__name__, error, exc_info=True)
        raise


def _serve(grid: Grid, context: Context, directory: Path, book: Book) -> None:
    config = context.run_config
    settings = stored((directory / SETTINGS).read_text(), {})
    everybody = float(config["wait-for-everybody"])
    patience = Patience(
        ring=float(config["wait-for-rings"]),
        answer=float(config["wait-for-answers"]),
        everybody=None if everybody < 0 else everybody,
        repeat=float(config["repeat-after"]),
    )
    pulse = Pulse(book)
    post = FlowerPost(grid, book, settings.agents, fingerprint(settings))
    trust = Trust(pace=float(config["observations-per-second"]), strikes=int(config["strikes"]))
    coordinator = Coordinator(settings, post, book, patience, stopping=pulse, trust=trust)
    book.note(run=str(context.run_id))
    serve(coordinator, book, float(config["interval"]), Endurance(directory / BOOK), pulse)


def end_with_starter() -> None:
    """End when the process that started this one has: Flower then does so, too, but may wait for ever to hand its last
    words to a SuperLink that is gone. Nothing is lost: the book is complete at any moment.
    """
    starter = os.getppid()

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(_LOOK_SECONDS)
        time.sleep(_GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Pulse:
    """Writes down every few seconds that the server is alive, also while it waits for answers; never says stop."""

    def __init__(self, book: Book, clock: Callable[[], float] = time.time) -> None:
        self._book = book
        self._clock = clock
        self._last = 0.0

    def __call__(self) -> bool:
        """Be alive."""
        now = self._clock()
        if not 0.0 <= now - self._last < _PULSE_SECONDS:  # also after a clock was set back
            self._book.note(alive_at=now)
            self._last = now
        return False


def serve(coordinator: Coordinator, book: Book, interval: float, endurance: Endurance, pulse: Pulse) -> None:
    """Step for ever: every `interval` seconds, or as often as the book grants."""
    _until_it_works(lambda: book.note(serving_since=time.time(), pid=os.getpid()), endurance)
    while True:
        began = time.monotonic()
        try:
            pulse()
            if interval < 0:
                while book.fact("taken") >= book.fact("granted"):
                    time.sleep(_GRANT_SECONDS)
                    pulse()
            coordinator.step()
            book.note(taken=int(book.fact("taken")) + 1)
        except Exception as error:
            if not endurance.lives_through(error):
                raise
            _until_it_works(coordinator.recover, endurance)
            continue
        endurance.over()
        if interval > 0:
            time.sleep(max(0.0, interval - (time.monotonic() - began)))


def _until_it_works(action: Callable[[], None], endurance: Endurance) -> None:
    while True:
        try:
            return action()
        except Exception as error:
            if not endurance.lives_through(error):
                raise
