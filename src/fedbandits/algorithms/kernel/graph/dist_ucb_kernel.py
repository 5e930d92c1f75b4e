"""DistUCB-Kernel: centres learn, everybody else does as its centre did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from fedbandits.algorithms.kernel.graph.agents import GraphKernelAgents
from fedbandits.algorithms.kernel.graph.fed_ucb_kernel import heard
from fedbandits.algorithms.kernel.graph.parameters import TOLD, GraphKernelParameters, neighbourhoods
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.depending import depending
from fedbandits.contract.messages import Inbox
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import LEADERS
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.centres import centres


@parameters
class DistUCBKernel(GraphKernelParameters):
    """Centres play FedUCB-Eager, everybody else repeats its centre's arm (Dubey 2022, algorithm 17).

    Centres are a maximal independent set of G_d, heavy ones first (`graphs.centres`); every other agent follows one
    within d hops, and plays

        x_v(t) = x_c(v)(t - dist(v, c(v))):

    the newest point of its centre that has reached it. That is for decision sets that stay the same. Where they change,
    as in the thesis' own experiments, which do not say what then happens, it takes the arm of its own set that is
    nearest to that point. Until it has heard of any it learns alone. All tell (x, y). Agents need to know the graph.

    `likeness` is "same" by default: the algorithm is for agents with one function.

    Guarantee (theorem 8.3: one function, one decision set for all agents and turns, theory width): with probability
    1 - delta, regret O(gamma sqrt(alpha(G_d) T / M)) up to logarithms for each agent on average, gamma being the
    information gain of MT observations and alpha(G_d) the most agents of whom none reaches another: centres are such a
    set, so there are no more. The thesis takes the heaviest; that nobody is without a centre is all that is needed.
    None where decision sets change, or agents differ and `likeness` is "same".
    """

    likeness: Literal["estimated", "told", "same"] = "same"

    about: ClassVar[About] = depending(
        About(
            name="dist-ucb-kernel",
            family="kernel",
            topology="graph",
            talks="after every decision, to all within d hops; centres listen, others follow",
            says=(TOLD,),
            calls="scheduled",
            guarantee="regret O(gamma sqrt(alpha(G_d) T / M)) per agent, one function and one decision set for all",
            source="Dubey (2022), thesis, algorithm 17",
            environment="heterogeneous-rbf",
        ),
        heard,
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CentredAgents:
        """n agents, each a centre or one who follows."""
        place = self.place(problem)
        led, near = centres(place.graph, place.hops), neighbourhoods(place)
        mine = rng.identities
        leaders = led.leader[mine]
        reaches = [near[i] if leader == i else np.array([i]) for i, leader in zip(mine, leaders, strict=True)]
        return CentredAgents(self, problem, reaches, leaders, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""


class CentredAgents(GraphKernelAgents):
    """Centres, and followers with the last point they have heard of (`copied`, and the round `copied_born` in which it
    was taken, -1 before the first).
    """

    keeps: ClassVar[tuple[str, ...]] = (*GraphKernelAgents.keeps, "copied", "copied_born")

    def __init__(
        self,
        given: DistUCBKernel,
        problem: Problem,
        reaches: Sequence[IntArray],
        leaders: IntArray,
        n: int,
        rng: Streams,
    ) -> None:
        super().__init__(given, problem, reaches, n, rng)
        self._leaders = leaders
        self.copied = np.zeros((n, problem.dim))
        self.copied_born = np.full(n, -1)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`; those who follow have no use for theirs, and tell it."""
        super().learn(who, arms, picks, rewards)
        self.waiting[who[self.copied_born[who] >= 0]] = False

    def hear(self, inbox: Inbox) -> None:
        """Centres take in what was observed; others note what their centre did."""
        super().hear(inbox)
        followed = inbox.said.who[inbox.row] == self._leaders[inbox.to]
        to, row = inbox.to[followed], inbox.row[followed]
        order = np.argsort(inbox.born[row], kind="stable")  # the newest is written last
        to, row = to[order], row[order]
        newer = inbox.born[row] > self.copied_born[to]
        self.copied[to[newer]] = inbox.said.arrays["point"][row[newer]]
        self.copied_born[to[newer]] = inbox.born[row[newer]]

    def portrait(self) -> State:
        """How many observations each agent acts on, and whom it follows; see `portrait`."""
        return {**super().portrait(), LEADERS: self._leaders}

    def _indices(self, who: IntArray, arms: FloatArray) -> FloatArray:
        """Those of the process, or minus the squared distance from what an agent follows."""
        found = super()._indices(who, arms)
        follows = self.copied_born[who] >= 0
        found[follows] = -((arms[follows] - self.copied[who[follows], None]) ** 2).sum(axis=2)
        return found
