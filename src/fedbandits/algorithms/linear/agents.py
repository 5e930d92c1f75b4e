"""What the agents of the linear family have in common: optimism, statistics, and how they travel."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, decided
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.contract.wire import Field as WireField
from fedbandits.contract.wire import Utterance, WireError, matrix, vector
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.width import Width, widths

COLLECT = Utterance("collect", "down")
"""The server's signal: send me what is new."""

_STATISTICS = (matrix("gram"), vector("moment"), WireField("count", optional=True))
FRESH = Utterance("fresh", "up", _STATISTICS)
"""An agent's own observations since its last upload, as sufficient statistics."""
POOL = Utterance("pool", "down", _STATISTICS)
"""Everything the server knows, in place of what the agent had from it."""
NEWS = Utterance("news", "down", _STATISTICS)
"""What has reached the server but not yet the agent, to be added."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class LinearParameters:
    """Hyper-parameters of every optimistic linear algorithm: ridge lambda, width rule and confidence delta."""

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    width: Width = "theory"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1

    def widths(self, problem: Problem, dim: int, logdet: FloatArray, count: FloatArray) -> FloatArray:
        """(w,) exploration widths; see `width`."""
        return widths(
            self.width,
            noise=problem.noise,
            bound=problem.bound,
            ridge=self.ridge,
            delta=self.delta,
            dim=dim,
            logdet=logdet,
            count=count,
        )

    @property
    def tells_counts(self) -> bool:
        """Whether counts travel with the statistics: only the loose width needs them."""
        return self.width == "loose"


class LinUCBAgents(Stateful):
    """Agents that act optimistically on all they know and never call.

    Their index of an arm x is <theta, x> + width ||x||_{V^-1}. They hand over what is new when asked (`collect`) and
    take in what the server knows (`pool`, in place; `news`, on top); estimates are refreshed at once.
    """

    keeps: ClassVar[tuple[str, ...]] = ("models",)

    def __init__(self, parameters: LinearParameters, problem: Problem, n: int) -> None:
        self._parameters = parameters
        self._problem = problem
        self.models = RidgeModels(n, problem.dim, parameters.ridge)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The optimistic arm of each agent in `who`."""
        models = self.models
        check_arms(who, arms, len(models), models.dim)
        count = models.base.count[who] + models.fresh.count[who]
        width = self._parameters.widths(self._problem, models.dim, models.logdet[who], count)
        return decided(who, models.choose(who, arms, width))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, len(self.models), self.models.dim)
        self.models.learn(who, arms, picks, rewards)

    def ellipsoids(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What each agent believes; see `Confident`."""
        models = self.models
        count = models.base.count + models.fresh.count
        width = self._parameters.widths(self._problem, models.dim, models.logdet, count)
        return models.theta, models.matrices(), width

    def calling(self) -> BoolArray:
        """Nobody calls."""
        return np.zeros(len(self.models), dtype=np.bool_)

    def answer(self, request: Message) -> Message | None:
        """Hand over what is new, or take in what the server tells."""
        models, who = self.models, request.who
        if request.kind == COLLECT.kind:
            reply = Message(FRESH.kind, who, models.fresh.rows(who, counted=self._parameters.tells_counts))
            models.settle(who)
            return reply
        if request.kind == POOL.kind:
            models.replace(who, *told(request))
        elif request.kind == NEWS.kind:
            models.absorb(who, *told(request))
        else:
            raise WireError(f"linear agents do not understand {request.kind!r}")
        return None


def told(message: Message) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The statistics inside `message`; counts that were not sent are zero."""
    arrays = message.arrays
    return arrays["gram"], arrays["moment"], arrays.get("count", np.zeros(len(message.who)))
