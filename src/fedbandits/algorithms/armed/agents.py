"""What the agents of the K-armed family have in common: arms are known by their place, and turns are counted."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.estimators import Estimation, estimator_for
from fedbandits.contract.arrays import FloatArray, IntArray, check_arms, check_feedback, check_finite
from fedbandits.contract.population import Population
from fedbandits.contract.problem import Problem


def check_armed(who: IntArray, arms: FloatArray, n: int, count: int) -> None:
    """`arms` (w, K, K) shows each agent in `who` the K = `count` unit vectors, in order: arm k is the k-th shown."""
    check_arms(who, arms, n, count)
    check_finite("arms", who, arms)
    # one row broadcast to everybody, as the environments of this family show it, needs one look
    shown = arms[:1] if arms.strides[0] == 0 else arms
    if arms.shape[1] != count or not np.array_equal(shown, np.broadcast_to(np.eye(count), shown.shape)):
        raise ValueError(
            f"arms must be the {count} unit vectors in order: this family knows arms by their place, not by features; "
            "for arms that change use an algorithm of the linear family"
        )


class ArmedAgents(Population):
    """n agents who may choose among the same K arms at every turn; `turns` (n,) counts the decisions of each.

    Subclasses say what they `_pick` and how they `_observe` a reward; both may rely on checked input.
    """

    keeps: ClassVar[tuple[str, ...]] = ("turns",)

    def __init__(self, problem: Problem, n: int) -> None:
        super().__init__(n)
        self._arms = problem.arms
        self.turns = np.zeros(n, dtype=np.int64)

    def choose(self, who: IntArray, arms: FloatArray) -> IntArray:
        """The arm of each agent in `who`."""
        check_armed(who, arms, self._n, self._arms)
        return self._pick(who)

    def learn(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> None:
        """One observation per agent in `who`."""
        check_feedback(who, arms, picks, rewards, self._n, self._arms)
        self._observe(who, picks, rewards)
        self.turns[who] += 1

    @abstractmethod
    def _pick(self, who: IntArray) -> IntArray:
        raise NotImplementedError

    @abstractmethod
    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        raise NotImplementedError


class IndexAgents(ArmedAgents):
    """Agents that take every arm once, in order, and then the arm of highest estimate plus width; see `estimators`."""

    keeps: ClassVar[tuple[str, ...]] = ("turns", "known")

    def __init__(self, estimation: Estimation, problem: Problem, n: int) -> None:
        super().__init__(problem, n)
        self.known = estimator_for(estimation, problem, n)

    def _pick(self, who: IntArray) -> IntArray:
        turns = self.turns[who] + 1
        best = self._indices(who, turns).argmax(axis=1)
        return np.where(turns <= self._arms, turns - 1, best)

    def _observe(self, who: IntArray, picks: IntArray, rewards: FloatArray) -> None:
        self.known.gather(who, np.arange(len(who)), picks, rewards)

    def _indices(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) the index of every arm for each agent in `who`, in its turn (w,); infinite without a sample."""
        return self.known.estimates(who, turns) + self.known.widths(self.known.counts[who], turns)
