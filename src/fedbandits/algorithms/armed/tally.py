"""Agents on their own who need no more than sums and counts, and the checks of those whose rewards lie in [0, 1]."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.agents import ArmedAgents
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Range
from fedbandits.contract.problem import Problem


class TallyingAgents(ArmedAgents):
    """n agents on their own who know of each arm how often they took it, `counts` (n, K), and what it paid them in all,
    `sums` (n, K). Subclasses say what they `_pick`, and may refuse rewards or change what is tallied.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ArmedAgents.keeps, "counts", "sums")

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.counts = np.zeros((n, problem.arms), dtype=np.int64)
        self.sums = np.zeros((n, problem.arms))

    def drop_arm(self, place: int) -> None:
        """See `ArmedAgents`."""
        self.counts[:, place] = 0
        self.sums[:, place] = 0.0

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        tallied = self._tallied(who, rewards)
        self.counts[who, picks] += 1
        self.sums[who, picks] += tallied

    def _tallied(self, who: IntArray, rewards: FloatArray) -> FloatArray:
        """What is added to the sums for `rewards` (w,); raises before anything has changed."""
        return rewards


def check_unit_range(name: str, problem: Problem) -> None:
    """`problem` promises that all rewards lie in [0, 1]."""
    known = problem.get(Range)
    low, high = (-np.inf, np.inf) if known is None else (known.low, known.high)
    if low >= 0 and high <= 1:
        return
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
