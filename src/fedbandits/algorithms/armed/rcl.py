"""Cooperative UCB1 where messages get lost or come late: RCL-LF, RCL-SD and delayed MP-UCB.

All three play each arm once, then argmax_k mean_k + sigma sqrt(2 (xi + 1) log t / n_k) on all they have seen or heard.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedbandits.algorithms.armed.estimators import EmpiricalMean, Estimation
from fedbandits.algorithms.armed.fed_ucb1 import EARNED, PULLED, REWARD, FedUCB1Agents
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Noise, Place
from fedbandits.contract.messages import Inbox
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.graphs.hops import pairs_by_distance
from fedbandits.linalg.jit import jit


@parameters
class CooperativeUCB:
    """`xi` > 1 sets how much is explored; `noise` is sigma, by default that of the problem."""

    xi: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 1.1
    noise: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    def estimation(self, problem: Problem) -> Estimation:
        """The empirical mean with the width that `xi` asks for."""
        sigma = problem.get(Noise, Noise()).sigma if self.noise is None else self.noise
        return Estimation(exploration=2 * (self.xi + 1) * sigma**2)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""


@parameters
class RCLLF(CooperativeUCB):
    """For links that fail: agent i drops each message it receives with probability 1 - p_i.

    p_i = d_min / d_i, degrees in G_gamma. Agents with many neighbours thus learn no faster than those with few, whom
    they would otherwise leave without the exploration of others to rely on.

    Guarantee, if every transmission succeeds with probability p: regret O((sum_i (1 - p_i p) + chi(G) p max_i p_i)
    sum_k log T / Delta_k), with p^gamma_i in place of p for messages of several hops.
    """

    about: ClassVar[About] = About(
        name="rcl-lf",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret O((sum_i (1 - p_i p) + chi(G) p max_i p_i) sum_k log T / Delta_k), links succeeding w.p. p",
        source="Madhushani, Dubey, Leonard & Pentland, NeurIPS 2021",
        environment="gaussian",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> ThinningAgents:
        """n agents that drop some of what they hear."""
        place = problem.need(Place, by=self.about)
        return ThinningAgents(self.estimation(problem), problem, place, n, rng)


@parameters
class RCLSD(CooperativeUCB):
    """For messages to direct neighbours that come late: each counts from the round in which it arrives.

    Guarantee, for independent delays tau <= tau_max: regret of FedUCB1 with gamma = 1, plus (M E[tau] + 2 log T + 2
    sqrt(M E[tau] log T)) sum_k Delta_k.
    """

    about: ClassVar[About] = About(
        name="rcl-sd",
        family="armed",
        topology="graph",
        talks="after every pull, to its direct neighbours",
        says=(REWARD,),
        calls="scheduled",
        guarantee="regret of FedUCB1 with gamma = 1, plus O(M E[tau] + log T) sum_k Delta_k for delays tau",
        source="Madhushani, Dubey, Leonard & Pentland, NeurIPS 2021",
        hops=1,
        environment="gaussian",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> FedUCB1Agents:
        """n agents that count messages when they arrive."""
        return FedUCB1Agents(self.estimation(problem), problem, n, rng.identities)


@parameters
class MPUCBDelayed(CooperativeUCB):
    """MP-UCB (FedUCB1 with this family's width) that counts a message only `wait` rounds after it was said, so that
    those near its origin have no advantage over those farther away. `wait = 1` is MP-UCB itself.

    Rounds are counted in the listener's own turns, which are the rounds in which messages are said when all agents act
    in every round. No guarantee of its own is stated for it.
    """

    wait: Annotated[int, Field(ge=1)] = 2

    about: ClassVar[About] = About(
        name="mp-ucb-delayed",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="none stated; MP-UCB's is that of FedUCB1",
        source="Madhushani, Dubey, Leonard & Pentland, NeurIPS 2021",
        environment="gaussian",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> WaitingAgents:
        """n agents that let messages ripen."""
        return WaitingAgents(self.estimation(problem), problem, n, rng.identities, self.wait)


class ThinningAgents(FedUCB1Agents):
    """Agents who heed each letter with a probability of their own, `heeds` (n,)."""

    keeps: ClassVar[tuple[str, ...]] = (*FedUCB1Agents.keeps, "rng")

    def __init__(self, estimation: Estimation, problem: Problem, place: Place, n: int, rng: Streams) -> None:
        super().__init__(estimation, problem, n, rng.identities)
        self.rng = rng
        within = pairs_by_distance(place.graph, place.hops)[1:]
        degree = sum(
            (np.bincount(pairs.origin, minlength=problem.agents) for pairs in within), np.zeros(problem.agents)
        )
        # an agent without neighbours hears nothing, and none of the others is the less connected for it
        least = degree[degree > 0].min(initial=np.inf)
        self.heeds = (least / np.maximum(degree, 1))[rng.identities]

    def _heed(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        kept = self.rng.uniform(to) < self.heeds[to]
        super()._heed(to[kept], row[kept], arms, rewards)


class WaitingAgents(FedUCB1Agents):
    """Agents who put aside what they hear until it is old enough.

    Slot m mod wait of `waiting_sums` and `waiting_counts` (n, wait, K) holds what counts from turn m on, 0-based.
    """

    keeps: ClassVar[tuple[str, ...]] = (*FedUCB1Agents.keeps, "waiting_sums", "waiting_counts")

    def __init__(self, estimation: Estimation, problem: Problem, n: int, identities: IntArray, wait: int) -> None:
        super().__init__(estimation, problem, n, identities)
        self._wait = wait
        self.waiting_sums = np.zeros((n, wait, problem.arms))
        self.waiting_counts = np.zeros((n, wait, problem.arms), dtype=np.int64)

    def hear(self, inbox: Inbox) -> None:
        """Put the rewards of others where they belong by age."""
        arrays = inbox.said.arrays
        _put_aside(
            inbox.to,
            inbox.row,
            inbox.born,
            arrays[PULLED.name],
            arrays[EARNED.name],
            self.turns,
            self.waiting_sums,
            self.waiting_counts,
        )

    def _pick(self, who: IntArray) -> IntArray:
        slot = self.turns[who] % self._wait
        assert isinstance(self.known, EmpiricalMean)
        self.known.merge(who, self.waiting_sums[who, slot], self.waiting_counts[who, slot])
        self.waiting_sums[who, slot] = 0.0
        self.waiting_counts[who, slot] = 0
        return super()._pick(who)


@jit
def _put_aside(
    to: IntArray,
    row: IntArray,
    born: IntArray,
    arms: IntArray,
    rewards: FloatArray,
    turns: IntArray,
    sums: FloatArray,
    counts: IntArray,
) -> None:
    wait = sums.shape[1]
    for e in range(len(to)):
        i, r = to[e], row[e]
        # what is old enough counts from the next turn on, which is turns[i]; nothing waits for more than `wait` turns
        ripe = min(max(born[r] + wait, turns[i]), turns[i] + wait - 1)
        sums[i, ripe % wait, arms[r]] += rewards[r]
        counts[i, ripe % wait, arms[r]] += 1
