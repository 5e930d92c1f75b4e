"""UCB-GLM: the maximum-likelihood estimate refitted after every observation, by all together or by everyone alone."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

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
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.facts import Questions
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg import kernels
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.models.observations import BLOCK, Observations, RawArrays, curvature_one, keep_one
from fedbandits.models.ridge import RidgeArrays, RidgeModels, learn_one

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
        _refit(self._refitting(), who)

    def compiled(self) -> Any:
        """See `Population`."""
        known = untouched(self, RefittingAgents, "choose", "learn", "calling")
        return self._refitting() if known and not self.data.full else None

    def tend(self) -> None:
        """See `Population`."""
        self.models.refresh()

    def _refitting(self) -> Refitting:
        models, data = self.models, self.data.arrays()
        return Refitting(
            models.arrays(), data, self.theta, self._alpha, self._link.code, models.ridge, self._iterations
        )


class Refitting(NamedTuple):
    """`RefittingAgents` for compiled loops."""

    models: RidgeArrays
    raw: RawArrays
    theta: FloatArray
    alpha: float
    link: int
    ridge: float
    iterations: int


@stands_for(choose, Refitting)
@jit_inside
def _choose(agents: Refitting, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    return kernels.pick_one(agents.models.inverse, agents.theta, i, agents.alpha, arms, row, room)


@stands_for(learn, Refitting)
@jit_inside
def _learn(agents: Refitting, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    full = keep_one(agents.raw, i, arms, row, pick, reward)
    due = learn_one(agents.models, i, arms, row, pick, reward, room)
    refit_one(agents, i)
    return due or full


@stands_for(calls, Refitting)
@jit_inside
def _calls(agents: Refitting, i: int) -> bool:
    return False


@jit
def _refit(agents: Refitting, who: IntArray) -> None:
    for a in range(len(who)):
        refit_one(agents, who[a])


@jit_part
def refit_one(agents: Refitting, i: int) -> None:
    """Newton's method until the gradient certifies 1/m^2, halving agent i's step where its loss does not fall."""
    d, m = agents.theta.shape[1], float(agents.raw.kept[i])
    theta, trial, direction, room = agents.theta[i], np.empty(d), np.empty(d), np.empty((3, BLOCK))
    gradient, hessian, new_gradient, new_hessian = np.empty(d), np.empty((d, d)), np.empty(d), np.empty((d, d))
    value = _objective(agents, i, theta, gradient, hessian, room)
    step = 1.0
    for _ in range(agents.iterations):
        if not _norm(gradient) / m > math.sqrt(2.0 * agents.ridge / m**3):
            return
        if not kernels.solved_one(hessian, agents.ridge, gradient, direction):
            return
        _move(theta, -step, direction, trial)
        found = _objective(agents, i, trial, new_gradient, new_hessian, room)
        decrease = 1e-4 * step * _along(gradient, direction)
        if found <= value - decrease + 1e-14 * max(abs(value), 1.0):
            theta[:] = trial
            value, step = found, 1.0
            gradient, new_gradient = new_gradient, gradient
            hessian, new_hessian = new_hessian, hessian
        else:
            step /= 2.0


@jit_part
def _objective(
    agents: Refitting, i: int, theta: FloatArray, gradient: FloatArray, hessian: FloatArray, room: FloatArray
) -> float:
    """m times the objective; its gradient (d,) and the Hessian of its loss (d, d) are written."""
    gradient[:], hessian[:] = 0.0, 0.0
    raw = agents.raw
    loss = curvature_one(agents.link, raw.arms[i], raw.rewards[i], raw.kept[i], theta, gradient, hessian, room)
    _move(gradient, agents.ridge, theta, gradient)
    return loss + agents.ridge / 2 * _along(theta, theta)


@jit_part
def _along(one: FloatArray, other: FloatArray) -> float:
    found = 0.0
    for j in range(len(one)):
        found += one[j] * other[j]
    return found


@jit_part
def _norm(one: FloatArray) -> float:
    return math.sqrt(_along(one, one))


@jit_part
def _move(start: FloatArray, step: float, direction: FloatArray, out: FloatArray) -> None:
    for j in range(len(start)):
        out[j] = start[j] + step * direction[j]
