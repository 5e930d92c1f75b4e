"""What a simulation leaves behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.ledger import UNITS
from fedbandits.contract.protection import Protection
from fedbandits.simulation.metrics import BOUNDS, METRICS


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """What went one way, cumulative over steps: each (T,)."""

    messages: IntArray
    signals: IntArray
    scalars: IntArray
    bytes: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Privacy:
    """What has been spent: each agent's messages are (`epsilon` (n,), `delta`)-differentially private so far."""

    epsilon: FloatArray
    """By the strict definition: infinite where what an agent does is not private after all."""
    delta: float
    protection: Protection | None = None
    """The budget that was set, what it means and what is used of it; None where there was none."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One run. Arrays (T,) are cumulative and summed over agents; entry t is the state after step t + 1."""

    regret: FloatArray
    """(T,) pseudo-regret: mean reward of the best shown arm minus that of the chosen one; no noise in it."""
    reward: FloatArray
    """(T,) observed reward."""
    chance: FloatArray
    """(T,) expected reward of uniformly random choices among the same arms."""
    regret_by_client: FloatArray
    """(n,) pseudo-regret of each agent at the end."""
    decisions: IntArray
    """(T,) decisions taken."""
    syncs: IntArray
    """(T,) synchronisations; see `ledger` for what counts as one."""
    counts: IntArray
    """(T, 3, 4) messages, signals, scalars and bytes, going up, down and between peers."""
    seconds: float
    """Wall-clock time of the run, environment included."""
    gauges: Mapping[str, FloatArray] = field(default_factory=dict)
    """What gauges have shown, each (T,), by name; see `gauges`."""
    portrait: State = field(default_factory=dict)
    """What server or agents can show of what they have found out, beside the truth; see `portrait`."""
    privacy: Privacy | None = None
    """The privacy that each agent has spent at the end; None if no private algorithm ran."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """What theory says of the group regret at the horizon: "upper", "lower", both or neither; see `contract.Bounds`. On
    this very instance where its arms stay the same, else on the worst of its size. An upper bound that is infinite
    and a lower one of zero say nothing, and are no numbers in `frame`."""
    smallest_gap: float = math.nan
    """Mean reward of the best arm less that of the next, where everybody is always shown the same arms; else NaN. How
    hard the instance is."""

    def __post_init__(self) -> None:
        if unknown := self.bounds.keys() - set(BOUNDS):
            raise ValueError(f"bounds: {', '.join(sorted(unknown))} is none of {', '.join(BOUNDS)}")

    @property
    def coverage(self) -> FloatArray:
        """(T,) share of agents whose confidence ellipsoid contained the truth at every check so far; NaN if unasked."""
        return self._gauge("coverage")

    @property
    def epsilon(self) -> FloatArray:
        """(T,) privacy spent so far by the agent that has spent most, infinite if what it does is not private; NaN if
        no private algorithm ran.
        """
        return self._gauge("epsilon")

    @property
    def honest_regret(self) -> FloatArray:
        """(T,) pseudo-regret per honest agent, in runs with an attack; NaN in others."""
        return self._gauge("honest_regret")

    @property
    def first_regret(self) -> FloatArray:
        """(T,) pseudo-regret of decisions in a first phase, of algorithms that have one; NaN with others."""
        return self._gauge("first_regret")

    @property
    def first_scalars(self) -> FloatArray:
        """(T,) scalars sent until everybody was beyond a first phase; NaN with algorithms that have none."""
        return self._gauge("first_scalars")

    @property
    def first_messages(self) -> FloatArray:
        """(T,) messages sent until then."""
        return self._gauge("first_messages")

    @property
    def later_regret(self) -> FloatArray:
        """(T,) pseudo-regret of decisions beyond a first phase; all of it with algorithms that have none."""
        return np.asarray(self.regret - np.nan_to_num(self.first_regret))

    @property
    def bayes_regret(self) -> FloatArray:
        """(T,) what the best of all policies played so far lacks, in the mean over scalarisations; NaN where no world
        can tell.
        """
        return self._gauge("bayes_regret")

    @property
    def recent_return(self) -> FloatArray:
        """(T,) what an agent earned in an episode, in the mean over the last 50 of each agent; NaN where there are no
        episodes, and before one was finished.
        """
        return self._gauge("recent_return")

    @property
    def episodes(self) -> FloatArray:
        """(T,) episodes that agents have finished; NaN where decisions do not come in episodes."""
        return self._gauge("episodes")

    @property
    def finished_reward(self) -> FloatArray:
        """(T,) observed reward of finished episodes; NaN where there are none."""
        return self._gauge("finished_reward")

    @property
    def finished_regret(self) -> FloatArray:
        """(T,) pseudo-regret of finished episodes; NaN where the best values are not known."""
        return self._gauge("finished_regret")

    @property
    def uplink(self) -> Flow:
        """From agents to the server."""
        return self._flow(0)

    @property
    def downlink(self) -> Flow:
        """From the server to agents."""
        return self._flow(1)

    @property
    def peerlink(self) -> Flow:
        """From agent to agent, counted per link crossed."""
        return self._flow(2)

    @property
    def messages(self) -> IntArray:
        """(T,) messages, all ways."""
        return self._total("messages")

    @property
    def scalars(self) -> IntArray:
        """(T,) scalars, all ways."""
        return self._total("scalars")

    @property
    def bytes(self) -> IntArray:
        """(T,) bytes, all ways."""
        return self._total("bytes")

    @property
    def normalised_reward(self) -> FloatArray:
        """(T,) observed reward divided by that of uniformly random choices: 1 is chance.

        For rewards such as clicks; where chance earns about nothing, as in `linear`, it says nothing.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.reward / self.chance)

    @property
    def decisions_per_second(self) -> float:
        """Decisions per second of wall-clock time."""
        return float(self.decisions[-1] / self.seconds) if self.seconds > 0 else float("nan")

    def frame(self, points: int | None = None) -> pd.DataFrame:
        """One row per step, or for `points` evenly spaced steps that include the last one: `step` and all metrics."""
        if points is not None and points < 1:
            raise ValueError(f"points: must be at least 1 (got {points})")
        horizon = len(self.regret)
        steps = np.arange(1, horizon + 1)
        if points is not None and points < horizon:
            steps = np.unique(np.round(np.linspace(horizon / points, horizon, points)).astype(int))
        columns: dict[str, FloatArray | IntArray] = {"step": steps}
        for metric in METRICS.values():
            if metric.read is not None:
                values = metric.read(self)
                columns[metric.name] = values[steps - 1] if len(values) else np.full(len(steps), np.nan)
        own = {name: values[steps - 1] for name, values in self.gauges.items() if name not in METRICS}
        return pd.DataFrame(columns | own)

    def _gauge(self, name: str) -> FloatArray:
        return self.gauges.get(name, np.full(len(self.regret), np.nan))

    def _flow(self, way: int) -> Flow:
        return Flow(*np.moveaxis(self.counts[:, way], -1, 0))

    def _total(self, unit: str) -> IntArray:
        return np.asarray(self.counts[:, :, UNITS.index(unit)].sum(axis=1))


def completed(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame`, kept by this or an earlier version, with the columns of all metrics: NaN where one was not known yet."""
    kept = (metric.name for metric in METRICS.values() if metric.read is not None)
    return frame.assign(**{name: np.nan for name in kept if name not in frame})
