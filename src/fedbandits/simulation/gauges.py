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
from fedbandits.contract.population import Ellipsoids
from fedbandits.contract.state import Stateful
from fedbandits.simulation.metrics import METRICS

if TYPE_CHECKING:
    from fedbandits.simulation.loop import Simulation

_CHECKS = 100
"""How often in a run confidence ellipsoids are compared with the truth."""


class Gauge(Stateful):
    """Measures one run. `values` (T,) holds what was read after every step, NaN where nothing was yet."""

    keeps: ClassVar[tuple[str, ...]] = ("values",)
    name: ClassVar[str]

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


def check_gauges(gauges: Sequence[type[Gauge]]) -> None:
    """Refuse gauges of one name, or of a metric's that every run has: each is to be found under its own."""
    names = [kind.name for kind in gauges]
    for kind in gauges:
        if kind.name in METRICS and kind not in (Coverage, Epsilon, HonestRegret):
            raise ConfigError(f"gauges: {kind.name!r} is a metric of every run; give {kind.__name__} another name")
        if names.count(kind.name) > 1:
            raise ConfigError(f"gauges: two of them are called {kind.name!r}; give one of them another name")


def covers(ellipsoids: Ellipsoids, theta: FloatArray) -> BoolArray:
    """(n,) whose ellipsoid contains its true parameter, `theta` (n, d) or (1, d)."""
    centre, matrix, width = ellipsoids
    gap = centre - theta
    return np.asarray(np.einsum("ni,nij,nj->n", gap, matrix, gap) <= width**2)
