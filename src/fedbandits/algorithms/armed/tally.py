"""Agents on their own who need no more than sums and counts, and the checks of those whose rewards lie in [0, 1]."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from fedbandits.algorithms.armed.agents import SPOKEN_FOR as _OF_ARMS
from fedbandits.algorithms.armed.agents import ArmedAgents, Places
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Range
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit_inside

SPOKEN_FOR = (*_OF_ARMS, "_tallied")
"""What compiled loops do in place of agents who tally."""


class Tallies(NamedTuple):
    """What `TallyingAgents` are made up of, for compiled loops."""

    turns: IntArray
    counts: IntArray
    sums: FloatArray
    places: Places


@jit_inside
def tally(tallies: Tallies, i: int, pick: int, tallied: float) -> None:
    """Agent i has taken an arm, of which so much is added to its sum."""
    tallies.counts[i, pick] += 1
    tallies.sums[i, pick] += tallied
    tallies.turns[i] += 1


@jit_inside
def check_unit_reward(reward: float) -> None:
    """As `check_unit_rewards`, inside of compiled loops."""
    if not 0.0 <= reward <= 1.0:
        raise ValueError("rewards must lie in [0, 1]")


class TallyingAgents(ArmedAgents):
    """n agents on their own who know of each arm how often they took it, `counts` (n, K), and what it paid them in all,
    `sums` (n, K). Subclasses say what they `_pick`, and may refuse rewards or change what is tallied.
    """

    keeps: ClassVar[tuple[str, ...]] = (*ArmedAgents.keeps, "counts", "sums")

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.counts = np.zeros((n, problem.arms), dtype=np.int64)
        self.sums = np.zeros((n, problem.arms))

    def tallies(self) -> Tallies:
        """For compiled loops."""
        return Tallies(self.turns, self.counts, self.sums, self.places())

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
