"""How an agent is getting on: what its owner may want to watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.budget import Budget, finite
from fedbandits.deploy.embedded.lives import COPIES, over_all_lives
from fedbandits.deploy.embedded.replica import Replica

__all__ = ["CLOCK_MILLISECONDS", "Budget", "Status", "status_of", "synchronised_at"]

CLOCK_MILLISECONDS = "clock_offset_milliseconds"
"""The name, among an agent's counters, of how far its clock is ahead."""


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

    def plain(self) -> dict[str, Any]:
        """By name, in terms JSON has but for times."""
        told = {item.name: finite(getattr(self, item.name)) for item in fields(self)}
        return told | {"budget": None if self.budget is None else self.budget.plain()}


def status_of(replica: Replica, counters: Mapping[str, int], *, talks: bool) -> Status:
    """The status of the agent in memory, `counters` being those of its file; `talks`: its algorithm says anything."""
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
    )


def synchronised_at(replica: Replica) -> datetime | None:
    """When the server last spoke with the agent; None before the first time."""
    at = replica.counts.synchronised_at
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _of_one(told: FloatArray | None) -> float | None:
    return None if told is None else float(told[0])
