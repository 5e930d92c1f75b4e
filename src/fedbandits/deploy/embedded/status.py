"""How an agent is getting on: what its owner may want to watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.budget import Budget, finite
from fedbandits.deploy.embedded.lives import COPIES, over_all_lives
from fedbandits.deploy.embedded.replica import Replica
from fedbandits.deploy.storage.entries import Episode

__all__ = ["CLOCK_MILLISECONDS", "Budget", "EpisodesStanding", "Status", "status_of", "synchronised_at"]

CLOCK_MILLISECONDS = "clock_offset_milliseconds"
"""The name, among an agent's counters, of how far its clock is ahead."""


@dataclass(frozen=True, slots=True)
class EpisodesStanding:
    """How the episodes of an agent are getting on."""

    open: int
    """Episodes that are under way, or wait for rewards."""
    waiting: int
    """Those among them that are over and wait for rewards."""
    left_at: datetime | None
    """When the last decision was taken in the open episode where that is longest ago: the next one to expire."""
    closed: int
    """Episodes that are over, learned as far as all was known."""
    truncated: int
    """Those among them that expired before all was known."""
    dropped: int
    """Decisions of which nothing was learned, because their episode had expired."""

    def plain(self) -> dict[str, Any]:
        """By name, in terms JSON has."""
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        return told | {"left_at": None if self.left_at is None else self.left_at.isoformat()}

    def __str__(self) -> str:
        since = "" if self.left_at is None else f", left since {self.left_at:%Y-%m-%d %H:%M} UTC"
        return (
            f"{self.open} open ({self.waiting} wait for rewards{since}), {self.closed} closed "
            f"({self.truncated} expired, {self.dropped} decisions dropped)"
        )


@dataclass(frozen=True, slots=True)
class Status:
    """How an agent is getting on."""

    decisions: int
    """Decisions ever taken."""
    rewards: int
    """Rewards ever counted."""
    awaiting: int
    """Decisions whose reward may still come."""
    expired: int
    """Decisions whose reward did not come in time."""
    late: int
    """Rewards that were refused because their decision had expired."""
    letters: int
    """Letters of a server that were answered."""
    synchronised_at: datetime | None
    """When the server last spoke with this agent; None before the first time."""
    calling: bool
    """Whether the agent asks the server for a conversation."""
    level: float | None
    """How far the trigger has come, 1 being where the agent calls; None if its algorithm has no trigger."""
    spent: float | None
    """Epsilon of differential privacy spent so far, by the strict definition: infinite if what the agent does is not
    private after all, as where it acts on data that were not released; None if the algorithm promises nothing."""
    unacknowledged: int = 0
    """Answers that handed something over, of which no server has said yet whether it took it in."""

    clock_offset_seconds: float | None = None
    """How far this machine's clock is ahead of the server's, as far as that is certain; None if the server has not
    said."""
    budget: Budget | None = None
    """What the agent may spend on what it releases, has spent, and what that protects; None without a budget."""

    episodes: EpisodesStanding | None = None
    """Of an agent that plans; None for others."""

    def plain(self) -> dict[str, Any]:
        """By name, in terms JSON has but for times."""
        told = {item.name: finite(getattr(self, item.name)) for item in fields(self)}
        nested = {"budget": self.budget, "episodes": self.episodes}
        return told | {name: None if part is None else part.plain() for name, part in nested.items()}


def status_of(
    replica: Replica, counters: Mapping[str, int], episodes: Sequence[Episode] | None, *, talks: bool
) -> Status:
    """The status of the agent in memory, `counters` and open `episodes` being those of its file, None without
    planning; `talks`: its algorithm says anything.
    """
    counts, population = replica.counts, replica.population
    budget = over_all_lives(population.protection(), counters.get(COPIES, 0))
    return Status(
        decisions=counts.decisions,
        rewards=counts.rewards,
        awaiting=counts.decisions - counts.rewards - counters["expired"] - counters["forgotten"],
        expired=counters["expired"],
        late=counters["late"],
        letters=counts.letters,
        synchronised_at=synchronised_at(replica),
        calling=bool(population.calling()[0]),
        level=_of_one(population.urgency()) if talks else None,
        spent=_of_one(population.spent()) if budget is None else budget.strictly,
        unacknowledged=len(counts.handed),
        clock_offset_seconds=None if (clock := counters.get(CLOCK_MILLISECONDS)) is None else clock / 1000,
        budget=budget,
        episodes=None if episodes is None else _episodes_of(replica, episodes),
    )


def synchronised_at(replica: Replica) -> datetime | None:
    """When the server last spoke with the agent; None before the first time."""
    at = replica.counts.synchronised_at
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _episodes_of(replica: Replica, episodes: Sequence[Episode]) -> EpisodesStanding:
    counts, length = replica.counts, replica.population.stages
    return EpisodesStanding(
        open=len(episodes),
        waiting=sum(episode.ended or episode.stages == length for episode in episodes),
        left_at=datetime.fromtimestamp(episodes[0].at, UTC) if episodes else None,
        closed=counts.episodes,
        truncated=counts.truncated,
        dropped=counts.dropped,
    )


def _of_one(told: FloatArray | None) -> float | None:
    return None if told is None else float(told[0])
