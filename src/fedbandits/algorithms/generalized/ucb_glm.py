"""UCB-GLM: the maximum-likelihood estimate refitted after every observation, by all together or by everyone alone."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.generalized.agents import BY_CURVATURES, CentredAgents
from fedbandits.algorithms.generalized.fedglb_ucb import newton_server
from fedbandits.algorithms.generalized.parameters import GLMParameters
from fedbandits.algorithms.generalized.scheduled import EVERY_TURN
from fedbandits.algorithms.generalized.servers import GlobalUpdateServer
from fedbandits.algorithms.generalized.widths import ucb_glm
from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, decided
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Questions
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels
from fedbandits.models.observations import Observations
from fedbandits.models.ridge import RidgeModels

_SOURCE = "Li, Lu & Zhou, ICML 2017"


@parameters
class UCBGLMParameters(GLMParameters):
    """argmax <theta, x> + alpha ||x||_{V^-1}, theta the ridge-penalised maximum-likelihood estimate,
    V = lambda I + sum x x^T, alpha = (R/c) sqrt((d/2) log(1 + 2T/d) + log(1/delta)).

    The ridge replaces the original's initial phase of random play. `iterations` bounds the Newton steps of a refit,
    which starts from the last estimate.
    """

    iterations: Annotated[int, Field(ge=1)] = 50

    def alpha(self, problem: Problem) -> float:
        """The width."""
        if self.width != "theory":
            return float(self.width)
        return self.scale * ucb_glm(self.constants(problem), problem.horizon)


@parameters
class OneUCBGLM(UCBGLMParameters):
    """UCB-GLM on everybody's observations, refitted after every step: the best a federation can hope for.

    After every step everybody uploads the gram matrix of what is new, all minimise together by Newton's method (loss,
    gradient and Hessian up, iterate down), and everybody downloads the result: at least 4n messages per step.

    Guarantee: that of UCB-GLM on all nT observations, O(d sqrt(nT) log(nT)), for i.i.d. contexts.
    """

    questions: ClassVar[Questions | None] = Questions("curvature")
    about: ClassVar[About] = About(
        name="one-ucb-glm",
        family="generalized",
        topology="star",
        talks="everybody optimises together after every step",
        says=BY_CURVATURES,
        calls="scheduled",
        guarantee="regret O(d sqrt(nT) log(nT)) of UCB-GLM on all observations",
        source=_SOURCE,
        waits=True,
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CentredAgents:
        """n agents that act on the common estimate."""
        alpha = self.alpha(problem)
        return CentredAgents(
            self.constants(problem),
            problem,
            n,
            EVERY_TURN,
            ridge=self.ridge,
            width=lambda count: np.full(len(count), alpha),
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> GlobalUpdateServer:
        """A server that refits by Newton's method."""
        return newton_server(self, problem, n, self.iterations)


@parameters
class NUCBGLM(UCBGLMParameters):
    """UCB-GLM by every agent alone, refitted after each of its observations by Newton's method.

    Guarantee: regret O(d sqrt(T) log T) for each agent, for i.i.d. contexts (theory width).
    """

    about: ClassVar[About] = About(
        name="n-ucb-glm",
        family="generalized",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(d sqrt(T) log T) per agent (theory width)",
        source=_SOURCE,
        environment="logistic",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> RefittingAgents:
        """n agents that refit alone."""
        return RefittingAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


class RefittingAgents(Population):
    """`models` keeps V^-1; its own regression is not used, `theta` (n, d) is the maximum-likelihood estimate."""

    keeps: ClassVar[tuple[str, ...]] = ("data", "models", "theta")

    def __init__(self, parameters: UCBGLMParameters, problem: Problem, n: int) -> None:
        super().__init__(n)
        self._link = parameters.constants(problem).link
        self._alpha = parameters.alpha(problem)
        self._iterations = parameters.iterations
        self.data = Observations(n, problem.dim, problem.horizon)
        self.models = RidgeModels(n, problem.dim, parameters.ridge)
        self.theta = np.zeros((n, problem.dim))

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`."""
        check_arms(who, arms, *self.theta.shape)
        width = np.full(len(who), self._alpha)
        return decided(
            who, kernels.pick_optimistic(self.models.inverse, self.theta, width, who, kernels.as_lanes(arms))
        )

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        check_arms(who, arms, *self.theta.shape)
        width = np.full(len(who), self._alpha)
        return kernels.scores_optimistic(self.models.inverse, self.theta, width, who, kernels.as_lanes(arms))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, and a refit."""
        check_feedback(who, arms, picks, rewards, *self.theta.shape)
        self.data.add(who, arms, picks, rewards)
        self.models.learn(who, arms, picks, rewards)
        self._refit(who)

    def _refit(self, who: IntArray) -> None:
        """Newton's method until the gradient certifies 1/m^2, halving an agent's step where its loss does not fall."""
        ridge, eye = self.models.ridge, np.eye(self.theta.shape[1])
        left = who
        value, gradient, hessian = self._objective(left, self.theta[left])
        step = np.ones(len(left))
        for _ in range(self._iterations):
            m = self.data.count[left]
            open_ = np.linalg.norm(gradient, axis=1) / m > np.sqrt(2 * ridge / m**3)
            left, value, gradient, hessian, step = (part[open_] for part in (left, value, gradient, hessian, step))
            if len(left) == 0:
                return
            direction = np.linalg.solve(hessian + ridge * eye, gradient[:, :, None])[:, :, 0]
            trial = self.theta[left] - step[:, None] * direction
            found = self._objective(left, trial)
            decrease = 1e-4 * step * np.einsum("wd,wd->w", gradient, direction)
            better = found[0] <= value - decrease + 1e-14 * np.maximum(np.abs(value), 1.0)
            self.theta[left[better]] = trial[better]
            value, gradient, hessian = (
                np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(found, (value, gradient, hessian), strict=True)
            )
            step = np.where(better, 1.0, step / 2)

    def _objective(self, who: IntArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """m times the objective (w,), its gradient (w, d), and the Hessian of its loss (w, d, d)."""
        loss, gradient, hessian = self.data.curvatures(self._link, who, theta, given=False)
        ridge = self.models.ridge
        return loss + ridge / 2 * (theta**2).sum(axis=1), gradient + ridge * theta, hessian
