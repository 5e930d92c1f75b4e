"""How an agent is getting on: what its owner may want to watch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fedbandits.contract.arrays import FloatArray
from fedbandits.deploy.embedded.replica import Replica

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
    """Epsilon of differential privacy spent so far; None if the algorithm is not private."""
    unacknowledged: int = 0
    """Answers that handed something over, of which no server has said yet whether it took it in."""

    clock_offset_seconds: float | None = None
    """How far this machine's clock is ahead of the server's, as far as that is certain; None if the server has not
    said."""


def status_of(replica: Replica, counters: Mapping[str, int], *, talks: bool) -> Status:
    """The status of the agent in memory, `counters` being those of its file; `talks`: its algorithm says anything."""
    counts, population = replica.counts, replica.population
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
        spent=_of_one(population.spent()),
        unacknowledged=len(counts.handed),
        clock_offset_seconds=None if (clock := counters.get(CLOCK_MILLISECONDS)) is None else clock / 1000,
    )


def synchronised_at(replica: Replica) -> datetime | None:
    """When the server last spoke with the agent; None before the first time."""
    at = replica.counts.synchronised_at
    return None if at is None else datetime.fromtimestamp(at, UTC)


def _of_one(told: FloatArray | None) -> float | None:
    return None if told is None else float(told[0])
