"""AsyncLinUCB-AM: agents that share only part of their parameter."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedbandits.algorithms.linear.agents import COLLECT, told
from fedbandits.algorithms.linear.async_linucb import AsyncParameters, AsyncServer
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, first_highest
from fedbandits.contract.catalogue import About, ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Field as WireField
from fedbandits.contract.wire import Utterance, WireError, matrix, vector
from fedbandits.linalg import kernels
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.triggers import urgencies

_SHARED = (matrix("gram", "g"), vector("moment", "g"), WireField("count", optional=True))


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class AsyncLinUCBAM(AsyncParameters):
    """Asynchronous LinUCB with alternating minimisation (Li & Wang, AISTATS 2022).

    theta_i = [theta_g; theta_l,i]: the first g coordinates are common to all agents, the others are agent i's own. Each
    block is a ridge regression on what the other one leaves unexplained; after an observation the agent alternates

        theta_l <- V_l^-1 (sum x_l y - (sum x_l x_g^T) theta_g)        over its own observations,
        theta_g <- V_g^-1 (b_g + sum x_g y - (sum x_g x_l^T) theta_l)  over those it has not uploaded,

    `alternations` times; b_g holds what was uploaded and received. The index of an arm adds both blocks' estimates and
    both widths. Triggers and server are AsyncLinUCB's on the shared block; only that block's statistics travel, with
    theta_l,i as it was at the upload.

    Guarantee: that of AsyncLinUCB for the shared block plus n independent learners for the local ones is what the
    publication aims at; since residuals use estimates of the other block, the ellipsoids are not proved to hold.
    """

    shared: Annotated[int, Field(ge=1)] | None = None
    """g; None takes what the problem says."""
    alternations: Annotated[int, Field(ge=1)] = 2

    about: ClassVar[About] = About(
        name="async-linucb-am",
        family="linear",
        topology="star",
        talks="as async-linucb, by the shared block's determinant",
        says=(
            COLLECT,
            Utterance("fresh", "up", _SHARED),
            Utterance("news", "down", _SHARED),
        ),
        guarantee="none proved for the shipped variant",
        source="Li & Wang, AISTATS 2022",
        environment="linear-shared",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> AsyncLinUCBAMAgents:
        """n agents with a shared and a local block."""
        return AsyncLinUCBAMAgents(self, problem, n)

    def server(self, problem: Problem, n: int) -> AsyncServer:
        """AsyncLinUCB's server, for the shared block."""
        return AsyncServer(self, n, self.split(problem))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The size g that the declared messages name."""
        return {"g": self.split(problem)}

    def split(self, problem: Problem) -> int:
        """g, the number of shared coordinates."""
        size = problem.shared if self.shared is None else self.shared
        if size is None or not 1 <= size < problem.dim:
            raise ConfigError(
                f"async-linucb-am: shared: must lie in 1..{problem.dim - 1} (got {size}); set it, or use an "
                "environment whose agents share part of their parameter, such as linear-shared"
            )
        return size


class AsyncLinUCBAMAgents(Stateful):
    """Two ridge regressions for each agent, `common` and `local`, and the moments that connect them.

    `crossed` (n, g, l) is sum x_g x_l^T over what was not uploaded, `crossed_all` over all own observations.
    Memory per agent: 3 g^2 + 3 l^2 + 2 g l + O(d) <= 3 d^2 + O(d) numbers.
    """

    keeps: ClassVar[tuple[str, ...]] = ("common", "local", "crossed", "crossed_all")

    def __init__(self, parameters: AsyncLinUCBAM, problem: Problem, n: int) -> None:
        split = parameters.split(problem)
        self._parameters = parameters
        self._problem = problem
        self._split = split
        self._threshold = np.log(parameters.gamma_up)
        self.common = RidgeModels(n, split, parameters.ridge)
        self.local = RidgeModels(n, problem.dim - split, parameters.ridge)
        self.crossed = np.zeros((n, split, problem.dim - split))
        self.crossed_all = np.zeros_like(self.crossed)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm with the largest sum of both blocks' optimistic indices."""
        check_arms(who, arms, len(self.common), self._problem.dim)
        common = self._indices(self.common, who, arms[:, :, : self._split])
        local = self._indices(self.local, who, arms[:, :, self._split :])
        return first_highest(who, common + local)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, then alternate between the blocks."""
        check_feedback(who, arms, picks, rewards, len(self.common), self._problem.dim)
        estimate = self.common.theta[who]
        self.common.learn(who, arms[:, :, : self._split], picks, rewards)
        self.local.learn(who, arms[:, :, self._split :], picks, rewards)
        x = arms[np.arange(len(who)), picks]
        products = x[:, : self._split, None] * x[:, None, self._split :]
        self.crossed[who] += products
        self.crossed_all[who] += products
        self._alternate(who, estimate)

    def calling(self) -> BoolArray:
        """Whose fresh data raise the shared block's determinant by more than gamma_up."""
        return np.asarray(self.common.growth > self._threshold)

    def urgency(self) -> FloatArray:
        """How far each agent's trigger has come; see `Urgent`."""
        return urgencies(self.common.growth, self._threshold)

    def answer(self, request: Message) -> Message | None:
        """Hand over the shared block's news, or take in others'."""
        who, common = request.who, self.common
        if request.kind == COLLECT.kind:
            common.fresh.moment[who] -= self._explained(who)
            reply = Message("fresh", who, common.fresh.rows(who, counted=self._parameters.tells_counts))
            common.settle(who)
            self.crossed[who] = 0.0
            return reply
        if request.kind != "news":
            raise WireError(f"AsyncLinUCB-AM agents do not understand {request.kind!r}")
        estimate = common.theta[who]
        common.absorb(who, *told(request))
        self._alternate(who, estimate)
        return None

    def _indices(self, models: RidgeModels, who: IntArray, arms: FloatArray) -> FloatArray:
        count = models.base.count[who] + models.fresh.count[who]
        width = self._parameters.widths(self._problem, models.dim, models.logdet[who], count)
        lanes = kernels.as_lanes(arms)
        return kernels.scores_optimistic(models.inverse, models.theta, width, who, lanes)

    def _explained(self, who: IntArray) -> FloatArray:
        """(w, g) what the local block explains of the shared block's fresh moment."""
        return np.asarray(np.einsum("wgl,wl->wg", self.crossed[who], self.local.theta[who]))

    def _alternate(self, who: IntArray, estimate: FloatArray) -> None:
        """Alternate from the last `estimate` (w, g) of the shared block, not from its own regression on all of y."""
        common, local = self.common, self.local
        common.theta[who] = estimate
        crossed_all = self.crossed_all[who]
        for _ in range(self._parameters.alternations):
            left = local.fresh.moment[who] - np.einsum("wgl,wg->wl", crossed_all, common.theta[who])
            local.theta[who] = np.einsum("wij,wj->wi", local.inverse[who], left)
            known = common.base.moment[who] + common.fresh.moment[who]
            left = known - self._explained(who)
            common.theta[who] = np.einsum("wij,wj->wi", common.inverse[who], left)
