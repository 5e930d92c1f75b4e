"""The empirical mean: sums and counts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedbandits.algorithms.armed.estimators.contract import Estimator, Rate
from fedbandits.algorithms.armed.estimators.parameters import Estimation
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.problem import Problem
from fedbandits.linalg.jit import jit


class EmpiricalMean(Estimator):
    """sum / n with half-width sqrt(c0 log t / n), c0 = `Estimation.exploration`; `sums` (n, K).

    Guarantee: off by more than the half-width with probability at most 2 t^-4 for rewards in [0, 1] and c0 = 2 (Auer,
    Cesa-Bianchi & Fischer 2002), and for sigma-sub-Gaussian rewards and c0 = 8 sigma^2. None for heavier tails: there
    the chance falls only as a power of n. One outlier moves it without bound.
    """

    keeps: ClassVar[tuple[str, ...]] = ("counts", "sums")

    def __init__(self, n: int, arms: int, rate: Rate) -> None:
        super().__init__(n, arms, rate)
        self.sums = np.zeros((n, arms))

    @classmethod
    def of(cls, parameters: Estimation, problem: Problem, n: int) -> EmpiricalMean:
        """For n agents of `problem`."""
        return cls(n, problem.arms, Rate(factor=1.0, slope=parameters.exploration).scaled(parameters.scale))

    def estimates(self, who: IntArray, turns: IntArray) -> FloatArray:
        """(w, K) averages of all samples."""
        return averages(self.sums, self.counts, who)

    def merge(self, who: IntArray, sums: FloatArray, counts: IntArray) -> None:
        """Add what was summed up elsewhere: (w, K) sums of (w, K) samples, for each agent in `who`."""
        self.sums[who] += sums
        self.counts[who] += counts

    def _gather(self, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
        _add(self.sums, self.counts, to, row, arms, rewards)


@jit
def averages(sums: FloatArray, counts: IntArray, who: IntArray) -> FloatArray:
    """(w, K) `sums` over `counts` (n, K) of agents `who`; 0 where the count is."""
    out = np.zeros((len(who), sums.shape[1]))
    for a in range(len(who)):
        for k in range(sums.shape[1]):
            if counts[who[a], k] > 0:
                out[a, k] = sums[who[a], k] / counts[who[a], k]
    return out


@jit
def _add(sums: FloatArray, counts: IntArray, to: IntArray, row: IntArray, arms: IntArray, rewards: FloatArray) -> None:
    for e in range(len(to)):
        # unsigned, since this is the innermost loop of all: signed indices would be tested for counting from the end
        r = np.uint64(row[e])
        i, k = np.uint64(to[e]), np.uint64(arms[r])
        sums[i, k] += rewards[r]
        counts[i, k] += 1
