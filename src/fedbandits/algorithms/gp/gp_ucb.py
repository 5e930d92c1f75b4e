"""GP-UCB: every agent alone, on an exact Gaussian process."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fedbandits.algorithms.gp.parameters import Lengthscale, smoothness
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Noise
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.models.kernels import kernel_of
from fedbandits.models.process_agents import ProcessAgents, exact_widths
from fedbandits.models.processes import Processes, check_capacity


@parameters
class GPUCB:
    """GP-UCB by every agent alone: argmax mu(x) + width sigma(x) / sqrt(lambda), mu and sigma those of the posterior
    (`models.processes`) of its own observations under the kernel that the problem tells, and lambda = `ridge`.

    `width` is a number, or ``"theory"``: R sqrt(2 log(1/delta) + log det(I + K/lambda)) + sqrt(lambda) B, as for ridge
    regression, which this is in the kernel's space; sigma / sqrt(lambda) is there the norm of an arm in V^-1.

    Every observation is kept. An agent that has made t of them needs 4 t^2 bytes and, to choose among K arms, K t^2/2
    products. `capacity` is how many there may be; a longer horizon is refused. Where it is too much, `gp-ucb-features`
    costs the same at every turn.

    Guarantee: with the theory width, |f(x) - mu(x)| <= width sigma(x) / sqrt(lambda) for all x and all turns at once,
    with probability 1 - delta, for f of norm at most B (Abbasi-Yadkori 2012, corollary 3.15), hence regret
    O(sqrt(T gamma_T) (B + sqrt(gamma_T + log(1/delta)))) for each agent, gamma_T being the kernel's information gain.
    """

    ridge: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = "theory"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    lengthscale: Lengthscale = None
    capacity: Annotated[int, Field(ge=1)] = 10_000

    about: ClassVar[About] = About(
        name="gp-ucb",
        family="gp",
        topology="alone",
        talks="never",
        says=(),
        calls="never",
        guarantee="regret O(sqrt(T gamma_T) (B + sqrt(gamma_T))) per agent, gamma_T the information gain, theory width",
        source="Srinivas, Krause, Kakade & Seeger, ICML 2010; width of Abbasi-Yadkori (2012)",
        environment="rkhs-mixture",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ProcessAgents:
        """n agents that never call."""
        check_capacity(self.about.name, self.capacity, problem.horizon)
        known = smoothness(problem, self.lengthscale, self.about)
        models = Processes(n, kernel_of(known, problem.dim), self.ridge, self.capacity)
        noise = problem.get(Noise, Noise()).sigma
        rule = exact_widths(self.width, noise=noise, bound=known.bound, ridge=self.ridge, delta=self.delta)
        return ProcessAgents(models, rule)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Nobody to talk to."""
