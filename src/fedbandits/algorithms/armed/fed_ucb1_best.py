"""FedUCB1-Best: for every arm, the estimate of whoever within reach has most samples of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import INDEXED, in_place, index_at
from fedbandits.algorithms.armed.estimators import Estimation, MeanName
from fedbandits.algorithms.armed.estimators.compiled import estimate_at
from fedbandits.algorithms.armed.estimators.contract import demand_at
from fedbandits.algorithms.armed.fed_ucb1 import EARNED, PULLED, FedUCB1Agents
from fedbandits.algorithms.armed.telling import TELLING, Told, heed_rewards, tell_reward, telling
from fedbandits.algorithms.armed.theory import domination, lower_bound, upper_bound
from fedbandits.contract.algorithm import Bounds
from fedbandits.contract.arrays import FloatArray, Index, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, heed_all, stands_for, tell, untouched
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.post import Post, letter
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Utterance, WireField
from fedbandits.linalg.jit import jit, jit_inside
from fedbandits.linalg.simd import REGISTER, address, any_at_least, load, target, zero
from fedbandits.models import limits

_REGISTERS = 2
_LANES = _REGISTERS * REGISTER
"""Arms that are looked at side by side."""
ESTIMATE = WireField("estimate", ("K",))
SAMPLES = WireField("samples", ("K",), dtype="i8", bound=Bound(limits.none, per_observation=False, low=0.0))
BELIEF = Utterance("belief", "peer", (PULLED, EARNED, ESTIMATE, SAMPLES))
"""The last pull, and what the agent believed of every arm when it made it, on how many samples."""


@parameters
class FedUCB1Best(Estimation):
    """Every agent uses, for each arm, the estimate made from most samples within gamma hops.

    As in FedUCB1, but messages also carry the sender's K estimates and sample counts n_v,k, and an agent plays

        argmax_k  mean_v*,k + width_k(n_v*,k, t),    v* = argmax_v n_v,k over itself and all it has heard of.

    What is kept of others is, for each arm, the estimate with most samples, of those the newest. Since counts only
    grow, that is what the latest messages of all neighbours would give. The width takes the listener's own turn t (the
    pseudocode's reading, and the larger one), not the turn in which the estimate was made.

    Guarantee (theorem 4.2): regret O(psi(G_gamma) sum_k Delta_k^(-1/eps) log T + (psi gamma + M) sum_k Delta_k), psi
    the domination number, which agents need not know; eps = 1 for sub-Gaussian rewards. Messages are of size K.
    """

    about: ClassVar[About] = About(
        name="fed-ucb1-best",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(BELIEF,),
        calls="scheduled",
        guarantee="regret O(psi(G_gamma) sum_k log T / Delta_k), psi the domination number; messages of size K",
        source="Dubey (2022), thesis, section 4.2",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> FedUCB1BestAgents:
        """n agents that tell what they believe."""
        return FedUCB1BestAgents(self, problem, n, rng.identities)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def bounds(self, problem: Problem, means: FloatArray | None) -> Bounds | None:
        """Theorems 4.2 and 2.3: everybody knows what its dominating neighbour knows."""
        if means is None:
            return None
        place = problem.need(Place, by=self.about)
        groups = domination(place)
        upper = upper_bound(self, problem, means, groups, extra=groups * (place.hops + 2) + problem.agents)
        return Bounds(upper, lower_bound(problem, means))


@parameters
class RobustFedUCBBest(FedUCB1Best):
    """FedUCB1-Best with the shortest-interval mean, for contaminated rewards in messages.

    Guarantee (remark 5.4): psi(G_gamma) in place of chi(G_gamma) in the regret of Robust-FedUCB. It rests on honest
    estimates: contamination changes the rewards that agents tell of, not what they believe.
    """

    mean: MeanName = "shortest-interval"

    about: ClassVar[About] = About(
        name="robust-fed-ucb-best",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(BELIEF,),
        calls="scheduled",
        guarantee="regret O(psi(G_gamma) sum_k Delta_k log T / (Delta_k - 2 sqrt(eps))^2), contamination eps",
        source="Dubey (2022), thesis, remark 5.4",
        environment="bernoulli",
    )


class FedUCB1BestAgents(FedUCB1Agents):
    """Agents with beliefs of their own (`estimate`, `samples`: as of the last decision) and the best they heard of."""

    keeps: ClassVar[tuple[str, ...]] = (
        *FedUCB1Agents.keeps,
        "estimate",
        "samples",
        "best_estimate",
        "best_samples",
        "best_born",
    )

    def __init__(self, estimation: Estimation, problem: Problem, n: int, identities: IntArray) -> None:
        super().__init__(estimation, problem, n, identities)
        shape = (n, problem.arms)
        self.estimate, self.samples = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        self.best_estimate, self.best_samples = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        self.best_born = np.full(shape, -1)

    def say(self, learned: IntArray) -> Sequence[Message]:
        """The last pull of each agent that has just made it, and what it believed then."""
        beliefs = {ESTIMATE.name: self.estimate[learned], SAMPLES.name: self.samples[learned]}
        return (Message(BELIEF.kind, learned, {**self._last(learned), **beliefs}),)

    def hear(self, inbox: Inbox) -> None:
        """Count the rewards of others, and remember who knows most of each arm."""
        super().hear(inbox)
        arrays = inbox.said.arrays
        _remember_best(
            inbox.to,
            inbox.row,
            inbox.born,
            arrays[ESTIMATE.name],
            arrays[SAMPLES.name],
            self.best_estimate,
            self.best_samples,
            self.best_born,
        )

    def _indices(self, who: IntArray, turns: IntArray) -> FloatArray:
        self.estimate[who] = self.known.estimates(who, turns)
        self.samples[who] = self.known.counts[who]
        estimate, samples = _best_known(who, self.estimate, self.samples, self.best_estimate, self.best_samples)
        return estimate + self.known.widths(samples, turns)

    # without the interpreter

    def corresponding(self, letters: IntArray) -> int:
        """See `Population`: estimates and counts as well, and as much behind the counts as makes full lanes of them."""
        lanes = -(-self._arms // _LANES) * _LANES
        return 2 + self._arms + max(lanes, self._arms + super().corresponding(letters) - 2)

    def compiled(self) -> Any:
        """See `Population`."""
        told = self.told() if untouched(self, FedUCB1BestAgents, *INDEXED, *TELLING) else None
        if told is None:
            return None
        best = self.best_estimate, self.best_samples, self.best_born
        return Believers(told, self.estimate, self.samples, *best, np.empty(_LANES))


@telling
class Believers(NamedTuple):
    """`FedUCB1BestAgents` for compiled loops."""

    told: Told
    estimate: FloatArray
    samples: IntArray
    best_estimate: FloatArray
    best_samples: IntArray
    best_born: IntArray
    bars: FloatArray
    """Room for how many samples one has to have of each of several arms to be better than whoever is remembered."""


@stands_for(choose, Believers)
@jit_inside
def _choose(agents: Believers, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    own = agents.told.own
    if not in_place(own.places, arms, row):
        return -1
    turn = int(own.turns[i]) + 1
    now, demand = np.log(turn), demand_at(turn, own.rate.base, own.rate.slope)
    best, found = -np.inf, 0
    for k in range(own.places.arms):
        agents.estimate[i, k] = estimate_at(own.known, i, k, now)
        agents.samples[i, k] = own.counts[i, k]
        others = agents.best_samples[i, k] > agents.samples[i, k]
        mean = agents.best_estimate[i, k] if others else agents.estimate[i, k]
        count = agents.best_samples[i, k] if others else agents.samples[i, k]
        index = index_at(own, count, mean, demand)
        if index > best:
            best, found = index, k
    return turn - 1 if turn <= own.places.arms else found


@stands_for(tell, Believers)
@jit_inside
def _tell(agents: Believers, i: int, letters: FloatArray, row: int) -> None:
    tell_reward(agents.told, i, letters, row)
    arms = agents.told.own.places.arms
    for k in range(arms):
        letters[row, 2 + k] = agents.estimate[i, k]
        letters[row, 2 + arms + k] = agents.samples[i, k]


@stands_for(heed_all, Believers)
@jit_inside
def _heed_all(agents: Believers, post: Post, newest: int) -> None:
    heed_rewards(agents.told, post, newest)
    for i in range(len(post.starts) - 1):
        _remember(agents, np.uint64(i), post, newest, post.starts[i], post.starts[i + 1])


@jit_inside
def _remember(agents: Believers, me: Index, post: Post, newest: int, first: int, last: int) -> None:
    """Nearly all letters are of agents who know less of every arm: they are passed over, several arms at a time."""
    arms, size = agents.told.own.places.arms, post.said.shape[1]
    said, bars = address(post.said, 0), target(agents.bars, 0)
    for begin in range(0, arms, _LANES):
        for k in range(begin, begin + _LANES):
            agents.bars[k - begin] = agents.best_samples[me, k] if k < arms else np.inf
        bar = load(zero(_REGISTERS), bars, 0)
        for e in range(first, last):
            r = letter(post, newest, e)
            if any_at_least(load(bar, said, np.int64(r) * size + 2 + arms + begin), bar):
                _compare(agents, me, post, r, begin, min(begin + _LANES, arms))
                bar = load(bar, bars, 0)


@jit_inside
def _compare(agents: Believers, me: Index, post: Post, r: Index, begin: int, end: int) -> None:
    """Who said row r may know more than whoever is remembered of some of these arms."""
    arms = agents.told.own.places.arms
    for k in range(begin, end):
        told, held = post.said[r, np.uint64(2 + arms + k)], agents.best_samples[me, k]
        if told >= held and (told > held or post.born[r] > agents.best_born[me, k]):
            agents.best_samples[me, k] = int(told)
            agents.best_estimate[me, k] = post.said[r, np.uint64(2 + k)]
            agents.best_born[me, k] = post.born[r]
            agents.bars[k - begin] = told + 0.5  # no letter that follows is newer: it has to know more


@jit
def _remember_best(
    to: IntArray,
    row: IntArray,
    born: IntArray,
    estimate: FloatArray,
    samples: IntArray,
    best_estimate: FloatArray,
    best_samples: IntArray,
    best_born: IntArray,
) -> None:
    for e in range(len(to)):
        # unsigned: nobody has to look whether an index counts from the end
        i, r = np.uint64(to[e]), np.uint64(row[e])
        for k in range(samples.shape[1]):
            told, held = samples[r, k], best_samples[i, k]
            if told >= held and (told > held or born[r] > best_born[i, k]):
                best_samples[i, k] = told
                best_estimate[i, k] = estimate[r, k]
                best_born[i, k] = born[r]


@jit
def _best_known(
    who: IntArray,
    estimate: FloatArray,
    samples: IntArray,
    best_estimate: FloatArray,
    best_samples: IntArray,
) -> tuple[FloatArray, IntArray]:
    """(w, K) estimates, and of how many samples they are: of whoever knows most, the agent itself among equals."""
    shape = (len(who), samples.shape[1])
    means, counts = np.empty(shape), np.empty(shape, np.int64)
    for a in range(len(who)):
        i = who[a]
        for k in range(shape[1]):
            others = best_samples[i, k] > samples[i, k]
            means[a, k] = best_estimate[i, k] if others else estimate[i, k]
            counts[a, k] = best_samples[i, k] if others else samples[i, k]
    return means, counts
