"""FedUCB1: UCB1 on everything an agent has seen or heard of; with a robust mean for heavy tails or outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import INDEXED, IndexAgents, in_place, pick_indexed
from fedbandits.algorithms.armed.estimators import Estimation, MeanName
from fedbandits.algorithms.armed.telling import TELLING, Told, heed_rewards, telling
from fedbandits.algorithms.armed.theory import clique_count, lower_bound, strangers, upper_bound
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.arrays import Array, FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, heed_all, stands_for, untouched
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import KNOWN
from fedbandits.contract.post import Post
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireField
from fedbandits.graphs.leaders import clique_of
from fedbandits.linalg.jit import jit_inside
from fedbandits.models import limits

PULLED = WireField("arm", dtype="i8")
EARNED = WireField("reward", raw=True, bound=Bound(limits.reward, per_observation=False))
REWARD = Utterance("reward", "peer", (PULLED, EARNED))
"""What an agent has just pulled, and what it got for it."""


@parameters
class FedUCB1(Estimation):
    """Every agent plays UCB1 on its own samples and those of all within gamma hops.

    It tells (arm, reward) after each pull, messages live for gamma hops, and after each arm once everybody plays

        argmax_k  mean_k(S) + width_k(|S|, t)

    on the set S of its own samples and all it has heard. Mean and width are those of `Estimation`:
    the empirical mean with sqrt(2 log t / |S|) as in chapter 2, the trimmed mean of chapter 4, or another.

    `listens = "clique"` drops what comes from outside the agent's clique in a clique cover of the power graph G_gamma:
    the rule of the printed pseudocode, which only mirrors the proof and needs the graph; by default all is used.

    Guarantee (theorem 2.2, rewards in [0, 1]): group regret O(chi(G_gamma) sum_k log T / Delta_k + M gamma sum_k
    Delta_k), chi the clique cover number. For sigma-sub-Gaussian rewards that needs `exploration` = 8 sigma^2. With the
    trimmed mean (theorem 4.1): O(chi(G_gamma) sum_k Delta_k^(-1/eps) log T). No guarantee when messages are lost,
    corrupted or late.
    """

    listens: Literal["neighbourhood", "clique"] = "neighbourhood"

    about: ClassVar[About] = About(
        name="fed-ucb1",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret O(chi(G_gamma) sum_k log T / Delta_k + M gamma sum_k Delta_k), chi the clique cover number",
        source="Dubey (2022), thesis, sections 2.2 and 4.2",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> FedUCB1Agents:
        """n agents that tell and hear of rewards."""
        cliques = None
        if self.listens == "clique":
            place = problem.need(Place, by=self.about)
            cliques = clique_of(place.graph, place.hops)
        return FedUCB1Agents(self, problem, n, rng.identities, cliques)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorems 2.2 and 2.4: cliques learn as one; agents whose neighbourhoods are disjoint cannot."""
        if means is None:
            return None
        place = problem.need(Place, by=self.about)
        late = problem.agents * place.hops + 2
        upper = upper_bound(self, problem, means, groups=clique_count(place), extra=late)
        return Bounds(upper, lower_bound(problem, means, agents=strangers(place)))


@parameters
class RobustFedUCB(FedUCB1):
    """FedUCB1 with the shortest-interval mean: for messages of which a share `contamination` carries anything at all.

    Guarantee (theorem 5.2, reading sqrt(eps) throughout): regret O(chi(G_gamma) sum_k Delta_k log T / (Delta_k -
    2 sqrt(eps))^2 + M gamma chi sum_k Delta_k) if eps < Delta_k^2/4 for all k, for rewards of variance sigma^2, that
    of the fact `Noise`. eps must be known, or bounded from above; no algorithm of the publication does without.
    The theorem rests on widths up to a constant: with `scale` = 1, as printed, they do not cover, with 2.5 they did in
    measurements (see `estimators.shortest_interval`).
    """

    mean: MeanName = "shortest-interval"

    about: ClassVar[About] = About(
        name="robust-fed-ucb",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret O(chi(G_gamma) sum_k Delta_k log T / (Delta_k - 2 sqrt(eps))^2), contamination eps",
        source="Dubey (2022), thesis, section 5.1",
        environment="bernoulli",
    )


class FedUCB1Agents(IndexAgents):
    """Agents who tell what they got, and count what they hear as if it were their own.

    `cliques` (M,), of all agents of the problem: who is of another one is not listened to; None: everybody is.
    """

    keeps: ClassVar[tuple[str, ...]] = ("turns", "known", "pulled", "earned")

    def __init__(
        self,
        estimation: Estimation,
        problem: Problem,
        n: int,
        identities: IntArray,
        cliques: IntArray | None = None,
    ) -> None:
        super().__init__(estimation, problem, n)
        self._identities = identities
        self._cliques = cliques
        self._letters = np.zeros(n, dtype=np.int64)
        self.pulled = np.zeros(n, dtype=np.int64)
        self.earned = np.zeros(n)

    def say(self, learned: IntArray) -> Sequence[Message]:
        """Arm and reward of the last pull of each agent that has just made it."""
        return (Message(REWARD.kind, learned, self._last(learned)),)

    def hear(self, inbox: Inbox) -> None:
        """Count the rewards of others."""
        to, row = inbox.to, inbox.row
        if self._cliques is not None:
            own = self._cliques[self._identities[to]] == self._cliques[inbox.said.who[row]]
            to, row = to[own], row[own]
        self._heed(to, row, inbox.said.arrays[PULLED.name], inbox.said.arrays[EARNED.name])

    def portrait(self) -> State:
        """How many samples each agent acts on; see `portrait`."""
        return {KNOWN: self.known.counts.sum(axis=1, dtype=np.float64)}

    def _last(self, who: IntArray) -> dict[str, Array]:
        return {PULLED.name: self.pulled[who], EARNED.name: self.earned[who]}

    def _heed(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        self.known.gather(to, row, arms, rewards)

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        super()._observe(who, picks, rewards)
        self.pulled[who] = picks
        self.earned[who] = rewards

    # without the interpreter

    def corresponding(self, letters: IntArray) -> int:
        """See `Population`: what is said of the last pull, and the weight of its reward."""
        self._letters = letters
        return 3

    def compiled(self) -> Any:
        """See `Population`."""
        told = self.told() if untouched(self, FedUCB1Agents, *INDEXED, *TELLING) else None
        return None if told is None else Peers(told)

    def told(self) -> Told | None:
        """For compiled loops; None where they cannot estimate, and where agents do not listen to everybody."""
        own = None if self._cliques is not None else self.indexed(self._letters + 2)
        return None if own is None else Told(own, self.pulled, self.earned, np.zeros(self._n))


@telling
class Peers(NamedTuple):
    """`FedUCB1Agents` for compiled loops."""

    told: Told


@stands_for(choose, Peers)
@jit_inside
def _choose(agents: Peers, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    own = agents.told.own
    return pick_indexed(own, i) if in_place(own.places, arms, row) else -1


@stands_for(heed_all, Peers)
@jit_inside
def _heed_all(agents: Peers, post: Post, newest: int) -> None:
    heed_rewards(agents.told, post, newest)
