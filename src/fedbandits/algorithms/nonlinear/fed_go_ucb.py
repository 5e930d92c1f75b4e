"""Fed-GO-UCB and One-GO-UCB: a model found by all together, and optimism in its tangent space."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.nonlinear.languages import InStatistics, InTallies
from fedbandits.algorithms.nonlinear.local_objective import alone, over_tallies
from fedbandits.algorithms.nonlinear.messages import by_candidates, by_statistics
from fedbandits.algorithms.nonlinear.parameters import NonLinearParameters
from fedbandits.algorithms.nonlinear.server import StatisticsServer, TallyServer, Training, TwoPhaseServer
from fedbandits.algorithms.nonlinear.two_phases import TwoPhaseAgents
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Candidates
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.differentiable import Sigmoid
from fedbandits.models.minimisers import Minimum
from fedbandits.models.objectives import Objective
from fedbandits.models.triggers import ALWAYS, Trigger, both

_SOURCE = "Li, Liu & Wang, Communication-Efficient Federated Non-Linear Bandit Optimization, ICLR 2024"


def _by_messages(one: FedGOUCB, about: About) -> About:
    if one.messages == "candidates":
        return dataclasses.replace(about, says=by_candidates())
    return dataclasses.replace(about, says=by_statistics(one.differentiable(), moving=one.gradients == "moving"))


@parameters
class FedGOUCB(NonLinearParameters):
    """Federated global optimisation with any differentiable model (Li, Liu & Wang, ICLR 2024).

    Phase I ends when all agents have made their share of T_0 observations. Then, `rounds` times, w goes down and
    everybody's sum of gradients over its share comes up, and at last w_0 goes down: 2 J n p scalars for J rounds, since
    the point where all begin is drawn by everybody alike.

    Phase II (`NonLinearParameters`): after t_i own observations since the last synchronisation an agent calls when

        t_i [log det V_i - log det V_syn] > gamma,

    `threshold` being gamma. Then everybody uploads its new sums of g g^T and (y - f) g and downloads the pool's:
    2n (p^2 + p) scalars. With ``messages="candidates"``, for candidates that all agents have in common, counts and sums
    of rewards are told instead, two numbers for each candidate, w_0 is found by the server from those of phase I, and
    all choices are the same up to rounding: n (4c S + 2c + p) scalars for c candidates and S synchronisations.

    Phase I begins when the share `quorum` of all agents has called; those who come later are told its result.

    Guarantee: for models that fulfil the publication's assumptions (bounded, smooth, and identifiable near the optimum)
    and its constants, which are not known in practice, regret O(sqrt(nT)) with O(n^1.5 sqrt(T) + n^1.5) scalars, up to
    logarithms. For networks, and for the constants here, none.
    """

    threshold: Annotated[float, Field(ge=0)] = 1.0
    messages: Literal["statistics", "candidates"] = "statistics"
    quorum: Annotated[float, Field(gt=0, le=1)] = 1.0

    about: ClassVar[About] = depending(
        About(
            name="fed-go-ucb",
            family="nonlinear",
            topology="star",
            talks="everybody, once to find a model, then when an agent's observations times log-det growth exceed D",
            says=by_statistics(Sigmoid(), moving=False),
            guarantee="regret O(sqrt(nT)) under assumptions that networks need not fulfil",
            source=_SOURCE,
            waits=True,
            environment="hartmann6",
        ),
        _by_messages,
    )

    def __post_init__(self) -> None:
        if self.messages == "candidates" and (self.inner, self.gradients) != ("linear", "fixed"):
            raise ConfigError(
                f"messages='candidates' needs inner='linear' and gradients='fixed' (got {self.inner!r} and "
                f"{self.gradients!r}): others need the model's own statistics"
            )

    def sizes(self, problem: Problem) -> dict[str, int]:
        """Lengths of what crosses the wire: parameters p, and candidates c where these are told."""
        found = {"p": self.size(problem)}
        return found | {"c": len(self._candidates(problem).points)} if self.messages == "candidates" else found

    def quotas(self, problem: Problem) -> IntArray:
        """(n,) how many arms each agent tries in phase I."""
        n = problem.agents
        total = math.ceil(math.sqrt(n * problem.horizon)) if self.explore == "theory" else self.explore
        return np.asarray(total // n + (np.arange(n) < total % n))

    def trigger(self) -> Trigger:
        """Who calls in phase II."""
        return Trigger(both, self.threshold, strict=True)

    def agents(self, problem: Problem, n: int, rng: Streams) -> TwoPhaseAgents:
        """n agents."""
        tallied = self.messages == "candidates"
        if tallied:
            self._candidates(problem)
        second = self.second(problem, n, self.trigger(), InTallies() if tallied else InStatistics())
        quotas = self.quotas(problem)
        start = self.beginning(problem, rng)
        return TwoPhaseAgents(
            self.differentiable(), problem, quotas, rng, second, start, keep=self.keep, tallied=tallied
        )

    def server(self, problem: Problem, n: int, rng: Streams) -> TwoPhaseServer:
        """A server that finds a model, and then pools."""
        size, quota, start = self.size(problem), self.quotas(problem), self.beginning(problem, rng)

        def oracle(objective: Objective, draws: Streams) -> Generator[Message, Message, Minimum]:
            return self.trained(objective, start, draws)

        if self.messages == "statistics":
            return StatisticsServer(n, size, rng, oracle, quota, quorum=self.quorum, keep=self.keep)
        points = self._candidates(problem).table()
        training = self.training(problem, points, rng)
        return TallyServer(n, size, rng, training, len(points), quorum=self.quorum, keep=self.keep)

    def training(self, problem: Problem, points: FloatArray, rng: Streams) -> Training:
        """How the server makes a model of what was observed of `points` (c, d)."""
        model, start = self.differentiable(), self.beginning(problem, rng)

        def trained(count: FloatArray, total: FloatArray, draws: Streams) -> FloatArray:
            return alone(self.trained(over_tallies(model, points, count, total), start, draws)).theta

        return trained

    def _candidates(self, problem: Problem) -> Candidates:
        return problem.need(Candidates, by=self.about)


@parameters
class OneGOUCB(FedGOUCB):
    """Fed-GO-UCB with gamma = 0: everybody synchronises after every observation, as if there were one agent.

    What it costs as statistics, 2n (p^2 + p) scalars for each observation, is what is counted here; n (d + 1) would do
    if raw observations were sent.

    Guarantee: that of GO-UCB (Liu & Wang, 2023) on all observations, under the same assumptions.
    """

    threshold: Annotated[float, Field(ge=0, le=0)] = 0.0

    about: ClassVar[About] = depending(
        About(
            name="one-go-ucb",
            family="nonlinear",
            topology="star",
            talks="everybody, once to find a model and then after every observation",
            says=by_statistics(Sigmoid(), moving=False),
            calls="scheduled",
            guarantee="regret O(sqrt(nT)) under assumptions that networks need not fulfil",
            source=_SOURCE,
            waits=True,
            environment="hartmann6",
        ),
        _by_messages,
    )

    def trigger(self) -> Trigger:
        """Whoever has observed something."""
        return ALWAYS
