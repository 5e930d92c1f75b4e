"""The agent's side of the post: what a node answers when the server rings, or sends a letter."""

from __future__ import annotations

import hashlib
import json
import logging

from fedbandits.deploy.embedded.agent import Agent
from fedbandits.deploy.errors import AgentError, StorageError
from fedbandits.deploy.flower.book.clocks import TOLERATED_SECONDS, in_words
from fedbandits.deploy.flower.post import Answer, Letter, Presence
from fedbandits.deploy.settings import HABITS, Settings

log = logging.getLogger(__name__)
_STEADY_SECONDS = 1.0
"""By how much an offset may change before it is written down again."""
_OWN = ("identity", "seed", "expire_after", *HABITS)
"""Settings in which the agents of a federation may differ."""


def fingerprint(settings: Settings) -> str:
    """The same for all agents of a federation and their server: algorithm, parameters, problem, wire, common draws."""
    shared = {name: value for name, value in settings.shortest().items() if name not in _OWN}
    return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()


class Desk:
    """Answers for one agent. `identity` is who the node was told it is; the agent's own file has the last word."""

    def __init__(self, agent: Agent, identity: int | None = None) -> None:
        own = agent.settings.identity
        if identity is not None and identity != own:
            raise ValueError(f"{agent.path} is agent {own}, but the node is configured as identity {identity}")
        self.identity = own
        self.fingerprint = fingerprint(agent.settings)
        self._agent = agent

    def ring(self) -> Presence:
        """Whether the agent's trigger has fired, how many letters it knows, and which answers it worries about."""
        status, pending = self._agent.status(), tuple(self._agent.unacknowledged())
        return Presence(calling=status.calling, letters=status.letters, unacknowledged=pending)

    def compare_clocks(self, ahead: float) -> None:
        """The server says by how many seconds this machine's clock is ahead of its own."""
        known = self._agent.status().clock_offset_seconds
        if known is not None and abs(ahead - known) < _STEADY_SECONDS:
            return
        self._agent.note_clock(ahead)
        if abs(ahead) > TOLERATED_SECONDS:
            log.warning("the clock of this machine %s, by the server's: set it", in_words(ahead))

    def answer(self, letter: Letter) -> Answer:
        """The agent's reply; why, if it will not take the letter in. A letter that comes again changes nothing.

        Raises `StorageError` where the agent cannot answer at the moment: to the server that is silence.
        """
        try:
            reply = self._agent.answer(letter.content, letter.conversation, letter.turn, letter.verdicts)
            return Answer(reply, letters=self._agent.status().letters)
        except StorageError:
            raise
        except AgentError as error:
            return Answer(refused=f"{type(error).__name__}: {error}")
