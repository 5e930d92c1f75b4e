"""What operators watch of a server, in Prometheus' text format, by what its book says.

Names follow Prometheus' conventions: base units, `_total` for what only grows, moments instead of ages. Counters are
kept in the book and go on when the server is started again. Agents are told apart by their index; no label holds
anything that an agent or a node has written. What an agent has spent of its privacy budget, and how urgent it is to it
to be heard, are not here: neither crosses the wire, and the second would tell of its data. They are metrics of the
agent itself. What is here of a budget is what was promised, and how many uploads of each agent were taken in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fedbandits.contract.budget import Budget
from fedbandits.contract.errors import ConfigError
from fedbandits.deploy.errors import StorageError
from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.books import book_in
from fedbandits.deploy.flower.operating.promised import promised
from fedbandits.deploy.privacy_metrics import privacy_metrics

PREFIX = "fedbandits_server"
_NOBODY = "none"
"""The label of what is no agent's."""
_MOMENTS = {
    "start": ("serving_since", "When the server that runs, or ran last, was started."),
    "alive": ("alive_at", "When the server last said that it is alive, which it does every few seconds."),
    "last_ring": ("rang_at", "When the server last asked who is there."),
    "last_conversation": ("spoke_at", "When the last conversation ended."),
    "supervisor_last_look": ("supervised_at", "When the supervisor last found the server well."),
}


def page(directory: Path) -> bytes:
    """All metrics of the server in `directory`; `..._up` is 0, and all there is, if its book cannot be read."""
    registry = CollectorRegistry()
    try:
        with book_in(directory, read_only=True) as book:
            metrics = [*_of(book), *_privacy(book, promised(directory))]
            registry.register(_Read([*metrics, _gauge("up", "Whether the server's book can be read.", 1)]))
    except (ConfigError, StorageError):
        registry.register(_Read([_gauge("up", "Whether the server's book can be read.", 0)]))
    return generate_latest(registry)


class _Read(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _of(book: Book) -> Iterator[Metric]:
    yield from _moments(book)
    yield from _agents(book)
    yield from _traffic(book)
    yield from _trouble(book)


def _moments(book: Book) -> Iterator[Metric]:
    for name, (fact, meaning) in _MOMENTS.items():
        if moment := book.fact(fact):
            yield _gauge(f"{name}_timestamp_seconds", meaning, moment)
    yield _counter("restarts", "How often the supervisor has found the server ended.", book.fact("restarts"))


def _agents(book: Book) -> Iterator[Metric]:
    yield _gauge("present_agents", "Agents that answered the last ring.", book.fact("present"))
    yield _gauge("known_agents", "Agents for which a key speaks.", len(book.bound()))
    yield _gauge("owing_agents", "Agents that owe an answer to an earlier question.", len(book.owed()))
    seen = book.sightings.all()
    for name, values in {
        "first_seen": {who: sighting.first for who, sighting in seen.items()},
        "last_seen": {who: sighting.last for who, sighting in seen.items()},
    }.items():
        yield _by_agent(f"agent_{name}_timestamp_seconds", f"When the agent was {name.replace('_', ' ')}.", values)
    yield _by_agent(
        "agent_clock_offset_seconds",
        "How far the agent's clock is ahead, as far as that is certain.",
        book.clocks.all(),
    )
    waiting = {who: float(len(letters)) for who, letters in book.undelivered().items()}
    yield _by_agent("agent_undelivered_letters", "Letters that the agent has not acknowledged yet.", waiting)


def _traffic(book: Book) -> Iterator[Metric]:
    ledger, durations = book.ledger(), book.durations
    conversations = CounterMetricFamily(
        f"{PREFIX}_conversations", "Conversations that have ended, by outcome.", labels=["outcome"]
    )
    for outcome, number in durations.outcomes().items():
        conversations.add_metric([outcome], number)
    conversations.add_metric(["quarantined"], book.troubles.quarantined)
    yield conversations
    yield HistogramMetricFamily(
        f"{PREFIX}_conversation_duration_seconds",
        "How long conversations took that were completed.",
        buckets=[("+Inf" if math.isinf(bound) else f"{bound:g}", number) for bound, number in durations.within()],
        sum_value=durations.seconds,
    )
    messages = CounterMetricFamily(f"{PREFIX}_messages", "Messages, as a simulation counts them.", labels=["direction"])
    weight = CounterMetricFamily(f"{PREFIX}_message_bytes", "Bytes of messages on the wire.", labels=["direction"])
    for direction, counted in (("up", ledger.up), ("down", ledger.down)):
        messages.add_metric([direction], counted.messages)
        weight.add_metric([direction], counted.bytes)
    yield messages
    yield weight
    yield _counter("resent_letters", "Letters that had to be sent again; not among the messages.", durations.resent)
    underway = book.cut() is not None
    yield _gauge("conversation_underway", "Whether a conversation has begun and not ended.", underway)


def _trouble(book: Book) -> Iterator[Metric]:
    rejections = CounterMetricFamily(
        f"{PREFIX}_rejections",
        "What was not let in, by kind and by whom it claimed to be from.",
        labels=["agent", "kind"],
    )
    for (kind, identity), number in sorted(book.rejection_counts().items(), key=str):
        rejections.add_metric([_NOBODY if identity is None else str(identity), kind or "unknown"], number)
    yield rejections
    kept = GaugeMetricFamily(
        f"{PREFIX}_quarantined_conversations", "Conversations in quarantine, by state.", labels=["state"]
    )
    for state, number in book.troubles.by_state().items():
        kept.add_metric([state], number)
    yield kept
    yield _gauge("suspended_agents", "Agents that are left out until the operator acts.", book.troubles.suspended)


def _privacy(book: Book, budget: Budget | None) -> Iterator[Metric]:
    if budget is None:
        return
    yield from privacy_metrics(PREFIX, budget)
    uploads = CounterMetricFamily(
        f"{PREFIX}_agent_privacy_uploads",
        "Noisy sums of the agent that were taken in; it has released at least as many.",
        labels=["agent"],
    )
    for identity, held in book.contributions.settled().items():
        uploads.add_metric([str(identity)], held.uploads)
    yield uploads


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", meaning, value=value)


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", meaning, value=value)


def _by_agent(name: str, meaning: str, values: dict[int, float]) -> Metric:
    metric = GaugeMetricFamily(f"{PREFIX}_{name}", meaning, labels=["agent"])
    for identity, value in values.items():
        metric.add_metric([str(identity)], value)
    return metric
