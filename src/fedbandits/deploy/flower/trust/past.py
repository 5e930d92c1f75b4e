"""What the server knows of an agent when it reads its reply: what it has contributed, and what it can have observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.contributions import Contribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """How much the server believes of agents, and how often one may spoil a conversation."""

    pace: float = 10_000.0
    """How many observations an agent makes per second at most: what one process can do. The lower, the less a liar can
    claim; an honest agent that is faster for a while is taken in later."""
    strikes: int = 3
    """After how many conversations that it alone has spoilt an agent is left out, until the operator acts."""
    forgiven_after: float = 86_400.0
    """Seconds after which such a conversation is forgotten."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of an agent that has made at most `allowed` observations in all."""

    allowed: float
    contribution: Contribution = field(default_factory=Contribution)
    complete: bool = True
    """Whether `contribution` goes back to the beginning."""


class Pasts:
    """Of all agents in `book`: an honest one has made at most horizon + pace (seconds since it was first seen)
    observations. The horizon is what agents may bring along, and no limit for those that outlive it.
    """

    def __init__(self, book: Book, horizon: int, pace: float, now: Callable[[], float] = time.time) -> None:
        self._book = book
        self._horizon = horizon
        self._pace = pace
        self._now = now

    def of(self, identity: int) -> Past:
        """What is known of an agent at this moment."""
        seen = self._book.sightings.all().get(identity)
        elapsed = 0.0 if seen is None else max(self._now() - seen.first, seen.last - seen.first, 0.0)
        complete = self._book.fact("contributions_since") == 0
        return Past(self._horizon + self._pace * elapsed, self._book.contributions.of(identity), complete)
