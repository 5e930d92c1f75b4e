"""What agents without a server release of themselves: sums that are told as a whole, again and again, with noise."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fedbandits.channel.clipping import clipped
from fedbandits.channel.gaussian import Gaussian
from fedbandits.channel.sensitivity import noisy_fields, scattered
from fedbandits.channel.stage import Observed
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance
from fedbandits.models.statistics import Statistics
from fedbandits.privacy.gaussian import gaussian_epsilon
from fedbandits.privacy.prefix_sums import NoiseSteps


class Sums(Stateful):
    """For each row, an agent's phase: `fresh`, clean sums that were not released yet, and `released`, those that were,
    as they were. Rows of one agent follow each other, `phases` for each.
    """

    keeps: ClassVar[tuple[str, ...]] = ("fresh", "released")

    def __init__(self, rows: int, dim: int, phases: int) -> None:
        self.fresh, self.released = Statistics(rows, dim), Statistics(rows, dim)
        self._phases = phases

    def observed(self, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """What is learned in place of an observation."""
        return arms, picks, rewards

    def observe(self, rows: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation, as `observed` has it, for each of `rows`."""
        self.fresh.observe(rows, arms, picks, rewards)

    def release(self, rows: IntArray, rng: Streams) -> None:
        """What is new in `rows`, each of another agent, belongs to what was released."""
        self.released.merge(rows, *(array[rows] for array in self.fresh))
        self.fresh.clear(rows)

    def protection(self) -> Protection | None:
        """What is protected: nothing."""
        return None


class Privatizer(Sums):
    """Sums whose releases keep the budget of `stage` in `problem`, which is that of one phase (Dubey 2022, algorithm
    11): to the k-th release of a row the mechanism for prefix sums adds the k-th row of its noise.

    An observation is in one phase, so that the releases of an agent's phases compose in parallel: each has the whole
    budget. All that an agent contributes is in all of them: where agents are protected, noise is sqrt(phases) times
    what one phase needs. `leaks`: whether the moments of releases depend on data.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Sums.keeps, "steps")

    def __init__(
        self, stage: Gaussian, told: Utterance, problem: Problem, rows: int, phases: int, *, leaks: bool
    ) -> None:
        super().__init__(rows, problem.dim, phases)
        self._stage = stage
        self._problem = problem
        self._leaks = leaks
        self._fields = noisy_fields(told, "total", problem, {"d": problem.dim})
        sums = stage.sums(problem)
        self._size = sum(field.size for field in self._fields)
        self._deviation = spread_over(stage, phases) * stage.noise(problem, self._fields)
        mus = stage.sensitivities(problem, self._fields) / self._deviation
        self._mus = np.concatenate([[0.0], mus])
        """(m+1,) what k releases of one row amount to, as a Gaussian mechanism."""
        self.steps = NoiseSteps(sums, rows, self._size)

    def observed(self, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """The observation, cut down to the bounds that noise is made for."""
        return clipped(self._problem, arms, picks, rewards)

    def release(self, rows: IntArray, rng: Streams) -> None:
        """What is new in `rows`, and the noise of one more release less that of the one before, belong to what was
        released. Nobody may have made all of them.
        """
        if len(rows) == 0:
            return
        normals = self._deviation * rng.secret.normal(rows // self._phases, self._size)
        noise = scattered(self._fields, self.steps.step(rows, normals))
        fresh = self.fresh
        share = self._share_of(rows)
        gram = fresh.gram[rows] * share[:, None, None] + noise["gram"]
        moment = fresh.moment[rows] * share[:, None] + noise["moment"]
        self.released.merge(rows, gram, moment, fresh.count[rows])
        fresh.clear(rows)

    def protection(self) -> Protection:
        """See `Population`; releases are those of all phases together."""
        stage, made = self._stage, self.steps.made.reshape(-1, self._phases)
        each = self._mus[made]
        mus = np.sqrt((each**2).sum(axis=1)) if stage.unit == "agent" else each.max(axis=1)
        epsilons = {mu: gaussian_epsilon(mu, stage.delta) for mu in np.unique(mus).tolist()}
        spent = np.array([epsilons[mu] for mu in mus.tolist()])
        allowed = self._phases * stage.sums(self._problem).uploads
        return stage.protection(made.sum(axis=1), allowed, spent, stage.weight(self._fields), leaks=self._leaks)

    def _share_of(self, rows: IntArray) -> FloatArray:
        """(w,) the share of what is new that is released: all of it, unless agents are protected as a whole."""
        if self._stage.unit != "agent":
            return np.ones(len(rows))
        fresh = self.fresh.rows(rows, counted=False)
        squares = np.sum([field.weight(fresh[field.name]) for field in self._fields], axis=0)
        return np.asarray(np.minimum(1.0, self._stage.heaviest(self._fields) / np.sqrt(np.maximum(squares, 1e-300))))


def spread_over(stage: Gaussian, phases: int) -> float:
    """How many times the noise of one phase there is where an agent has several; see `Privatizer`."""
    return math.sqrt(phases) if stage.unit == "agent" else 1.0
