"""Agents whose rewards leave them only as scheduled noisy means, and who know what that has cost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.arrays import FloatArray, IntArray
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

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.own.observe(who, picks, rewards)

    def _known(self, who: IntArray) -> tuple[FloatArray, FloatArray]:
        """(w, K) for each arm the sum of rewards that each agent in `who` acts on, and of how many."""
        means, counts = self.own.told(who, current=True)
        return means * counts, counts.astype(np.float64)


@jit
def _highest_index(totals: FloatArray, weights: FloatArray, turns: IntArray) -> IntArray:
    picks = np.zeros(len(turns), np.int64)
    for i in range(len(turns)):
        bonus = 2 * np.log(float(turns[i]))
        best = -np.inf
        for k in range(totals.shape[1]):
            weight = weights[i, k]
            index = totals[i, k] / weight + np.sqrt(bonus / weight) if weight > 0 else np.inf
            if index > best:
                best = index
                picks[i] = k
    return picks
