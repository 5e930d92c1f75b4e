"""The post: brings letters to agents known by their identity, and what they answer back. No more is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fedbandits.deploy.embedded.acknowledgements import Verdict


class StoppedError(Exception):
    """The server was told to stop while it waited for an answer."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One agent's share of a request: bytes of the wire, under the number that makes its repetition harmless."""

    conversation: str
    turn: int
    content: bytes
    verdicts: tuple[Verdict, ...] | None = field(default=(), compare=False)
    """What has become of the agent's earlier answers, which is no part of the request; None where the server is of a
    version that does not tell."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent sent back: bytes of the wire, or None where there was nothing to send.

    `refused` says why the agent would not take the letter in; it has then changed nothing.
    """

    content: bytes | None = None
    refused: str | None = None
    letters: int = 0
    """How many letters the agent has answered in all, this one included."""
    ours: bool = False
    """Whether it was made here, in place of an agent that was expelled; such answers are not inspected."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What an agent says of itself when the server rings."""

    calling: bool
    """Whether its trigger has fired."""
    letters: int = 0
    """How many letters it has answered in all."""
    unacknowledged: tuple[tuple[str, int], ...] | None = None
    """Conversation and turn of answers that handed something over of which it does not know what became; None where it
    is of a version that does not tell."""


class Post(Protocol):
    """Letters may be lost, late, or arrive twice; an answer that is returned was sent by that agent to that letter."""

    def ring(self, seconds: float) -> Mapping[int, Presence]:
        """Everybody who answers within `seconds`, by identity: a post need not know anybody who was never there."""

    def ask(self, letters: Mapping[int, Letter], seconds: float) -> Mapping[int, Answer]:
        """Bring each identity its letter, and return what came back within `seconds`."""
