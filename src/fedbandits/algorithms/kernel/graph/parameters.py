"""What kernelised algorithms on a graph have in common: kernels over points and agents, widths, and what is kept."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.kernel.parameters import KernelParameters, Positive
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import RKHS, AgentFeatures, Noise, Norms, Place
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireField
from fedbandits.graphs.hops import pairs_by_distance
from fedbandits.models import limits
from fedbandits.models.agent_kernels import Composition, JointFeatures
from fedbandits.models.joint_process import JointModel
from fedbandits.models.kernels import KernelName, SquaredExponential
from fedbandits.models.optimistic import WidthRule
from fedbandits.models.width import widths

TOLD = Utterance(
    "observation",
    "peer",
    (
        WireField("point", ("d",), raw=True),
        WireField("reward", raw=True, bound=Bound(limits.reward, per_observation=False)),
    ),
)
"""What an agent has just taken, and what it got for it."""
OBSERVATION = Utterance("observation", "peer", (*TOLD.fields, WireField("context", ("d",), raw=True)))
"""The same where K_z is estimated, with a context drawn uniformly from all that the agent was shown: the arm that was
taken tells of the algorithm, not of what the agent sees."""


@parameters
class GraphKernelParameters(KernelParameters):
    """Optimism on a joint kernel K of agents and points: argmax mu(v, x) + width sigma(v, x) / sqrt(lambda).

    - `kernel` and `lengthscale` are K_x, by default the one that the problem tells (`RKHS`); `composition` is how K is
      made of it and K_z (`models.agent_kernels`).
    - `likeness` is K_z: ``"estimated"`` from contexts that agents tell each other (`models.embeddings`); ``"told"``,
      which is exp(-||z_v - z_w||^2 / (2 sigma^2)) of the fact `AgentFeatures`; or ``"same"``, which is 1: one function
      for all. Estimates are exp(-MMD / (2 sigma^2)), or of its square (`squared`), on the first `contexts` contexts of
      each agent. They are renewed after 1, 2, 4, ... rounds, or with `revise` = ``"always"`` after each, as in the
      text, and all that is known is then gone over again. Until the first, nobody is like anybody.
    - `width` is a number, the thesis' eta, or ``"theory"``: R sqrt(2 log(M/delta) + log det(I + K/lambda)) +
      sqrt(lambda) B. That is lemma 8.1 at lambda = 1, with sigma where it prints sigma^2, and holds for every lambda;
      as printed, with det(lambda I + K) and nothing over sqrt(lambda), the lemma is for lambda >= 1. Where K_z is told,
      |f_v(x) - mu(v, x)| <= width sigma / sqrt(lambda) for all x, agents and turns at once with probability 1 - delta.
    - Observations are kept exactly, `capacity` of them for each group of agents that know the same; then agents go on
      with at most `features` features, whose error `models.agent_kernels` states. ``features=0``: there is no going on.
      Where K_x is linear and d times the agents within reach are no more than `features`, these are exact, and are
      used from the beginning.

    Features are not for nothing. Of 40 agents in `heterogeneous-rbf` on an Erdos-Renyi graph with p = 0.7, T = 60 and
    width 0.1, FedUCB-Eager's have a regret of 0.87 each with exact processes (capacity 4000), of 1.27 with 256 features
    beyond 512 observations (two seeds); on the first seed 0.92, 1.06 with 1024 features, and 1.26 with 256. Exact ones
    take five times as long.
    """

    kernel: KernelName | Literal["told"] = "told"
    ridge: Positive = 1.0
    width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["theory"] = "theory"
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    likeness: Literal["estimated", "told", "same"] = "estimated"
    composition: Composition = "product"
    sigma: Positive = 1.0
    squared: bool = False
    contexts: Annotated[int, Field(ge=1)] = 64
    revise: Literal["doubling", "always"] = "doubling"
    capacity: Annotated[int, Field(ge=1)] = 512
    features: Annotated[int, Field(ge=0)] = 256

    about: ClassVar[About]

    def model(self, problem: Problem, rng: Streams) -> JointModel:
        """What processes are made of."""
        kernel = self.kernel_for(problem)
        features = None
        if self.features:
            features = JointFeatures(kernel, self.composition, self.features, problem.agents, rng)
        return JointModel(
            kernel,
            self.composition,
            self.ridge,
            self.capacity,
            features,
            same=self.likeness == "same",
            extra=problem.dim if self.likeness == "estimated" else 0,
        )

    def similarity(self, problem: Problem) -> FloatArray | None:
        """K_z over all agents, (M, M); None where it is estimated."""
        if self.likeness == "same":
            return np.ones((problem.agents, problem.agents))
        if self.likeness == "estimated":
            return None
        known = problem.get(AgentFeatures)
        if known is None:
            raise ConfigError(
                f"{self.about.name}: likeness=told needs the fact 'agent_features', which nobody has told; say "
                "likeness=estimated, or use an environment that tells it, such as 'heterogeneous-rbf:told=true'"
            )
        z = np.array(known.features)
        if len(z) != problem.agents:
            raise ConfigError(f"agent_features: {len(z)} rows are told for {problem.agents} agents")
        return SquaredExponential((self.sigma,) * z.shape[1]).matrix(z, z)

    def widths(self, problem: Problem) -> WidthRule:
        """How far estimates may be off, for all agents at once, in units of sigma / sqrt(lambda)."""
        told = problem.get(RKHS)
        bound = problem.get(Norms, Norms()).parameter if told is None else told.bound
        noise = problem.get(Noise, Noise()).sigma

        def rule(logdet: FloatArray, count: FloatArray) -> FloatArray:
            return widths(
                self.width,
                noise=noise,
                bound=bound,
                ridge=self.ridge,
                delta=self.delta / problem.agents,
                dim=0,  # what is given is log det(I + K/lambda) already
                logdet=logdet,
                count=count,
            )

        return rule

    def hops(self, problem: Problem) -> int:
        """How many rounds it takes until everybody within reach has heard of something."""
        return max(1, self.place(problem).hops)

    def place(self, problem: Problem) -> Place:
        """Where agents live."""
        return problem.need(Place, by=self.about)

    def revisions(self) -> IntArray:
        """The rounds before which contexts were told that estimates of K_z rest on, ascending."""
        if self.likeness != "estimated":
            return np.zeros(0, dtype=np.int64)
        if self.revise == "always":
            return np.arange(1, self.contexts + 1)
        powers = 2 ** np.arange(int(np.log2(self.contexts)) + 1)
        return np.unique(np.append(powers, self.contexts))


def neighbourhoods(place: Place) -> list[IntArray]:
    """For every agent: itself and all within reach, ascending."""
    n = place.graph.number_of_nodes()
    pairs = pairs_by_distance(place.graph, place.hops)
    origin = np.concatenate([each.origin for each in pairs])
    to = np.concatenate([each.to for each in pairs])
    order = np.lexsort((to, origin))
    return np.split(to[order], np.cumsum(np.bincount(origin, minlength=n))[:-1])
