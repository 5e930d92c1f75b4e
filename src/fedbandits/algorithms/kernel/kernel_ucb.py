"""KernelUCB and its Thompson sampling: every agent alone, on an exact process with constants that are set by hand."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive
from fedbandits.contract.catalogue import About
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.kernels import KernelName
from fedbandits.models.process_agents import ProcessAgents, SamplingProcessAgents
from fedbandits.models.processes import Processes, check_capacity
from fedbandits.models.width import CONSTANT, Radius

_LEAST_VARIANCE = 1e-6


@parameters
class KernelUCB(KernelParameters):
    """argmax mu(x) + nu sqrt(lambda) sigma(x), mu and sigma^2 those of the posterior of all that an agent has observed
    (`models.processes`), by every agent alone; lambda = `ridge`.

    By default what Dai, Shu, Verma, Fan, Low & Jaillet (ICLR 2023) compare with: the kernel exp(-||x - y||) and
    lambda = 1. Their released code has nu under the root: its 0.01 is 0.1 here, which is the default. It learns from an
    agent's first 1000 observations alone, which is ``keep=1000``; that it stops learning after 2000 turns changes
    nothing then. `keep` None are all of them, up to `capacity`: t observations need 4 t^2 bytes and, for K arms,
    K t^2/2 products at each decision.

    Guarantee: none for a constant nu; `gp-ucb` and `igp-ucb` have widths of which there is one.
    """

    kernel: KernelName | Literal["told"] = "matern-1/2"
    ridge: Positive = 1.0
    nu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    keep: Annotated[int, Field(ge=1)] | None = None
    capacity: Annotated[int, Field(ge=1)] = 10_000

    about: ClassVar[About] = About(
        name="kernel-ucb",
        family="kernel",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none for a constant nu",
        source="Valko, Korda, Munos, Flaounas & Cristianini, UAI 2013; constants of Dai et al., ICLR 2023",
        environment="cosine",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ProcessAgents:
        """n agents that never call."""
        return ProcessAgents(self.models(problem, n), self.width(), self.keep)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""

    def models(self, problem: Problem, n: int) -> Processes:
        """n processes that know nothing yet."""
        most = problem.horizon if self.keep is None else min(self.keep, problem.horizon)
        check_capacity(self.about.name, self.capacity, most, "learn from the first keep=N alone")
        return Processes(n, self.kernel_for(problem), self.ridge, self.capacity)

    def width(self) -> Radius:
        """nu lambda, of which sigma / sqrt(lambda) is taken."""
        return Radius(CONSTANT, prior=self.nu * self.ridge)


@parameters
class KernelTS(KernelUCB):
    """As `KernelUCB`, with a draw from N(mu, nu^2 lambda sigma^2) for each arm, independently, in place of an index. No
    variance is below 10^-6.

    Guarantee: none for a constant nu, nor for draws that are independent.
    """

    about: ClassVar[About] = About(
        name="kernel-ts",
        family="kernel",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="none for a constant nu",
        source="Chowdhury & Gopalan, ICML 2017; constants of Dai et al., ICLR 2023",
        environment="cosine",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> SamplingProcessAgents:
        """n agents that never call, and draw."""
        least = math.sqrt(_LEAST_VARIANCE)
        return SamplingProcessAgents(self.models(problem, n), self.width(), rng, least=least, keep=self.keep)
