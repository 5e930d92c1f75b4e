"""CHARM: leaders eliminate arms in epochs, everybody else imitates a leader; how far messages lie need not be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.algorithms.armed.fed_ucb1 import EARNED, PULLED, REWARD
from fedbandits.contract.arrays import FloatArray, IntArray, State
from fedbandits.contract.catalogue import About
from fedbandits.contract.facts import Place
from fedbandits.contract.messages import Inbox, Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.portrait import KNOWN, LEADERS
from fedbandits.contract.problem import Problem
from fedbandits.contract.state import Stateful
from fedbandits.contract.streams import Streams
from fedbandits.graphs.leaders import leadership
from fedbandits.linalg.jit import jit

_LONGEST = 2.0**60
"""Turns of the longest epoch: no run lasts so long, and the end of such an epoch still is an int64."""


@parameters
class CHARM:
    """Cooperative hybrid arm elimination, for messages in which every hop may change a reward by up to eps, unknown.

    Leaders I are a dominating set of the power graph G_gamma; every other agent imitates one leader within gamma hops
    (see `network.leaders`), and V_i are leader i and its imitators. In turns 1..K everybody takes each arm once. Then
    leader i repeats, for epochs m = 1, 2, ...

    - 2 gamma turns of UCB1, argmax_k mean_k + sqrt(2 log t / n_k) on its own pulls, which nobody can tamper with, while
      the last rewards of epoch m - 1 are under way;
    - the gaps, from what was told in epoch m - 1 (all 1 before the first), the sum over the rewards r~ of V_i:

          r_k = sum r~ [arm k] / nbar_k(m-1),   Delta_k(m-1) = max(2^-(m-1), max_l (r_l - Delta_l(m-2)/16) - r_k);

    - L turns in which arm k is drawn with probability p_k = n_k/N, n_k = lambda/Delta_k(m-1)^2, N = sum_k n_k; of them
      V_i makes nbar_k(m) = p_k L |V_i| pulls of arm k in expectation.

    Imitator j at distance h repeats what its leader did h turns ago: the newest action that has reached it; in its
    first h turns after the K-th, and as long as nothing has reached it, it draws an arm uniformly. What j says in round
    s belongs to epoch m of its leader if s - h is one of the L turns. All tell (arm, reward).

    `epochs`: L = ceil(N/|V_i|), by which V_i makes N pulls in an epoch (``"shared"``), as the analysis has it; or L =
    ceil(N), |V_i| times as many (``"literal"``), as the pseudocode has it. `lambda_scale` is c in lambda = c log((8 K
    |I|/delta) log2 T). The 1024 of the analysis makes the first epoch last beyond most simulations (K = 5, one leader,
    T = 10^4: 43 900 pulls); 1 to 16 is of use there, and has no guarantee. `divisor`: sums are divided by the expected
    number of pulls, as the analysis has it, or by the ``"realised"`` one; an arm nobody pulled counts as 0 either way.

    The pseudocode is completed and corrected: it lacks the rule for the gaps, which lemmas 5.1 to 5.4 determine (it is
    that of Gupta, Koren & Talwar, COLT 2019), plays "arm K" in turns 1..K, draws with n_k/n_k, puts the independence
    number for |I| into lambda, and lets neighbourhoods overlap where an agent can follow but one leader.

    Guarantee (theorem 5.4, rewards in [0, 1], `lambda_scale` 1024; "independent set" in its proof means the dominating
    set): with probability 1 - delta, group regret O(K T M gamma eps + sum_k [|I| (log T/Delta_k) log(K |I| log T/delta)
    + M Delta_k + M log(M gamma log T)/Delta_k]); theorem 5.5 gives 1024^2 and 74 as the constants of its terms.

    Reservations. Lemma 5.2 takes all pulls of V_i for independent draws, but imitators copy: shared epochs have N/|V_i|
    draws, and the number of pulls of an arm varies sqrt(|V_i|) times as much as the lemma allows. Literal epochs are
    not affected, and cost |V_i| times the regret; the realised divisor takes that variation out of r_k (50 agents,
    three leaders, T = 2000, lambda_scale 1: mean regret 2 700 instead of 21 800). And everybody must act in every
    round, with no message lost or late: the algorithm runs under other schedules and faults, without a guarantee.
    """

    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    lambda_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1024.0
    epochs: Literal["shared", "literal"] = "shared"
    divisor: Literal["expected", "realised"] = "expected"

    about: ClassVar[About] = About(
        name="charm",
        family="armed",
        topology="graph",
        talks="after every pull, to all within gamma hops",
        says=(REWARD,),
        calls="scheduled",
        guarantee="w.p. 1 - delta regret O(K T M gamma eps + psi(G_gamma) sum_k log T log(K psi log T / delta) / "
        "Delta_k + M sum_k log(M gamma log T) / Delta_k) if a hop changes rewards by at most eps; all agents active",
        source="Dubey (2022), thesis, section 5.2",
        environment="bernoulli",
    )

    def agents(self, problem: Problem, n: int, rng: Streams) -> CHARMAgents:
        """n agents, each a leader or an imitator."""
        return CHARMAgents(self, problem, problem.need(Place, by=self.about), n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        """Agents talk to each other."""

    def pulls(self, problem: Problem, leaders: int) -> float:
        """The number lambda: how many pulls an arm of gap 1 gets in an epoch."""
        rounds = np.log2(max(problem.horizon, 2))
        return float(self.lambda_scale * np.log(8 * problem.arms * leaders / self.delta * rounds))


class Epochs(Stateful):
    """The elimination epochs of n leaders: how many have begun (`number`), the turns `begins` to `ends` (exclusive) of
    the newest, the `gaps` (n, K) it was planned with, and what has been told of it: the sums of rewards `feedback`
    (n, K) and how many those are (`gathered` (n, K)). Before the first epoch, and for imitators always, all gaps are 1.
    """

    keeps: ClassVar[tuple[str, ...]] = ("number", "begins", "ends", "gaps", "feedback", "gathered")

    def __init__(self, parameters: CHARM, problem: Problem, hops: int, sizes: IntArray, leaders: int) -> None:
        n, arms = len(sizes), problem.arms
        self._parameters = parameters
        self._sizes = sizes
        self._window = 2 * hops
        self._pulls = parameters.pulls(problem, leaders)
        self.number = np.zeros(n, dtype=np.int64)
        self.begins = np.full(n, arms + 1)
        self.ends = np.full(n, arms + 1)
        self.gaps = np.ones((n, arms))
        self.feedback = np.zeros((n, arms))
        self.gathered = np.zeros((n, arms), dtype=np.int64)

    def begin(self, who: IntArray, turns: IntArray) -> None:
        """Let those of `who`, in their turns (w,), whose window of UCB1 is over begin their next epoch."""
        due = turns >= self.ends[who] + self._window
        if not due.any():
            return
        who, turns = who[due], turns[due]
        told = who[self.number[who] > 0]
        self.gaps[told] = self._gaps_told(told)
        self.number[who] += 1
        total = self._pulls * self._weights(who).sum(axis=1)
        if self._parameters.epochs == "shared":
            total /= self._sizes[who]
        length = np.minimum(np.ceil(total), _LONGEST).astype(np.int64)
        self.begins[who] = turns
        self.ends[who] = turns + length
        self.feedback[who] = 0.0
        self.gathered[who] = 0

    def expected(self, who: IntArray) -> FloatArray:
        """(w, K) nbar: how often each arm is pulled in the newest epoch, by leader and imitators together."""
        weights = self._weights(who)
        pulls = (self.ends[who] - self.begins[who]) * self._sizes[who].astype(np.float64)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True) * pulls[:, None])

    def draw(self, who: IntArray, uniforms: FloatArray) -> IntArray:
        """(w,) an arm for each of `who`, with probabilities proportional to 1/gap^2, by one uniform (w,) each."""
        ladder = np.cumsum(self._weights(who), axis=1)
        above = (uniforms * ladder[:, -1])[:, None] >= ladder
        # rounding may lift a uniform close to 1 above the last rung
        return np.asarray(np.minimum(above.sum(axis=1), ladder.shape[1] - 1))

    def count(self, who: IntArray, turns: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        """Count the own rewards of `who` in their turns (w,) where these belong to the newest epoch."""
        inside = (self.begins[who] <= turns) & (turns < self.ends[who])
        self.feedback[who[inside], picks[inside]] += rewards[inside]
        self.gathered[who[inside], picks[inside]] += 1

    def _weights(self, who: IntArray) -> FloatArray:
        return np.asarray(1.0 / self.gaps[who] ** 2)

    def _gaps_told(self, who: IntArray) -> FloatArray:
        pulls = self.expected(who) if self._parameters.divisor == "expected" else np.maximum(self.gathered[who], 1)
        means = self.feedback[who] / pulls
        best = (means - self.gaps[who] / 16).max(axis=1, keepdims=True)
        return np.asarray(np.maximum(np.ldexp(1.0, -self.number[who, None]), best - means))


class CHARMAgents(ArmedAgents):
    """Leaders with their own pulls (`sums`, `counts` (n, K)) and their `epochs`; imitators with the newest action of
    their leader (`copied`, -1 before the first, and its round).
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *ArmedAgents.keeps,
        "sums",
        "counts",
        "pulled",
        "earned",
        "epochs",
        "copied",
        "copied_born",
        "rng",
    )

    def __init__(self, parameters: CHARM, problem: Problem, place: Place, n: int, rng: Streams) -> None:
        super().__init__(problem, n)
        self.rng = rng
        led = leadership(place.graph, place.hops)
        self._leader, self._distance = led.leader, led.distance
        identities = rng.identities
        self._leads = led.leader[identities] == identities
        followed = np.bincount(led.leader, minlength=problem.agents)
        self.epochs = Epochs(parameters, problem, place.hops, followed[identities], leaders=len(led.leaders))
        self.sums = np.zeros((n, problem.arms))
        self.counts = np.zeros((n, problem.arms), dtype=np.int64)
        self.pulled = np.zeros(n, dtype=np.int64)
        self.earned = np.zeros(n)
        self.copied = np.full(n, -1)
        self.copied_born = np.full(n, -1)

    def say(self, learned: IntArray) -> Sequence[Message]:
        """Arm and reward of the last pull of each agent that has just made it."""
        arrays = {PULLED.name: self.pulled[learned], EARNED.name: self.earned[learned]}
        return (Message(REWARD.kind, learned, arrays),)

    def hear(self, inbox: Inbox) -> None:
        """Leaders count the rewards of their imitators in the newest epoch, imitators note what their leader did."""
        pulled, earned = inbox.said.arrays[PULLED.name], inbox.said.arrays[EARNED.name]
        unfit = (pulled < 0) | (pulled >= self._arms) | ~np.isfinite(earned)
        if unfit.any():
            guilty = inbox.said.who[unfit]
            raise ValueError(
                f"agents {guilty[:5].tolist()} tell of arms outside 0..{self._arms - 1} or rewards not finite"
            )
        epochs = self.epochs
        _heed(
            inbox.to,
            inbox.row,
            inbox.said.who,
            inbox.born,
            pulled,
            earned,
            self.rng.identities,
            self._leader,
            self._distance,
            epochs.begins,
            epochs.ends,
            epochs.feedback,
            epochs.gathered,
            self.copied,
            self.copied_born,
        )

    @property
    def gaps(self) -> FloatArray:
        """(n, K) Delta_k(m-1), as every leader has estimated them for its newest epoch m."""
        return self.epochs.gaps

    def portrait(self) -> State:
        """Whom each agent follows, and its own samples with those told of its newest epoch; see `portrait`."""
        known = self.counts.sum(axis=1) + self.epochs.gathered.sum(axis=1)
        return {LEADERS: self._leader[self.rng.identities], KNOWN: known.astype(np.float64)}

    def _pick(self, who: IntArray) -> IntArray:
        turns = self.turns[who] + 1
        picks = turns - 1
        started, leads = turns > self._arms, self._leads[who]
        leading = started & leads
        self.epochs.begin(who[leading], turns[leading])
        window = leading & (turns >= self.epochs.ends[who])
        picks[window] = self._optimistic(who[window], turns[window])
        imitating = started & ~leads
        picks[imitating] = self.copied[who[imitating]]
        early = turns <= self._arms + self._distance[self.rng.identities[who]]
        # an imitator's gaps are all equal: it draws uniformly
        drawn = (leading & ~window) | (imitating & (early | (picks < 0)))
        uniforms = self.rng.uniform(who[drawn])
        picks[drawn] = self.epochs.draw(who[drawn], uniforms)
        return picks

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.sums[who, picks] += rewards
        self.counts[who, picks] += 1
        self.pulled[who] = picks
        self.earned[who] = rewards
        self.epochs.count(who, self.turns[who] + 1, picks, rewards)

    def _optimistic(self, who: IntArray, turns: IntArray) -> IntArray:
        """(w,) the choice of UCB1 on own pulls; an arm never pulled comes first."""
        counts = self.counts[who]
        pulls = np.maximum(counts, 1)
        index = self.sums[who] / pulls + np.sqrt(2.0 * np.log(turns)[:, None] / pulls)
        return np.asarray(np.where(counts > 0, index, np.inf).argmax(axis=1))


@jit
def _heed(
    to: IntArray,
    row: IntArray,
    origin: IntArray,
    born: IntArray,
    pulled: IntArray,
    earned: FloatArray,
    identities: IntArray,
    leader: IntArray,
    distance: IntArray,
    begins: IntArray,
    ends: IntArray,
    feedback: FloatArray,
    gathered: IntArray,
    copied: IntArray,
    copied_born: IntArray,
) -> None:
    for e in range(len(to)):
        i, r = to[e], row[e]
        me, sender = identities[i], origin[r]
        if leader[sender] == me:
            # rounds are counted from 0, turns from 1
            turn = born[r] + 1 - distance[sender]
            if begins[i] <= turn < ends[i]:
                feedback[i, pulled[r]] += earned[r]
                gathered[i, pulled[r]] += 1
        elif leader[me] == sender and born[r] > copied_born[i]:
            copied[i] = pulled[r]
            copied_born[i] = born[r]
