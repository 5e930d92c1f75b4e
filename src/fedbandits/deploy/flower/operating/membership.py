"""What an operator does about members of a federation: look at their influence, expel them, let them in again."""

from __future__ import annotations

import time
from pathlib import Path

from fedbandits.contract.catalogue import ConfigError
from fedbandits.deploy.flower.book.books import book_in
from fedbandits.deploy.flower.book.names import SETTINGS
from fedbandits.deploy.flower.conversation.expelling import is_left, retracts
from fedbandits.deploy.flower.operating.influence import Influence, influences
from fedbandits.deploy.settings import Settings, stored


def influence(directory: Path) -> list[Influence]:
    """What each agent of the server in `directory` has contributed."""
    settings = _settings(directory)
    with book_in(directory) as book:
        return influences(book, settings)


def expel(directory: Path, identity: int) -> str:
    """Do not let an agent in any more, and have its contribution taken out where that can be; in words.

    A server that runs does the rest with its next step, another one when it is started. Done again, nothing changes.
    """
    settings = _settings(directory)
    if not 0 <= identity < settings.agents:
        raise ConfigError(f"agent {identity}: the federation has agents 0..{settings.agents - 1}")
    with book_in(directory) as book:
        new = book.expel(identity, time.time())
        mine, since = book.contributions.of(identity), book.fact("contributions_since")
    said = f"agent {identity} {'is' if new else 'was already expelled, and is'} not let in any more"
    if not retracts(settings):
        name = settings.algorithm.about.name
        return f"{said}; what it has handed over stays in what {name} knows, which does not follow from sums alone"
    if not is_left(mine):
        return f"{said}; nothing of it is in the pool{_before(since)}"
    return f"{said}; the server takes it out of the pool with its next step, and tells everybody{_before(since)}"


def readmit(directory: Path, identity: int) -> str:
    """Let an agent in again that was expelled; in words."""
    with book_in(directory) as book:
        if not book.readmit(identity):
            return f"agent {identity} was not expelled"
    return f"agent {identity} is let in again; what was taken out of the pool stays out"


def _settings(directory: Path) -> Settings:
    path = directory / SETTINGS
    if not path.is_file():
        raise ConfigError(f"{directory} holds no {SETTINGS}; write it with: fedbandits federation describe agent.db")
    return stored(path.read_text(), {})


def _before(since: float) -> str:
    if not since:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(since))
    return f" (but for what it handed over before {day}: an earlier version did not write down whose was what)"
