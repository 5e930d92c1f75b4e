"""CentUCB1: leaders learn, everybody else repeats what its leader did."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import INDEXED, in_place, pick_indexed
from fedbandits.algorithms.armed.estimators import Estimation, MeanName
from fedbandits.algorithms.armed.fed_ucb1 import PULLED, REWARD, FedUCB1Agents
from fedbandits.algorithms.armed.telling import TELLING, Told, heed_rewards, telling
from fedbandits.algorithms.armed.theory import domination, lower_bound, upper_bound
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, heed_all, stands_for, untouched
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import LEADERS
from fedbandits.contract.post import Post, letter
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.leaders import leadership
from fedbandits.linalg.jit import jit, jit_inside

_NOT_FOUND, _NONE = -1, -2
"""Of letters: nobody has looked for it yet, and there is none."""


@parameters
class CentUCB1(Estimation):
    """Leaders play FedUCB1 on all they have seen or heard; followers repeat what their leader did.

    Leaders are a dominating set of the power graph G_gamma; every other agent v follows one of them, l(v), within gamma
    hops. Followers play each arm once, then

        a_v(t) = a_l(v)(t - dist(v, l(v))):

    the newest action of their leader that has reached them; before any has, they play FedUCB1 too. All tell (arm,
    reward). Agents need to know the graph beforehand, to agree on the leaders; see `network.leaders`.

    Guarantee (theorem 4.3; its statement drops a factor gamma): regret O(psi(G_gamma) sum_k Delta_k^(-1/eps) log T +
    psi M gamma sum_k Delta_k) with the size of the dominating set found in place of psi; eps = 1 for sub-Gaussian
    rewards.
    """

    about: ClassVar[About] = About(
        name="cent-ucb1",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret O(psi(G_gamma) sum_k log T / Delta_k + psi M gamma sum_k Delta_k), psi the domination number",
        source="Dubey (2022), thesis, section 4.3",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CentUCB1Agents:
        """n agents, each a leader or a follower."""
        return CentUCB1Agents(self, problem, problem.need(Place, by=self.about), n, rng.identities)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorem 4.3, with the factor gamma that its proof has, and theorem 2.3."""
        if means is None:
            return None
        place = problem.need(Place, by=self.about)
        groups, n = domination(place), problem.agents
        upper = upper_bound(self, problem, means, groups, extra=groups * n * place.hops + n + groups)
        return Bounds(upper, lower_bound(problem, means))


@parameters
class RobustCentUCB(CentUCB1):
    """CentUCB1 with the shortest-interval mean, for contaminated rewards in messages.

    Guarantee (remark 5.4): psi(G_gamma) in place of chi(G_gamma) in the regret of Robust-FedUCB.
    """

    mean: MeanName = "shortest-interval"

    about: ClassVar[About] = About(
        name="robust-cent-ucb",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret O(psi(G_gamma) sum_k Delta_k log T / (Delta_k - 2 sqrt(eps))^2), contamination eps",
        source="Dubey (2022), thesis, remark 5.4",
        environment="bernoulli",
    )


class CentUCB1Agents(FedUCB1Agents):
    """Leaders, and followers with the last action they have heard of (`copied`, -1 before the first, and its round)."""

    keeps: ClassVar[tuple[str, ...]] = (*FedUCB1Agents.keeps, "copied", "copied_born")

    def __init__(self, estimation: Estimation, problem: Problem, place: Place, n: int, identities: IntArray) -> None:
        super().__init__(estimation, problem, n, identities)
        self._leaders = leadership(place.graph, place.hops).leader[identities]
        self._follows = self._leaders != identities
        self.copied = np.full(n, -1)
        self.copied_born = np.full(n, -1)

    def hear(self, inbox: Inbox) -> None:
        """Count the rewards of others; followers also note what their leader did."""
        super().hear(inbox)
        pulled = inbox.said.arrays[PULLED.name]
        _note_leader(
            inbox.to, inbox.row, inbox.said.who, inbox.born, pulled, self._leaders, self.copied, self.copied_born
        )

    def portrait(self) -> State:
        """How many samples each agent acts on, and whom it follows; see `portrait`."""
        return {**super().portrait(), LEADERS: self._leaders}

    def _pick(self, who: IntArray) -> IntArray:
        own = super()._pick(who)
        copies = self._follows[who] & (self.copied[who] >= 0) & (self.turns[who] >= self._arms)
        return np.where(copies, self.copied[who], own)

    def compiled(self) -> Any:
        """See `Population`."""
        told = self.told() if untouched(self, CentUCB1Agents, *INDEXED, *TELLING) else None
        if told is None:
            return None
        return Led(told, self._leaders, self._follows, self.copied, self.copied_born, np.full(self._n, _NOT_FOUND))


@telling
class Led(NamedTuple):
    """`CentUCB1Agents` for compiled loops."""

    told: Told
    leaders: IntArray
    follows: BoolArray
    copied: IntArray
    copied_born: IntArray
    of_leader: IntArray
    """(n,) which letter is the leader's: it is the same one in every round."""


@stands_for(choose, Led)
@jit_inside
def _choose(agents: Led, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    own = agents.told.own
    if not in_place(own.places, arms, row):
        return -1
    picked = pick_indexed(own, i)  # by followers, too: estimators may have to know of every turn
    copies = agents.follows[i] and agents.copied[i] >= 0 and own.turns[i] >= own.places.arms
    return int(agents.copied[i]) if copies else picked


@stands_for(heed_all, Led)
@jit_inside
def _heed_all(agents: Led, post: Post, newest: int) -> None:
    heed_rewards(agents.told, post, newest)
    for i in range(len(agents.leaders)):
        if agents.of_leader[i] == _NOT_FOUND:
            agents.of_leader[i] = _find_leader(agents, i, post, newest)
        if agents.of_leader[i] == _NONE:
            continue
        r = letter(post, newest, agents.of_leader[i])
        if post.born[r] > agents.copied_born[i]:
            agents.copied[i], agents.copied_born[i] = int(post.said[r, 0]), post.born[r]


@jit_inside
def _find_leader(agents: Led, i: int, post: Post, newest: int) -> int:
    for e in range(post.starts[i], post.starts[i + 1]):
        if post.who[letter(post, newest, e)] == agents.leaders[i]:
            return int(e)
    return _NONE


@jit
def _note_leader(
    to: IntArray,
    row: IntArray,
    origin: IntArray,
    born: IntArray,
    pulled: IntArray,
    leader: IntArray,
    copied: IntArray,
    copied_born: IntArray,
) -> None:
    for e in range(len(to)):
        i, r = to[e], row[e]
        if origin[r] == leader[i] and born[r] > copied_born[i]:
            copied[i] = pulled[r]
            copied_born[i] = born[r]
