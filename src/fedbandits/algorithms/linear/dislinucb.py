"""DisLinUCB: everybody synchronises when one agent has learned enough."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.keeping import Keeping
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.ridge import RidgeModels
from fedbandits.models.sharing import COLLECT, POOL, POOLED_FRESH
from fedbandits.models.triggers import Trigger, both


@parameters
class DisLinUCB(Paced, Keeping, LinearParameters):
    """Distributed LinUCB with an event trigger (Wang, Hu, Chen & Wang, ICLR 2020).

    Agent i acts on the synchronised statistics plus its own since then. After t_i own observations since the last
    synchronisation it calls when

        t_i [log det(A_syn + dA_i + lambda I) - log det(A_syn + lambda I)] > D.

    Then everybody uploads (dA_i, db_i), the server adds them to the pool and everybody downloads the pool:
    2n (d^2 + d) scalars.

    `threshold` is D, or a formula by name, T the horizon and n the agents:
    ``"theory"`` T log(nT)/(dn) as printed; ``"released"`` T/(nd log(nT)) and ``"released-log-t"`` T/(nd log T) as
    the released codes of later publications have it. 0 synchronises after every step, infinity never. With `every` b an
    agent calls after t_i = b instead (`models.paced`). `memory` says how matrices are kept (`models.keeping`).

    Guarantee: with the theory threshold and width, regret O(d sqrt(nT) log^2(nT)) and O(n^1.5 d^3) scalars,
    independent of T. Proved for agents that act in every round; under other schedules, or with a constant width,
    no bound is claimed.
    """

    threshold: Annotated[float, Field(ge=0)] | Literal["theory", "released", "released-log-t"] = "theory"

    about: ClassVar[About] = depending(
        About(
            name="dislinucb",
            family="linear",
            topology="star",
            talks="everybody, when one agent's observations times its log-determinant growth exceed D",
            says=(COLLECT, POOLED_FRESH, POOL),
            guarantee="regret O(d sqrt(nT) log^2(nT)), O(n^1.5 d^3) scalars, all agents active, theory D and width",
            source="Wang, Hu, Chen & Wang, ICLR 2020",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> OptimisticAgents:
        """n agents with the event trigger, or a schedule."""
        return self.optimists(problem, n, self.paced(Trigger(both, self.trigger(problem), strict=True)))

    def server(self, problem: Problem, n: int, rng: Streams) -> PoolServer:
        """A server that collects from everybody and tells everybody."""
        size = self.size(problem)
        portion = self.portion(problem.agents, size)
        return PoolServer(self, n, size, collects="everybody", tells="everybody", portion=portion)

    def models(self, problem: Problem, n: int) -> RidgeModels:
        """n regressions that know nothing yet."""
        return self.regressions(problem.agents, n, self.size(problem), self.ridge)

    def size(self, problem: Problem) -> int:
        """The dimension of models."""
        return problem.dim

    def trigger(self, problem: Problem) -> float:
        """The number D."""
        n, d, horizon = problem.agents, self.size(problem), problem.horizon
        if self.threshold == "theory":
            return float(horizon * np.log(n * horizon) / (d * n))
        if self.threshold == "released":
            return float(horizon / (n * d * np.log(max(n * horizon, 2))))
        if self.threshold == "released-log-t":
            return float(horizon / (n * d * np.log(max(horizon, 2))))
        return float(self.threshold)
