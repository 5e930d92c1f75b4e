"""What is measured, in Prometheus' text format: the agent's books, and how long requests took."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fedbandits.contract.budget import Budget
from fedbandits.deploy.embedded.status import EpisodesStanding, Status
from fedbandits.deploy.privacy_metrics import privacy_metrics

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "fedbandits_agent"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_COUNTERS = {
    "decisions": ("decisions", "Decisions ever taken."),
    "rewards": ("rewards", "Rewards ever counted."),
    "expired": ("expired_decisions", "Decisions whose reward did not come in time."),
    "late": ("late_rewards", "Rewards refused because their decision had expired."),
    "letters": ("letters", "Letters of a server that were answered."),
}
"""Counted in the agent's file: they go on when the service is started again. By field of `Status`: name and meaning."""


class Meter:
    """How long the requests to one service took, since it was started."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            f"{_PREFIX}_request_duration_seconds",
            "Time from a request's headers to the end of its answer.",
            ["path", "status"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    def took(self, path: str, status: int, seconds: float) -> None:
        """Note a request; `path` is one of the service's own, so that strangers cannot make up new ones."""
        self._seconds.labels(path, str(status)).observe(seconds)

    def page(self, status: Status) -> bytes:
        """Everything that is measured, with the agent's `status`."""
        books = CollectorRegistry()
        books.register(_Books(status))
        return generate_latest(books) + generate_latest(self._registry)


class _Books(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        for field, (name, meaning) in _COUNTERS.items():
            yield CounterMetricFamily(f"{_PREFIX}_{name}", meaning, value=getattr(status, field))
        gauges = {
            "awaiting_decisions": ("Decisions whose reward may still come.", status.awaiting),
            "unacknowledged_answers": (
                "Answers of which no server has said yet whether it took them in.",
                status.unacknowledged,
            ),
            "calling": ("Whether the agent asks the server for a conversation.", int(status.calling)),
            "urgency_ratio": (
                "How far the trigger has come, 1 being where the agent calls; absent if there is none.",
                status.level,
            ),
            "last_synchronisation_timestamp_seconds": (
                "When the server last spoke with this agent; absent before the first time.",
                None if status.synchronised_at is None else status.synchronised_at.timestamp(),
            ),
            "clock_offset_seconds": (
                "How far this machine's clock is ahead of the server's; absent before the server has said so.",
                status.clock_offset_seconds,
            ),
            "privacy_spent_epsilon": (
                "Epsilon of differential privacy spent, strictly counted; absent if nothing is promised.",
                status.spent,
            ),
        }
        for name, (meaning, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, value=value)
        if status.episodes is not None:
            yield from _episodes(status.episodes)
        if status.budget is not None:
            yield from privacy_metrics(_PREFIX, status.budget)
            yield from _used(status.budget)


def _episodes(episodes: EpisodesStanding) -> Iterator[Metric]:
    """How the episodes of an agent that plans are getting on."""
    yield GaugeMetricFamily(f"{_PREFIX}_open_episodes", "Episodes under way, or waiting for rewards.", episodes.open)
    yield CounterMetricFamily(f"{_PREFIX}_closed_episodes", "Episodes that are over.", value=episodes.closed)
    yield CounterMetricFamily(
        f"{_PREFIX}_truncated_episodes", "Episodes that expired before all was known.", value=episodes.truncated
    )
    if episodes.left_at is not None:
        yield GaugeMetricFamily(
            f"{_PREFIX}_oldest_episode_timestamp_seconds",
            "When the last decision was taken in the open episode that expires next; absent if none is open.",
            episodes.left_at.timestamp(),
        )


def _used(budget: Budget) -> Iterator[Metric]:
    """What one agent has used of its budget."""
    yield GaugeMetricFamily(
        f"{_PREFIX}_privacy_budget_spent_epsilon",
        "Epsilon spent of the budget, by its definition; see privacy_info.",
        value=budget.spent,
    )
    yield CounterMetricFamily(f"{_PREFIX}_privacy_releases", "Noisy sums ever released.", value=budget.releases)
    yield GaugeMetricFamily(
        f"{_PREFIX}_privacy_backups", "Backups that the agent was restored from, whose budgets count.", budget.copies
    )
