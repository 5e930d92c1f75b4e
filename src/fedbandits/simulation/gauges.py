"""Gauges: what is measured while a run goes on, beside what the loop counts anyway.

A gauge yields one number after every step. Those of this module have an entry in the table of `metrics`; one of your
own is given to `simulate(..., gauges=[MyGauge])` and becomes a column of `Trace.frame` under its name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from fedbandits.contract.arrays import BoolArray, FloatArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.ledger import UNITS
from fedbandits.contract.population import Ellipsoids
from fedbandits.contract.state import Stateful
from fedbandits.contract.world import World
from fedbandits.simulation.metrics import METRICS

if TYPE_CHECKING:
    from fedbandits.simulation.loop import Simulation

_CHECKS = 100
"""How often in a run confidence ellipsoids are compared with the truth."""


class Gauge(Stateful):
    """Measures one run. `values` (T,) holds what was read after every step, NaN where nothing was yet."""

    keeps: ClassVar[tuple[str, ...]] = ("values",)
    name: ClassVar[str]
    steady: ClassVar[bool] = False
    """Whether it shows the same from one moment to the next at which somebody is heard or tended to
    (`Population.tend`), so that it need not be read in between."""
    of_episodes: ClassVar[bool] = False
    """Whether it reads what the run has noted of finished episodes, and nothing else: it then shows the same until the
    next one is over, and need not be read after every step."""

    def __init__(self, run: Simulation) -> None:
        self._run = run
        self.values = np.full(run.horizon, np.nan)

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """A gauge for `run`; None where it has nothing to measure there."""
        return cls(run)

    def take(self, step: int) -> None:
        """Read the gauge after `step`."""
        self.values[step] = self.read(step)

    def pass_over(self, first: int, end: int) -> None:
        """Steps `first` to `end` - 1, of which the first has one before it, were not looked at: one that is `steady`
        showed what it had shown before.
        """
        self.values[first:end] = self.values[first - 1]

    @abstractmethod
    def read(self, step: int) -> float:
        """What it shows after `step` (0-based), when everybody has learned and talked."""
        raise NotImplementedError


class Coverage(Gauge):
    """The share of agents whose confidence ellipsoid has contained the truth at every check so far."""

    keeps: ClassVar[tuple[str, ...]] = ("values", "covered")
    name: ClassVar[str] = "coverage"

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self._every = max(1, run.horizon // _CHECKS)
        self.covered = np.ones(len(run.agents), dtype=np.bool_)

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: agents need ellipsoids, and the world a parameter."""
        if run.world.parameters() is None or run.agents.ellipsoids() is None:
            return None
        return cls(run)

    def read(self, step: int) -> float:
        """See `Gauge`."""
        if (step + 1) % self._every == 0:
            told, theta = self._run.agents.ellipsoids(), self._run.world.parameters()
            assert told is not None
            assert theta is not None
            self.covered &= covers(told, theta)
        return float(self.covered.mean())


class Epsilon(Gauge):
    """The privacy spent so far by the agent that has spent most, infinite if what it does is not private."""

    name: ClassVar[str] = "epsilon"
    steady: ClassVar[bool] = True

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: agents have to claim privacy."""
        return None if run.agents.spent() is None else cls(run)

    def read(self, step: int) -> float:
        """See `Gauge`."""
        spent = self._run.agents.spent()
        assert spent is not None
        return float(spent.max())


class HonestRegret(Gauge):
    """The cumulative pseudo-regret per honest agent, in runs with an attack."""

    name: ClassVar[str] = "honest_regret"

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: there has to be an attack, of nobody perhaps."""
        return None if run.attack is None else cls(run)

    def read(self, step: int) -> float:
        """See `Gauge`."""
        return float(self._run.by_agent[self._run.honest].mean())


class _FirstPhase(Gauge):
    """Reads something up to the end of a first phase; `before` (n,) says who was in it when the last step began."""

    keeps: ClassVar[tuple[str, ...]] = ("values", "before", "held")

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        self.before = np.ones(len(run.agents), dtype=np.bool_)
        self.held = np.zeros(len(run.agents))

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: agents need a first phase."""
        return None if run.agents.preparing() is None else cls(run)

    def read(self, step: int) -> float:
        """See `Gauge`."""
        preparing = self._run.agents.preparing()
        assert preparing is not None
        self.hold()
        self.before[:] = preparing
        return float(self.held.sum())

    @abstractmethod
    def hold(self) -> None:
        """Note in `held` (n,) what goes to the account of the first phase, after a step that `before` took part in."""
        raise NotImplementedError


class FirstRegret(_FirstPhase):
    """The cumulative pseudo-regret of decisions in a first phase."""

    name: ClassVar[str] = "first_regret"

    def hold(self) -> None:
        """See `_FirstPhase`."""
        self.held[self.before] = self._run.by_agent[self.before]


class FirstScalars(_FirstPhase):
    """Scalars that were sent until everybody was beyond a first phase."""

    name: ClassVar[str] = "first_scalars"
    unit: ClassVar[str] = "scalars"

    def hold(self) -> None:
        """See `_FirstPhase`."""
        if self.before.any():
            self.held[0] = self._run.ledger.counts[:, UNITS.index(self.unit)].sum()


class FirstMessages(FirstScalars):
    """Messages that were sent until everybody was beyond a first phase."""

    name: ClassVar[str] = "first_messages"
    unit: ClassVar[str] = "messages"


class BayesRegret(Gauge):
    """What the best of all policies played so far lacks, in the mean over scalarisations; see `World.bayes_regret`."""

    name: ClassVar[str] = "bayes_regret"

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: the world has to be a game that it can solve."""
        return cls(run) if type(run.world).bayes_regret is not World.bayes_regret else None

    def read(self, step: int) -> float:
        """See `Gauge`: no number before the first episode is over."""
        found = self._run.world.bayes_regret()
        return np.nan if found is None else found


class _OfEpisodes(Gauge):
    """Reads what the run has noted of finished episodes; see `episodes`."""

    of_episodes: ClassVar[bool] = True

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: decisions have to come in episodes."""
        return None if run.episodes is None else cls(run)

    def __init__(self, run: Simulation) -> None:
        super().__init__(run)
        assert run.episodes is not None
        self._book = run.episodes


class FinishedEpisodes(_OfEpisodes):
    """How many episodes agents have finished, all together."""

    name: ClassVar[str] = "episodes"

    def read(self, step: int) -> float:
        """See `Gauge`."""
        return float(self._book.totals[0])


class FinishedReward(_OfEpisodes):
    """The observed reward of finished episodes."""

    name: ClassVar[str] = "finished_reward"

    def read(self, step: int) -> float:
        """See `Gauge`."""
        return float(self._book.totals[1])


class FinishedRegret(_OfEpisodes):
    """The pseudo-regret of finished episodes, where it is one of values."""

    name: ClassVar[str] = "finished_regret"

    @classmethod
    def on(cls, run: Simulation) -> Self | None:
        """See `Gauge`: the world has to know the best values."""
        return super().on(run) if run.world.value_regret else None

    def read(self, step: int) -> float:
        """See `Gauge`."""
        return float(self._book.totals[2])


class RecentReturn(_OfEpisodes):
    """What an agent earned in an episode, in the mean over the last 50 of each, or over those there were."""

    name: ClassVar[str] = "recent_return"
    _episodes: float = np.nan
    """How many were finished when it was last computed."""

    def read(self, step: int) -> float:
        """See `Gauge`: changes at the end of an episode."""
        before, self._episodes = self._episodes, float(self._book.totals[0])
        return float(self.values[step - 1]) if before == self._episodes else self._book.recent()


def check_gauges(gauges: Sequence[type[Gauge]]) -> None:
    """Refuse gauges of one name, or of a metric's that every run has: each is to be found under its own."""
    names = [kind.name for kind in gauges]
    for kind in gauges:
        if kind.name in METRICS and kind not in (Coverage, *STANDARD):
            raise ConfigError(f"gauges: {kind.name!r} is a metric of every run; give {kind.__name__} another name")
        if names.count(kind.name) > 1:
            raise ConfigError(f"gauges: two of them are called {kind.name!r}; give one of them another name")


STANDARD: tuple[type[Gauge], ...] = (
    Epsilon,
    HonestRegret,
    FirstRegret,
    FirstScalars,
    FirstMessages,
    BayesRegret,
    FinishedEpisodes,
    FinishedReward,
    FinishedRegret,
    RecentReturn,
)
"""Those that every run has in which there is something for them to measure."""


def covers(ellipsoids: Ellipsoids, theta: FloatArray) -> BoolArray:
    """(n,) whose ellipsoid contains its true parameter, `theta` (n, d) or (1, d)."""
    centre, matrix, width = ellipsoids
    gap = centre - theta
    return np.asarray(np.einsum("ni,nij,nj->n", gap, matrix, gap) <= width**2)
