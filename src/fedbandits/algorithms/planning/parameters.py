"""What planners have in common: ridge, bonus and confidence."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.planning.planners import Planners
from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Episodes, Fact, Perturbation, Range, Ridge
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.features import Features, Identity
from fedbandits.models.stage_models import StageModels
from fedbandits.models.transitions import Transitions
from fedbandits.models.triggers import Trigger


@parameters
class PlanningParameters:
    """Hyper-parameters of optimistic least-squares value iteration: ridge lambda, bonus beta and confidence delta.

    Values of stage h lie below c_h = (H - h) R, R being the largest reward there is (the fact `Range`; 1 if nobody
    tells). `width` ``"theory"`` is beta = c_beta d H R sqrt(log(2 d M H T / delta)), T being the episodes of a run and
    `scale` the absolute constant c_beta of which theory says that it exists; a number is beta itself. With `deviation`
    xi, for agents whose problems are xi apart, theory adds c_beta d H R xi sqrt(d M T).
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = "theory"
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    deviation: Annotated[float, Field(ge=0, le=1)] = 0.0

    about: ClassVar[About]

    def beta(self, problem: Problem) -> float:
        """The bonus."""
        if self.width != "theory":
            return float(self.width)
        length, d, agents = self.length(problem), self.size(problem), problem.agents
        episodes = math.ceil(problem.horizon / length)
        spread = math.sqrt(math.log(2 * d * agents * length * episodes / self.delta))
        spread += self.deviation * math.sqrt(d * agents * episodes)
        return self.scale * d * length * _size(problem) * spread

    def most(self, problem: Problem) -> FloatArray:
        """(H,) the largest value of every stage."""
        length, known = self.length(problem), problem.get(Range)
        best = 1.0 if known is None else max(known.high, 0.0)
        return best * (length - np.arange(length, dtype=np.float64))

    def least(self, problem: Problem) -> FloatArray:
        """(H,) the smallest value of every stage: what noise may not lead below, since sums have a known sensitivity
        only where values are bounded. No bound where there is none, as in the text.
        """
        length, known = self.length(problem), problem.get(Range)
        if problem.get(Perturbation) is None:
            return np.full(length, -np.inf)
        worst = 0.0 if known is None else min(known.low, 0.0)
        return worst * (length - np.arange(length, dtype=np.float64))

    def length(self, problem: Problem) -> int:
        """H."""
        return problem.need(Episodes, by=self.about).length

    def size(self, problem: Problem) -> int:
        """The dimension d of what regressions see of an arm."""
        return problem.dim

    def features(self, problem: Problem, rng: Streams) -> Features:
        """What regressions of the agents of `rng` see of an arm."""
        return Identity(problem.dim)

    def planners(self, problem: Problem, n: int, rng: Streams, trigger: Trigger | None = None) -> Planners:
        """n agents that plan with all they know, and call when `trigger` fires."""
        own, pool = self.history(problem, n, 2), self.history(problem, n)
        models, features = self.models(problem, n), self.features(problem, rng)
        return Planners(features, own, pool, models, self.beta(problem), self.most(problem), trigger)

    def models(self, problem: Problem, n: int) -> StageModels:
        """Regressions of n agents that know nothing yet."""
        return StageModels(n, self.length(problem), self.size(problem), self.ridge)

    def history(self, problem: Problem, n: int, parts: int = 1) -> Transitions:
        """Histories of n agents in which nothing has happened yet."""
        return Transitions(n, self.size(problem), self.length(problem), parts, problem.arms)

    def assumes(self, problem: Problem) -> tuple[Fact, ...]:
        """What bounds of messages may rest on."""
        return (Ridge(self.ridge),)


def _size(problem: Problem) -> float:
    known = problem.get(Range)
    return 1.0 if known is None else known.largest
