"""DisKernelUCB: all observations of everybody in one exact process, synchronised when one agent has learned enough."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.algorithms.kernel.messages import OBSERVED, POOLED
from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive, norm_of
from fedbandits.algorithms.kernel.pool_agents import PoolAgents, PoolServer
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.paced import Paced, by_schedule
from fedbandits.models.pool_processes import INSTEAD, PoolProcesses
from fedbandits.models.process_agents import exact_widths
from fedbandits.models.sharing import COLLECT
from fedbandits.models.triggers import Trigger, both


@parameters
class DisKernelUCB(Paced, KernelParameters):
    """argmax mu(x) + width sigma(x) / sqrt(lambda), mu and sigma those of the posterior of everybody's observations up
    to the last synchronisation and the agent's own since (Li, Wang, Wang & Wang 2022).

    After t_i own observations since then agent i calls when

        t_i [log det(I + K_i/lambda) - log det(I + K_last/lambda)] > D = `threshold`,

    K_i being the kernel matrix of all it knows and K_last that of what it knew before them. Then everybody hands over
    what is new, **point by point as it was observed**, and is told what follows in everybody's pool: d + 1 scalars up,
    and n (d + 1) down, for each observation. 0 synchronises after every step, infinity never; with `every` b an agent
    calls after t_i = b instead (`models.paced`). Raw data of everybody are then in every agent's file: where that may
    not be, `dis-kernel-features` sends sums.

    `width` is a number, or ``"theory"``, that of `gp-ucb`, with `bound` B for the norm, None being what the problem
    tells. At most `capacity` observations are kept, of everybody together.

    Guarantee: with the theory width, |f(x) - mu(x)| <= width sigma(x) / sqrt(lambda) for all x and turns at once, for
    each agent with probability 1 - delta; with delta / n, which is the publication's, for all of them. By a schedule
    that is proved; where data decide when to synchronise it is for each moment of the last synchronisation, and for all
    of them with delta / T. Regret O(sqrt(nT) (B sqrt(gamma) + gamma)), gamma the information gain of nT observations,
    where D is O(T / (n gamma)) and all are always there.
    """

    ridge: Positive = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = "theory"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    bound: Positive | None = None
    threshold: Annotated[float, Field(ge=0)] = 20.0
    capacity: Annotated[int, Field(ge=1)] = 10_000

    about: ClassVar[About] = depending(
        About(
            name="dis-kernel-ucb",
            family="kernel",
            topology="star",
            talks="everybody, when one agent's observations times its log-determinant growth exceed D",
            says=(COLLECT, OBSERVED, POOLED),
            guarantee="regret O(sqrt(nT) (B sqrt(gamma_nT) + gamma_nT)) for D of O(T / (n gamma_nT)), theory width",
            source="Li, Wang, Wang & Wang, NeurIPS 2022",
            environment="cosine",
        ),
        by_schedule,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> PoolAgents:
        """n agents with the event trigger, or a schedule."""
        everything = problem.agents * problem.horizon
        if everything > self.capacity:
            raise ConfigError(
                f"dis-kernel-ucb: capacity={self.capacity} observations are fewer than {problem.agents} agents may "
                f"make in {problem.horizon} turns; raise capacity to {everything} ({4 * everything**2 / 1e9:.2g} GB), "
                f"or {INSTEAD}"
            )
        models = PoolProcesses(n, self.kernel_for(problem), self.ridge, self.capacity)
        noise, bound = problem.get(Noise, Noise()).sigma, norm_of(problem, self.bound)
        rule = exact_widths(self.width, noise=noise, bound=bound, ridge=self.ridge, delta=self.delta)
        return PoolAgents(models, rule, self.paced(Trigger(both, self.threshold, strict=True)))

    def server(self, problem: Problem, n: int, rng: Streams) -> PoolServer:
        """A server that keeps everybody's observations."""
        return PoolServer(n, problem.dim)
