"""The ServerApp: drives the federation whose directory the run configuration names.

`directory` holds `federation.json`, what the agents were made with, `server.db`, the server's book, and `server.log`.
`interval` is the time from one ring to the next in seconds; below zero the server rings only when the book grants it
the floor.
"""

from __future__ import annotations

import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

import httpx
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedbandits.deploy.flower.book import BOOK, LOG, SETTINGS, Book
from fedbandits.deploy.flower.carrier import Patience
from fedbandits.deploy.flower.coordinator import Coordinator
from fedbandits.deploy.flower.desk import fingerprint
from fedbandits.deploy.flower.grid import FlowerPost
from fedbandits.deploy.flower.timing import hasten_objects
from fedbandits.deploy.settings import stored

log = logging.getLogger(__name__)

_GRANT_SECONDS = 0.02
_PULL_SECONDS = 0.05
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve until the run is stopped."""
    config = context.run_config
    directory = Path(str(config["directory"]))
    _log_to(directory / LOG)
    hasten_objects(_PULL_SECONDS)
    settings = stored((directory / SETTINGS).read_text(), {})
    everybody = float(config["wait-for-everybody"])
    patience = Patience(
        ring=float(config["wait-for-rings"]),
        answer=float(config["wait-for-answers"]),
        everybody=None if everybody < 0 else everybody,
        repeat=float(config["repeat-after"]),
    )
    with Book(directory / BOOK) as book:
        post = FlowerPost(grid, book, settings.agents, fingerprint(settings))
        serve(Coordinator(settings, post, book, patience), book, float(config["interval"]))


def _log_to(path: Path) -> None:
    """Flower throws away what a ServerApp prints."""
    handler = RotatingFileHandler(path, maxBytes=10_000_000, backupCount=3)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("fedbandits")
    ours.setLevel(logging.INFO)
    ours.addHandler(handler)


def serve(coordinator: Coordinator, book: Book, interval: float) -> None:
    """Step for ever: every `interval` seconds, or as often as the book grants."""
    book.note(serving_since=time.time(), pid=os.getpid())
    while True:
        began = time.monotonic()
        if interval < 0:
            while book.fact("taken") >= book.fact("granted"):
                time.sleep(_GRANT_SECONDS)
        try:
            coordinator.step()
        except httpx.HTTPError as error:
            # the SuperLink cannot be reached: the book knows where to go on
            log.warning("the SuperLink cannot be reached: %s", error)
            time.sleep(1.0)
            continue
        book.note(taken=int(book.fact("taken")) + 1)
        if interval > 0:
            time.sleep(max(0.0, interval - (time.monotonic() - began)))
