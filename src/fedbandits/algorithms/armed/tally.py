"""Agents on their own who need no more than sums and counts, and the checks of those whose rewards lie in [0, 1]."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.alone import LoneAgents
from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.catalogue import ConfigError
from fedbandits.contract.problem import Problem


class TallyingAgents(ArmedAgents, LoneAgents):
    """n agents on their own who know of each arm how often they took it, `counts` (n, K), and what it paid them in all,
    `sums` (n, K). Subclasses say what they `_pick`, and may refuse rewards or change what is tallied.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ArmedAgents.keeps, "counts", "sums")

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.counts = np.zeros((n, problem.arms), dtype=np.int64)
        self.sums = np.zeros((n, problem.arms))

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        tallied = self._tallied(who, rewards)
        self.counts[who, picks] += 1
        self.sums[who, picks] += tallied

    def _tallied(self, who: IntArray, rewards: FloatArray) -> FloatArray:
        """What is added to the sums for `rewards` (w,); raises before anything has changed."""
        return rewards


def check_unit_range(name: str, problem: Problem) -> None:
    """`problem` promises that all rewards lie in [0, 1]."""
    if problem.range is not None and problem.range[0] >= 0 and problem.range[1] <= 1:
        return
    low, high = problem.range or (-np.inf, np.inf)
    raise ConfigError(
        f"{name}: rewards must lie in [0, 1], all that is known here is [{low:g}, {high:g}]; use an environment like "
        "'bernoulli' without outliers beyond [0, 1], or an algorithm for unbounded rewards like thompson-gaussian"
    )


def check_unit_rewards(who: IntArray, rewards: FloatArray) -> None:
    """Every one of `rewards` (w,), one per agent in `who`, lies in [0, 1]."""
    outside = (rewards < 0) | (rewards > 1)
    if outside.any():
        raise ValueError(
            f"rewards of agents {who[outside][:5].tolist()} must lie in [0, 1], got {rewards[outside][:5]}"
        )
