"""Agents that pull what a design says, phase by phase, and tell what they found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.contract.arrays import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    check_arms,
    check_feedback,
    check_finite,
)
from fedbandits.contract.compiled import calls, choose, learn, stands_for, untouched
from fedbandits.contract.facts import Noise, Norms
from fedbandits.contract.messages import Message
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem
from fedbandits.contract.wire import Bound, Utterance, WireField
from fedbandits.linalg.design import g_optimal
from fedbandits.linalg.jit import jit_inside

TOLERANCE = 0.05
"""How far a design may be from the best one, as a share."""
_LEAST = 2
"""An estimate that rests on a single pull would be the reward itself."""
_PSEUDO = 1e-10


def _means(problem: Problem, asked: Mapping[str, Array]) -> float:
    """sqrt(K) S L: the norm of K mean rewards."""
    norms = problem.get(Norms, Norms())
    return math.sqrt(problem.arms) * norms.parameter * norms.arms


def _one(problem: Problem, asked: Mapping[str, Array]) -> float:
    return 1.0


PHASE = Utterance("phase", "down", (WireField("phase", dtype="i8"),))
"""The server's question: what did you find in this phase?"""
ESTIMATES = Utterance(
    "estimates",
    "up",
    (
        WireField("means", ("K",), bound=Bound(_means, per_observation=False)),
        WireField("ready", bound=Bound(_one, per_observation=False, low=0.0)),
    ),
)
"""Mean rewards of the arms that are left, and 1 if all pulls of the phase are done; else zeros."""
NEXT = Utterance(
    "next",
    "down",
    (WireField("phase", dtype="i8"), WireField("active", ("K",), dtype="b1"), WireField("best", dtype="i8")),
)
"""The phase that begins, the arms that are left, and the one that looks best."""


class Phased(NamedTuple):
    """`PhasedAgents` for compiled loops."""

    arms: FloatArray
    seen: BoolArray
    needed: IntArray
    pulls: IntArray
    sums: FloatArray
    best: IntArray


@stands_for(choose, Phased)
@jit_inside
def _choose(agents: Phased, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    count, dim = agents.arms.shape[1:]
    if not agents.seen[i] or arms.shape[2] != count:
        return -1
    for j in range(dim):
        for k in range(count):
            if arms[row, j, k] != agents.arms[i, k, j]:
                return -1
    for k in range(count):
        if agents.pulls[i, k] < agents.needed[i, k]:
            return k
    return int(agents.best[i])


@stands_for(learn, Phased)
@jit_inside
def _learn(agents: Phased, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    if agents.pulls[i, pick] < agents.needed[i, pick]:
        agents.pulls[i, pick] += 1
        agents.sums[i, pick] += reward
    return False


@stands_for(calls, Phased)
@jit_inside
def _calls(agents: Phased, i: int) -> bool:
    wanted = False
    for k in range(agents.needed.shape[1]):
        wanted |= agents.needed[i, k] != 0
        if agents.pulls[i, k] < agents.needed[i, k]:
            return False
    return wanted


class PhasedAgents(Population):
    """`arms` (n, K, d) are those that each agent has seen in its first turn (`seen` (n,)), `active` (n, K) those that
    are left, `needed` (n, K) how often each is to be pulled in phase `phase` (n,), `pulls` and `sums` (n, K) what came
    of it, and `best` (n,) what is played by who has done its pulls and waits.

    `accuracy(l)` is the standard deviation that estimates of phase l are to have, but for the design's tolerance.
    """

    keeps: ClassVar[tuple[str, ...]] = ("arms", "seen", "active", "needed", "phase", "pulls", "sums", "best")

    def __init__(self, problem: Problem, n: int, accuracy: Callable[[int], float]) -> None:
        super().__init__(n)
        K, d = problem.arms, problem.dim
        self._accuracy = accuracy
        self._noise = problem.get(Noise, Noise()).sigma
        norms = problem.get(Norms, Norms())
        self._largest = norms.parameter * norms.arms
        self._plans: dict[tuple[bytes, bytes, int], IntArray] = {}
        self.arms = np.zeros((n, K, d))
        self.seen = np.zeros(n, dtype=np.bool_)
        self.active = np.ones((n, K), dtype=np.bool_)
        self.needed = np.zeros((n, K), dtype=np.int64)
        self.phase = np.ones(n, dtype=np.int64)
        self.pulls = np.zeros((n, K), dtype=np.int64)
        self.sums = np.zeros((n, K))
        self.best = np.zeros(n, dtype=np.int64)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The first arm that lacks pulls; the one that looks best where none does."""
        check_arms(who, arms, self._n, self.arms.shape[2])
        self._look(who, arms)
        lacking = self.pulls[who] < self.needed[who]
        return np.where(lacking.any(axis=1), lacking.argmax(axis=1), self.best[who])

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation for each of `who`. What the design did not ask for is left aside: estimates are to depend on
        the design alone, and not on what was seen.
        """
        check_feedback(who, arms, picks, rewards, self._n, self.arms.shape[2])
        self._look(who, arms)
        asked = self.pulls[who, picks] < self.needed[who, picks]
        self.pulls[who[asked], picks[asked]] += 1
        self.sums[who[asked], picks[asked]] += rewards[asked]

    def compiled(self) -> Any:
        """See `Population`: of agents who have seen their arms."""
        if not untouched(self, PhasedAgents, "choose", "learn", "calling", "_look"):
            return None
        return Phased(self.arms, self.seen, self.needed, self.pulls, self.sums, self.best)

    def calling(self) -> BoolArray:
        """Who has done all pulls of its phase; where one arm is left, none are needed and nobody calls."""
        return np.asarray(self.needed.any(axis=1) & (self.pulls >= self.needed).all(axis=1))

    def urgency(self) -> FloatArray | None:
        """The share of a phase's pulls that is done."""
        done, needed = np.minimum(self.pulls, self.needed).sum(axis=1), self.needed.sum(axis=1)
        return np.asarray(np.divide(done, needed, out=np.zeros(self._n), where=needed > 0))

    def answer(self, request: Message) -> Message | None:
        """Tell the estimates of a phase, or begin the next one."""
        who = request.who
        if request.kind == PHASE.kind:
            ready = self.calling()[who] & (self.phase[who] == request.arrays["phase"])
            means = np.where(ready[:, None] & self.active[who], self._estimates(who), 0.0)
            return Message(ESTIMATES.kind, who, {"means": means, "ready": ready.astype(np.float64)})
        if request.kind != NEXT.kind:
            return super().answer(request)
        later = request.arrays["phase"] != self.phase[who]
        begun = who[later]
        self.phase[begun] = request.arrays["phase"][later]
        self.active[begun] = request.arrays["active"][later]
        self.best[begun] = request.arrays["best"][later]
        self.pulls[begun], self.sums[begun] = 0, 0.0
        for agent in begun[self.seen[begun]]:
            self.needed[agent] = self._plan(agent)
        return None

    def _estimates(self, who: IntArray) -> FloatArray:
        """(w, K) the means of all arms by least squares over the pulls of the phase, cut to what means can be."""
        arms, pulls = self.arms[who], self.pulls[who].astype(np.float64)
        gram = np.einsum("wk,wki,wkj->wij", pulls, arms, arms)
        moment = np.einsum("wk,wki->wi", self.sums[who], arms)
        theta = np.einsum("wij,wj->wi", np.linalg.pinv(gram, rcond=_PSEUDO, hermitian=True), moment)
        return np.asarray(np.clip(np.einsum("wki,wi->wk", arms, theta), -self._largest, self._largest))

    def _look(self, who: IntArray, arms: FloatArray) -> None:
        """Remember the arms of a first turn; raise where they are others in a later one."""
        if arms.shape[1] != self.arms.shape[1]:
            raise ValueError(f"arms: {arms.shape[1]} are shown, of a fixed set of {self.arms.shape[1]}")
        check_finite("arms", who, arms)
        old = self.seen[who]
        if not np.array_equal(self.arms[who[old]], arms[old]):
            raise ValueError(
                "arms: they are not those of the first turn, and rclb needs a fixed set in a fixed order, as in the "
                "environment linear-fixed"
            )
        for row in np.flatnonzero(~old):
            agent = who[row]
            self.arms[agent] = arms[row]
            self.needed[agent] = self._plan(agent)
            self.seen[agent] = True

    def _plan(self, agent: int) -> IntArray:
        """(K,) how often an agent pulls each arm in its phase; agents with the same arms share the computation."""
        active = self.active[agent]
        key = (self.arms[agent].tobytes(), active.tobytes(), int(self.phase[agent]))
        if key not in self._plans:
            if len(self._plans) > self._n:
                self._plans.clear()
            pulls = np.zeros(len(active), dtype=np.int64)
            if active.sum() > 1 and self.arms[agent][active].any():
                weights, rank = g_optimal(self.arms[agent][active], TOLERANCE)
                budget = rank * (self._noise / self._accuracy(int(self.phase[agent]))) ** 2
                pulls[active] = np.where(weights > 0, np.maximum(np.ceil(weights * budget), _LEAST), 0)
            self._plans[key] = pulls
        return self._plans[key]
