"""`fedbandits federation migrate`: a server whose agents' arms have one feature more, or one less.

Agents whose features are others than the server's are turned away by their fingerprint. So a federation changes its
features in this order: stop the server; `agent migrate` each agent; `federation migrate` the server; start it. Agents
that are not migrated yet wait outside, and lose nothing.

The server has to be at rest: no conversation under way, no letter to be delivered, no answer to come. Letters are about
the old features.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedbandits.contract.arrays import Array, State
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.server import Server
from fedbandits.deploy.backup import back_up
from fedbandits.deploy.embedded.parts import parts_of
from fedbandits.deploy.errors import InputError
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK, SETTINGS
from fedbandits.deploy.flower.conversation.turnstile import alone
from fedbandits.deploy.flower.serving import Serving
from fedbandits.deploy.migrating import Change
from fedbandits.deploy.settings import Settings, stored
from fedbandits.deploy.storage.files import write_private
from fedbandits.models.statistics import Statistics


def migrate_server(directory: Path, change: Change) -> tuple[str, ...]:
    """Change the features of the server in `directory`; the features of afterwards.

    federation.json and server.db are kept beside themselves as `.before`: interrupted in between, put both back.
    """
    described, book_path = directory / SETTINGS, directory / BOOK
    if not described.exists():
        raise ConfigError(f"{directory} holds no {SETTINGS}")
    settings = stored(described.read_text(), {})
    after = change.of_settings(settings)
    with alone(directory, seconds=0.0):
        copies = [path.with_name(f"{path.name}.before") for path in (described, book_path)]
        for copy in copies:
            if copy.exists():
                raise ConfigError(f"{copy}: exists, and is not overwritten; move it away")
        if book_path.exists():
            with Book(book_path) as book:
                _check_at_rest(book)
                parts = book.parts()
                for part, state in parts.items():
                    if part == "server":
                        parts[part] = _migrated(state, change, settings)
                back_up(book_path, copies[1])
                with book.writing():
                    book.contributions.rewrite(_reshaping(change, settings))
                    book.save(**parts)
        write_private(copies[0], described.read_text())
        write_private(described, after.text())
    return after.features or ()


def _migrated(state: State, change: Change, settings: Settings) -> State:
    if change.drop is not None:
        server = _server(settings)
        for place, part in parts_of(server):
            own = {name for name in part.keeps if isinstance(getattr(part, name), np.ndarray)}
            if not isinstance(part, Statistics) and any(getattr(part, name).dtype.kind == "f" for name in own):
                raise InputError(
                    f"a feature cannot be dropped: the server keeps more than sums over observations ({place}"
                    f"{', '.join(sorted(own))}); begin a new federation, whose agents import their logs"
                )
    return change.of_state(state, settings, _server)


def _server(settings: Settings) -> Server:
    return Serving(settings, {}).server


def _reshaping(change: Change, settings: Settings) -> Callable[[Array], Array]:
    """Sums over observations: every axis as long as there are features belongs to them."""

    def reshaped(array: Array) -> Array:
        for axis, size in enumerate(array.shape):
            if size == settings.dim:
                array = np.moveaxis(change.of_features(np.moveaxis(array, axis, -1), settings), -1, axis)
        return array

    return reshaped


def _check_at_rest(book: Book) -> None:
    waiting = {
        "a conversation is under way": book.cut() is not None,
        "letters have to be delivered": bool(book.undelivered()),
        "answers have not come": bool(book.owed()),
        "replies are held in quarantine": any(entry.state == "held" for entry in book.quarantine.entries()),
    }
    for what, holds in waiting.items():
        if holds:
            raise ConfigError(
                f"{what}: let the server go on until it is at rest (fedbandits federation status), stop it, try again"
            )
