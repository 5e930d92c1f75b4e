"""IGP-UCB: every agent alone on an exact process, with a width that holds for all turns at once."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field

from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive, norm_of
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.process_agents import ProcessAgents
from fedbandits.models.processes import Processes, check_capacity
from fedbandits.models.width import BY_VOLUME, Radius


@parameters
class IGPUCB(KernelParameters):
    """argmax mu(x) + (B + R sqrt(2 (gamma + 1 + log(1/delta)))) sigma(x), mu and sigma those of the posterior of all
    that an agent has observed with lambda = 1 + 2/T (Chowdhury & Gopalan 2017, algorithm 1), by every agent alone.

    gamma is the information gain of what was observed, log det(I + K/lambda) / 2, where the publication has the largest
    of any as many observations: the proof of its theorem 2 needs no more. B is `bound`, None being what the problem
    tells of the norm, and R the noise it tells. `scale` is the share of the width that is acted on. `capacity` is how
    many observations an agent may make.

    Guarantee: with scale 1, |f(x) - mu(x)| <= width sigma(x) for all x and turns at once, with probability 1 - delta,
    for f of norm at most B; regret O(sqrt(T) (B sqrt(gamma_T) + gamma_T)) for each agent. With a smaller one, none.
    """

    bound: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    scale: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    capacity: Annotated[int, Field(ge=1)] = 10_000

    about: ClassVar[About] = About(
        name="igp-ucb",
        family="kernel",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sqrt(T) (B sqrt(gamma_T) + gamma_T)) per agent, gamma_T the information gain",
        source="Chowdhury & Gopalan, ICML 2017",
        environment="cosine",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ProcessAgents:
        """n agents that never call."""
        check_capacity(self.about.name, self.capacity, problem.horizon)
        ridge = 1 + 2 / problem.horizon
        bound, noise = norm_of(problem, self.bound), problem.get(Noise, Noise()).sigma

        # bound + noise sqrt(2 (gamma + 1 + log(1/delta))), of which sigma / sqrt(lambda) is taken
        base, times = 2 + 2 * math.log(1 / self.delta), self.scale * math.sqrt(ridge)
        width = Radius(BY_VOLUME, noise, base, prior=bound, times=times)
        return ProcessAgents(Processes(n, self.kernel_for(problem), ridge, self.capacity), width)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""
