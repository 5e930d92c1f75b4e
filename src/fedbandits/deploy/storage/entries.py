"""What is on record in an agent's file, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ChosenBy(IntEnum):
    """Who chose the arm of a decision; its numbers are those in the file."""

    ALGORITHM = 0
    CHANCE = 1
    """A uniform draw, as the setting `explore` asks for; the algorithm was asked, too."""
    OTHERS = 2
    """Somebody else, before there was this agent: the decision was imported."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision on record; `arms` are the bytes of what was shown, (K, d) little-endian float64."""

    entry: int
    at: float
    tag: int
    pick: int
    arms: bytes
    names: tuple[str, ...] | None = None
    """Of the arms that were shown; None if they had none."""
    chosen_by: ChosenBy = ChosenBy.ALGORITHM
    who: str | None = None
    """Whom it is about, if that was told."""
    episode: int | None = None
    """The entry of the first decision of its episode; None if it stands for itself."""
    stage: int | None = None
    """Which decision of its episode it is, from 0."""


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A reward on record, with the decision that it is for."""

    entry: int
    at: float
    decision: Decided
    value: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """A reply that handed something over: its bytes as long as they are kept, and what became of it (None: not known
    yet).
    """

    entry: int
    reply: bytes | None
    accepted: bool | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A letter on record, and what was answered (None: nothing)."""

    entry: int
    at: float
    request: bytes
    reply: bytes | None
    handed_over: bool = False
    """Whether the reply handed something over of which the server tells what became of it."""
    settled: tuple[HandOver, ...] = ()
    """What the letter told about earlier replies that handed something over."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A sequence of decisions on record."""

    first: int
    """The entry of its first decision, by which it is known."""
    name: str
    at: float
    """When its last decision was taken."""
    stages: int
    """How many decisions there are."""
    ended: bool
    """Whether it was said to be over before it had all its stages."""
    closed: int | None = None
    """The entry in which it was learned; None while it is open."""
    closed_at: float | None = None
    learned: int | None = None
    """How many of its decisions were learned."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The entry in which an episode is learned: its decisions with their rewards, in order, as far as all is known."""

    entry: int
    learned: tuple[tuple[Decided, float], ...]
    then: Decided | None
    """The decision after these, where the episode is known no further; None: it was over."""
    dropped: int
    """How many decisions there are of which nothing is learned."""


Event = Decided | Rewarded | Answered | Closed


@dataclass(frozen=True, slots=True)
class Found:
    """A decision that is on record: its reward, if it came; otherwise what was shown, if it still is awaited."""

    tag: int
    reward: float | None
    awaiting: Decided | None


@dataclass(frozen=True, slots=True)
class Known:
    """A turn that is on record: whether it brought the same letter, and the reply (None: nothing) if that is kept."""

    same: bool
    reply: bytes | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after `entry`: `counts` as JSON, and the population's state as bytes."""

    entry: int
    counts: str
    state: bytes
