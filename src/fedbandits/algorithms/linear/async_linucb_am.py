"""AsyncLinUCB-AM: agents that share only part of their parameter."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.async_linucb import AsyncParameters, AsyncServer
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, check_arms, check_feedback, first_highest
from fedbandits.contract.catalogue import About, ConfigError
from fedbandits.contract.compiled import untouched
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Norms, Shared
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireError, WireField, matrix, vector
from fedbandits.linalg import kernels
from fedbandits.models.limits import STRAYED, arm_square, residual
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.paced import by_schedule
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.sharing import COLLECT, counting, handed_over, told
from fedbandits.models.triggers import watch_of
from fedbandits.models.two_blocks import TwoBlockOptimists, TwoBlocks, alternate, learn_all
from fedbandits.models.width import Radius


def _shared() -> tuple[WireField, ...]:
    """Statistics of the shared block; its moment has what the local block explains taken out of it."""
    gram = matrix("gram", "g", adds="increment", bound=Bound(arm_square))
    bound = Bound(residual, within="gram")
    return gram, vector("moment", "g", adds="increment", bound=bound), counting(adds="increment")


_FRESH = Utterance("fresh", "up", _shared())


@parameters
class AsyncLinUCBAM(AsyncParameters):
    """Asynchronous LinUCB with alternating minimisation (Li & Wang, AISTATS 2022).

    theta_i = [theta_g; theta_l,i]: the first g coordinates are common to all agents, the others are agent i's own. Each
    block is a ridge regression on what the other one leaves unexplained; after an observation the agent alternates

        theta_l <- V_l^-1 (sum x_l y - (sum x_l x_g^T) theta_g)        over its own observations,
        theta_g <- V_g^-1 (b_g + sum x_g y - (sum x_g x_l^T) theta_l)  over those it has not uploaded,

    `alternations` times; b_g holds what was uploaded and received. The index of an arm adds both blocks' estimates and
    both widths. Triggers and server are AsyncLinUCB's on the shared block; only that block's statistics travel, with
    theta_l,i as it was at the upload, cut down to 100 times S where alternating has led it further astray.

    Guarantee: that of AsyncLinUCB for the shared block plus n independent learners for the local ones is what the
    publication aims at; since residuals use estimates of the other block, the ellipsoids are not proved to hold.
    """

    shared: Annotated[int, Field(ge=1)] | None = None
    """g; None takes what the problem says."""
    alternations: Annotated[int, Field(ge=1)] = 2

    about: ClassVar[About] = depending(
        About(
            name="async-linucb-am",
            family="linear",
            topology="star",
            talks="as async-linucb, by the shared block's determinant",
            says=(
                COLLECT,
                _FRESH,
                Utterance("news", "down", _shared()),
            ),
            guarantee="none proved for the shipped variant",
            source="Li & Wang, AISTATS 2022",
            environment="linear-shared",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> AsyncLinUCBAMAgents:
        """n agents with a shared and a local block."""
        return AsyncLinUCBAMAgents(self, problem, n)

    def server(self, problem: Problem, n: int, rng: Streams) -> AsyncServer:
        """AsyncLinUCB's server, for the shared block."""
        return AsyncServer(self, n, self.split(problem))

    def sizes(self, problem: Problem) -> dict[str, int]:
        """The size g that the declared messages name."""
        return {"g": self.split(problem)}

    def split(self, problem: Problem) -> int:
        """g, the number of shared coordinates."""
        known = problem.get(Shared)
        size = self.shared if self.shared is not None else None if known is None else known.coordinates
        if size is None or not 1 <= size < problem.dim:
            raise ConfigError(
                f"async-linucb-am: shared: must lie in 1..{problem.dim - 1} (got {size}); set it, or use an "
                "environment whose agents share part of their parameter, such as linear-shared"
            )
        return size


class AsyncLinUCBAMAgents(Population):
    """Two ridge regressions for each agent, `common` and `local`, and the moments that connect them.

    `crossed` (n, g, l) is sum x_g x_l^T over what was not uploaded, `crossed_all` over all own observations.
    Memory per agent: 3 g^2 + 3 l^2 + 2 g l + O(d) <= 3 d^2 + O(d) numbers.
    """

    keeps: ClassVar[tuple[str, ...]] = ("common", "local", "crossed", "crossed_all")

    def __init__(self, parameters: AsyncLinUCBAM, problem: Problem, n: int) -> None:
        super().__init__(n)
        split = parameters.split(problem)
        self._alternations = parameters.alternations
        self._counted = parameters.tells_counts
        self._dim = problem.dim
        self._split = split
        self._trigger = parameters.upload
        self._reach = STRAYED * problem.get(Norms, Norms()).parameter
        self._widths = [parameters.widths(problem, split), parameters.widths(problem, problem.dim - split)]
        self.common = RidgeModels(n, split, parameters.ridge)
        self.local = RidgeModels(n, problem.dim - split, parameters.ridge)
        self.crossed = np.zeros((n, split, problem.dim - split))
        self.crossed_all = np.zeros_like(self.crossed)
        self._spare = np.empty((2, max(self.crossed.shape[1:])))

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm with the largest sum of both blocks' optimistic indices."""
        return first_highest(who, self.scores(who, arms))

    def scores(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """The sum of both blocks' indices of every arm; see `Population`."""
        check_arms(who, arms, self._n, self._dim)
        common = self._indices(self.common, self._widths[0], who, arms[:, :, : self._split])
        local = self._indices(self.local, self._widths[1], who, arms[:, :, self._split :])
        return common + local

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`, then alternate between the blocks."""
        check_feedback(who, arms, picks, rewards, self._n, self._dim)
        if learn_all(self._blocks(), who, kernels.as_lanes(arms), picks, rewards):
            self.tend()

    def compiled(self) -> Any:
        """See `Population`: with widths and a trigger that compiled loops know."""
        watch, (common, local) = watch_of(self._trigger), self._widths
        spoken_for = untouched(self, AsyncLinUCBAMAgents, "choose", "scores", "learn", "calling")
        if watch is None or not isinstance(common, Radius) or not isinstance(local, Radius) or not spoken_for:
            return None
        return TwoBlockOptimists(self._blocks(), (common, local), watch)

    def tend(self) -> None:
        """Compute inverses anew that have gone through enough single updates; estimates are not those regressions'."""
        for models in (self.common, self.local):
            theta = models.theta.copy()
            models.refresh()
            models.theta[:] = theta

    def calling(self) -> BoolArray:
        """Whose fresh data raise the shared block's determinant by more than gamma_up."""
        return self._trigger.fired(self.common.fresh.count, self.common.growth)

    def urgency(self) -> FloatArray | None:
        """How far each agent's trigger has come; see `Population`."""
        return self._trigger.urgency(self.common.fresh.count, self.common.growth)

    def answer(self, request: Message) -> Message | None:
        """Hand over the shared block's news, or take in others'."""
        who, common = request.who, self.common
        if request.kind == COLLECT.kind:
            common.fresh.moment[who] -= self._explained(who, self._within_reach(self.local.theta[who]))
            reply = Message(_FRESH.kind, who, common.fresh.rows(who, counted=self._counted))
            common.settle(who)
            self.crossed[who] = 0.0
            return reply
        if request.kind != "news":
            raise WireError(f"AsyncLinUCB-AM agents do not understand {request.kind!r}")
        estimate = common.theta[who]
        common.absorb(who, *told(request))
        common.theta[who] = estimate
        alternate(self._blocks(), who)
        return None

    def restore(self, sent: Message, observed: FloatArray) -> None:
        """The shared block's news are new again, with theta_l as it was when they were sent."""
        if sent.kind != _FRESH.kind:
            super().restore(sent, observed)
        self.common.unsettle(sent.who, *handed_over(sent, observed))

    def _indices(self, models: RidgeModels, rule: WidthRule, who: IntArray, arms: FloatArray) -> FloatArray:
        count = models.base.count[who] + models.fresh.count[who]
        width = rule(models.logdet[who], count)
        lanes = kernels.as_lanes(arms)
        return kernels.scores_optimistic(models.inverse, models.theta, width, who, lanes)

    def _explained(self, who: IntArray, local: FloatArray) -> FloatArray:
        """(w, g) what the `local` block (w, l) explains of the shared block's fresh moment."""
        return np.asarray(np.einsum("wgl,wl->wg", self.crossed[who], local))

    def _within_reach(self, local: FloatArray) -> FloatArray:
        """`local` (w, l), cut down where alternating has led it astray: others are told no more than `residual`."""
        norms = np.linalg.norm(local, axis=1)
        strayed = norms > self._reach
        if not strayed.any():
            return local
        return np.where(strayed[:, None], local * (self._reach / np.where(strayed, norms, 1.0))[:, None], local)

    def _blocks(self) -> TwoBlocks:
        common, local = self.common, self.local
        moments = common.base.moment, self.crossed, self.crossed_all
        return TwoBlocks(common.arrays(), local.arrays(), *moments, self._alternations, self._spare)
