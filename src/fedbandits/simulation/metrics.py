"""One table of what is measured: traces, claims, results, tables and pictures read it, so a new metric is one entry.

The order of the table is that of the columns of `Trace.frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.ledger import DIRECTIONS, UNITS

if TYPE_CHECKING:
    from fedbandits.simulation.trace import Trace

BOUNDS = ("upper", "lower")
"""What theory may say of the group regret."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity that every run has, or may have: a column of `Trace.frame` and of all results."""

    name: str
    """The name of its column, which claims use as well."""
    title: str
    """What people call it, above a picture or a column."""
    text: str
    """What it is, in a sentence without a full stop."""
    unit: str = ""
    """What it is counted in, such as B; empty for plain numbers."""
    read: Callable[[Trace], FloatArray | IntArray] | None = None
    """(T,) its values after every step, empty where nobody measured it; None if it belongs to the run as a whole."""
    summarised: bool = False
    """Whether summaries hold its mean and standard error over seeds."""
    heading: str = ""
    """Above its column in the table of a report, which it has where any run has a number for it; empty if never. Needs
    to be summarised."""
    with_error: bool = False
    """Whether tables show the standard error beside the mean."""


def _way(way: str, unit: str) -> Callable[[Trace], IntArray]:
    """One way."""
    return lambda trace: trace.counts[:, DIRECTIONS.index(way), UNITS.index(unit)]


def _bound(side: str) -> Callable[[Trace], FloatArray]:
    """The same at every step; an upper bound that is infinite and a lower one of zero say nothing."""

    def read(trace: Trace) -> FloatArray:
        bound = trace.bounds.get(side, np.nan)
        return np.full(len(trace.regret), bound if 0 < bound < np.inf else np.nan)

    return read


def _smallest_gap(trace: Trace) -> FloatArray:
    """The same at every step."""
    return np.full(len(trace.regret), trace.smallest_gap)


_WAYS = {"up": "to the server", "down": "to the clients", "peer": "between clients, once for every link crossed"}
_SENT = {
    "messages": "transfers that carried at least one array",
    "signals": "transfers that carried none",
    "scalars": "numbers inside messages",
    "bytes": "length of the serialised messages",
}

_TABLE = (
    Metric("decisions", "Decisions", "decisions taken by all clients", read=attrgetter("decisions")),
    Metric(
        "regret",
        "Regret",
        "cumulative pseudo-regret of all clients",
        read=attrgetter("regret"),
        summarised=True,
        heading="Regret",
        with_error=True,
    ),
    Metric("reward", "Reward", "observed reward of all clients", read=attrgetter("reward"), summarised=True),
    Metric(
        "normalised_reward",
        "Normalised reward",
        "observed reward divided by that of random choices",
        read=attrgetter("normalised_reward"),
    ),
    Metric(
        "syncs",
        "Synchronisations",
        "conversations in which the server asked for or told anything; rounds in which peers spoke",
        read=attrgetter("syncs"),
        summarised=True,
        heading="Syncs",
    ),
    Metric(
        "messages",
        "Messages sent",
        _SENT["messages"],
        read=attrgetter("messages"),
        summarised=True,
        heading="Messages",
    ),
    Metric("scalars", "Scalars sent", _SENT["scalars"], read=attrgetter("scalars"), summarised=True, heading="Scalars"),
    Metric("bytes", "Bytes sent", _SENT["bytes"], "B", read=attrgetter("bytes"), summarised=True, heading="Bytes"),
    Metric(
        "coverage",
        "Coverage",
        "share of clients whose confidence set has held the truth so far",
        read=attrgetter("coverage"),
    ),
    Metric(
        "epsilon",
        "Privacy spent",
        "privacy spent by the client that has spent most",
        read=attrgetter("epsilon"),
        summarised=True,
        heading="ε",
    ),
    Metric(
        "honest_regret",
        "Regret per honest client",
        "cumulative pseudo-regret per client that tells the truth, where others are made to lie",
        read=attrgetter("honest_regret"),
        summarised=True,
        heading="Honest regret",
        with_error=True,
    ),
    Metric(
        "first_regret",
        "Regret of the first phase",
        "cumulative pseudo-regret of decisions in a first phase, for algorithms that have one",
        read=attrgetter("first_regret"),
        summarised=True,
        heading="First phase",
        with_error=True,
    ),
    Metric(
        "later_regret",
        "Regret beyond the first phase",
        "cumulative pseudo-regret of decisions beyond a first phase; all of it for algorithms that have none",
        read=attrgetter("later_regret"),
        summarised=True,
    ),
    Metric(
        "first_scalars",
        "Scalars of the first phase",
        "numbers inside messages until everybody was beyond a first phase",
        read=attrgetter("first_scalars"),
        summarised=True,
    ),
    Metric(
        "first_messages",
        "Messages of the first phase",
        "messages until everybody was beyond a first phase; two for each agent and round of questions",
        read=attrgetter("first_messages"),
        summarised=True,
    ),
    Metric("episodes", "Episodes", "episodes that clients have finished, all together", read=attrgetter("episodes")),
    Metric(
        "finished_reward",
        "Reward of episodes",
        "observed reward of finished episodes, all clients together",
        read=attrgetter("finished_reward"),
    ),
    Metric(
        "finished_regret",
        "Value regret of episodes",
        "pseudo-regret of finished episodes, all clients together, where the best values are known",
        read=attrgetter("finished_regret"),
    ),
    Metric(
        "recent_return",
        "Return",
        "what a client earned in an episode, in the mean over the last 50 of each",
        read=attrgetter("recent_return"),
        summarised=True,
        heading="Return",
        with_error=True,
    ),
    Metric(
        "bayes_regret",
        "Bayes regret",
        "what the best of all policies played so far lacks, in the mean over scalarisations of what clients earn",
        read=attrgetter("bayes_regret"),
        summarised=True,
        heading="Bayes regret",
        with_error=True,
    ),
    *(
        Metric(
            f"{side}_bound",
            f"{side.capitalize()} bound",
            f"what theory says of the regret from {'above' if side == 'upper' else 'below'}, on this very instance or, "
            "where arms change, on the worst of its size",
            read=_bound(side),
            summarised=True,
        )
        for side in BOUNDS
    ),
    Metric(
        "smallest_gap",
        "Smallest gap",
        "mean reward of the best arm less that of the next, where everybody is always shown the same arms",
        read=_smallest_gap,
    ),
    *(
        Metric(
            f"{way}_{unit}",
            f"{unit.capitalize()} {where.split(',')[0]}",
            f"{_SENT[unit]}, {where}",
            "B" if unit == "bytes" else "",
            read=_way(way, unit),
            summarised=unit != "signals",
        )
        for way, where in _WAYS.items()
        for unit in UNITS
    ),
    Metric("seconds", "Seconds", "time the run took, environment included", "s"),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _TABLE}
"""Every metric by its name."""
