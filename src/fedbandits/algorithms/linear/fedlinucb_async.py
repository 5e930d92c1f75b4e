"""FedLinUCB, asynchronous: act on what was last downloaded, call when own news would change it enough."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, decided
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import untouched
from fedbandits.contract.depending import depending
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import WireError
from fedbandits.linalg import kernels
from fedbandits.models.downloads import Ahead, Downloaders, DownloadTalk, TalkRoom, talk_room
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.ridge import RidgeSums, solve
from fedbandits.models.sharing import COLLECT, FRESH, POOL, POOLED_FRESH, handed_over, told
from fedbandits.models.statistics import Statistics
from fedbandits.models.told import Told
from fedbandits.models.triggers import Trigger, grown, watch_of
from fedbandits.models.width import Radius


@parameters
class FedLinUCBAsync(Paced, LinearParameters):
    """Asynchronous federated LinUCB (He, Wang, Min & Gu, NeurIPS 2022).

    Agent m acts on what it last downloaded, (V_m, b_m) with V_m including lambda I, not on its fresh data:
    argmax <theta_m, x> + width ||x||_{V_m^-1}. Its observations go into (dV_m, db_m). It calls when

        det(V_m + dV_m) > (1 + a) det(V_m),

    uploads (dV_m, db_m) and downloads the pool: 2 (d^2 + d) scalars. Nobody else is involved.

    `growth` is a, ``"theory"`` for 1/n^2. 0 calls after every observation, infinity never. With `every` b an agent
    calls after b own turns instead (`models.paced`).

    Guarantee: with a = 1/n^2 and the theory width, regret O(d sqrt(T)) up to logarithms over T decisions in total, in
    any order of activity, with O(d n^2 log T) calls. Agents that call in the same step are pooled together.
    """

    growth: Annotated[float, Field(ge=0)] | Literal["theory"] = "theory"

    by_data: ClassVar[str] = "growth"
    about: ClassVar[About] = depending(
        About(
            name="fedlinucb-async",
            family="linear",
            topology="star",
            talks="one agent, when its news would raise det V by the factor 1 + a",
            says=(COLLECT, POOLED_FRESH, POOL),
            guarantee="regret ~O(d sqrt(T)) over T decisions in any order, O(d n^2 log T) calls, a = 1/n^2",
            source="He, Wang, Min & Gu, NeurIPS 2022",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> FedLinUCBAgents:
        """n agents that act on their last download."""
        return FedLinUCBAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> DownloadServer:
        """A server that deals with whoever calls."""
        return DownloadServer(self, n, problem.dim)

    def factor(self, problem: Problem) -> float:
        """The number a."""
        return 1.0 / problem.agents**2 if self.growth == "theory" else float(self.growth)


class FedLinUCBAgents(Population):
    """Two models for each agent: the downloaded one it acts on, and `ahead`, which includes its fresh data and only
    watches the determinant. Memory per agent: 3 d^2 + O(d) numbers.
    """

    # between downloads the determinant of `ahead` grows by 1 + a at most, so its rank-one updates stay
    # well-conditioned and need no refresh; where it may grow further, by a schedule, nobody looks at it
    keeps: ClassVar[tuple[str, ...]] = (
        "inverse",
        "theta",
        "logdet",
        "count",
        "fresh",
        "ahead_inverse",
        "ahead_theta",
        "ahead_logdet",
    )

    def __init__(self, parameters: FedLinUCBAsync, problem: Problem, n: int) -> None:
        super().__init__(n)
        dim, ridge = problem.dim, parameters.ridge
        self._ridge = ridge
        self._counted = parameters.tells_counts
        self._width = parameters.widths(problem, dim)
        self._trigger = parameters.paced(Trigger(grown, float(np.log1p(parameters.factor(problem))), strict=True))
        self.inverse = np.tile(np.eye(dim) / ridge, (n, 1, 1))
        self.theta = np.zeros((n, dim))
        self.logdet = np.full(n, dim * np.log(ridge))
        self.count = np.zeros(n)
        self.fresh = Statistics(n, dim)
        self.ahead_inverse = self.inverse.copy()
        self.ahead_theta = self.theta.copy()
        self.ahead_logdet = self.logdet.copy()

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm of each agent in `who` that is optimistic under its last download."""
        check_arms(who, arms, *self.theta.shape)
        width = self._width(self.logdet[who], self.count[who])
        lanes = kernels.as_lanes(arms)
        return decided(who, kernels.pick_optimistic(self.inverse, self.theta, width, who, lanes))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray | None:
        """The index of every arm; see `Population`."""
        check_arms(who, arms, *self.theta.shape)
        width = self._width(self.logdet[who], self.count[who])
        return kernels.scores_optimistic(self.inverse, self.theta, width, who, kernels.as_lanes(arms))

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, put aside until the next call."""
        check_feedback(who, arms, picks, rewards, *self.theta.shape)
        kernels.observe(
            self.ahead_inverse,
            self.ahead_theta,
            self.ahead_logdet,
            self.fresh.gram,
            self.fresh.moment,
            self.fresh.count,
            who,
            kernels.as_lanes(arms),
            picks,
            rewards,
        )

    def compiled(self) -> Any:
        """See `Population`."""
        watch = watch_of(self._trigger)
        if watch is None or not untouched(self, FedLinUCBAgents, "choose", "learn", "calling"):
            return None
        told = Told(self.inverse, self.theta, self._width(self.logdet, self.count))
        fresh = self.fresh
        return Ahead(
            told,
            self.logdet,
            self.ahead_inverse,
            self.ahead_theta,
            self.ahead_logdet,
            fresh.gram,
            fresh.moment,
            fresh.count,
            watch,
        )

    def answering(self) -> Any:
        """See `Population`."""
        if not isinstance(self._width, Radius) or not untouched(self, FedLinUCBAgents, "answer", "calling"):
            return None
        return Downloaders(self.count, self._width, self._ridge, self._counted)

    def calling(self) -> BoolArray:
        """Whose fresh data would raise det V by more than the factor 1 + a, or are due."""
        return self._trigger.fired(self.fresh.count, self.ahead_logdet - self.logdet)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return self._trigger.urgency(self.fresh.count, self.ahead_logdet - self.logdet)

    def answer(self, request: Message) -> Message | None:
        """Hand over the fresh data, or act on the pool from now on."""
        who = request.who
        if request.kind == COLLECT.kind:
            reply = Message(FRESH.kind, who, self.fresh.rows(who, counted=self._counted))
            self.fresh.clear(who)
            return reply
        if request.kind != POOL.kind:
            raise WireError(f"FedLinUCB agents do not understand {request.kind!r}")
        gram, moment, self.count[who] = told(request)
        ridge = self._ridge
        self.inverse[who], self.theta[who], self.logdet[who] = solve(gram, moment, ridge)
        if self.fresh.count[who].any():
            gram, moment = gram + self.fresh.gram[who], moment + self.fresh.moment[who]
        ahead = solve(gram, moment, ridge)
        self.ahead_inverse[who], self.ahead_theta[who], self.ahead_logdet[who] = ahead
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """What was handed over is fresh again; `ahead` has included it all the time."""
        if sent.kind != FRESH.kind:
            super().restore(sent, observed)
        self.fresh.merge(sent.who, *handed_over(sent, observed))


class DownloadServer(PoolServer):
    """A pool that whoever calls adds to, and is told."""

    def __init__(self, parameters: LinearParameters, n: int, dim: int) -> None:
        super().__init__(parameters, n, dim, collects="callers", tells="callers")
        self._talk_room: TalkRoom | None = None

    def compiled(self, answering: Any) -> Any:
        """See `Server`."""
        if not isinstance(answering, Downloaders) or not untouched(self, PoolServer, "converse", "_audience"):
            return None
        if self._talk_room is None:
            self._talk_room = talk_room(len(answering.counts), self.pool.moment.shape[1])
        return DownloadTalk(answering, RidgeSums(*self.pool), self._talk_room)
