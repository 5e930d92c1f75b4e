"""Agents whose rewards leave them only as scheduled noisy means, and who know what that has cost."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import SPOKEN_FOR, ArmedAgents, Places, best_shown, in_place
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.compiled import choose, learn, quiet, stands_for, untouched
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.privacy.accountant import spending
from fedbandits.privacy.budget import PrivacyParameters
from fedbandits.privacy.mechanisms import IntervalArrays, IntervalMeans, observe_one
from fedbandits.privacy.schedules import ReleaseRule, longest_gap


@quiet
class Released(NamedTuple):
    """`ReleasingAgents` for compiled loops."""

    turns: IntArray
    in_turn: int
    own: IntervalArrays
    places: Places


@stands_for(choose, Released)
@jit_inside
def _choose(agents: Released, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    if not in_place(agents.places, arms, row):
        return -1
    turn, count, own = int(agents.turns[i]) + 1, agents.places.arms, agents.own
    if turn <= agents.in_turn:
        return (turn - 1) % count
    bonus = _bonus(turn)
    best, found = -np.inf, 0
    for k in range(count):
        weight = float(own.counts[i, k]) if own.counts_released[i, k] > 0 else 0.0
        index = _index(_product(own.means[i, k], weight), weight, bonus)
        if index > best:
            best, found = index, k
    return found


@stands_for(learn, Released)
@jit_inside
def _learn(agents: Released, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray) -> bool:
    agents.turns[i] += 1
    due = observe_one(agents.own, i, pick, reward)
    if due:
        agents.own.due[i] = pick
    return due


@jit_part
def _product(mean: float, count: float) -> float:
    """Of two numbers, rounded."""
    return mean * count


class ReleasingAgents(ArmedAgents):
    """Agents who take all arms in turn, each ceil(1/s) times, and then act on released means alone.

    Their index is m_k + sqrt(2 log t / n_k): m_k is the last released mean of arm k, n_k the pulls of it so far; an arm
    without data comes first. s is the parameter of the schedule, so that every arm has been released when the turns
    end.
    """

    keeps: ClassVar[tuple[str, ...]] = ("turns", "own")

    def __init__(
        self, parameters: PrivacyParameters, rule: ReleaseRule, problem: Problem, n: int, rng: Streams
    ) -> None:
        super().__init__(problem, n)
        schedule = parameters.releases(problem.horizon, rule)
        self.own = IntervalMeans(n, problem.arms, schedule, rng)
        self._delta = parameters.delta
        self._spending = spending(schedule, parameters.delta)
        self._in_turn = problem.arms * longest_gap(parameters.parameter(problem.horizon, rule))

    @property
    def delta(self) -> float:
        """The delta at which `spent` holds."""
        return self._delta

    def spent(self) -> FloatArray:
        """(n,) epsilon that each agent has spent on one reward."""
        return np.asarray(self._spending[self.own.most_releases()])

    def compiled(self) -> Any:
        """See `Population`."""
        if not untouched(self, ReleasingAgents, *SPOKEN_FOR, "_known"):
            return None
        return Released(self.turns, self._in_turn, self.own.arrays(), self.places())

    def tend(self) -> None:
        """Release what is due."""
        self.own.tend()

    def _pick(self, who: IntArray) -> IntArray:
        turns = self.turns[who] + 1
        in_turn = turns <= self._in_turn
        if in_turn.all():
            return (turns - 1) % self._arms
        best = _highest_index(*self._known(who), turns)
        return np.where(in_turn, (turns - 1) % self._arms, best)

    def _pick_among(self, who: IntArray, shown: BoolArray) -> IntArray:
        turns = self.turns[who] + 1
        best = best_shown(_indices(*self._known(who), turns), shown)
        return np.where(self._due(turns, shown), (turns - 1) % self._arms, best)

    def _scores(self, who: IntArray, shown: BoolArray) -> FloatArray | None:
        turns = self.turns[who] + 1
        return np.where(self._due(turns, shown)[:, None], np.nan, _indices(*self._known(who), turns))

    def _due(self, turns: IntArray, shown: BoolArray) -> BoolArray:
        """(w,) who takes arms in turn, the next one being shown."""
        return np.asarray((turns <= self._in_turn) & shown[np.arange(len(turns)), (turns - 1) % self._arms])

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.own.observe(who, picks, rewards)

    def _known(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) for each arm the sum of rewards that each agent in `who` acts on, and of how many."""
        means, counts = self.own.told(who, current=True)
        return means * counts, counts.astype(np.float64)


@jit
def _highest_index(totals: FloatArray, weights: FloatArray, turns: IntArray) -> IntArray:
    picks = np.zeros(len(turns), np.int64)
    indices = _indices(totals, weights, turns)
    for i in range(len(turns)):
        best = -np.inf
        for k in range(totals.shape[1]):
            if indices[i, k] > best:
                best = indices[i, k]
                picks[i] = k
    return picks


@jit
def _indices(totals: FloatArray, weights: FloatArray, turns: IntArray) -> FloatArray:
    found = np.empty(totals.shape)
    for i in range(len(turns)):
        bonus = _bonus(turns[i])
        for k in range(totals.shape[1]):
            found[i, k] = _index(totals[i, k], weights[i, k], bonus)
    return found


@jit_part
def _bonus(turn: int) -> float:
    return float(2 * np.log(float(turn)))


@jit_part
def _index(total: float, weight: float, bonus: float) -> float:
    """That of one arm, infinite for one without data."""
    return float(total / weight + np.sqrt(bonus / weight)) if weight > 0 else np.inf
