"""N-GO-UCB: every agent finds a model of its own, and acts on it alone."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.nonlinear.languages import InStatistics
from fedbandits.algorithms.nonlinear.local_objective import LocalObjective, alone
from fedbandits.algorithms.nonlinear.parameters import NonLinearParameters
from fedbandits.algorithms.nonlinear.two_phases import TwoPhaseAgents
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams


@parameters
class NGOUCB(NonLinearParameters):
    """GO-UCB (Liu & Wang, 2023) by every agent alone: as Fed-GO-UCB for one agent, `explore` being what each of them
    tries at random, and sqrt(T) by theory. ``gradients="moving"`` is the single-agent algorithm as it is cited; the
    default has what Fed-GO-UCB has, so that the two differ by what is said alone.

    Guarantee: regret O(sqrt(T)) for each agent, under assumptions that networks need not fulfil.
    """

    explore: Annotated[int, Field(ge=1)] | Literal["theory"] = "theory"

    about: ClassVar[About] = About(
        name="n-go-ucb",
        family="nonlinear",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sqrt(T)) per agent under assumptions that networks need not fulfil",
        source="Liu & Wang, Global Optimization with Parametric Function Approximation, ICML 2023",
        environment="hartmann6",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> LoneAgents:
        """n agents, each of whom trains a model."""
        return LoneAgents(self, problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""


class LoneAgents(TwoPhaseAgents):
    """Agents that find w_0 by themselves as soon as they have observed enough."""

    def __init__(self, parameters: NGOUCB, problem: Problem, n: int, rng: Streams) -> None:
        most = math.ceil(math.sqrt(problem.horizon)) if parameters.explore == "theory" else parameters.explore
        super().__init__(
            parameters.differentiable(),
            problem,
            np.full(problem.agents, most),
            rng,
            parameters.second(problem, n, None, InStatistics()),
            parameters.beginning(problem, rng),
            keep=parameters.keep,
        )
        self._parameters = parameters

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, and a model for those who have observed enough."""
        super().learn(who, arms, picks, rewards)
        for agent in who[~self.started[who] & (self.seen[who] >= self._quota[who])]:
            one = np.array([agent])
            objective = LocalObjective(partial(self._slope, one))
            training = self._parameters.trained(objective, self._beginning, self.rng, one)
            self.begin(one, alone(training).theta[None])

    def _slope(self, one: IntArray, w: FloatArray) -> FloatArray:
        """(p,) the gradient of the mean of (y - f)^2 over what an agent has observed."""
        count = self.data.count[one]
        return np.asarray(2 * self._model.slopes(w[None], self.data, one, count)[0] / count[0])

    def calling(self) -> BoolArray:
        """Nobody: there is no server."""
        return Population.calling(self)

    def urgency(self) -> FloatArray | None:
        """None: there is no server."""
        return None
