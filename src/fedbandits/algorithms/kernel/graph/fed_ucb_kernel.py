"""FedUCB-Kernel, which listens to an agent's clique, and FedUCB-Eager, which listens to everybody within reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedbandits.algorithms.kernel.graph.agents import GraphKernelAgents
from fedbandits.algorithms.kernel.graph.parameters import OBSERVATION, TOLD, GraphKernelParameters, neighbourhoods
from fedbandits.contract.arrays import IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.facts import Place
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.leaders import clique_of


def heard(self: Any, default: About) -> About:
    """See `contract.depending`: contexts are told where K_z is estimated from them, and nowhere else."""
    return replace(default, says=(OBSERVATION if self.likeness == "estimated" else TOLD,))


@parameters
class FedUCBKernel(GraphKernelParameters):
    """Optimism on what an agent and its clique have observed, weighted by how alike its members are (Dubey 2022,
    algorithm 15).

    Everybody tells (x, y) after each decision, and messages live for d hops. Agents are divided into cliques of G_d,
    the graph that joins whoever reaches each other; what comes from outside an agent's own is passed on, and not used.
    Members then have nearly the same data, which is what the proof needs, and where d = 1 the very same: they share one
    process. Parameters are those of `GraphKernelParameters`.

    With no data all arms look alike, and the first is taken; the thesis draws one.

    Guarantee (theorem 8.2: K_z told, F of norm at most B, theory width): with probability 1 - delta, regret
    O(sqrt(chi(G_d) T / M) (R gamma + sqrt(gamma) (B + R sqrt(log(M/delta))))) for each agent on average, gamma being
    the largest log det(I + K/lambda) of a clique; chi(G_d) is the least number of cliques that cover G_d, for which the
    number that was found stands here (`graphs.cliques`). For products gamma is at most of the order of the rank of K_z
    times that of one function (corollary 8.1): where nobody is like anybody company is worth nothing. None where K_z is
    estimated (lemma 8.2 says only that estimates converge), nor for a constant width, nor beyond `capacity`, where
    features have an error.
    """

    about: ClassVar[About] = depending(
        About(
            name="fed-ucb-kernel",
            family="kernel",
            topology="graph",
            talks="after every decision, to all within d hops; the agent's clique listens",
            says=(OBSERVATION,),
            calls="scheduled",
            guarantee="regret O(sqrt(chi(G_d) T / M) gamma) per agent where K_z is told, gamma the largest information "
            "gain of a clique; none where it is estimated",
            source="Dubey (2022), thesis, algorithm 15",
            environment="heterogeneous-rbf",
        ),
        heard,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> GraphKernelAgents:
        """n agents that listen to some."""
        reaches = self.reaches(self.place(problem))
        return GraphKernelAgents(self, problem, [reaches[i] for i in rng.identities], n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def reaches(self, place: Place) -> list[IntArray]:
        """For every agent, to whom it listens, itself among them, ascending."""
        cliques = clique_of(place.graph, place.hops)
        members = [np.flatnonzero(cliques == one) for one in range(int(cliques.max()) + 1)]
        return [members[one] for one in cliques]


@parameters
class FedUCBEager(FedUCBKernel):
    """FedUCB-Kernel that uses all it hears, as soon as it hears it (Dubey 2022, algorithm 16).

    On a graph where everybody reaches everybody that is `fed-ucb-kernel`. Elsewhere agents know different things, and
    each has a process of its own: on an Erdos-Renyi graph of 200 agents with p = 0.7 an agent knows 42,000 observations
    after 300 rounds, and exact processes end early.

    Guarantee: none of regret; the thesis conjectures O(sqrt((d + alpha(G_d)) T / M)) up to logarithms for linear
    kernels. Bands are those of `GraphKernelParameters`, since lemma 8.1 does not ask to whom an agent listens.
    """

    about: ClassVar[About] = depending(
        About(
            name="fed-ucb-eager",
            family="kernel",
            topology="graph",
            talks="after every decision, to all within d hops",
            says=(OBSERVATION,),
            calls="scheduled",
            guarantee="none",
            source="Dubey (2022), thesis, algorithm 16",
            environment="heterogeneous-rbf",
        ),
        heard,
    )

    def reaches(self, place: Place) -> list[IntArray]:
        """Everybody within reach."""
        return neighbourhoods(place)
