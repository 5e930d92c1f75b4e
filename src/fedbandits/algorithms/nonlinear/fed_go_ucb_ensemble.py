"""Fed-GO-UCB as it does better: several networks, a kernel for what they leave out, and nothing thrown away."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.nonlinear.candidate_agents import CandidateAgents
from fedbandits.algorithms.nonlinear.fed_go_ucb import FedGOUCB
from fedbandits.algorithms.nonlinear.languages import Language, Prior
from fedbandits.algorithms.nonlinear.local_objective import alone, over_tallies
from fedbandits.algorithms.nonlinear.messages import by_candidates
from fedbandits.algorithms.nonlinear.server import Training
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.candidates import Belief
from fedbandits.models.kernels import SquaredExponential
from fedbandits.models.triggers import Trigger

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class FedGOUCBEnsemble(FedGOUCB):
    """Fed-GO-UCB on common candidates with `members` M networks and a squared-exponential kernel for what is left.

    Counts and sums for each candidate are what is said, and what was observed in phase I is kept. From it the server
    takes the mean and the standard deviation s of rewards, and trains M networks, each from a beginning of its own, on
    standardised rewards and on candidates scaled to [-1, 1] in each coordinate. Agents are told the networks and the
    two numbers, and believe of the candidates, before anything is observed and in units of s:

        mean (1/M) sum_m f_m,    covariance `share` (1/M) sum_m k_m + (1 - `share`) exp(-||x - y||^2 / (2 l^2 d)),

    k_m being <grad f_m, grad f_m>, divided by its mean over the candidates, and l the `lengthscale`. On this, pooled
    observations with a noise of variance `ridge`, they act by mean + sqrt(beta) standard deviations. With
    ``units="evidence"`` what one standard deviation is in rewards is estimated again, by its likelihood, from all that
    is pooled, and never below s: few of phase I's observations lie on a peak, and an s without them makes agents
    content with a smaller one; ``"first"`` leaves it at s.
    n (4c S + 2c + M p + 2) scalars for c candidates and S synchronisations: M networks cost M p numbers once.

    Guarantee: none proved.
    """

    oracle: Literal["langevin", "adam"] = "adam"
    rounds: Annotated[int, Field(ge=1)] = 300
    spread: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    ridge: _Positive = 0.01
    beta: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 36.0
    inner: Literal["linear"] = "linear"
    gradients: Literal["fixed"] = "fixed"
    messages: Literal["candidates"] = "candidates"
    keep: Literal[True] = True
    members: Annotated[int, Field(ge=1)] = 5
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    lengthscale: _Positive = 0.25
    units: Literal["evidence", "first"] = "evidence"

    about: ClassVar[About] = About(
        name="fed-go-ucb-ensemble",
        family="nonlinear",
        topology="star",
        talks="everybody, once to find models, then when an agent's observations times log-det growth exceed D",
        says=by_candidates(),
        guarantee="none proved",
        source="ours; beyond Li, Liu & Wang (ICLR 2024)",
        waits=True,
        environment="hartmann6",
    )

    def size(self, problem: Problem) -> int:
        """What agents are told: M networks, and the units of rewards."""
        return self.members * super().size(problem) + 2

    def training(self, problem: Problem, points: FloatArray, rng: Streams) -> Training:
        """See `FedGOUCB`."""
        model, scaled = self.differentiable(), _scaled(points)
        starts = [self.beginning(problem, rng, number) for number in range(self.members)]

        def trained(count: FloatArray, total: FloatArray, draws: Streams) -> FloatArray:
            mean, deviation = _units(count, total)
            objective = over_tallies(model, scaled, count, (total - count * mean) / deviation)
            found = [alone(self.trained(objective, start, draws)).theta for start in starts]
            return np.concatenate([*found, [mean, deviation]])

        return trained

    def second(self, problem: Problem, n: int, trigger: Trigger | None, language: Language) -> CandidateAgents:
        """See `NonLinearParameters`."""
        points = self._candidates(problem).table()
        model, scaled = self.differentiable(), _scaled(points)
        kernel = SquaredExponential((self.lengthscale * math.sqrt(problem.dim),) * problem.dim)
        residual = kernel.matrix(scaled, scaled)

        def prior(told: FloatArray) -> Prior:
            networks, mean, deviation = told[:-2].reshape(self.members, -1), told[-2], told[-1]
            values = np.mean([model.values(w, scaled) for w in networks], axis=0)
            tangent = np.mean([_normalised(model.gradients(w, scaled)) for w in networks], axis=0)
            spread = (self.share * tangent + (1 - self.share) * residual) / self.ridge
            belief = Belief(mean + deviation * values, spread)
            return Prior(belief, ridge=self.ridge, unit=float(deviation), adapts=self.units == "evidence")

        width = math.sqrt(self.beta * self.ridge)
        return CandidateAgents(
            points, n, self.size(problem), prior, language, width=width, trigger=trigger, keep=self.keep
        )


def _scaled(points: FloatArray) -> FloatArray:
    """(c, d) each coordinate mapped onto [-1, 1]; 0 where it never differs."""
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    return np.asarray(np.where(extent > 0, 2 * (points - low) / np.where(extent > 0, extent, 1.0) - 1, 0.0))


def _units(count: FloatArray, total: FloatArray) -> tuple[float, float]:
    """The mean of all rewards, and the standard deviation of the candidates' means; 1 where these do not differ."""
    seen = np.flatnonzero(count)
    mean = float(total.sum() / count.sum())
    variance = float((total[seen] ** 2 / count[seen]).sum() / count.sum()) - mean**2
    return mean, math.sqrt(variance) if variance > 1e-12 * mean**2 else 1.0


def _normalised(gradients: FloatArray) -> FloatArray:
    """(c, p) -> (c, c) inner products, divided by the mean of the squared lengths."""
    found = gradients @ gradients.T
    return np.asarray(found / np.mean(np.diagonal(found)))
