"""How agents whose model is linear in features explore: by optimism, by a draw of the model, or by gaps.

All three rest on a ridge regression with V = sum z z^T + lambda I and estimate h:

- ``"ucb"``: argmax <h, z> + width ||z||_{V^-1};
- ``"thompson"``: argmax <h~, z> for one draw h~ ~ N(h, width^2 V^-1);
- ``"inverse-gap"``: arm k with probability 1 / (K + gamma (best - <h, z_k>)), and the best one with what is left
  (Foster & Rakhlin, ICML 2020), gamma = focus m^0.75 for m observations: propensities are known and never 0.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray, check_arms
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels
from fedbandits.models.features.features import Features
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.winning import winning_jointly

Exploration = Literal["ucb", "thompson", "inverse-gap"]

_POWER = 0.75
"""How gamma grows with the number of observations. Theory's 1/2 explores far too much: see `NeuralLinear`."""


class ExploringAgents(OptimisticAgents):
    """Agents that explore as `explore` says, with a constant `width`, and `focus` for gaps."""

    keeps: ClassVar[tuple[str, ...]] = (*OptimisticAgents.keeps, "rng")

    def __init__(
        self,
        models: RidgeModels,
        features: Features,
        rng: Streams,
        *,
        explore: Exploration,
        width: float,
        focus: float,
    ) -> None:
        super().__init__(models, lambda logdet, count: np.full(len(count), width), features=features)
        self.rng = rng
        self._explore = explore
        self._focus = focus

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """An arm for each agent in `who`, chosen or drawn."""
        if self._explore == "ucb":
            return super().choose(who, arms)
        check_arms(who, arms, self._n, self.features.dim)
        lanes = kernels.as_lanes(self.features.of(who, arms))  # refuses what is not finite before streams move on
        if self._explore == "thompson":
            normals = self.rng.normal(who, self.models.dim)
            theta, inverse = self.models.theta, self.models.inverse
            drawn = kernels.sample_gaussian(theta, inverse, who, self._deviation(), normals)
            return kernels.pick_greedy(drawn, lanes)
        steps = self._by_gaps(who, lanes).cumsum(axis=1)
        drawn = self.rng.uniform(who)[:, None] * steps[:, -1:]
        return np.asarray((steps <= drawn).sum(axis=1))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; None where agents draw."""
        return super().scores(who, arms) if self._explore == "ucb" else None

    def chances(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """With which probability each arm is drawn: by gaps exactly, by draws of the model to two digits."""
        if self._explore == "ucb":
            return None
        check_arms(who, arms, self._n, self.features.dim)
        shown = self.features.of(who, arms)
        if self._explore == "inverse-gap":
            return self._by_gaps(who, kernels.as_lanes(shown))
        models, found = self.models, np.empty(arms.shape[:2])
        for row, agent in enumerate(who):
            factor = self._deviation() * np.linalg.cholesky(models.inverse[agent])
            found[row] = winning_jointly(shown[row] @ models.theta[agent], shown[row] @ factor)
        return found

    def _deviation(self) -> float:
        return float(self.width(np.zeros(1, dtype=np.int64))[0])

    def _by_gaps(self, who: IntArray, lanes: FloatArray) -> FloatArray:
        """(w, K) the chances that gaps leave."""
        models = self.models
        means = kernels.scores_optimistic(models.inverse, models.theta, np.zeros(len(who)), who, lanes)
        count = models.base.count[who] + models.fresh.count[who]
        gaps = means.max(axis=1, keepdims=True) - means
        found = 1 / (means.shape[1] + self._focus * count[:, None] ** _POWER * gaps)
        rows, best = np.arange(len(who)), means.argmax(axis=1)
        found[rows, best] = 0.0
        found[rows, best] = 1 - found.sum(axis=1)
        return np.asarray(found)
