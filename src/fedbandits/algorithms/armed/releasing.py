"""Agents whose rewards leave them only as scheduled noisy means, and who know what that has cost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.agents import ArmedAgents, best_shown
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.linalg.jit import jit
from fedbandits.privacy.accountant import spending
from fedbandits.privacy.budget import PrivacyParameters
from fedbandits.privacy.mechanisms import IntervalMeans
from fedbandits.privacy.schedules import ReleaseRule, longest_gap


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
        bonus = 2 * np.log(float(turns[i]))
        for k in range(totals.shape[1]):
            weight = weights[i, k]
            found[i, k] = totals[i, k] / weight + np.sqrt(bonus / weight) if weight > 0 else np.inf
    return found
